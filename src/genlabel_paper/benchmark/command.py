"""Command `genlabel benchmark`: methods on many OpenML datasets, with resumable records and a statistical report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table as Grid
from rich.text import Text

from genlabel._atomic_io import atomic_write, atomic_writer
from genlabel._console import open_console
from genlabel._progress import ProgressDisplay
from genlabel.cli.options import (
    Dask,
    Epochs,
    Jobs,
    NetworkName,
    Restart,
    check_figure_suffix,
    check_jobs,
    check_outputs,
    check_test_size,
    exit_if_failed,
    one_line_errors,
    read_network,
)
from genlabel.reporting.terminal import failure_lines, print_line

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.evaluation.records.schema import RecordSet
    from genlabel_paper.benchmark import Section


RECORDS = Path("build", "benchmark.sqlite")
MAX_FAILURES_SHOWN = 10
DEFAULT_SPLITS = 2


class Device(StrEnum):
    """Devices for `--device`."""

    cpu = "cpu"
    cuda = "cuda"


def benchmark(
    ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[IDS]...", help="OpenML ids; by default those of the manifest in the data home."),
    ] = None,
    ids_file: Annotated[
        Path | None,
        typer.Option(help="Text file with OpenML ids, separated by spaces, commas or lines; # starts a comment."),
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(help="Folder of a scikit-learn OpenML cache.", show_default="$GENLABEL_DATA_HOME"),
    ] = None,
    max_features: Annotated[
        int, typer.Option(min=1, help="Largest number of features of a dataset from the manifest.")
    ] = 20,
    min_rows: Annotated[int, typer.Option(min=1, help="Smallest number of rows of a dataset from the manifest.")] = 100,
    max_rows: Annotated[int, typer.Option(min=1, help="Largest number of rows of a dataset from the manifest.")] = 2000,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help='Methods to run, such as "default,stacked density,catboost"; see --list.',
            show_default="all but the baselines of other packages",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Also run the available baselines of other packages, with their defaults."),
    ] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the methods and baselines, and which of them can run here, and exit.")
    ] = False,
    n_splits: Annotated[
        int | None,
        typer.Option(min=1, help="Number of random splits of each dataset.", show_default="2; all, with --report-only"),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Fraction of rows held out in each split.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and the training.")] = 0,
    network: NetworkName = "mlp",
    epochs: Epochs = None,
    device: Annotated[
        Device, typer.Option(help="Device of baselines that support GPUs; GenLabel uses a GPU if there is one.")
    ] = Device.cpu,
    jobs: Jobs = 1,
    dask: Dask = None,
    records: Annotated[
        Path,
        typer.Option(help="File of the records; a run continues where it stopped. --report-only also reads an export."),
    ] = RECORDS,
    restart: Restart = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Report the records without training.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the report as Markdown.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also plot the log-losses, one point per dataset: a .png, .pdf, ...")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Also write the reported records to a small JSON file.")] = None,
    leaderboard: Annotated[
        Path | None,
        typer.Option(help="Folder of exports that others made: print them next to the --records, without training."),
    ] = None,
    add_record: Annotated[
        Path | None, typer.Option(help="Export (.json) to check against the --records and copy to the --leaderboard.")
    ] = None,
) -> None:
    """Compare GenLabel, mixup, plain training and other classifiers on many OpenML datasets.

    Prints mean scores, cost and accidents, wins and losses with p-values, and the datasets with the largest losses.
    """
    if show_list:
        _print_list()
        return
    interrupted = f"finished fits are saved in {records}; repeat the command to continue"
    with one_line_errors(interrupted):
        hidden = read_network(network)
        check_jobs(jobs, dask)
        check_test_size(test_size)
        check_figure_suffix("figure", figure)
        check_outputs(output=output, figure=figure, export=export)
        if add_record is not None and leaderboard is None:
            raise ValueError("--add-record adds to a folder of exports; name it with --leaderboard")
        if leaderboard is not None:
            _print_leaderboard(leaderboard, add_record, records, output)
            return
        chosen_ids = _read_ids(ids or [], ids_file)
        names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
        if report_only:
            if restart:
                raise ValueError("--restart deletes the records that --report-only reads; leave one out")
            if baselines:
                raise ValueError("--baselines trains; with --report-only, choose recorded methods with --methods")
            _report(_select_records(records, chosen_ids, names, n_splits), output, figure, export)
            return
        chosen = _choose_methods(names, baselines)
        chosen_ids = chosen_ids or _manifest_ids(data_home, max_features, min_rows, max_rows)
        _check_records(records, restart)
    with one_line_errors(interrupted), ProgressDisplay("loading the datasets", max_lines=100) as display:
        from genlabel.data import datasets
        from genlabel.data.datasets.catalog import find_home
        from genlabel_paper import benchmark as package

        others = {name: package.BaselineClassifier(name, device=device.value) for name in package.BASELINES}
        available = package.default_methods(hidden, epochs or "auto") | others
        result = package.run_benchmark(
            chosen_ids,
            {name: available[name] for name in chosen},
            n_splits or DEFAULT_SPLITS,
            test_size,
            seed,
            records=records,
            settings={"network": network, "epochs": epochs or "auto"},
            restart=restart,
            n_jobs=jobs,
            dask=dask,
            load=partial(datasets.load_openml, data_home=find_home(data_home).resolve()),
            callback=display,
        )
    if result.frame.empty:
        exit_if_failed(len(result.failures))
    with one_line_errors(interrupted):
        _report(result, output, figure, export)
    exit_if_failed(len(result.failures))


def _check_records(records: Path, restart: bool) -> None:
    from genlabel.evaluation.records.store import check_store
    from genlabel_paper.benchmark.schema import BENCHMARK

    check_store(records, BENCHMARK, restart)


def _read_ids(ids: list[int], path: Path | None) -> list[int]:
    """Return the ids of the command line and of the file."""
    if path is None:
        return ids
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}; --ids-file takes a text file of OpenML ids")
    words = " ".join(line.split("#")[0] for line in path.read_text().splitlines()).replace(",", " ").split()
    wrong = [word for word in words if not word.isdecimal()]
    if wrong or not words:
        content = f"{wrong[0]!r}, which is not an OpenML id" if wrong else "no OpenML id"
        raise ValueError(f"{str(path)!r} has {content}; write integers separated by spaces, commas or lines")
    return [*ids, *map(int, words)]


def manifest_ids(manifest: pd.DataFrame, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """Return the ids of the datasets of a manifest that have classes and are within the limits.

    >>> import pandas as pd
    >>> manifest = pd.DataFrame({"id": [1, 2, 3], "n": [150, 150, 9], "d": 4, "k": [3, "regression", 2]})
    >>> manifest_ids(manifest, max_features=20, min_rows=100, max_rows=2000)
    [1]
    """
    import pandas as pd

    size = manifest["n"].between(min_rows, max_rows) & (manifest["d"] <= max_features)
    return [int(number) for number in manifest["id"][size & (pd.to_numeric(manifest["k"], errors="coerce") >= 2)]]


def _manifest_ids(data_home: Path | None, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """Return the ids of the classification datasets of the manifest within the limits."""
    from genlabel.data.datasets.catalog import openml_manifest

    manifest = openml_manifest(data_home)
    if manifest is None:
        where = "in the data home" if data_home is None else f"in {str(data_home)!r}"
        raise ValueError(
            f"no OpenML ids are given, and there is no manifest.csv {where}; pass ids, --ids-file, or the folder of a "
            "manifest with --data-home or the environment variable GENLABEL_DATA_HOME"
        )
    ids = manifest_ids(manifest, max_features, min_rows, max_rows)
    if not ids:
        raise ValueError(
            f"none of the {len(manifest)} datasets of the manifest has {min_rows} to {max_rows} rows and at most "
            f"{max_features} features; change --min-rows, --max-rows or --max-features"
        )
    return ids


def _check_methods(names: list[str], available: Iterable[str]) -> list[str]:
    """Return the names; raise if one is not available."""
    choices = list(available)
    for name in names:
        if name not in choices:
            raise ValueError(f"methods={name!r} is unknown; choose from {', '.join(map(repr, choices))}")
    return names


def _choose_methods(names: list[str] | None, baselines: bool) -> list[str]:
    """Return the methods to train: the named ones or all of our own, and the available baselines if requested.

    A baseline that cannot run raises an error if it is named, and is skipped with a message otherwise.
    """
    from genlabel_paper.benchmark.baselines import BASELINES, why_unavailable
    from genlabel_paper.benchmark.methods import METHODS

    chosen = list(METHODS) if names is None else _check_methods(names, [*METHODS, *BASELINES])
    with_defaults = [name for name, baseline in BASELINES.items() if baselines and baseline.has_defaults]
    requested = [*with_defaults, *(name for name in chosen if name in BASELINES)]
    reasons = {name: reason for name in requested if (reason := why_unavailable(name)) is not None}
    for name, reason in reasons.items():
        if name in chosen:
            raise ValueError(f"methods={name!r} cannot run here: {reason}")
        typer.echo(f"skipped: {name}: {reason}", err=True)
    return list(dict.fromkeys([*chosen, *(name for name in requested if name not in reasons)]))


def _print_leaderboard(folder: Path, new: Path | None, records: Path, output: Path | None) -> None:
    """Check and add an export if there is one, and print the leaderboard of the records and of the folder."""
    import pandas as pd

    from genlabel_paper.benchmark import as_markdown
    from genlabel_paper.benchmark.leaderboard import add_record, leaderboard, load_leaderboard
    from genlabel_paper.benchmark.schema import BENCHMARK
    from genlabel_paper.exports import load_records

    ours = load_records(records, BENCHMARK)
    if new is not None:
        print_line(f"added {', '.join(add_record(new, folder, ours))} to {folder}")
    section = leaderboard(pd.concat([ours.frame, load_leaderboard(folder)]))
    _print_section(section)
    if output is not None:
        atomic_write(output, as_markdown([section]))
        print_line(f"wrote {output}")


def _print_list() -> None:
    """Print the names of the methods and of the baselines, with why a baseline cannot run here."""
    from genlabel_paper.benchmark.baselines import BASELINES, why_unavailable
    from genlabel_paper.benchmark.methods import METHODS

    print_line(f"methods: {', '.join(METHODS)}")
    for name, baseline in BASELINES.items():
        print_line(f"baseline: {name} ({baseline.title}): {why_unavailable(name) or 'can run here'}")


def _select_records(path: Path, ids: list[int], methods: list[str] | None, n_splits: int | None) -> RecordSet:
    """Return the records of a file for the requested ids, methods and splits."""
    from genlabel_paper.benchmark.schema import BENCHMARK
    from genlabel_paper.exports import load_records

    records = load_records(path, BENCHMARK)
    filters: dict[str, Sequence[Any] | None] = {
        "dataset": ids or None,
        "method": None if methods is None else _check_methods(methods, records.requested["method"].unique()),
        "split": None if n_splits is None else range(n_splits),
    }
    values_of = {name: list(dict.fromkeys(values)) for name, values in filters.items() if values is not None}
    frame = _filter_rows(records.frame, values_of)
    if not len(frame):
        raise ValueError(f"{str(path)!r} has no record of the requested fits; leave out the ids to see all")
    failures = {
        fit: error
        for fit, error in records.failures.items()
        if all(fit.fields[name] in values for name, values in values_of.items())
    }
    print_line(f"{len(frame)} of {_count_requested(records.requested, values_of)} fits recorded")
    _warn_of_mixed_settings(frame)
    return records._replace(frame=frame, failures=failures)


def _filter_rows(rows: pd.DataFrame, values_of: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Return the rows whose fields have one of the given values."""
    for name, values in values_of.items():
        rows = rows[rows[name].isin(values)]
    return rows.reset_index(drop=True)


def _count_requested(requested: pd.DataFrame, values_of: Mapping[str, list[Any]]) -> int:
    """Return the number of fits with the filters applied.

    A filtered value without any requested fit, such as a new dataset, counts as many fits as the other values have.
    """
    rows = _filter_rows(requested, values_of)
    unfiltered = [rows[name] for name in rows if name not in values_of]
    per_combination = len(set(zip(*unfiltered, strict=True))) if unfiltered else 1
    counts = Counter(zip(*(rows[name] for name in values_of), strict=True)) if values_of else {(): len(rows)}
    return sum(counts.get(combination, per_combination) for combination in product(*values_of.values()))


def _warn_of_mixed_settings(frame: pd.DataFrame) -> None:
    """Warn of methods whose records have several settings, which a mean should not mix."""
    counts = frame.groupby("method", sort=False)["fingerprint"].nunique()
    mixed = [f"{name} ({count})" for name, count in counts.items() if count > 1]
    if mixed:
        hint = "a run repeats those with outdated settings"
        print_line(f"warning: records with different settings (fingerprints) are mixed: {', '.join(mixed)}; {hint}")


def _report(records: RecordSet, output: Path | None, figure: Path | None, export: Path | None) -> None:
    from genlabel_paper.benchmark import Section, as_markdown, report

    sections = report(records.frame, settings=records.settings)
    failed = failure_lines(records.failures)
    if failed:
        more = [f"and {len(failed) - MAX_FAILURES_SHOWN} more"] if len(failed) > MAX_FAILURES_SHOWN else []
        sections.append(Section("Failures", lines=[*failed[:MAX_FAILURES_SHOWN], *more]))
    for section in sections:
        _print_section(section)
    if output is not None:
        atomic_write(output, as_markdown(sections))
        print_line(f"wrote {output}")
    if figure is not None:
        from genlabel_paper.benchmark.figure import plot_benchmark

        with atomic_writer(figure) as temporary:
            plot_benchmark(records.frame).savefig(temporary)
        print_line(f"wrote {figure}")
    if export is not None:
        from genlabel_paper.benchmark.schema import BENCHMARK
        from genlabel_paper.exports import export_records

        export_records(records.frame, export, BENCHMARK, records.settings)
        print_line(f"wrote {export}")


def _print_section(section: Section) -> None:
    print_line(f"\n{section.title}")
    if section.rows is not None:
        grid = Grid(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        grid.add_column(str(section.rows.index.name), no_wrap=True)
        for title in section.rows.columns:
            grid.add_column(str(title), justify="right", min_width=max(map(len, str(title).split())))
        for name, cells in zip(section.rows.index, section.rows.to_numpy(), strict=True):
            grid.add_row(Text(str(name)), *(Text(str(cell)) for cell in cells))
        open_console(file_width=160).print(grid)
    for line in section.lines:
        print_line(line)
