"""`genlabel explain`: which columns moved the predictions of a saved model, and which training rows are near."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._progress import ProgressDisplay
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import print_line

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.evaluation.explanation import Explanation

Scale = StrEnum("Scale", {"probability": "probability", "log_odds": "log-odds"})
"""Scales of contributions."""


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `genlabel fit` has written.")],
    source: Annotated[
        str,
        typer.Argument(metavar="NEW", help="File with the columns of the training table, or - for standard input."),
    ],
    rows: Annotated[
        list[int] | None,
        typer.Option("--row", metavar="N", help="Row of the file to explain, numbered from 0; can be repeated."),
    ] = None,
    first: Annotated[int, typer.Option(min=1, help="Number of rows to explain without --row, from the top.")] = 10,
    train: Annotated[
        Path | None,
        typer.Option(
            help="File of the training table, in which to look for similar rows.",
            show_default="the rows that the model has kept",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--class", metavar="NAME", help="Class whose probability to explain.", show_default="predicted"),
    ] = None,
    scale: Annotated[Scale, typer.Option(help="Scale on which contributions add up.")] = Scale.probability,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File: .json with all classes, or .csv, .tsv, .csv.gz, .parquet, .feather, .jsonl with a line for "
            "each row and column.",
            show_default="text on the standard output",
        ),
    ] = None,
    seed: options.Seed = 0,
    debug: options.Debug = False,
) -> None:
    """Explain the predictions of a model for rows of a table: the columns that moved them, and similar training rows.

    The contributions of the columns add up to the prediction minus its mean over training rows. They describe the
    model, not causes. Exit codes: 0 success, 2 invalid input, 3 a bug of genlabel, 130 interrupted.
    """
    with options.one_line_errors(debug=debug), options.open_source(source) as path:
        from genlabel.data.tables.files import check_output_suffix
        from genlabel.persistence.files import read_document

        read_document(model)
        for file in (path, train):
            if file is not None and not Path(file).is_file():
                raise ValueError(f"there is no file {str(file)!r}; name one with the columns of the training table")
        if output is not None:
            if output.suffix.lower() != ".json":
                check_output_suffix("output", output)
            options.check_outputs(path, output=output)
        with ProgressDisplay(f"loading {model}", unit="row") as display:
            from genlabel import load_model
            from genlabel._atomic_io import atomic_write
            from genlabel.data.tables import write_frame
            from genlabel.evaluation.explanation import class_index
            from genlabel.evaluation.table_explanations import explain_file
            from genlabel.reporting.explanation import print_explanation

            loaded = load_model(model)
            if label is not None:
                class_index(loaded.classes_, label)
            explanation, notes = explain_file(
                loaded,
                path,
                train,
                rows,
                max_rows=first,
                scale=scale.value,
                random_state=seed,
                on_start=lambda count: display.start(count, f"explaining {count_of(count, 'row')}"),
                on_rows=display.advance,
            )
        if output is None:
            print_explanation(explanation, label)
        elif output.suffix.lower() == ".json":
            atomic_write(output, json.dumps(explanation.to_dict(), indent=1, allow_nan=False) + "\n")
        else:
            write_frame(explanation.to_frame(label), output)
        for line in [*(f"note: {note}" for note in notes), *([] if output is None else [f"wrote {output}"])]:
            print_line(line, stderr=True)


def explain_for_report(
    table: Table, name: str, methods: dict[str, Any], test_size: float, seed: int
) -> tuple[Explanation | None, list[str]]:
    """Return an explanation of held-out rows by a method of a comparison, or None and notes with the reason."""
    from genlabel.evaluation.table_explanations import explain_held_out

    if name not in methods:
        return None, []
    try:
        with ProgressDisplay(f"explaining {name}"):
            return replace(explain_held_out(table, methods[name], test_size=test_size, seed=seed), model=name), []
    except ValueError as error:
        return None, [f"{name} could not be explained: {error}"]
