"""`genlabel diagnose`: whether mixing helps on a table, with which labels, and why."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress import ProgressDisplay
from genlabel.cli import options
from genlabel.reporting.terminal import describe_table, print_line, table_dict, warning_lines

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.evaluation.diagnosis import Diagnosis


TABLES = ("mixed_samples", "pairs", "lambda", "experiment")
LEAK_NOTES = ("kept column", "rows that equal", "neighboring rows")
"""First words of notes about leaks, in addition to the notes that name --force-include."""
TIME_NOTE = "the folds of a diagnosis ignore time: the verdict may not hold for later rows"


def diagnose(
    context: typer.Context,
    source: options.Source,
    target: options.Target = None,
    alpha: Annotated[
        float, typer.Option(help="The mixing weights are drawn from Beta(alpha, alpha); 1 in the paper.")
    ] = 0.3,
    clean_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the points that are not mixed; 0 in the paper.")
    ] = 0.75,
    cv: Annotated[int, typer.Option(min=2, help="Number of folds of the paired experiment.")] = 4,
    max_rows: Annotated[int, typer.Option(min=10, help="Larger tables are subsampled to about this size.")] = 2000,
    groups: options.Groups = None,
    time: options.Time = None,
    drop: options.Drop = None,
    force_include: options.ForceInclude = None,
    na_values: options.NaValues = None,
    target_is_categorical: options.TargetIsCategorical = False,
    bins: options.Bins = None,
    min_class_size: options.MinClassSize = None,
    seed: options.Seed = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also draw a figure: .png, .pdf, .svg.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write tables as CSV into this folder.")
    ] = None,
    report: options.ReportPath = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Find out whether mixing helps on a table, which labels the mixed samples should have, and why.

    Rows are counted from 0 in the order of the file. Exit codes: 0 success, 2 invalid input, 3 a bug of genlabel, 130
    interrupted.
    """
    reading = options.ReadOptions(
        na_values, drop, force_include, target_is_categorical, bins, groups, time, min_class_size
    )
    with options.one_line_errors(debug=debug), options.open_source(source) as path:
        options.check_figure_suffix("output", output)
        options.check_source(path, target, reading)
        files = {} if csv is None else {name: csv / f"{name}.csv" for name in TABLES}
        options.check_outputs(path, output=output)
        for file in files.values():
            options.check_outputs(path, csv=file)
        options.check_report(report, path)
        with ProgressDisplay(f"loading {source}"):
            table = options.load_source(path, target, reading, seed)
        result = DiagnosedTable.diagnose(
            table, alpha=alpha, clean_fraction=clean_fraction, cv=cv, max_rows=max_rows, random_state=seed
        )
        if as_json:
            typer.echo(json.dumps(result.to_dict(), indent=2))
        else:
            result.print()
        written = result.write(output, files)
        if report is not None:
            from genlabel.reporting import write_report

            command = options.command_line(context)
            write_report(report, result.table, diagnosis=result.diagnosis, notes=result.notes, command=command)
            written += [report, report.with_suffix(".json")]
    if written and not as_json:
        print_line(f"wrote {', '.join(map(str, written))}")


class DiagnosedTable(NamedTuple):
    """Table with its diagnosis, in which row numbers are those of the file."""

    table: Table
    diagnosis: Diagnosis
    notes: list[str]
    """Notes on the table, and warnings of the diagnosis."""

    @classmethod
    def diagnose(cls, table: Table, **settings: Any) -> DiagnosedTable:
        """Diagnose a table; groups and equal rows are held out as a whole."""
        from genlabel.data.tables import table_pipeline
        from genlabel.evaluation.comparison import count_warnings
        from genlabel.evaluation.diagnosis import diagnose

        if table.time is not None:
            table = replace(table, notes=[*table.notes, TIME_NOTE])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            X = table_pipeline(table.X, "passthrough")[:-1].fit_transform(table.X)
            groups = None if table.groups is None else table.groups.to_numpy()
            diagnosis = diagnose(X, table.y.to_numpy(), groups=groups, verbose=1, **settings)
        if table.rows is not None and diagnosis.mixed is not None:
            rows = table.rows.to_numpy()[diagnosis.mixed.rows]
            diagnosis = replace(diagnosis, mixed=diagnosis.mixed._replace(rows=rows))
        return cls(table, diagnosis, [*table.notes, *warning_lines([count_warnings(caught)])])

    @property
    def leaks(self) -> list[str]:
        """Notes about leaks, which may invalidate the verdict."""
        return [note for note in self.table.notes if note.startswith(LEAK_NOTES) or "(--force-include " in note]

    def to_dict(self) -> dict[str, Any]:
        """Return the table and its diagnosis as plain values."""
        about = {"notes": self.notes, "leaks": self.leaks, "diagnosis": self.diagnosis.to_dict()}
        return table_dict(self.table) | about

    def print(self) -> None:
        """Print the diagnosis, with leaks below its verdict, and how the table was read."""
        from genlabel.data.tables.columns import describe_columns

        sentence = self.diagnosis.verdict.sentence
        leaks = "".join(f"\n  in the table: {leak}" for leak in self.leaks)
        text = str(self.diagnosis).replace(sentence, f"{sentence}{leaks}", 1)
        about = [describe_table(self.table), *describe_columns(self.table.columns, self.table.X)]
        for line in [text, "", *about, *(f"note: {note}" for note in self.notes if note not in self.leaks)]:
            print_line(line)

    def write(self, figure_path: Path | None, files: dict[str, Path]) -> list[Path]:
        """Draw the figure and write the tables that were measured; return the files."""
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


def diagnose_for_report(table: Table, seed: int, quiet: bool, jobs: int = 1) -> tuple[Diagnosis | None, list[str]]:
    """Return a diagnosis and notes on it, or None and the reason; print its verdict and time unless `quiet`."""
    start = monotonic()
    try:
        result = DiagnosedTable.diagnose(table, random_state=seed, n_jobs=jobs)
    except ValueError as error:
        return None, [f"the table could not be diagnosed: {error}"]
    if not quiet:
        seconds = f"{monotonic() - start:.0f} s"
        print_line(f"diagnosis by a short experiment ({seconds}): {result.diagnosis.verdict.sentence}")
    return result.diagnosis, [f"in the diagnosis: {note}" for note in result.notes if note not in table.notes]
