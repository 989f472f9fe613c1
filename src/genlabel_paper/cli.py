"""Command `genlabel reproduce`: run the paper's tables and figures, and print them or write them as one page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._console import open_console
from genlabel._progress import ProgressDisplay
from genlabel._validation import check_positive
from genlabel.cli.options import (
    Dask,
    Jobs,
    Restart,
    check_jobs,
    check_outputs,
    exit_if_failed,
    one_line_errors,
)
from genlabel.reporting.terminal import print_line
from genlabel_paper.registry import COMPUTED, check_ids, find

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.evaluation.records.schema import RecordSet
    from genlabel_paper.report.experiment import Experiment
    from genlabel_paper.runs.cells import Cell


RECORDS = Path("build", "paper.sqlite")
FIGURES = Path("build", "paper")
CHECKPOINTS = ".checkpoints"
"""Ending of the folder beside the records in which trainings on images save their state."""
FILE_WIDTH = 160
"""Characters of a line if the output is not a terminal."""


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables and figures such as table4 or figure9, or all; see --list. The multiverse runs only if named."
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help='"smoke" (two datasets, one fit), "quick" (all datasets, 1 split, 2 seeds) or "full" (3 splits, 5 '
            "seeds; the multiverse 3); also the number of epochs on images."
        ),
    ] = "quick",
    jobs: Jobs = -1,
    dask: Dask = None,
    records: Annotated[
        Path,
        typer.Option(
            help="File of the records; a run continues where it stopped. --report-only also reads an export or a "
            "folder of exports."
        ),
    ] = RECORDS,
    restart: Restart = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Train only on this dataset, such as mnist or 61; repeat for more. digits must be named."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Train only this method, such as mixup; repeat for more.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Train only this seed; repeat for more.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="Train only this setting, such as images-clean-200; repeat for more.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Start no trial that would not end within so many minutes, by the times on record."),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(help="First copy the records of this export, or folder of exports, that --records lacks."),
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the OpenML cache and the images.", show_default="$GENLABEL_DATA_HOME, or scikit-learn's"
        ),
    ] = None,
    figures: Annotated[Path, typer.Option(help="Folder for the figures.")] = FIGURES,
    report: Annotated[
        Path | None, typer.Option(help="Write tables and figures to this HTML page instead of printing them.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write all records to this folder, as one small JSON file per setting.")
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Use the records without training.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures with their cells.")] = False,
) -> None:
    """Run tables and figures of the paper, and show our numbers next to the printed ones.

    Finished cells are not trained again: tables share their cells, and an interrupted run continues where it stopped,
    the training of a network on images too. Records made with other settings than the current ones are left out and
    counted.
    """
    interrupted = f"finished cells are saved in {records}; repeat the command to continue"
    with one_line_errors(interrupted):
        if show_list:
            _print_list()
            return
        if not ids:
            raise ValueError("name a table or figure, such as table4, or all; --list shows them")
        names = check_ids(ids, run=not report_only)
        computed = COMPUTED.issuperset(names)
        trains = not computed and not report_only
        _check_options(budget, jobs, dask if trains else None)
        chosen = {"dataset": dataset, "method": method, "seed": seed, "setting": setting}
        given = [name for name, values in {**chosen, "minutes": minutes, "start-from": start_from}.items() if values]
        if given and not trains:
            raise ValueError(f"{', '.join(names)}: nothing is trained; leave out --{given[0]}")
        if minutes is not None:
            check_positive("minutes", minutes, "60 is an hour")
            if dask is not None:
                raise ValueError("--minutes limits trials on this machine; leave it out with --dask")
        if report_only and restart:
            raise ValueError("--restart deletes the records that --report-only reads; leave one out")
        if report is not None and report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"report={str(report)!r} is an HTML page; its name must end in .html")
        check_outputs(report=report)
        if report is None and not all(name.startswith("table") for name in names):
            _make_folder("figures", figures)
    failed = 0
    if trains:
        with one_line_errors(interrupted), ProgressDisplay("loading", unit="cell", max_lines=50) as display:
            cells = {f"{name}s": values or () for name, values in chosen.items()}
            failed = _run(names, budget, cells, jobs, dask, records, restart, start_from, minutes, data_home, display)
    with one_line_errors(interrupted):
        needed = not computed or export is not None
        stored = _read(records, needed)
        if export is not None:
            _check_export(stored.frame, export)
        from genlabel_paper.runs.cells import in_percent

        current, left_out = _drop_outdated(stored.frame)
        current = in_percent(current)
        experiments = find(names)
        if report is None:
            _print_experiments(experiments, current, figures)
        else:
            from genlabel_paper.report.page import write_report

            source = f" --records {records}" if needed else ""
            command = f"genlabel reproduce {' '.join(ids)} --report-only --report {report.name}{source}"
            description = " ".join([*_describe_failures(stored), *left_out])
            write_report(current, report, experiments, description=description, command=command)
        for line in left_out:
            print_line(line)
        if report is not None:
            print_line(f"wrote {report}")
        if export is not None:
            _export(stored.frame, export)
    exit_if_failed(failed, "trials")


def _check_options(budget: str, jobs: int, dask: str | None) -> None:
    """Raise for invalid options before heavy imports."""
    from genlabel._validation import check_choice
    from genlabel_paper.runs.cells import BUDGETS

    check_choice("budget", budget, BUDGETS)
    check_jobs(jobs, dask)


def _run(
    names: list[str],
    budget: str,
    chosen: dict[str, Any],
    jobs: int,
    dask: str | None,
    records: Path,
    restart: bool,
    start_from: Path | None,
    minutes: float | None,
    data_home: Path | None,
    display: ProgressDisplay,
) -> int:
    """Train the missing cells, and return the number of failed trials; an invalid file of records raises first.

    `chosen` holds the datasets, methods, seeds and settings to train, all where it is empty.
    """
    from genlabel.evaluation.records import open_store, run_trials
    from genlabel.evaluation.records.store import check_store
    from genlabel_paper.runs.cells import PAPER_SCHEMA

    check_store(records, PAPER_SCHEMA, restart)
    from genlabel_paper.report.experiment import select_cells

    cells = select_cells(find(names), budget, **chosen)
    with open_store(records, PAPER_SCHEMA, restart=restart) as store:
        from joblib import effective_n_jobs

        from genlabel.data.datasets.catalog import find_home
        from genlabel_paper.exports import copy_records
        from genlabel_paper.runs.estimates import TimeBudget, describe_time, make_estimator
        from genlabel_paper.runs.trials import fingerprint_cell, order, run_trial

        if start_from is not None:
            display.print(f"copied {copy_records(start_from, store)} records of {start_from}")
        estimate, n_jobs = make_estimator(store.read().frame), effective_n_jobs(jobs)
        todo: dict[Any, list[Cell]] = {}
        for cell in cells:
            if store.done.get(cell.id) != fingerprint_cell(cell):
                todo.setdefault(cell.trial, []).append(cell)
        if todo:
            display.print(f"to train: {describe_time(list(todo.values()), estimate, n_jobs)}")
        time_budget = None if minutes is None else TimeBudget(minutes, estimate)
        home, checkpoints = str(find_home(data_home).resolve()), records.with_suffix(CHECKPOINTS)
        if restart:
            rmtree(checkpoints, ignore_errors=True)
        run_trials(
            cells,
            partial(run_trial, data_home=home, checkpoints=checkpoints),
            store=store,
            fingerprint=fingerprint_cell,
            n_jobs=jobs,
            dask=dask,
            order=order,
            may_start=time_budget,
            callback=display,
        )
        if time_budget is not None and time_budget.refused:
            display.print(f"left for a later run: {describe_time(time_budget.refused, estimate, n_jobs)}")
    return len(display.failures)


def _read(records: Path, needed: bool) -> RecordSet:
    """Return the records of a file, or none if they are not needed."""
    from genlabel.evaluation.records.schema import RecordSet, make_frame
    from genlabel_paper.exports import load_records
    from genlabel_paper.runs.cells import PAPER_SCHEMA

    if needed:
        return load_records(records, PAPER_SCHEMA)
    empty = make_frame([], PAPER_SCHEMA)
    return RecordSet(empty, {}, {}, empty)


def _drop_outdated(records: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the records made with the current settings, and a sentence on the number of others."""
    if records.empty:
        return records, []
    from genlabel_paper.runs.trials import is_current

    current = records[is_current(records)].reset_index(drop=True)
    count = len(records) - len(current)
    return current, [f"Records left out, because they were made with other settings: {count}."] if count else []


def _describe_failures(records: RecordSet) -> list[str]:
    """Return a sentence on the trials whose last attempt failed."""
    errors = {f"{trial.setting}, {trial.dataset}: {error}" for trial, error in records.failures.items()}
    return [f"Trials that failed: {len(records.failures)}. {'; '.join(sorted(errors))}."] if errors else []


def _print_experiments(experiments: list[Experiment], records: pd.DataFrame, figures: Path) -> None:
    """Print the experiments, and write their figures to a folder."""
    from genlabel_paper.report.page import read_entries
    from genlabel_paper.report.terminal import print_rendering

    console = open_console(file_width=FILE_WIDTH)
    for entry in read_entries(records, experiments):
        experiment, parts = entry.experiment, entry.parts
        for protocol, rendering in parts:
            print_rendering(experiment, rendering, console, protocol.title if protocol else "")
            names = [experiment.id, *([protocol.key] if protocol and len(parts) > 1 else [])]
            for number, captioned in enumerate(rendering.figures, 1):
                path = figures / f"{'-'.join([*names, *([str(number)] if len(rendering.figures) > 1 else [])])}.png"
                with atomic_writer(path) as temporary:
                    captioned.figure.savefig(temporary)
                print_line(f"wrote {path}")


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{name}={str(folder)!r} cannot be made a folder ({error.strerror}); name another with --{name}"
        ) from error


def _check_export(records: pd.DataFrame, folder: Path) -> None:
    """Raise if the folder has exports of cells that these records lack: they would be lost or mixed."""
    from genlabel_paper.exports import load_records
    from genlabel_paper.runs.cells import PAPER_SCHEMA

    _make_folder("export", folder)
    if any(folder.glob("*.json")):
        others = set(load_records(folder, PAPER_SCHEMA).frame["id"]) - set(records["id"])
        if others:
            raise ValueError(f"{str(folder)!r} has {len(others)} cells that these records lack; name a new folder")


def _export(records: pd.DataFrame, folder: Path) -> None:
    """Write a JSON file for each setting; all readings of a setting share one."""
    from genlabel_paper.exports import export_records
    from genlabel_paper.runs.cells import PAPER_SCHEMA, split_reading

    def file_name(setting: str) -> str:
        base, reading = split_reading(setting)
        return f"multiverse-{base}" if reading else base

    for name, part in records.groupby(records["setting"].map(file_name)):
        path = folder / f"{name}.json"
        export_records(part, path, PAPER_SCHEMA)
        print_line(f"wrote {path}")


def _print_list() -> None:
    from genlabel_paper.runs.cells import BUDGETS

    for experiment in find(["all"]):
        counts = ", ".join(f"{len(set(experiment.cells(budget)))} {budget}" for budget in BUDGETS)
        work = f"cells: {counts}" if experiment.trains else "computed, nothing is trained"
        print_line(f"{experiment.id:<11}{experiment.title} ({experiment.source}); {work}")
