"""`genlabel reproduce` and `genlabel report`: run the paper's tables and figures, and write them on one page."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlabel.cli.terminal import Bar, Lines, check_outputs, one_line_errors, print_line, show_progress
from genlabel_paper.registry import COMPUTED, check_ids, find

if TYPE_CHECKING:
    import pandas as pd

    from genlabel_paper.report.experiment import Experiment
    from genlabel_paper.study.run import Outcome

__all__ = ["report", "reproduce"]

RECORDS = Path("build", "paper.sqlite")
PICTURES = Path("build", "paper")
WIDE = 160
"""Letters of a line that is not for a terminal."""

Records = Annotated[Path, typer.Option(help="The file of records; a run goes on where it stopped.")]


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Tables and figures such as table4 or figure9, or all; --list names them."),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help='"smoke" (two sets, one fit), "quick" (all sets, 1 split, 2 seeds) or "full" (3 splits, 5 seeds).'
        ),
    ] = "quick",
    jobs: Annotated[int, typer.Option(help="Trials at once, one thread each; -1 is one for each processor.")] = -1,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:8786, whose workers do the trials.")
    ] = None,
    records: Records = RECORDS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin again; all records of the file are lost.")] = False,
    data_home: Annotated[
        Path | None,
        typer.Option(help="Folder of the OpenML cache; else GENLABEL_DATA_HOME, else scikit-learn's."),
    ] = None,
    pictures: Annotated[Path, typer.Option(help="Folder for the pictures of the figures.")] = PICTURES,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures, and their cells.")] = False,
) -> None:
    """Run tables and figures of the paper, and print our numbers beside the printed ones.

    What was done before is not done again: tables share their cells, and a run that was stopped goes on.
    """
    kept = f"what ended is kept in {records}, the same command goes on"
    with one_line_errors(kept):
        if show_list:
            _print_list()
            return
        if not ids:
            raise ValueError("name a table or figure, such as table4, or all; --list shows them")
        names = check_ids(ids)
        trains = not COMPUTED.issuperset(names)
        _check_work(budget, jobs, dask if trains else None)
        if not all(name.startswith("table") for name in names):
            _make_folder("pictures", pictures)
    with one_line_errors(kept), show_progress("loading the study", lines=50) as bar:
        failed = _run(names, budget, jobs, dask, records, fresh, data_home, bar) if trains else 0
    with one_line_errors(kept):
        _show(find(names), _read(records, trains), pictures)
    if failed:
        print_line(f"\nfailed: {failed} of the trials, see above; the same command tries them again")
        raise typer.Exit(1)


def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    records: Annotated[
        Path, typer.Option(help="Records of `genlabel reproduce`, a JSON export of them, or a folder of exports.")
    ] = RECORDS,
    ids: Annotated[
        list[str] | None, typer.Option("--only", help="Tables and figures to show; all if not given.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write the records as small JSON files, one a setting, to this folder.")
    ] = None,
) -> None:
    """Write the study on one self-contained page, from its records: nothing is trained."""
    with one_line_errors():
        if output.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"output={str(output)!r} ends in {output.suffix!r}; the page is HTML: end it in .html")
        names = check_ids(ids or ["all"])
        check_outputs(output=output)
        import pandas as pd

        from genlabel_paper.study.exports import read_records

        computed = COMPUTED.issuperset(names) and export is None
        found = pd.DataFrame() if computed else read_records(records)
        if export is not None:
            _check_export(found, export)
        from genlabel_paper.report.page import write_report

        only = "".join(f" --only {name}" for name in ids or [])
        source = "" if computed else f" --records {records}"
        command = f"genlabel report -o {output.name}{source}{only}"
        write_report(found, output, find(names), description="" if computed else _failures(records), command=command)
        print_line(f"wrote {output}")
        if export is not None:
            _export(found, export)


def _failures(records: Path) -> str:
    """Say which trials of a store failed, and have not been done since."""
    from genlabel_paper.study.store import read_failures

    failed = read_failures(records) if records.is_file() and records.suffix != ".json" else {}
    told = {f"{trial.setting}, {trial.dataset}: {error}" for trial, error in failed.items()}
    return f"Trials that failed: {len(failed)}. {'; '.join(sorted(told))}." if failed else ""


def _check_work(budget: str, jobs: int, dask: str | None) -> None:
    """Raise if the work cannot be done as asked, before anything heavy is imported."""
    from genlabel.checks import check_choice
    from genlabel_paper.study.cells import BUDGETS
    from genlabel_paper.study.run import check_cluster

    check_choice("budget", budget, BUDGETS)
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs} must be at least 1, or -1 for one for each processor")
    if dask is not None:
        check_cluster(dask)


def _run(
    names: list[str],
    budget: str,
    jobs: int,
    dask: str | None,
    records: Path,
    fresh: bool,
    data_home: Path | None,
    bar: Lines | Bar,
) -> int:
    """Run the cells that are not on record; return how many trials failed. A bad file of records is told at once."""
    from genlabel_paper.study.store import open_store

    with open_store(records, fresh=fresh) as store:
        from genlabel.datasets.openml import DATA_HOME
        from genlabel_paper.study.run import run_cells
        from genlabel_paper.study.trials import cost, run_trial

        cells = [cell for experiment in find(names) for cell in experiment.cells(budget)]
        tell = _Narrator(bar)
        named = data_home or os.environ.get(DATA_HOME)
        home = str(Path(named).expanduser().resolve()) if named else None
        work = partial(run_trial, data_home=home)
        run_cells(cells, work, store=store, n_jobs=jobs, dask=dask, cost=cost, on_start=tell.start, on_trial=tell.trial)
    return tell.failed


class _Narrator:
    """Tells of the trials as they end, and of each failure once."""

    def __init__(self, bar: Lines | Bar) -> None:
        self.bar, self.failed = bar, 0
        self.told: set[tuple[str, str]] = set()

    def start(self, todo: int, done: int) -> None:
        self.bar.say(f"cells on record: {done}; to do: {todo}")
        self.bar.start(todo)

    def trial(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.failed += 1
            self._tell(outcome.trial.dataset, outcome.error, outcome.trial.setting)
        for cell in outcome.cells:
            self.bar.fitted(cell.method, cell.split)

    def _tell(self, dataset: str, error: str, setting: str) -> None:
        if (dataset, error) not in self.told:
            self.told.add((dataset, error))
            self.bar.say(f"failed: {setting}, {dataset}: {error}")


def _read(records: Path, needed: bool) -> pd.DataFrame:
    """The records of a store, or none where nothing needs them."""
    import pandas as pd

    from genlabel_paper.study.store import read_store

    return read_store(records) if needed else pd.DataFrame()


def _show(chosen: list[Experiment], records: pd.DataFrame, pictures: Path) -> None:
    from rich.console import Console

    from genlabel_paper.report.text import print_shown

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    for experiment in chosen:
        shown = experiment.render(records)
        print_shown(experiment, shown, console)
        for place, picture in enumerate(shown.pictures):
            path = pictures / f"{experiment.id}{f'-{place + 1}' if len(shown.pictures) > 1 else ''}.png"
            picture.figure.savefig(path)
            print_line(f"wrote {path}")


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{name}={str(folder)!r} cannot be made a folder ({error.strerror}); name another with --{name}"
        ) from error


def _check_export(records: pd.DataFrame, folder: Path) -> None:
    """Raise if the folder has exports of cells that these records do not have: they would be lost, or mixed."""
    from genlabel_paper.study.exports import read_records

    _make_folder("export", folder)
    if any(folder.glob("*.json")):
        more = set(read_records(folder)["id"]) - set(records["id"])
        if more:
            raise ValueError(f"{str(folder)!r} has {len(more)} cells that these records do not have; name a new folder")


def _export(records: pd.DataFrame, folder: Path) -> None:
    from genlabel_paper.study.exports import export_records

    for setting, part in records.groupby("setting"):
        path = folder / f"{setting}.json"
        export_records(part, path)
        print_line(f"wrote {path}")


def _print_list() -> None:
    from genlabel_paper.study.cells import BUDGETS

    for experiment in find(["all"]):
        counts = ", ".join(f"{len(set(experiment.cells(budget)))} {budget}" for budget in BUDGETS)
        work = f"cells: {counts}" if experiment.trains else "computed, nothing is trained"
        print_line(f"{experiment.id:<11}{experiment.title} ({experiment.source}); {work}")
