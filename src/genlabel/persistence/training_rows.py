"""Sample of the training rows of a model, which a saved model may keep for explanations of its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._arrays import as_rng
from genlabel.data.tables.columns import to_float
from genlabel.persistence.schema import Schema

MAX_ROWS = 500
"""Largest number of training rows that a saved model keeps, before those that small classes add."""
MIN_CLASS_ROWS = 5
"""Rows of a class, as far as it has them, that are always in a sample."""


class TrainingRows(NamedTuple):
    """Training rows with their classes, in random order; the rows that small classes add come last."""

    X: pd.DataFrame
    """Columns that the model uses; the index has the labels of the rows in the training table."""
    y: NDArray[Any]
    """(n,)"""

    @classmethod
    def draw(cls, schema: Schema, X: Any, y: Any, max_rows: int | None = MAX_ROWS, random_state: Any = 0) -> Self:
        """Return at most `max_rows` rows of training data, drawn at random, and at least 5 rows of each class.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> rows = TrainingRows.draw(Schema.of(GenerativeClassifier().fit(X, y)), X, y, max_rows=2)
        >>> rows.X.shape, np.unique(rows.y, return_counts=True)[1].tolist()
        ((15, 4), [5, 5, 5])
        """
        frame, labels = schema.to_frame(X), np.asarray(y)
        n = len(frame)
        if labels.shape != (n,):
            raise ValueError(f"y has shape {labels.shape}; expected ({n},), one label for each row of X")
        order = as_rng(random_state).permutation(n)
        nth_of_class = pd.Series(labels[order]).groupby(labels[order]).cumcount().to_numpy()
        is_drawn = np.arange(n) < (n if max_rows is None else max_rows)
        rows = order[is_drawn | (nth_of_class < MIN_CLASS_ROWS)]
        return cls(frame.iloc[rows], labels[rows])

    def to_plain(self, schema: Schema) -> dict[str, Any]:
        """Return arrays and strings; numbers and booleans become float64, other values strings, as for the model."""
        columns: dict[str, Any] = {}
        kinds = {column.name: column.kind for column in schema.columns}
        for name, values in self.X.items():
            if kinds[str(name)] == "numbers":
                columns[str(name)] = to_float(values).to_numpy()
            else:
                strings = values.astype(object).map(str, na_action="ignore")
                columns[str(name)] = strings.where(values.notna(), None).to_numpy(object)
        index = self.X.index.to_numpy()
        return {"X": columns, "y": self.y, "index": index if index.dtype.kind in "iu" else index.astype(str)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the rows that :meth:`to_plain` has turned into arrays and strings."""
        X, y = pd.DataFrame(plain["X"], index=plain["index"]), plain["y"]
        if len(X) != len(y):
            raise ValueError(f"there are {len(X)} training rows, but {len(y)} classes")
        return cls(X, y)
