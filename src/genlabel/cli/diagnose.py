"""`genlabel diagnose`: whether mixing helps on a table, with which labels, and why."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress import ProgressDisplay
from genlabel.cli.console import Debug, check_not_overwriting_input, check_outputs, check_picture, one_line_errors
from genlabel.cli.options import (
    AsJson,
    Bins,
    Drop,
    ForceInclude,
    Groups,
    NaValues,
    ReadOptions,
    ReportPath,
    Seed,
    Source,
    TargetIsCategorical,
    TargetOption,
    Time,
    check_report,
    check_source,
    command_line,
    json_path,
    load_source,
    open_source,
)
from genlabel.reporting.terminal import describe_table, print_line, table_dict, warning_lines

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.evaluation.diagnosis import Diagnosis


TABLES = ("mixed_samples", "pairs", "lambda", "experiment")
LEAK_NOTES = ("kept column", "rows that equal", "neighboring rows")
"""First words of notes about leaks; notes about columns that were left out name --force-include."""
NO_TIME = "the folds of a diagnosis ignore time: the verdict may not hold for later rows"


def diagnose(
    context: typer.Context,
    source: Source,
    target: TargetOption = None,
    alpha: Annotated[
        float, typer.Option(help="Parameter of Beta(alpha, alpha), the law of the mixing weights; 1 in the paper.")
    ] = 0.3,
    clean_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the points that are not mixed; 0 in the paper.")
    ] = 0.75,
    cv: Annotated[int, typer.Option(min=2, help="Number of folds of the paired experiment.")] = 4,
    max_rows: Annotated[int, typer.Option(min=10, help="Larger tables are subsampled to about this size.")] = 2000,
    groups: Groups = None,
    time: Time = None,
    drop: Drop = None,
    force_include: ForceInclude = None,
    na_values: NaValues = None,
    target_is_categorical: TargetIsCategorical = False,
    bins: Bins = None,
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also draw a figure: .png, .pdf, .svg.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write tables as CSV into this folder.")
    ] = None,
    report: ReportPath = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find out whether mixing helps on a table, which labels the mixed samples should have, and why.

    Rows are counted from 0 in the order of the file. Exit codes: 0 success, 2 invalid input, 3 a bug of genlabel, 130
    interrupted.
    """
    options = ReadOptions(na_values or (), drop or (), force_include or (), target_is_categorical, bins, groups, time)
    with one_line_errors(debug=debug), open_source(source) as path:
        check_picture("output", output)
        check_source(path, target, options)
        files = {} if csv is None else {name: csv / f"{name}.csv" for name in TABLES}
        for file in files.values():
            check_not_overwriting_input(path, csv=file)
        check_outputs(output=output, csv=next(iter(files.values()), None))
        check_report(report, path)
        with ProgressDisplay(f"loading {source}"):
            table = load_source(path, target, options, seed)
        result = DiagnosedTable.diagnose(
            table, options, alpha=alpha, clean_fraction=clean_fraction, cv=cv, max_rows=max_rows, random_state=seed
        )
        if as_json:
            typer.echo(json.dumps(result.to_dict(), indent=2))
        else:
            result.print()
        written = result.write(output, files)
        if report is not None:
            from genlabel.reporting import write_report

            notes = [*result.table.notes, *result.warnings]
            write_report(report, result.table, diagnosis=result.diagnosis, notes=notes, command=command_line(context))
            written += [report, json_path(report)]
    if written and not as_json:
        print_line(f"wrote {', '.join(map(str, written))}")


@final
@dataclass(frozen=True)
class DiagnosedTable:
    """Table with its diagnosis, whose rows are those of the file."""

    table: Table
    diagnosis: Diagnosis
    warnings: list[str]

    @classmethod
    def diagnose(cls, table: Table, options: ReadOptions, **settings: Any) -> DiagnosedTable:
        """Diagnose a table; groups and equal rows are held out as a whole."""
        from genlabel.data.tables import table_pipeline
        from genlabel.evaluation.comparison import count_warnings
        from genlabel.evaluation.diagnosis import diagnose

        if options.time:
            table = replace(table, notes=[*table.notes, NO_TIME])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            X = table_pipeline(table.X, "passthrough")[:-1].fit_transform(table.X)
            groups = None if table.groups is None else table.groups.to_numpy()
            diagnosis = diagnose(X, table.y.to_numpy(), groups=groups, verbose=1, **settings)
        if table.rows is not None and diagnosis.mixed is not None:
            rows = table.rows.to_numpy()[diagnosis.mixed.rows]
            diagnosis = replace(diagnosis, mixed=diagnosis.mixed._replace(rows=rows))
        return cls(table, diagnosis, warning_lines([count_warnings(caught)]))

    @property
    def leaks(self) -> list[str]:
        """Notes that bear upon the verdict."""
        notes = self.table.notes
        return [note for note in notes if note.startswith(LEAK_NOTES) or "(--force-include " in note]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        notes = [*self.table.notes, *self.warnings]
        return {**table_dict(self.table), "notes": notes, "leaks": self.leaks, "diagnosis": self.diagnosis.to_dict()}

    def print(self) -> None:
        """Print the diagnosis, with leaks below its verdict, and how the table was read."""
        from genlabel.data.tables.columns import describe_columns

        sentence = self.diagnosis.verdict.sentence
        leaks = "".join(f"\n  in the table: {leak}" for leak in self.leaks)
        text = str(self.diagnosis).replace(sentence, f"{sentence}{leaks}", 1)
        notes = [note for note in self.table.notes if note not in self.leaks] + self.warnings
        about = [describe_table(self.table), *describe_columns(self.table.columns, self.table.X)]
        for line in [text, "", *about, *(f"note: {note}" for note in notes)]:
            print_line(line)

    def write(self, figure_path: Path | None, files: dict[str, Path]) -> list[Path]:
        """Draw the figure and write the tables that exist; return the files."""
        written = []
        if figure_path is not None:
            from genlabel.reporting import plot_diagnosis

            with atomic_writer(figure_path) as temporary:
                plot_diagnosis(self.diagnosis).savefig(temporary)
            written.append(figure_path)
        for name, file in files.items():
            source = self.diagnosis.experiment if name == "experiment" else self.diagnosis.mixed
            if source is not None:
                with atomic_writer(file) as temporary:
                    self.diagnosis.to_frame(name, None).to_csv(temporary, index=name == "experiment")
                written.append(file)
        return written


def diagnose_for_report(
    table: Table, options: ReadOptions, seed: int, quiet: bool
) -> tuple[Diagnosis | None, list[str]]:
    """Return a diagnosis and notes on it, or None and the reason; print its verdict and time unless `quiet`."""
    start = monotonic()
    try:
        result = DiagnosedTable.diagnose(table, options, random_state=seed)
    except ValueError as error:
        return None, [f"the table could not be diagnosed: {error}"]
    if not quiet:
        print_line(f"diagnosis ({monotonic() - start:.0f} s): {result.diagnosis.verdict.sentence}")
    notes = [note for note in [*result.table.notes, *result.warnings] if note not in table.notes]
    return result.diagnosis, [f"in the diagnosis: {note}" for note in notes]
