"""What makes numbers of the table that a user hands in: missing ones are filled in, texts become columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_X_y, validate_data

from genlabel._validation import check_frame, ignore_overflow, warn
from genlabel.data.tables import table_pipeline
from genlabel.data.tables.columns import clear_unicode_errors, why_not_a_feature


class TabularEncoder(ABC):
    """Knows a table from its training rows, and reads other rows of the same columns as numbers."""

    @abstractmethod
    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """The rows of `X` as finite numbers (m, d); raise unless they have the features that the estimator knows."""


@final
class Numbers(TabularEncoder):
    """A table of numbers, whose missing values are the medians of their columns.

    >>> Numbers.learn(np.array([[1.0, np.nan], [2.0, np.nan], [9.0, np.nan]])).medians
    array([2., 0.])
    """

    def __init__(self, medians: NDArray[np.float64]) -> None:
        self.medians = medians

    @classmethod
    def learn(cls, X: NDArray[np.float64]) -> Self:
        """From the rows (n, d) that are trained on; a column without values is 0."""
        known = (column[~np.isnan(column)] for column in np.asarray(X, dtype=np.float64).T)
        return cls(np.array([np.median(values) if len(values) else 0.0 for values in known]))

    def fill(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same rows without gaps."""
        gaps = np.isnan(X)
        return np.where(gaps, self.medians, X) if gaps.any() else X

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """The rows of an array, or of a frame of numbers."""
        check_frame(X)
        with ignore_overflow():
            read = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
            return self.fill(validate_data(estimator, X, reset=False, **read))


@final
class Columns(TabularEncoder):
    """A frame with columns of text, categories or nullable numbers, as :func:`genlabel.data.table_pipeline`
    has it.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
    >>> Columns.learn(X).columns.transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, names: list[Any], columns: Any) -> None:
        self.names, self.columns = names, columns

    @classmethod
    def learn(cls, X: pd.DataFrame) -> Self:
        """From the rows that are trained on; dates, identifiers and columns without values are left out."""
        with clear_unicode_errors():
            reasons = {name: why_not_a_feature(X[name]) for name in X.columns}
        if all(reasons.values()):
            raise ValueError(f"no column of X is a feature: {'; '.join(f'{k!r}: {v}' for k, v in reasons.items())}")
        for name, reason in reasons.items():
            if reason:
                warn(("column", name), f"column {name!r} is left out: {reason}", UserWarning)
        with clear_unicode_errors():
            used = X[[name for name, reason in reasons.items() if not reason]]
            return cls(used.columns.tolist(), table_pipeline(used, "passthrough")[:-1].fit(used))

    def fit_read(self, estimator: BaseEstimator, X: pd.DataFrame, y: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """The numbers of all rows, and their labels, checked."""
        return check_X_y(self._numbers(X), y, dtype=np.float64, ensure_min_samples=2, estimator=estimator)

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """The rows of a frame; a value that was not among the training rows is one of the rest, or none."""
        if not isinstance(X, pd.DataFrame):
            name, kind = type(estimator).__name__, type(X).__name__
            raise ValueError(f"{name} was fitted to a DataFrame with text or categories, but X is {kind}; pass a frame")
        check_frame(X)
        validate_data(estimator, X, reset=False, skip_check_array=True)
        points = self._numbers(X)
        if not np.isfinite(points).all():
            raise ValueError("X contains infinity; make these values missing (NaN) or finite")
        return points

    def _numbers(self, X: pd.DataFrame) -> NDArray[np.float64]:
        with clear_unicode_errors():
            return np.asarray(self.columns.transform(X[self.names]), dtype=np.float64, order="C")


def is_mixed(X: Any) -> bool:
    """Tell whether `X` is a frame with columns that are no plain numbers or booleans.

    >>> is_mixed(pd.DataFrame({"a": [1.0, 2.0]})), is_mixed(pd.DataFrame({"a": ["x", "y"]}))
    (False, True)
    """
    plain = (isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in getattr(X, "dtypes", ()))
    return isinstance(X, pd.DataFrame) and not all(plain)
