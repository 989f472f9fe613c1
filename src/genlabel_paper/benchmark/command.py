"""`genlabel suite`: methods on many OpenML sets, with records that survive a kill and a report of wins and losses."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from genlabel._atomic_io import atomic_write, atomic_writer
from genlabel.cli.console import (
    Dask,
    Epochs,
    Jobs,
    NetworkName,
    Restart,
    RunReporter,
    check_jobs,
    check_outputs,
    check_picture,
    check_share,
    end,
    failed_lines,
    one_line_errors,
    print_line,
    read_network,
    show_progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from genlabel.evaluation.records import RecordSet
    from genlabel_paper.benchmark import Section


RECORDS = Path("build", "suite.sqlite")
MOST_FAILURES = 10
REPEATS = 2


class Device(StrEnum):
    """The devices that `--device` names."""

    cpu = "cpu"
    cuda = "cuda"


def suite(
    ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[IDS]...", help="OpenML ids; without any, those of the manifest of the data home."),
    ] = None,
    ids_file: Annotated[
        Path | None, typer.Option(help="A text file of ids, between blanks, commas or lines; # begins a remark.")
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(help="Folder of a scikit-learn OpenML cache.", show_default="$GENLABEL_DATA_HOME"),
    ] = None,
    max_features: Annotated[int, typer.Option(min=1, help="Of the manifest's sets, those of at most so many.")] = 20,
    min_rows: Annotated[int, typer.Option(min=1, help="Of the manifest's sets, those of at least so many.")] = 100,
    max_rows: Annotated[int, typer.Option(min=1, help="Of the manifest's sets, those of at most so many.")] = 2000,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help='Such as "default,stacked density,catboost"; see --list.',
            show_default="all but the peers",
        ),
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also the peers that can run here, each as it comes; see --list.")
    ] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="Name the methods and the peers, and say which can run here; train nothing.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Number of random splits of each set.", show_default="2; all, with --report-only"),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out in each split.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and the training.")] = 0,
    network: NetworkName = "mlp",
    epochs: Epochs = None,
    device: Annotated[
        Device, typer.Option(help="Where peers train that know of GPUs; our own methods use one that is there.")
    ] = Device.cpu,
    jobs: Jobs = 1,
    dask: Dask = None,
    records: Annotated[
        Path,
        typer.Option(help="The file of records; a run goes on where it stopped. With --report-only, also an export."),
    ] = RECORDS,
    fresh: Restart = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Train nothing, report the records.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the report as Markdown.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the log-losses, set by set: a .png, .pdf, ...")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write the records that are reported as a small JSON file.")
    ] = None,
) -> None:
    """Compare GenLabel, mixup, vanilla training and other classifiers on many OpenML sets.

    Prints the means, cost and accidents, the wins beside the losses with p-values, and the sets that are lost by most.
    """
    if show_list:
        _print_list()
        return
    kept = f"what ended is kept in {records}, the same command goes on"
    with one_line_errors(kept):
        hidden = read_network(network)
        check_jobs(jobs, dask)
        check_share(test_size)
        check_picture("picture", picture)
        check_outputs(output=output, picture=picture, export=export)
        asked = _read_ids(ids or [], ids_file)
        wanted = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
        if report_only:
            if fresh:
                raise ValueError("--fresh removes the records that --report-only reads; leave one out")
            if peers:
                raise ValueError("--peers trains; --report-only has all that is on record, or what --methods names")
            _report(_select(records, asked, wanted, repeats), output, picture, export)
            return
        chosen = _choose_methods(wanted, peers)
        asked = asked or _manifest_ids(data_home, max_features, min_rows, max_rows)
        _check_records(records, fresh)
    with one_line_errors(kept), show_progress("loading the suite", lines=100) as bar:
        from genlabel.data import datasets
        from genlabel_paper import benchmark as room

        outside = {name: room.BaselineClassifier(name, device=device.value) for name in room.BASELINES}
        known = room.default_suite(hidden, epochs or "auto") | outside
        home = datasets.find_home(data_home)
        tell = RunReporter(bar)
        found = room.run_suite(
            asked,
            {name: known[name] for name in chosen},
            repeats or REPEATS,
            test_size,
            seed,
            records=records,
            settings={"network": network, "epochs": epochs or "auto"},
            fresh=fresh,
            n_jobs=jobs,
            dask=dask,
            load=partial(datasets.load_openml, data_home=None if home is None else home.resolve()),
            on_start=tell.start,
            on_trial=tell.trial,
        )
    if found.frame.empty:
        end(len(found.failures))
    with one_line_errors(kept):
        _report(found, output, picture, export)
    end(len(found.failures))


def _check_records(records: Path, fresh: bool) -> None:
    from genlabel.evaluation.records import SUITE, check_store

    check_store(records, SUITE, fresh)


def _read_ids(ids: list[int], path: Path | None) -> list[int]:
    """The ids of the command line and of the file."""
    if path is None:
        return ids
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}; --ids-file names a text file of OpenML ids")
    words = " ".join(line.split("#")[0] for line in path.read_text().splitlines()).replace(",", " ").split()
    wrong = [word for word in words if not word.isdecimal()]
    if wrong or not words:
        what = f"{wrong[0]!r}, which is no OpenML id" if wrong else "no OpenML id"
        raise ValueError(f"{str(path)!r} has {what}; write whole numbers, with blanks, commas or lines between them")
    return [*ids, *map(int, words)]


def _manifest_ids(data_home: Path | None, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """The sets of classes of the manifest that are within the limits."""
    from genlabel.data.datasets import manifest_ids, openml_manifest

    manifest = openml_manifest(data_home)
    if manifest is None:
        where = "in the data home" if data_home is None else f"in {str(data_home)!r}"
        raise ValueError(
            f"no OpenML ids are given, and there is no manifest.csv {where}; give ids, --ids-file, or the folder of a "
            "manifest with --data-home or the environment variable GENLABEL_DATA_HOME"
        )
    ids = manifest_ids(manifest, max_features, min_rows, max_rows)
    if not ids:
        raise ValueError(
            f"none of the {len(manifest)} sets of the manifest has {min_rows} to {max_rows} rows and at most "
            f"{max_features} columns; widen --min-rows, --max-rows or --max-features"
        )
    return ids


def _choose(wanted: list[str], known: Iterable[str]) -> list[str]:
    """The methods that are wanted; raise if one is none of those that are known."""
    names = list(known)
    for name in wanted:
        if name not in names:
            raise ValueError(f"methods={name!r} is not known; choose among {', '.join(map(repr, names))}")
    return wanted


def _choose_methods(wanted: list[str] | None, peers: bool) -> list[str]:
    """The methods to train: those that are named, all but the peers without a wish; and the peers that can run here.

    A peer that cannot is an error if it is named, and told if it is not.
    """
    from genlabel_paper.benchmark import BASELINES, METHODS, why_not

    chosen = list(METHODS) if wanted is None else _choose(wanted, [*METHODS, *BASELINES])
    as_they_come = [name for name, peer in BASELINES.items() if peers and not peer.aim]
    asked = [*as_they_come, *(name for name in chosen if name in BASELINES)]
    reasons = {name: reason for name in asked if (reason := why_not(name)) is not None}
    for name, reason in reasons.items():
        if name in chosen:
            raise ValueError(f"methods={name!r} cannot run here: {reason}")
        typer.echo(f"skipped: {name}: {reason}", err=True)
    return list(dict.fromkeys([*chosen, *(name for name in asked if name not in reasons)]))


def _print_list() -> None:
    """Print the names of the methods, and the peers with what keeps them from running here."""
    from genlabel_paper.benchmark import BASELINES, METHODS, why_not

    print_line(f"methods: {', '.join(METHODS)}")
    for name, peer in BASELINES.items():
        print_line(f"peer: {name} ({peer.title}): {why_not(name) or 'can run here'}")


def _select(path: Path, ids: list[int], methods: list[str] | None, repeats: int | None) -> RecordSet:
    """What a file has of the ids, methods and splits that are asked for."""
    from genlabel.evaluation.records import SUITE, load_records

    kept = load_records(path, SUITE)
    wishes: dict[str, Sequence[Any] | None] = {
        "dataset": ids or None,
        "method": None if methods is None else _choose(methods, kept.asked["method"].unique()),
        "split": None if repeats is None else range(repeats),
    }
    named = {name: list(dict.fromkeys(values)) for name, values in wishes.items() if values is not None}
    frame = _keep_named(kept.frame, named)
    if not len(frame):
        raise ValueError(f"{str(path)!r} has no record of what is asked for; leave the ids out to see all")
    failures = {
        fit: error
        for fit, error in kept.failures.items()
        if all(fit.fields[name] in values for name, values in named.items())
    }
    print_line(f"{len(frame)} of {_count_wanted(kept.asked, named)} fits on record")
    _tell_mixed(frame)
    return kept._replace(frame=frame, failures=failures)


def _keep_named(rows: pd.DataFrame, named: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The rows whose fields have the values that are named."""
    for name, values in named.items():
        rows = rows[rows[name].isin(values)]
    return rows.reset_index(drop=True)


def _count_wanted(asked: pd.DataFrame, named: Mapping[str, list[Any]]) -> int:
    """How many fits are wanted: all that were ever asked for, or those of what is named.

    Of what is named, such as set 7, and was never asked for, as many as were asked for of the others that are named.
    """
    rows = _keep_named(asked, named)
    unnamed = [rows[name] for name in rows if name not in named]
    others = len(set(zip(*unnamed, strict=True))) if unnamed else 1
    counts = Counter(zip(*(rows[name] for name in named), strict=True)) if named else {(): len(rows)}
    return sum(counts.get(place, others) for place in product(*named.values()))


def _tell_mixed(frame: pd.DataFrame) -> None:
    """Say which methods have records of several settings, whose means mix what should not be mixed."""
    counts = frame.groupby("method", sort=False)["fingerprint"].nunique()
    mixed = [f"{name} ({count})" for name, count in counts.items() if count > 1]
    if mixed:
        hint = "a run trains again those that are not of today"
        print_line(f"warning: records of several settings are mixed, by their fingerprints: {', '.join(mixed)}; {hint}")


def _report(found: RecordSet, output: Path | None, picture: Path | None, export: Path | None) -> None:
    from genlabel_paper.benchmark import Section, as_markdown, report

    sections = report(found.frame, settings=found.settings)
    failed = failed_lines(found.failures)
    if failed:
        more = [f"and {len(failed) - MOST_FAILURES} more"] if len(failed) > MOST_FAILURES else []
        sections.append(Section("Failures", lines=[*failed[:MOST_FAILURES], *more]))
    for section in sections:
        _print(section)
    if output is not None:
        atomic_write(output, as_markdown(sections))
        print_line(f"wrote {output}")
    if picture is not None:
        from genlabel_paper.benchmark.figure import plot_suite

        with atomic_writer(picture) as beside:
            plot_suite(found.frame).savefig(beside)
        print_line(f"wrote {picture}")
    if export is not None:
        from genlabel.evaluation.records import SUITE, export_records

        export_records(found.frame, export, SUITE, found.settings)
        print_line(f"wrote {export}")


def _print(section: Section) -> None:
    print_line(f"\n{section.title}")
    if section.rows is not None:
        grid = Grid(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        grid.add_column(str(section.rows.index.name), no_wrap=True)
        for title in section.rows.columns:
            grid.add_column(str(title), justify="right", min_width=max(map(len, str(title).split())))
        for name, cells in zip(section.rows.index, section.rows.to_numpy(), strict=True):
            grid.add_row(Text(str(name)), *(Text(str(cell)) for cell in cells))
        Console(highlight=False).print(grid)
    for line in section.lines:
        print_line(line)
