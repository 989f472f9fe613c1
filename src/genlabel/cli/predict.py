"""`genlabel predict`: what a kept model says of the rows of another table."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from genlabel._progress_display import display_progress
from genlabel.cli.console import Debug, check_not_overwriting_input, check_outputs, one_line_errors
from genlabel.cli.table_options import open_source

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.evaluation.table_models import NewRows
    from genlabel.persistence import LoadedModel


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `genlabel fit` has written.")],
    source: Annotated[
        str,
        typer.Argument(metavar="NEW", help="A file with the columns of the training table, or - for standard input."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A file: .csv, .tsv, .csv.gz, .parquet, .feather or .jsonl.",
            show_default="CSV on the standard output",
        ),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Also the lower and upper probability of each class.")
    ] = False,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="A column to copy in front; may be given several times."),
    ] = None,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", help="Copy all columns of the file in front.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Predict the class of each row of a table: prediction, a probability for each class, and the support of the row.

    Rows stay in their order. What was unusual is told on the error stream, and the scores if the file has the target.
    Support is the share of training rows that are less typical than this one. Exit codes: 0 done, 2 something is wrong
    with the input, 3 a fault of genlabel, 130 interrupted.
    """
    with one_line_errors(debug=debug), open_source(source) as place:
        _check(model, place, output)
        with display_progress(f"loading {model}", unit="row") as display:
            from genlabel import load_model
            from genlabel.evaluation import table_models as fitting

            kept = load_model(model)
            new = fitting.NewRows.of(kept, place)
            copied = _copied(place, id_columns or [], keep_columns)
            display.start(len(new.X), f"predicting {len(new.X)} rows")
            found = fitting.predict_table(kept, new.X, intervals=intervals, on_rows=display.advance)
        _write(copied, found, output)
        for line in [*(f"note: {text}" for text in new.notes), *_about(kept, new, found)]:
            _say(line)
        if output is not None:
            _say(f"wrote {output}")


def _check(model: Path, place: str, output: Path | None) -> None:
    """Find out what is wrong before anything heavy is imported."""
    from genlabel.data.tables.files import check_output_suffix
    from genlabel.persistence.files import check_model

    check_model(model)
    if not Path(place).is_file():
        raise ValueError(f"there is no file {place!r}; name one with the columns of the training table")
    if output is not None:
        check_output_suffix("output", output)
        check_not_overwriting_input(place, output=output)
        check_outputs(output=output)


def _copied(place: str, names: list[str], every: bool) -> pd.DataFrame | None:
    """The columns of the file that go in front, as they are written."""
    from genlabel.data.tables import check_columns, read_raw

    if not names and not every:
        return None
    frame = read_raw(place)
    check_columns("id", names, frame.columns, place)
    return frame if every else frame[names]


def _write(copied: pd.DataFrame | None, found: pd.DataFrame, output: Path | None) -> None:
    import pandas as pd

    from genlabel.data.tables import join_names, write_frame

    if copied is not None:
        both = [name for name in copied.columns if name in found.columns]
        if both:
            raise ValueError(f"the file has columns that are written here, {join_names(both)}; name others with --id")
        found = pd.concat([copied, found], axis=1)
    write_frame(found, _standard_output() if output is None else output)


def _standard_output() -> IO[str]:
    """The standard output, in UTF-8 unless it is a terminal: a file must not have question marks for letters."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def _about(kept: LoadedModel, new: NewRows, found: pd.DataFrame) -> list[str]:
    """What is to be known beside the predictions: rows of low support, and the scores where classes are known."""
    from genlabel.evaluation.table_models import atypical_level, score_predictions

    lines = []
    if "typicality" in found:
        level = atypical_level(kept)
        low = int((found["typicality"] <= level).sum())
        usual = f"1 in {1 / level:.0f} is usual"
        lines.append(f"rows unlike those of training (support of {level} or less): {low} of {len(found)}; {usual}")
    if new.y is not None and (new.y >= 0).any():
        scores, count = score_predictions(kept, found, new.y), int((new.y >= 0).sum())
        said = f"accuracy {scores['accuracy']:.2f} %, log-loss {scores['log_loss']:.4f}"
        lines.append(f"the file has the target: {said} on {count} rows of known classes{_others(len(found) - count)}")
        lines.append("if rows of the training table are among them, that flatters")
    return lines


def _others(count: int) -> str:
    return f"; {count} have none, or one that training did not have" if count else ""


def _say(line: str) -> None:
    Console(stderr=True, highlight=False).print(Text(line), soft_wrap=True)
