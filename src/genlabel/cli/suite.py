"""`genlabel suite`: methods on many OpenML sets, with records that survive a kill and a report of wins and losses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from genlabel.cli.terminal import (
    Bar,
    Lines,
    check_outputs,
    check_picture,
    one_line_errors,
    print_line,
    read_network,
    show_progress,
)

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.suite import Section

__all__ = ["suite"]

RECORDS = Path("build", "suite.jsonl")
MOST_FAILURES = 10
REPEATS = 2


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
        typer.Option(metavar="NAMES", help='Such as "default,mixup,label model".', show_default="all"),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Number of random splits of each set.", show_default="2; all, with --report-only"),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out in each split.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and the training.")] = 0,
    network: Annotated[
        str, typer.Option(help='"logistic", "mlp" (two hidden layers of 128), or hidden sizes such as "64,128".')
    ] = "mlp",
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs.")] = 100,
    jobs: Annotated[int, typer.Option(help="Fits at once; -1 is one for each processor.")] = 1,
    records: Annotated[Path, typer.Option(help="The file of records; a run goes on where it stopped.")] = RECORDS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin again; the records so far are lost.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Train nothing, report the records.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the report as Markdown.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the log-losses, set by set: a .png, .pdf, ...")
    ] = None,
) -> None:
    """Compare GenLabel, mixup, vanilla training and other classifiers on many OpenML sets.

    Prints the means, the wins beside the losses with p-values, the time, and the sets that are lost by most.
    """
    kept = f"what ended is kept in {records}, the same command goes on"
    with one_line_errors(kept):
        hidden = read_network(network)
        _check(jobs, fresh, report_only)
        check_picture("picture", picture)
        check_outputs(output=output, picture=picture)
        asked = _read_ids(ids or [], ids_file)
        wanted = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
        if report_only:
            _report(*_select(records, asked, wanted, repeats), records, output, picture)
            return
    with one_line_errors(kept), show_progress("loading the suite", lines=100) as bar:
        from genlabel import datasets
        from genlabel import suite as room

        asked = asked or _manifest_ids(data_home, max_features, min_rows, max_rows)
        tell = _Telling(bar)
        found = room.run_suite(
            asked,
            _choose(room.default_suite(hidden, epochs), wanted),
            repeats or REPEATS,
            test_size,
            seed,
            records=records,
            settings={"network": network, "epochs": epochs},
            fresh=fresh,
            n_jobs=jobs,
            load=partial(datasets.load_openml, data_home=data_home),
            on_start=tell.start,
            on_record=tell.record,
        )
    with one_line_errors(kept):
        _report(found, tell.failed, records, output, picture)


def _check(jobs: int, fresh: bool, report_only: bool) -> None:
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs} must be at least 1, or -1 for one for each processor")
    if fresh and report_only:
        raise ValueError("--fresh removes the records that --report-only reads; leave one out")


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
    from genlabel.datasets import manifest_ids, openml_manifest

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


def _choose(known: dict[str, object], wanted: list[str] | None) -> dict[str, object]:
    names = list(known) if wanted is None else wanted
    for name in names:
        if name not in known:
            raise ValueError(f"methods={name!r} is not known; choose among {', '.join(map(repr, known))}")
    return {name: known[name] for name in names}


class _Telling:
    """Tells of the fits as they end, and of each failure once."""

    def __init__(self, bar: Lines | Bar) -> None:
        self.bar = bar
        self.failed: list[str] = []

    def start(self, todo: int, done: int) -> None:
        if done:
            self.bar.say(f"fits on record: {done}; to do: {todo}")
        self.bar.start(todo)

    def record(self, record: dict[str, object]) -> None:
        if "error" in record:
            where = f"{record['name']} ({record['id']}), {record['method']}" if "name" in record else f"{record['id']}"
            line = f"failed: {where}: {record['error']}"
            if line not in self.failed:
                self.failed.append(line)
                self.bar.say(line)
        self.bar.fitted(str(record["method"]), int(str(record["split"])))


def _select(
    path: Path, ids: list[int], methods: list[str] | None, repeats: int | None
) -> tuple[pd.DataFrame, list[str]]:
    """The records of a file, of the ids, methods and splits that are asked for; and its failures, a line each."""
    from genlabel.suite import read_records

    found, errors = read_records(path), read_records(path, errors=True)
    if methods is not None:
        _choose(dict.fromkeys(found["method"].unique()), methods)
        found, errors = (frame[frame["method"].isin(methods)] for frame in (found, errors))
    if ids:
        found, errors = (frame[frame["id"].isin(ids)] for frame in (found, errors))
        if not len(found):
            raise ValueError(f"{str(path)!r} has no record of {', '.join(map(str, ids))}; leave the ids out to see all")
    if repeats is not None:
        found = found[found["split"] < repeats]
    lines = [f"failed: {row['id']}, {row['method']}: {row['error']}" for _, row in errors.iterrows()]
    return found, list(dict.fromkeys(lines))


def _report(found: pd.DataFrame, failed: list[str], records: Path, output: Path | None, picture: Path | None) -> None:
    from genlabel.suite import Section, as_markdown, read_header, report

    sections = report(found, settings=read_header(records))
    if failed:
        more = [f"and {len(failed) - MOST_FAILURES} more"] if len(failed) > MOST_FAILURES else []
        sections.append(Section("Failures", lines=[*failed[:MOST_FAILURES], *more]))
    for section in sections:
        _print(section)
    if output is not None:
        output.write_text(as_markdown(sections), encoding="utf-8")
        print_line(f"wrote {output}")
    if picture is not None:
        from genlabel.plots import plot_suite

        plot_suite(found).savefig(picture)
        print_line(f"wrote {picture}")


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
