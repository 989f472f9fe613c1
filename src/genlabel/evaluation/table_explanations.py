"""Explanations of predictions for the rows of a file, and for held-out rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from genlabel._text import count_of
from genlabel.data.tables import Table, TableReadSpec, make_splits
from genlabel.data.tables.columns import TRUTH_VALUES
from genlabel.data.tables.files import read_raw
from genlabel.data.tables.parse_values import MACHINE_NA, NA_WORDS
from genlabel.data.tables.table import select_rows
from genlabel.evaluation.explanation import Explanation, explain
from genlabel.evaluation.table_models import READ_SPEC, NewRows, fit_table
from genlabel.persistence import LoadedModel
from genlabel.persistence.model import classifier_of

MAX_HELD_OUT, HELD_OUT_BACKGROUND, HELD_OUT_PERMUTATIONS = 30, 50, 4
"""Held-out rows of a table that are explained, with so many background rows and orders of the columns for each: the
errors of the single rows cancel in the means over them."""


def explain_file(
    model: LoadedModel,
    path: str | Path,
    train: str | Path | None = None,
    rows: Sequence[int] | None = None,
    *,
    max_rows: int = 10,
    on_start: Callable[[int], None] | None = None,
    **options: Any,
) -> tuple[Explanation, list[str]]:
    """Explain predictions for the rows of a file with numbers `rows`, or the first `max_rows`; also return notes.

    `train` is the file of the training table; by default the rows that the model has kept are used. Values are those of
    the file, such as "1.234,50", with the number or date that was read where that is written otherwise. `options` are
    those of :func:`explain`; `on_start` is called with the number of rows.
    """
    new = NewRows.of(model, path)
    n = len(new.X)
    unknown = [row for row in rows or [] if not 0 <= row < n]
    if unknown:
        raise ValueError(f"row={unknown[0]} is not in {str(path)!r}, whose {n} rows are numbered from 0 to {n - 1}")
    numbers = list(dict.fromkeys(rows)) if rows else list(range(min(max_rows, n)))
    if on_start is not None:
        on_start(len(numbers))
    if READ_SPEC in model.extra:
        options["groups"] = _file_columns(TableReadSpec.from_plain(model.extra[READ_SPEC]))
    if train is None and model.training_rows is None:
        raise ValueError("the model was saved without training rows; name the file of the training table with --train")
    if train is not None:
        known = NewRows.of(model, train)
        if known.y is None:
            raise ValueError(f"train={str(train)!r} has no column of the classes of the model; name the training table")
        has_class = known.y >= 0
        options |= {"X_train": known.X[has_class], "y_train": model.classes_[known.y[has_class]]}
    explanation = explain(model, new.X.iloc[numbers], **options)
    shown, raw = explanation.values.copy(), read_raw(path).iloc[numbers]
    for name in shown.columns.intersection(raw.columns):
        shown[name] = [_value_with_reading(*pair) for pair in zip(raw[name], shown[name], strict=True)]
    not_explained = count_of(n - len(numbers), "more row")
    more = [f"not explained: {not_explained}; name rows with --row, or raise --first"]
    return replace(explanation, values=shown), [*new.notes, *(more if not rows and n > len(numbers) else [])]


def explain_held_out(table: Table, method: BaseEstimator, *, test_size: float = 0.3, seed: int = 0) -> Explanation:
    """Fit a method to the training rows of the first split of a table, and explain up to 30 of its held-out rows.

    Raise if the method is not a classifier of genlabel, or the table is too small.

    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> explanation = explain_held_out(load_table("iris"), GenerativeClassifier())
    >>> explanation.mean_absolute.round(1).tolist()
    [0.0, 0.0, 0.3, 0.3]
    """
    classifier_of(method)
    train, test = make_splits(table, 1, test_size, seed)[0]
    training = select_rows(table, np.isin(np.arange(len(table.y)), train))
    fitted = fit_table(training, method, test_size=0, seed=seed)
    rows = np.random.default_rng(seed).permutation(test)[:MAX_HELD_OUT]
    return explain(
        fitted.model,
        table.X.iloc[rows],
        training.X,
        training.y,
        groups=_file_columns(fitted.read_spec),
        n_background=HELD_OUT_BACKGROUND,
        n_permutations=HELD_OUT_PERMUTATIONS,
        random_state=seed,
    )


def _file_columns(spec: TableReadSpec) -> dict[str, list[str]]:
    """Return the features of each column of a file that makes others than itself, such as parts of a date."""
    used = {column.name: [name for name in column.features if name in spec.features] for column in spec.columns}
    return {name: features for name, features in used.items() if features != [name]}


def _value_with_reading(raw: Any, value: Any) -> Any:
    """Return a value as it is written in the file, and as it was read if that is not the same.

    >>> [_value_with_reading("1.5", 1.5), _value_with_reading("1.234,5", 1234.5), _value_with_reading("?", None)]
    ['1.5', '1.234,5 = 1234.5', '? = (missing)']
    """
    text = str(raw).strip()
    if pd.isna(raw) or not text:
        return raw
    if pd.isna(value):
        return raw if text in (*MACHINE_NA, *NA_WORDS) else f"{text} = (missing)"
    if isinstance(value, date):
        return raw if text.startswith(str(value)) else f"{text} = {value}"
    if isinstance(value, float) and pd.to_numeric(text, errors="coerce") != value and text.lower() not in TRUTH_VALUES:
        return f"{text} = {value:.10g}"
    return raw
