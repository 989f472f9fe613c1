"""Encoders of tables: missing values imputed, strings and categories as columns of numbers."""

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
    """Base class of encoders: learned from training rows, applied to rows with the same columns."""

    @abstractmethod
    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """Return rows as finite values (m, d); raise unless they have the features of the fitted estimator."""


@final
class NumericEncoder(TabularEncoder):
    """Encoder of a numeric table: missing values are replaced by the median of their column.

    >>> NumericEncoder.fit(np.array([[1.0, np.nan], [2.0, np.nan], [9.0, np.nan]])).medians
    array([2., 0.])
    """

    def __init__(self, medians: NDArray[np.float64]) -> None:
        self.medians = medians

    @classmethod
    def fit(cls, X: NDArray[np.float64]) -> Self:
        """Learn the medians of training rows (n, d); a column without values has median 0."""
        known = (column[~np.isnan(column)] for column in np.asarray(X, dtype=np.float64).T)
        return cls(np.array([np.median(values) if len(values) else 0.0 for values in known]))

    def impute(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows without missing values."""
        missing = np.isnan(X)
        return np.where(missing, self.medians, X) if missing.any() else X

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """Return the imputed rows of an array, or of a numeric DataFrame."""
        check_frame(X)
        with ignore_overflow():
            options = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
            return self.impute(validate_data(estimator, X, reset=False, **options))


@final
class FrameEncoder(TabularEncoder):
    """Encoder of a DataFrame with columns of strings, categories or nullable numbers, as by :func:`table_pipeline`.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> FrameEncoder.fit(X).columns.transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, names: list[Any], columns: Any) -> None:
        self.names, self.columns = names, columns

    @classmethod
    def fit(cls, X: pd.DataFrame) -> Self:
        """Learn the columns of training rows; dates, identifiers and columns without values are left out."""
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

    def check_training_data(
        self, estimator: BaseEstimator, X: pd.DataFrame, y: Any
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return the values and the labels of all training rows, checked."""
        return check_X_y(self._transform(X), y, dtype=np.float64, ensure_min_samples=2, estimator=estimator)

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """Return the encoded rows of a DataFrame; an unseen category counts as a rare one, or as none."""
        if not isinstance(X, pd.DataFrame):
            name, kind = type(estimator).__name__, type(X).__name__
            raise ValueError(
                f"{name} was fitted to a DataFrame with strings or categories, but X is {kind}; pass a DataFrame"
            )
        check_frame(X)
        validate_data(estimator, X, reset=False, skip_check_array=True)
        points = self._transform(X)
        if not np.isfinite(points).all():
            raise ValueError("X contains infinity; make these values missing (NaN) or finite")
        return points

    def _transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        with clear_unicode_errors():
            return np.asarray(self.columns.transform(X[self.names]), dtype=np.float64, order="C")


def has_mixed_types(X: Any) -> bool:
    """Tell whether `X` is a DataFrame with columns other than plain numbers or booleans.

    >>> has_mixed_types(pd.DataFrame({"a": [1.0, 2.0]})), has_mixed_types(pd.DataFrame({"a": ["x", "y"]}))
    (False, True)
    """
    numeric = (isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in getattr(X, "dtypes", ()))
    return isinstance(X, pd.DataFrame) and not all(numeric)
