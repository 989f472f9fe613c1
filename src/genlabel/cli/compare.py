"""`genlabel compare`: methods with and without mixing, and baselines, on one table."""

from __future__ import annotations

import json
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress import ProgressDisplay
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.cli.diagnose import diagnose_for_report
from genlabel.cli.explain import explain_for_report
from genlabel.reporting.terminal import ComparisonView, failure_lines, print_line

MAX_DEFAULT_JOBS = 4
"""Maximum of the default number of processes: each needs the memory of a Python with torch."""
FIT_OPTIONS = frozenset(("source", "target", "network", "epochs", "seed", *options.ReadOptions._fields))
"""Parameters that `genlabel fit` has too."""


def compare(
    context: typer.Context,
    source: options.Source,
    target: options.Target = None,
    network: options.NetworkName = "mlp",
    density: Annotated[
        str,
        typer.Option(
            help="Class densities of GenLabel: a stacked density, selected and calibrated on held-out rows, or a "
            "single family by its registered name, such as kernel; auto chooses between gaussian and kernel."
        ),
    ] = "stacked",
    paper: Annotated[
        bool,
        typer.Option(
            "--with-paper-setting", help="Also GenLabel and mixup in the setting of the paper, about ten times as slow."
        ),
    ] = False,
    n_splits: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 10,
    test_size: Annotated[float, typer.Option(help="Share of the rows in the test set of each split.")] = 0.3,
    groups: options.Groups = None,
    time: options.Time = None,
    drop: options.Drop = None,
    force_include: options.ForceInclude = None,
    na_values: options.NaValues = None,
    target_is_categorical: options.TargetIsCategorical = False,
    bins: options.Bins = None,
    min_class_size: options.MinClassSize = None,
    seed: options.Seed = 0,
    epochs: options.Epochs = None,
    output: Annotated[Path | None, typer.Option(help="File of the figure.", show_default="compare-<name>.png")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the scores of every split to this file.")] = None,
    report: options.ReportPath = None,
    diagnosis: Annotated[
        bool,
        typer.Option(
            "--diagnosis/--no-diagnosis",
            help="Include a diagnosis of mixing in the report, which takes about as long as a few splits.",
        ),
    ] = True,
    explanation: Annotated[
        bool,
        typer.Option(
            "--explanation/--no-explanation",
            help="Include in the report which columns matter, for which the recommended method is fitted once more.",
        ),
    ] = True,
    as_json: options.AsJson = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Number of training processes, one thread each; -1 is one for each processor.",
            show_default="one for each processor, at most 4",
        ),
    ] = None,
    dask: options.Dask = None,
    device: options.Device = "auto",
    records: Annotated[
        Path | None,
        typer.Option(
            help="File of records, from which an interrupted run resumes.",
            show_default="build/compare-<name>-<hash of the settings>.sqlite",
        ),
    ] = None,
    restart: options.Restart = False,
    debug: options.Debug = False,
) -> None:
    """Compare plain training, mixup, GenLabel, its stacked density, logistic regression and boosting on a table.

    Prints the mean and standard deviation of test scores over the same splits, a verdict, and notes on the table:
    leaks, duplicates, how columns were read. Draws a figure. Exit codes: 0 success, 1 some fits failed, 2 invalid
    input, 3 a bug of genlabel, 130 interrupted.
    """
    reading = options.ReadOptions(
        na_values, drop, force_include, target_is_categorical, bins, groups, time, min_class_size
    )
    with options.one_line_errors(debug=debug), options.open_source(source) as path:
        hidden = options.read_network(network)
        options.check_jobs(1 if jobs is None else jobs, dask)
        options.check_figure_suffix("output", output)
        options.check_test_size(test_size)
        name = options.check_source(path, target, reading)
        figure_path = output or Path(f"compare-{name}.png")
        options.check_outputs(path, output=figure_path, csv=csv)
        options.check_report(report, path)
        method_settings = (hidden, density, epochs or "auto", paper)
        if records is None:
            settings = {"target": target, **reading.settings(), "methods": method_settings}
            settings["splits"] = (seed, test_size)
            records = records_path(name, Path(path), settings)
        from genlabel.evaluation.records.schema import COMPARISON
        from genlabel.evaluation.records.store import check_store

        check_store(records, COMPARISON, restart)
        finished = f"finished fits are in {records}; run the same command to resume"
        with (
            options.one_line_errors(finished, debug),
            warnings.catch_warnings(record=True) as caught,
            ProgressDisplay(f"loading {source}") as display,
        ):
            warnings.simplefilter("always")
            from joblib import cpu_count, effective_n_jobs

            from genlabel.densities.candidates import named_densities
            from genlabel.evaluation import comparison

            jobs = min(cpu_count(), MAX_DEFAULT_JOBS) if jobs is None else effective_n_jobs(jobs)
            named_densities(density)  # raises for an unknown name
            table = options.load_source(path, target, reading, seed)
            result = comparison.run_comparison(
                table,
                comparison.default_methods(*method_settings, device),
                n_splits,
                test_size,
                seed,
                records=records,
                restart=restart,
                n_jobs=jobs,
                dask=dask,
                callback=display,
            )
    if not len(result.frame):
        for line in failure_lines(result.failures):
            print_line(line)
        options.exit_if_failed(len(result.failures))
    description = f"network {network}, seed {seed}" + ("" if epochs is None else f", {count_of(epochs, 'epoch')}")
    warning_counts = comparison.count_warnings(caught)
    fit_command = options.command_line(context, "fit", FIT_OPTIONS) if density == "stacked" else ""
    view = ComparisonView.from_records(table, result, test_size, description, warning_counts, fit_command)
    if as_json:
        typer.echo(json.dumps(view.to_dict(), indent=2))
    else:
        view.print(*([] if paper else ["not compared: the setting of the paper, which --with-paper-setting adds"]))
    with options.one_line_errors(finished, debug):
        if report is not None:
            diagnosed = diagnose_for_report(table, seed, as_json, jobs) if diagnosis else (None, [])
            explained = None
            if explanation:
                methods = comparison.default_methods(*method_settings)
                explained, reasons = explain_for_report(table, view.findings.fitted_method, methods, test_size, seed)
                diagnosed[1].extend(reasons)
            view.write_report(report, *diagnosed, options.command_line(context), explained)
        with atomic_writer(figure_path) as temporary:
            view.plot().savefig(temporary)
        if csv is not None:
            scores = view.results.drop(columns="held_out")
            with atomic_writer(csv) as temporary:
                scores.assign(params=scores["params"].map(json.dumps)).to_csv(temporary, index=False)
    if as_json:
        raise typer.Exit(1 if view.failures else 0)
    written = [figure_path, csv, report, None if report is None else report.with_suffix(".json")]
    print_line(f"wrote {', '.join(str(path) for path in written if path is not None)}")
    options.exit_if_failed(len(result.failures))


def records_path(name: str, source: Path, settings: dict[str, Any]) -> Path:
    """Return the file of the records of a table with these settings; other settings have other files.

    The table is identified by the path of its file, by the hash of the standard input, or by its name.

    >>> records_path("iris", Path("iris"), {"seed": 0}).as_posix()
    'build/compare-iris-0f4303.sqlite'
    """
    identity = str(source.resolve()) if source.is_file() else name
    if source.is_file() and source.name == "stdin":
        identity = sha256(source.read_bytes()).hexdigest()
    text = json.dumps({"source": identity, **settings}, sort_keys=True)
    return Path("build", f"compare-{name}-{sha256(text.encode()).hexdigest()[:6]}.sqlite")
