"""`genlabel predict`: predictions of a saved model for the rows of another table."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlabel._progress import ProgressDisplay
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import describe_costs, print_line

if TYPE_CHECKING:
    import pandas as pd

    from genlabel.evaluation.table_models import NewRows
    from genlabel.persistence import LoadedModel


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `genlabel fit` has written.")],
    source: Annotated[
        str,
        typer.Argument(metavar="NEW", help="File with the columns of the training table, or - for standard input."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File: .csv, .tsv, .csv.gz, .parquet, .feather or .jsonl.",
            show_default="CSV on the standard output",
        ),
    ] = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Also lower_probability_CLASS and upper_probability_CLASS: how often rows with such a probability are "
            "of the class, estimated from held-out rows; the probability is always inside. It is not a confidence "
            "interval of the row.",
        ),
    ] = False,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="Column to copy in front of the predictions; can be repeated."),
    ] = None,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", help="Copy all columns of the file in front of the predictions.")
    ] = False,
    cost: options.Costs = None,
    threshold: options.Threshold = None,
    pos_label: options.PosLabel = None,
    debug: options.Debug = False,
) -> None:
    """Predict the class of each row of a table: prediction, probability of each class, typicality, unusual values.

    The prediction is the most probable class, unless costs or a threshold were given here or to `genlabel fit`. Rows
    stay in their order. Notes on unusual rows and, if the file has the target, the scores go to the error stream.
    Typicality is the share of training rows that are less typical than the row. Unusual values are numbers far outside
    the range of their column in training, and categories that training never had. Exit codes: 0 success, 2 invalid
    input, 3 a bug of genlabel, 130 interrupted.
    """
    with options.one_line_errors(debug=debug), options.open_source(source) as path:
        from genlabel.data.tables.files import check_columns, check_output_suffix, join_names, read_raw
        from genlabel.persistence.files import read_document

        read_document(model)
        if not Path(path).is_file():
            raise ValueError(f"there is no file {path!r}; name one with the columns of the training table")
        if output is not None:
            check_output_suffix("output", output)
            options.check_outputs(path, output=output)
        with ProgressDisplay(f"loading {model}", unit="row") as display:
            import pandas as pd

            from genlabel import load_model
            from genlabel.data.tables import write_frame
            from genlabel.evaluation import table_models

            loaded = load_model(model)
            if cost or threshold is not None or pos_label is not None:
                loaded.classifier.set_costs(options.read_costs(cost, threshold, pos_label, loaded.classes_))
            new = table_models.NewRows.of(loaded, path)
            names, copied = id_columns or [], None
            if names or keep_columns:
                copied = read_raw(path)
                check_columns("id", names, copied.columns, path)
                copied = copied if keep_columns else copied[names]
            display.start(len(new.X), f"predicting {count_of(len(new.X), 'row')}")
            predictions = table_models.predict_table(loaded, new.X, intervals=intervals, on_rows=display.advance)
        if copied is not None:
            duplicates = [name for name in copied.columns if name in predictions.columns]
            if duplicates:
                raise ValueError(
                    f"the file has columns of predictions, {join_names(duplicates)}; copy other columns with --id"
                )
            predictions = pd.concat([copied, predictions], axis=1)
        if output is None and isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8")  # a file must keep all characters
        write_frame(predictions, sys.stdout if output is None else output)
        sys.stdout.flush()  # a closed pipe fails here and not at exit
        for line in [*(f"note: {text}" for text in new.notes), *_summary(loaded, new, predictions)]:
            print_line(line, stderr=True)
        if output is not None:
            print_line(f"wrote {output}", stderr=True)


def _summary(model: LoadedModel, new: NewRows, predictions: pd.DataFrame) -> list[str]:
    """Return lines about unusual rows, and the scores where classes are known."""
    from genlabel.evaluation.table_models import describe_unusual_rows, score_predictions

    lines = [*describe_costs(model.classifier), *describe_unusual_rows(model, new.X, predictions)]
    if new.y is not None and (new.y >= 0).any():
        scores = score_predictions(model, predictions, new.y)
        n_known = int((new.y >= 0).sum())
        n_unknown = len(predictions) - n_known
        others = f"; {n_unknown} have no class, or one that training did not have" if n_unknown else ""
        lines.append(
            f"the file has the target: accuracy {100 * scores['accuracy']:.2f} %, log-loss {scores['log_loss']:.4f} on "
            f"{count_of(n_known, 'row')} of known classes{others}"
        )
        lines.append("these scores are too good if rows of the training table are among them")
    return lines
