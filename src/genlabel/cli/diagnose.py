"""`genlabel diagnose`: would mixing help on a table, whose labels should the blends have, and why."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress_display import display_progress
from genlabel.cli.console import (
    Debug,
    check_not_overwriting_input,
    check_outputs,
    check_picture,
    count_messages,
    one_line_errors,
    print_line,
)
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
    describe_table,
    load_source,
    open_source,
    plain_table,
)

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.evaluation.diagnosis import Diagnosis


FRAMES = ("mixed_samples", "pairs", "lambda", "experiment")
LEAKS = ("kept column", "rows that equal", "neighbouring rows")
"""What notes begin with that tell of leaks; those of columns that were left out say how to keep them."""
TIMELESS = "the folds of a diagnosis know no times: what holds now may not hold later"


def diagnose(
    context: typer.Context,
    source: Source,
    target: TargetOption = None,
    alpha: Annotated[float, typer.Option(help="Of Beta(alpha, alpha), the mixing weight; 1 is the paper's.")] = 0.3,
    clean_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the points left as they are; 0 is the paper's.")
    ] = 0.75,
    cv: Annotated[int, typer.Option(min=2, help="Number of folds of the paired experiment.")] = 4,
    max_rows: Annotated[int, typer.Option(min=10, help="Of more rows, so many are looked at.")] = 2000,
    groups: Groups = None,
    time: Time = None,
    drop: Drop = None,
    force_include: ForceInclude = None,
    na_values: NaValues = None,
    classes: Classes = False,
    bins: Bins = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also draw a picture: .png, .pdf, .svg.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write the tables, as CSV, into this folder.")
    ] = None,
    report: ReportPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")] = False,
    debug: Debug = False,
) -> None:
    """Say whether mixing would help on a table, whose labels the blends should have, and why.

    Rows are numbered from 0, as the file has them. Exit codes: 0 done, 2 something is wrong with the input, 3 a fault
    of genlabel, 130 interrupted.
    """
    reading = ReadOptions(na_values or (), drop or (), force_include or (), classes, bins, groups, time)
    with one_line_errors(debug=debug), open_source(source) as place:
        check_picture("output", output)
        check_source(place, target, reading)
        for file in [] if csv is None else _files(csv):
            check_not_overwriting_input(place, csv=file)
        check_outputs(output=output, csv=None if csv is None else _files(csv)[0])
        check_report(report, place)
        with display_progress(f"loading {source}"):
            table = load_source(place, target, reading, seed)
        settings = {"alpha": alpha, "clean_fraction": clean_fraction, "cv": cv, "max_rows": max_rows}
        found = Examined.of(table, reading, random_state=seed, **settings)
        typer.echo(json.dumps(found.as_plain(), indent=2)) if as_json else found.print()
        written = found.write(output, csv)
        if report is not None:
            found.write_report(report, command_line(context))
            written += [report, numbers_of(report)]
    if written and not as_json:
        print_line(f"wrote {', '.join(map(str, written))}")


@final
@dataclass(frozen=True)
class Examined:
    """A table and its diagnosis, to be shown."""

    table: Table
    """As it was looked at."""
    diagnosis: Diagnosis
    """Its rows are those of the file."""
    heard: list[str]
    """Warnings."""

    @classmethod
    def of(cls, table: Table, reading: ReadOptions, **settings: Any) -> Examined:
        """Diagnose a table; rows of a group, and copies of a row, are held out together."""
        from genlabel.data.tables import table_pipeline
        from genlabel.evaluation.comparison import count_warnings
        from genlabel.evaluation.diagnosis import diagnose

        if reading.time:
            table = replace(table, notes=[*table.notes, TIMELESS])
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            numbers = table_pipeline(table.X, "passthrough")[:-1].fit_transform(table.X)
            groups = None if table.groups is None else table.groups.to_numpy()
            found = diagnose(numbers, table.y.to_numpy(), groups=groups, verbose=1, **settings)
        if table.rows is not None and found.mixed is not None:
            rows = table.rows.to_numpy()[found.mixed.rows]
            found = replace(found, mixed=found.mixed._replace(rows=rows))
        return cls(table, found, count_messages([count_warnings(heard)]))

    @property
    def leaks(self) -> list[str]:
        """Notes that bear upon the verdict."""
        return [note for note in self.table.notes if note.startswith(LEAKS) or "(--force-include " in note]

    def as_plain(self) -> dict[str, Any]:
        """All of it, for machines."""
        notes = [*self.table.notes, *self.heard]
        return {**plain_table(self.table), "notes": notes, "leaks": self.leaks, "diagnosis": self.diagnosis.to_dict()}

    def print(self) -> None:
        """Print the diagnosis, leaks beside its verdict, and how the table was read."""
        from genlabel.data.tables import describe_columns

        sentence = self.diagnosis.verdict.sentence
        beside = "".join(f"\n  in the table: {leak}" for leak in self.leaks)
        text = str(self.diagnosis).replace(sentence, f"{sentence}{beside}", 1)
        others = [note for note in self.table.notes if note not in self.leaks]
        about = [describe_table(self.table), *describe_columns(self.table.columns, self.table.X)]
        for line in [text, "", *about, *(f"note: {note}" for note in [*others, *self.heard])]:
            print_line(line)

    def write_report(self, path: Path, command: str) -> None:
        """Write the page, and its numbers beside it."""
        from genlabel.reporting import write_report

        notes = [*self.table.notes, *self.heard]
        write_report(path, self.table, diagnosis=self.diagnosis, notes=notes, command=command)

    def write(self, picture: Path | None, folder: Path | None) -> list[Path]:
        """Draw the picture and write the tables, as far as they are asked for and there; return what was written."""
        if picture is not None:
            from genlabel.reporting import plot_diagnosis

            with atomic_writer(picture) as beside:
                plot_diagnosis(self.diagnosis).savefig(beside)
        written = [] if picture is None else [picture]
        there = {name: self.diagnosis.mixed if name != "experiment" else self.diagnosis.experiment for name in FRAMES}
        for name, file in zip(FRAMES, [] if folder is None else _files(folder), strict=False):
            if there[name] is not None:
                with atomic_writer(file) as beside:
                    self.diagnosis.to_frame(name, None).to_csv(beside, index=name == "experiment")
                written.append(file)
        return written


def _files(folder: Path) -> list[Path]:
    """Where the tables go."""
    return [folder / f"{name}.csv" for name in FRAMES]


def try_diagnosis(table: Table, reading: ReadOptions, seed: int, quiet: bool) -> tuple[Diagnosis | None, list[str]]:
    """Diagnose a table beside other work, and say how long it took; return it, and notes on it or on why there is none.

    Parameters
    ----------
    table : Table
    reading : Reading
    seed : int
    quiet : bool
        Whether nothing is printed but the progress.
    """
    start = monotonic()
    try:
        found = Examined.of(table, reading, random_state=seed)
    except ValueError as error:
        return None, [f"the table could not be diagnosed: {error}"]
    if not quiet:
        print_line(f"diagnosis ({monotonic() - start:.0f} s): {found.diagnosis.verdict.sentence}")
    notes = [note for note in [*found.table.notes, *found.heard] if note not in table.notes]
    return found.diagnosis, [f"in the diagnosis: {note}" for note in notes]
