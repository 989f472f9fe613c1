"""`genlabel reproduce` and `genlabel report`: run the paper's tables and figures, and write them on one page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress_display import ProgressDisplay, display_progress
from genlabel.cli.console import (
    Dask,
    Jobs,
    Restart,
    check_jobs,
    check_outputs,
    end,
    one_line_errors,
    print_line,
)
from genlabel_paper.registry import COMPUTED, check_ids, find

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.evaluation.records import RecordSet
    from genlabel_paper.report.experiment import Experiment


RECORDS = Path("build", "paper.sqlite")
PICTURES = Path("build", "paper")
WIDE = 160
"""Letters of a line that is not for a terminal."""


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables and figures such as table4 or figure9, or all but the multiverse; --list names them."
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help='"smoke" (two sets, one fit), "quick" (all sets, 1 split, 2 seeds) or "full" (3 splits, 5 seeds; the '
            "multiverse 3); "
            "on images also how many epochs."
        ),
    ] = "quick",
    jobs: Jobs = -1,
    dask: Dask = None,
    records: Annotated[Path, typer.Option(help="The file of records; a run goes on where it stopped.")] = RECORDS,
    restart: Restart = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Only cells of this dataset, such as mnist or 61; give it again for more. digits must be named."
        ),
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the OpenML cache and of the images; else GENLABEL_DATA_HOME, else scikit-learn's."
        ),
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
        names = check_ids(ids, run=True)
        trains = not COMPUTED.issuperset(names)
        _check_work(budget, jobs, dask if trains else None)
        if dataset and not trains:
            raise ValueError(f"{', '.join(names)}: nothing is trained; leave out --dataset")
        if not all(name.startswith("table") for name in names):
            _make_folder("pictures", pictures)
    with one_line_errors(kept), display_progress("loading the study", unit="cell", max_lines=50) as display:
        failed = _run(names, budget, dataset or [], jobs, dask, records, restart, data_home, display) if trains else 0
    with one_line_errors(kept):
        current, left_out = _drop_stale(_read(records, trains).frame)
        _show(find(names), current, pictures)
        _print_lines(left_out)
    end(failed, "trials")


def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    records: Annotated[
        Path, typer.Option(help="Records of `genlabel reproduce`, a JSON export of them, or a folder of exports.")
    ] = RECORDS,
    ids: Annotated[
        list[str] | None, typer.Option("--only", help="Tables and figures to show; all if not given.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Also write all records, those that the page leaves out too, as small JSON files, one a setting, to "
            "this folder."
        ),
    ] = None,
) -> None:
    """Write the study on one self-contained page, from its records: nothing is trained.

    Records that were made with other settings than those of today are left out and counted.
    """
    with one_line_errors():
        if output.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"output={str(output)!r} ends in {output.suffix!r}; the page is HTML: end it in .html")
        names = check_ids(ids or ["all"])
        check_outputs(output=output)
        computed = COMPUTED.issuperset(names) and export is None
        found = _read(records, not computed)
        if export is not None:
            _check_export(found.frame, export)
        from genlabel_paper.report.page import write_report

        only = "".join(f" --only {name}" for name in ids or [])
        source = "" if computed else f" --records {records}"
        command = f"genlabel report -o {output.name}{source}{only}"
        current, left_out = _drop_stale(found.frame)
        about = " ".join([*_tell_failures(found), *left_out])
        write_report(current, output, find(names), description=about, command=command)
        _print_lines(left_out)
        print_line(f"wrote {output}")
        if export is not None:
            _export(found.frame, export)


def _tell_failures(found: RecordSet) -> list[str]:
    """Say which trials failed, and have not been done since."""
    told = {f"{trial.setting}, {trial.dataset}: {error}" for trial, error in found.failures.items()}
    return [f"Trials that failed: {len(found.failures)}. {'; '.join(sorted(told))}."] if told else []


def _drop_stale(records: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The records that were made with the settings of today, and a sentence about the others, if there are any."""
    if records.empty:
        return records, []
    from genlabel_paper.runs.trials import is_current

    current = records[is_current(records)].reset_index(drop=True)
    count = len(records) - len(current)
    told = f"Records left out, because they were made with other settings than those of today: {count}."
    return current, [told] if count else []


def _check_work(budget: str, jobs: int, dask: str | None) -> None:
    """Raise if the work cannot be done as asked, before anything heavy is imported."""
    from genlabel._validation import check_choice
    from genlabel_paper.runs.cells import BUDGETS

    check_choice("budget", budget, BUDGETS)
    check_jobs(jobs, dask)


def _run(
    names: list[str],
    budget: str,
    datasets: list[str],
    jobs: int,
    dask: str | None,
    records: Path,
    restart: bool,
    data_home: Path | None,
    display: ProgressDisplay,
) -> int:
    """Run the cells that are not on record; return how many trials failed. A bad file of records is told at once."""
    from genlabel.evaluation.records import check_store, open_store, run_trials
    from genlabel_paper.runs.cells import STUDY

    check_store(records, STUDY, restart)
    from genlabel_paper.report.experiment import choose_cells

    cells = choose_cells(find(names), budget, datasets)
    with open_store(records, STUDY, restart=restart) as store:
        from genlabel.data.datasets.openml import find_home
        from genlabel_paper.runs.trials import fingerprint_cell, order, run_trial

        home = find_home(data_home)
        run_trials(
            cells,
            partial(run_trial, data_home=None if home is None else str(home.resolve())),
            store=store,
            fingerprint=fingerprint_cell,
            n_jobs=jobs,
            dask=dask,
            order=order,
            callback=display,
        )
    return len(display.failures)


def _read(records: Path, needed: bool) -> RecordSet:
    """What a file of records holds, or nothing where nothing needs it."""
    from genlabel.evaluation.records import RecordSet, load_records, make_frame
    from genlabel_paper.runs.cells import STUDY

    if needed:
        return load_records(records, STUDY)
    nothing = make_frame([], STUDY)
    return RecordSet(nothing, {}, {}, nothing)


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
            with atomic_writer(path) as beside:
                picture.figure.savefig(beside)
            print_line(f"wrote {path}")


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        print_line(line)


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{name}={str(folder)!r} cannot be made a folder ({error.strerror}); name another with --{name}"
        ) from error


def _check_export(records: pd.DataFrame, folder: Path) -> None:
    """Raise if the folder has exports of cells that these records do not have: they would be lost, or mixed."""
    from genlabel.evaluation.records import read_records
    from genlabel_paper.runs.cells import STUDY

    _make_folder("export", folder)
    if any(folder.glob("*.json")):
        more = set(read_records(folder, STUDY)["id"]) - set(records["id"])
        if more:
            raise ValueError(f"{str(folder)!r} has {len(more)} cells that these records do not have; name a new folder")


def _export(records: pd.DataFrame, folder: Path) -> None:
    from genlabel.evaluation.records import export_records
    from genlabel_paper.runs.cells import STUDY

    for name, part in records.groupby(records["setting"].map(_file_of)):
        path = folder / f"{name}.json"
        export_records(part, path, STUDY)
        print_line(f"wrote {path}")


def _file_of(setting: str) -> str:
    """The name of the file of a setting: one for all readings of it."""
    from genlabel_paper.runs.multiverse import base_of

    base, reading = base_of(setting)
    return f"multiverse-{base}" if reading else base


def _print_list() -> None:
    from genlabel_paper.runs.cells import BUDGETS

    for experiment in find(["all"]):
        counts = ", ".join(f"{len(set(experiment.cells(budget)))} {budget}" for budget in BUDGETS)
        work = f"cells: {counts}" if experiment.trains else "computed, nothing is trained"
        print_line(f"{experiment.id:<11}{experiment.title} ({experiment.source}); {work}")
