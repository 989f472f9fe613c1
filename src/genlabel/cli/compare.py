"""`genlabel compare`: networks with and without mixing, and what they are held against, on one table."""

from __future__ import annotations

import json
import warnings
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress_display import display_progress, failure_lines
from genlabel.cli.comparison_view import ComparisonView
from genlabel.cli.console import (
    Dask,
    Debug,
    Epochs,
    NetworkName,
    Restart,
    check_jobs,
    check_not_overwriting_input,
    check_outputs,
    check_picture,
    check_share,
    end,
    one_line_errors,
    print_line,
    read_network,
)
from genlabel.cli.diagnose import try_diagnosis
from genlabel.cli.reporting import ReportPath, check_report, command_line, numbers_of
from genlabel.cli.table_options import (
    Bins,
    Classes,
    Drop,
    ForceInclude,
    Groups,
    NaValues,
    ReadOptions,
    Source,
    TargetOption,
    Time,
    check_source,
    load_source,
    open_source,
    source_id,
)

LETTERS = 6
"""Of the hash in the name of a file of records."""
MOST_JOBS = 4
"""Processes, if their number is not given: each needs the memory of a Python with torch."""


class Density(StrEnum):
    """The densities that `--density` names."""

    label_model = "stacked"
    gaussian = "gaussian"
    kernel = "kernel"
    mixture = "mixture"
    forest = "forest"
    flow = "flow"
    vae = "vae"
    gan = "gan"
    auto = "auto"


def compare(
    context: typer.Context,
    source: Source,
    target: TargetOption = None,
    network: NetworkName = "mlp",
    density: Annotated[
        Density,
        typer.Option(
            help="Class densities of GenLabel: a stacked density selected and calibrated on held-out rows, or a single "
            "family; auto chooses between gaussian and kernel."
        ),
    ] = Density.label_model,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Also GenLabel and mixup in the paper's setting, which takes ten times as long."),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 10,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out in each split.")] = 0.3,
    groups: Groups = None,
    time: Time = None,
    drop: Drop = None,
    force_include: ForceInclude = None,
    na_values: NaValues = None,
    classes: Classes = False,
    bins: Bins = None,
    drop_rare: Annotated[bool, typer.Option("--drop-rare", help="Drop classes of fewer than 4 rows.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits, the training and the synthetic tables.")] = 0,
    epochs: Epochs = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the picture goes.", show_default="compare-<name>.png")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the numbers of every split to this file.")] = None,
    report: ReportPath = None,
    diagnosis: Annotated[
        bool,
        typer.Option(
            "--diagnosis/--no-diagnosis",
            help="Whether the report says if and why mixing helps here, which takes about as long as a few splits.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, for machines, instead of the table.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Processes that train, one thread each; -1 is one for each processor.",
            show_default="one for each processor, at most 4",
        ),
    ] = None,
    dask: Dask = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="The file of records; a run goes on where it stopped.",
            show_default="build/compare-<name>-<hash of the settings>.sqlite",
        ),
    ] = None,
    restart: Restart = False,
    debug: Debug = False,
) -> None:
    """Compare vanilla training, mixup, GenLabel, its stacked density, logistic regression and boosting on a table.

    Prints test scores, mean and standard deviation over the same splits for all, a verdict in words, and what was found
    in the table: leaks, duplicates, how columns were read. Draws a picture. Exit codes: 0 done, 1 some fits failed,
    2 something is wrong with the input, 3 a fault of genlabel, 130 interrupted.
    """
    reading = ReadOptions(na_values or (), drop or (), force_include or (), classes, bins, groups, time)
    with one_line_errors(debug=debug), open_source(source) as place:
        hidden = read_network(network)
        check_jobs(1 if jobs is None else jobs, dask)
        check_picture("output", output)
        check_share(test_size)
        name = check_source(place, target, reading)
        picture = output or Path(f"compare-{name}.png")
        check_not_overwriting_input(place, csv=csv)
        check_outputs(output=picture, csv=csv)
        check_report(report, place)
        settings = {"network": hidden, "density": density.value, "epochs": epochs or "auto", "paper": paper}
        cut = {"seed": seed, "test_size": test_size, "drop_rare": drop_rare}
        file = records or _name_records(
            name, source_id(name, place), target=target, **reading.settings(), **settings, **cut
        )
        _check_records(file, restart)
        kept = f"what ended is kept in {file}, the same command goes on"
        with (
            one_line_errors(kept, debug),
            warnings.catch_warnings(record=True) as heard,
            display_progress(f"loading {source}") as display,
        ):
            warnings.simplefilter("always")
            from genlabel.data import tables
            from genlabel.evaluation import comparison

            table = load_source(place, target, reading, seed)
            table = tables.drop_rare_classes(table) if drop_rare else table
            found = comparison.run_comparison(
                table,
                comparison.default_methods(hidden, density.value, epochs or "auto", paper),
                repeats,
                test_size,
                seed,
                records=file,
                restart=restart,
                n_jobs=_count_jobs(jobs),
                dask=dask,
                callback=display,
            )
    if not len(found.frame):
        for line in failure_lines(found.failures):
            print_line(line)
        end(len(found.failures))
    settled = f"network {network}, seed {seed}" + ("" if epochs is None else f", {epochs} epochs")
    outcome = ComparisonView.of(table, found, test_size, settled, comparison.count_warnings(heard))
    if as_json:
        typer.echo(json.dumps(outcome.as_plain(), indent=2))
    else:
        outcome.print([] if paper else ["not compared: the paper's setting, which --paper adds"])
    with one_line_errors(kept, debug):
        if report is not None:
            found_out = try_diagnosis(table, reading, seed, as_json) if diagnosis else (None, [])
            outcome.write(report, *found_out, command_line(context))
        with atomic_writer(picture) as beside:
            outcome.draw().savefig(beside)
        if csv is not None:
            plain = outcome.results.drop(columns="held_out")
            with atomic_writer(csv) as beside:
                plain.assign(params=plain["params"].map(json.dumps)).to_csv(beside, index=False)
    if as_json:
        raise typer.Exit(1 if outcome.failed else 0)
    written = [picture, *([csv] if csv else []), *([report, numbers_of(report)] if report else [])]
    print_line(f"wrote {', '.join(map(str, written[:-1]))}{' and ' * (len(written) > 1)}{written[-1]}")
    end(len(found.failures))


def _count_jobs(jobs: int | None) -> int:
    """The processes: those asked for, or one for each processor, a few at most."""
    from joblib import cpu_count

    return min(int(cpu_count()), MOST_JOBS) if jobs is None else jobs


def _name_records(name: str, place: str, **settings: Any) -> Path:
    """The file of a table with these settings; others have files of their own, and do not evict these records.

    >>> _name_records("iris", "iris", seed=0).as_posix()
    'build/compare-iris-0f4303.sqlite'
    """
    text = json.dumps({"source": place, **settings}, sort_keys=True)
    return Path("build", f"compare-{name}-{sha256(text.encode()).hexdigest()[:LETTERS]}.sqlite")


def _check_records(file: Path, restart: bool) -> None:
    from genlabel.evaluation.records import COMPARISON, check_store

    check_store(file, COMPARISON, restart)
