"""Columns of a table as baselines take them: numbers only, or numbers and pandas categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from genlabel.data.tables.columns import as_floats, as_strings, kind_of
from genlabel_paper.benchmark.baselines import Columns

MAX_NATIVE_CATEGORIES = 254
"""Most frequent categories of a column that stay apart; scikit-learn's boosting takes 255, with that of all others."""


def make_transformer(columns: Columns, X: Any) -> Any:
    """Return the transformer of the columns X (n, d) of a baseline; "one-hot" and "scaled" need numbers.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> make_transformer("native", X).fit_transform(X)["f1"].tolist()
    [2, 1, 0]
    """
    if columns == "one-hot":
        return FunctionTransformer(np.asarray)
    if columns == "scaled":
        return StandardScaler()
    X = pd.DataFrame(X)
    return CategoryColumns([kind_of(X.iloc[:, i]) for i in range(X.shape[1])], columns)


@final
class CategoryColumns(TransformerMixin, BaseEstimator):
    """Turn text columns into pandas categories, and numbers into float64.

    A missing string is a category; rare categories and those that were not in the training rows share the category -1.
    Dates and times are left out.

    Parameters
    ----------
    kinds : sequence of str (d,)
        Kind of each column: "numbers", "text" or "time".
    output : "native" or "imputed"
        A missing number is NaN, or the median.

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> columns = CategoryColumns(["numbers", "text"], "imputed").fit(X)
    >>> columns.transform(pd.DataFrame({"size": [None], "color": ["green"]})).values.tolist()
    [[2.0, -1.0]]
    """

    def __init__(self, kinds: Sequence[str], output: str = "native") -> None:
        self.kinds = kinds
        self.output = output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the categories of the text columns of X (n, d), and the medians of the numbers."""
        self.categories_: dict[int, list[str]] = {}
        self.medians_: dict[int, float] = {}
        for i, column in self._columns(X):
            if self.kinds[i] == "numbers":
                self.medians_[i] = float(np.nan_to_num(column.median()))
            else:
                self.categories_[i] = sorted(column.value_counts().index[:MAX_NATIVE_CATEGORIES])
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the columns as f0, f1, ..., without those of dates and times."""
        result: dict[str, Any] = {}
        for i, column in self._columns(X):
            if self.kinds[i] == "numbers":
                result[f"f{i}"] = column.fillna(self.medians_[i]) if self.output == "imputed" else column
                continue
            codes = pd.Index(self.categories_[i]).get_indexer(pd.Index(column))
            result[f"f{i}"] = pd.Categorical(codes, np.arange(-1, len(self.categories_[i])))
        return pd.DataFrame(result)

    @property
    def category_names_(self) -> tuple[str, ...]:
        """Names of the text columns in the output."""
        return tuple(f"f{i}" for i in self.categories_)

    def _columns(self, X: Any) -> list[tuple[int, pd.Series[Any]]]:
        """Return the position and the values of each column of numbers or text."""
        convert = {"numbers": as_floats, "text": as_strings}
        table = pd.DataFrame(X).reset_index(drop=True)
        used = [(i, convert[kind]) for i, kind in enumerate(self.kinds) if kind in convert]
        return [(i, function(table.iloc[:, [i]]).iloc[:, 0]) for i, function in used]
