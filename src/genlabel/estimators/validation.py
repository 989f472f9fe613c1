"""Validation of the input of `fit`: tables encoded as numbers, class indices, weights and groups."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y, validate_data

from genlabel._arrays import Standardization
from genlabel._validation import (
    check_frame,
    check_labels,
    check_magnitude,
    check_weights,
    ignore_overflow,
    warn,
)
from genlabel.data.tables import table_pipeline
from genlabel.data.tables.columns import clear_unicode_errors, why_not_a_feature
from genlabel.data.tables.table import EncodedColumn, encoded_columns
from genlabel.model_selection.splits import LabeledData


@final
class NumericEncoder:
    """Encoder of a numeric table: missing values are replaced by the median of their column."""

    def __init__(self, medians: NDArray[np.float64], minimum: Any = -np.inf, maximum: Any = np.inf) -> None:
        self.medians, self.minimum, self.maximum = medians, minimum, maximum

    @classmethod
    def fit(cls, X: NDArray[np.float64]) -> Self:
        """Learn the medians of training rows (n, d); a column without values has median 0."""
        medians, has_values = np.zeros(X.shape[1]), ~np.isnan(X).all(0)
        medians[has_values] = np.nanmedian(
            X[:, has_values], axis=0
        )  # pandas' changes the warning filters of all threads
        return cls(medians)

    def table_columns(self, estimator: BaseEstimator) -> list[EncodedColumn]:
        """Return the columns of the table, named by their position if they have no names."""
        names = getattr(estimator, "feature_names_in_", range(len(self.medians)))
        return [EncodedColumn(name, "numbers", range(i, i + 1)) for i, name in enumerate(names)]

    def impute(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows without missing values."""
        missing = np.isnan(X)
        return np.where(missing, self.medians, X) if missing.any() else X

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """Return the imputed rows of an array, or of a numeric DataFrame."""
        X = check_frame(X)
        with ignore_overflow():
            options = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
            return self.impute(validate_data(estimator, X, reset=False, **options))


@final
class FrameEncoder:
    """Encoder of a DataFrame with columns of strings, categories or nullable numbers, as by :func:`table_pipeline`."""

    def __init__(self, names: list[Any], columns: Any, minimum: Any = -np.inf, maximum: Any = np.inf) -> None:
        self.names, self.columns, self.minimum, self.maximum = names, columns, minimum, maximum

    @classmethod
    def fit(cls, X: pd.DataFrame) -> Self:
        """Learn from training rows how columns are encoded; dates, identifiers and empty columns are left out."""
        with clear_unicode_errors():
            reasons = {name: why_not_a_feature(X[name]) for name in X.columns}
            if all(reasons.values()):
                listed = "; ".join(f"{name!r}: {reason}" for name, reason in reasons.items())
                raise ValueError(f"no column of X is a feature: {listed}")
            for name, reason in reasons.items():
                if reason:
                    warn(("column", name), f"column {name!r} is left out: {reason}", UserWarning)
            used = X[[name for name, reason in reasons.items() if not reason]]
            return cls(used.columns.tolist(), table_pipeline(used, "passthrough")[:-1].fit(used))

    def table_columns(self, estimator: BaseEstimator) -> list[EncodedColumn]:
        """Return the columns of the table that are used, with their features."""
        columns = encoded_columns(self.columns[0])
        return [c if isinstance(c.name, str) else c._replace(name=self.names[c.name]) for c in columns]

    def transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Return the encoded rows, which may have infinite values."""
        with clear_unicode_errors():
            return np.asarray(self.columns.transform(X[self.names]), dtype=np.float64, order="C")

    def __call__(self, estimator: BaseEstimator, X: Any) -> NDArray[np.float64]:
        """Return the encoded rows of a DataFrame; an unseen category is encoded as a rare one, or as none."""
        X = check_frame(X)
        if not isinstance(X, pd.DataFrame):
            raise ValueError(
                f"X is {type(X).__name__}, but {type(estimator).__name__} was fitted to a DataFrame with strings or "
                "categories; pass a DataFrame"
            )
        validate_data(estimator, X, reset=False, skip_check_array=True)
        points = self.transform(X)
        if not np.isfinite(points).all():
            raise ValueError("X contains infinity; make these values missing (NaN) or finite")
        return points


TabularEncoder = NumericEncoder | FrameEncoder
"""Encoder of a table; it is learned from training rows, and called with the estimator and rows of the same columns.

Its `minimum` and `maximum` (d,) are the ranges of the features in training; infinite in models of genlabel 0.2.0."""


def validate_fit_input(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    smallest_class: int = 2,
    groups: Any = None,
) -> tuple[LabeledData, TabularEncoder]:
    """Return the checked input of `fit`, without rows of weight zero, and the encoder of its table."""
    X = check_frame(X)
    check_labels(y)
    encoder: TabularEncoder
    dtypes: Any = X.dtypes if isinstance(X, pd.DataFrame) else []
    with ignore_overflow():
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes):
            options = {"dtype": np.float64, "order": "C", "ensure_min_samples": 2, "ensure_all_finite": "allow-nan"}
            points, target = validate_data(estimator, X, y, **options)
            weight = check_weights(1.0 if sample_weight is None else sample_weight, len(points))
            used = points if weight.all() else points[weight > 0]
            names = getattr(estimator, "feature_names_in_", range(points.shape[1]))
            for name in (name for name, empty in zip(names, np.isnan(used).all(0), strict=True) if empty):
                warn(("column", name), f"column {name!r} is left out: it has no values", UserWarning)
            encoder = NumericEncoder.fit(used)
            points = encoder.impute(points)
        else:
            validate_data(estimator, X, skip_check_array=True)
            weight = check_weights(1.0 if sample_weight is None else sample_weight, len(X))
            encoder = FrameEncoder.fit(X if weight.all() else X[weight > 0])
            points = encoder.transform(X)
            points, target = check_X_y(points, y, dtype=np.float64, ensure_min_samples=2, estimator=estimator)
    check_magnitude(float(np.abs(points).max()))
    check_classification_targets(target)
    n_rows, rows = len(points), np.flatnonzero(weight)
    if len(rows) < n_rows:
        points, target, weight = points[rows], target[rows], weight[rows]
    encoder.minimum, encoder.maximum = points.min(0), points.max(0)
    classes, index = np.unique(target, return_inverse=True)
    name, counts = type(estimator).__name__, np.bincount(index)
    if len(classes) < 2:
        raise ValueError(f"{name} needs at least 2 classes; y has one class, {classes.tolist()[0]!r}")
    if counts.min() < smallest_class:
        raise ValueError(
            f"{name} needs at least {smallest_class} samples of each class; {classes.tolist()[counts.argmin()]!r} has "
            f"{counts.min()}; drop those rows or merge them into another class"
        )
    weights = None if (weight == 1).all() else weight
    if not Standardization.fit(points, weights).mask.any():
        raise ValueError(f"all {points.shape[1]} features are constant; give at least one that varies")
    group_number: NDArray[np.intp] | None = None
    if groups is not None:
        values = np.asarray(groups)
        if values.shape != (n_rows,):
            raise ValueError(f"groups has shape {values.shape}; expected ({n_rows},), one group for each row of X")
        group_number = pd.factorize(values)[0].astype(np.intp)
        missing = group_number < 0  # each of these rows is a group of its own
        group_number[missing] = group_number.max() + 1 + np.arange(missing.sum())
        group_number = group_number[rows]
    weight_of_class = _check_class_weight(class_weight, classes, target, weights)
    return LabeledData(points, index, classes, weights, rows, n_rows, weight_of_class, group_number), encoder


def _check_class_weight(
    class_weight: Any, classes: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Return class weights (k,) of mean 1 over the rows."""
    if class_weight is None:
        return None
    index = np.searchsorted(classes, target)
    if isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(index, weights=weight)
        per_class = mass.sum() / (len(classes) * mass)
    else:
        per_class = np.asarray(compute_class_weight(class_weight, classes=classes, y=target), dtype=np.float64)
    mean = np.average(per_class[index], weights=weight)
    if not np.isfinite(per_class).all() or (per_class < 0).any() or mean <= 0:
        raise ValueError(f"class_weight={class_weight!r} must give finite, non-negative numbers, not all zero")
    return per_class / mean
