"""Validation of the input of `fit`: features, class indices, weights and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from genlabel._standardization import Standardization
from genlabel._validation import check_frame, check_magnitude, check_weights, ignore_overflow
from genlabel.estimators.encoding import FrameEncoder, NumericEncoder, TabularEncoder, has_mixed_types
from genlabel.model_selection.splits import LabeledData


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
    check_frame(X)
    with ignore_overflow():
        encoder, points, target, weight = _encode_table(estimator, X, y, sample_weight)
    check_magnitude(float(np.abs(points).max()))
    check_classification_targets(target)
    n_rows = len(points)
    rows = np.arange(n_rows)
    if weight is not None:
        rows = np.flatnonzero(weight)
        points, target, weight = points[rows], target[rows], weight[rows]
        weight = None if (weight == 1).all() else weight
    classes, index = np.unique(target, return_inverse=True)
    _check_classes(estimator, classes, np.bincount(index), smallest_class)
    if not Standardization.fit(points, weight).keep.any():
        raise ValueError(f"all {points.shape[1]} features are constant; give at least one that varies")
    tilt = _check_class_weight(class_weight, classes, target, weight)
    data = LabeledData(points, index, classes, weight, rows, n_rows, tilt, _check_groups(groups, rows, n_rows))
    return data, encoder


def _encode_table(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any
) -> tuple[TabularEncoder, NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]:
    """Return an encoder that is fitted to the rows of positive weight; values, labels and weights of all rows."""
    if has_mixed_types(X):
        validate_data(estimator, X, skip_check_array=True)
        weight = _check_sample_weight(sample_weight, len(X))
        frame_encoder = FrameEncoder.fit(X if weight is None else X[weight > 0])
        return frame_encoder, *frame_encoder.check_training_data(estimator, X, y), weight
    points, target = validate_data(
        estimator, X, y, dtype=np.float64, order="C", ensure_min_samples=2, ensure_all_finite="allow-nan"
    )
    weight = _check_sample_weight(sample_weight, len(points))
    encoder = NumericEncoder.fit(points if weight is None else points[weight > 0])
    return encoder, encoder.impute(points), target, weight


def _check_groups(groups: Any, rows: NDArray[np.int64], n_rows: int) -> NDArray[np.intp] | None:
    """Return the group numbers of some rows; a row whose group is missing is a group of its own."""
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.shape != (n_rows,):
        raise ValueError(f"groups has shape {given.shape}; expected ({n_rows},), one group for each row of X")
    number = pd.factorize(given)[0].astype(np.intp)
    alone = number < 0
    number[alone] = number.max() + 1 + np.arange(alone.sum())
    return number[rows]


def _check_classes(estimator: BaseEstimator, classes: NDArray[Any], counts: NDArray[np.int64], smallest: int) -> None:
    name = type(estimator).__name__
    if len(classes) < 2:
        raise ValueError(f"{name} needs at least 2 classes; y has one class, {classes.tolist()[0]!r}")
    if counts.min() < smallest:
        alone = classes[counts < smallest].tolist()
        raise ValueError(
            f"{name} needs at least {smallest} samples of each class; only one sample has class {alone[0]!r}"
            + (f" (and so for {len(alone) - 1} more)" if len(alone) > 1 else "")
            + "; drop those rows or merge them into another class"
        )


def _check_sample_weight(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    weight = np.ones(n) if sample_weight is None else check_weights(sample_weight, n)
    return None if (weight == 1).all() else weight


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
