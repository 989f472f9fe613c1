"""Base class of samplers: `fit_resample(X, y)` returns the given rows, then synthetic rows with their provenance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from genlabel._arrays import as_rng
from genlabel._validation import (
    check_choice,
    check_count,
    check_frame,
    check_labels,
    check_magnitude,
    check_positive,
    deduplicate_warnings,
    ignore_overflow,
    restore_on_error,
)

MIN_WEIGHT = 1e-6
"""Weight in a soft label up to which a class gets no row with output="weighted"."""


class Synthetic(NamedTuple):
    """Synthetic points (s, d) with soft labels (s, k): what `Sampler._synthesize` returns."""

    points: NDArray[np.float64]
    labels: NDArray[np.float64]
    pair: NDArray[np.int64]
    """Indices of the two classes that each point lies between, (s, 2)."""
    lam: NDArray[np.float64]
    """Weight of the second class of the pair, (s,)."""
    parents: NDArray[np.int64] | None = None
    """Rows that each point is a blend of, (s, 2); None if it is no blend."""

    def select(self, rows: Any) -> Synthetic:
        """Return the points of some rows."""
        fields: Any = (None if field is None else field[rows] for field in self)
        return Synthetic(*fields)

    @classmethod
    def concatenate(cls, parts: Sequence[Synthetic]) -> Synthetic:
        """Return the points of several objects, one after the other."""
        fields: Any = (None if field[0] is None else np.concatenate(field) for field in zip(*parts, strict=True))
        return cls(*fields)


class Sampler(BaseEstimator, ABC):
    """Base class of samplers that add points with soft labels, in imbalanced-learn's convention.

    A subclass defines `_synthesize`, which returns points, soft labels, the pair of classes that each point lies
    between, and the weight of the second one. It has the parameters `output` and `random_state`.

    Attributes
    ----------
    classes_ : ndarray (k,)
        Classes, sorted.
    is_synthetic_ : ndarray of bool (m,)
        Mask of the synthetic rows of the result; the first n rows are the given ones, in their order.
    pair_ : ndarray of int (s, 2)
        Indices into `classes_` of the two classes that each synthetic row lies between.
    lam_ : ndarray (s,)
        Weight of the second class of the pair, for each synthetic row.
    parents_ : ndarray of int (s, 2) or None
        Rows of `X` that each synthetic row is a blend of, if it is one.
    sample_weight_ : ndarray (m,)
        Weight of each row of the result, with output="weighted".
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> class Midpoint(Sampler):  # one point, halfway between the means of two classes
    ...     def __init__(self, output="soft", random_state=None):
    ...         self.output, self.random_state = output, random_state
    ...     def _synthesize(self, X, index, rng):
    ...         point = (X[index == 0].mean(0) + X[index == 1].mean(0)) / 2
    ...         return point[None], np.array([[0.5, 0.5]]), np.array([[0, 1]]), np.array([0.5])
    >>> X, y = Midpoint().fit_resample([[0.0], [2.0], [5.0], [7.0]], ["a", "a", "b", "b"])
    >>> X.ravel().tolist(), y[-2:].tolist()
    ([0.0, 2.0, 5.0, 7.0, 3.5], [[0.0, 1.0], [0.5, 0.5]])
    """

    output: str
    random_state: Any

    @final
    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows of `X` (n, d) and `y` (n,), followed by synthetic rows; a call that fails changes nothing.

        With output="hard", the class of a synthetic row is drawn in proportion to its soft label. With "soft", the
        returned y is a matrix (m, k) with columns in the order of `classes_`. With "weighted", each synthetic point is
        repeated for every class in its label (with weight above 1e-6), and `sample_weight_` holds the weights. A
        DataFrame or Series is returned as one; integer columns become floating.
        """
        check_choice("output", self.output, ["hard", "soft", "weighted"])
        X = check_frame(X, numbers=True)
        check_labels(y)
        rng = as_rng(self.random_state)
        with restore_on_error(self), deduplicate_warnings():
            with ignore_overflow():
                points, target = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
            check_classification_targets(target)
            check_magnitude(float(np.abs(points).max()))
            self.classes_, index = np.unique(target, return_inverse=True)
            name, counts = type(self).__name__, np.bincount(index)
            if len(counts) < 2:
                raise ValueError(f"{name} needs at least 2 classes; y has only class {self.classes_.tolist()[0]!r}")
            if counts.min() < 2:
                rare = self.classes_[counts < 2].tolist()
                which = f"{len(rare)} of {len(counts)} classes have one, such as {rare[0]!r}"
                raise ValueError(f"{name} needs at least 2 samples per class; {which}; drop or merge these classes")
            return self._append(X, y, index, Synthetic(*self._synthesize(points, index, rng)), rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _synthesize(
        self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator
    ) -> Synthetic | tuple[Any, ...]:
        """Make points from the rows `X` (n, d) with class indices `index` (n,) into `classes_`; see `Synthetic`."""

    def _append(
        self, X: Any, y: Any, index: NDArray[np.int64], made: Synthetic, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Set the fitted attributes and return the joined rows and labels."""
        if self.output == "weighted":
            rows, classes = (made.labels > MIN_WEIGHT).nonzero()
        else:
            draws = rng.random((len(made.points), 1))
            classes = (made.labels.cumsum(1) < draws * made.labels.sum(1, keepdims=True)).sum(1)
            rows = np.arange(len(classes))
        n = len(index)
        self.is_synthetic_ = np.arange(n + len(rows)) >= n
        points, _, self.pair_, self.lam_, self.parents_ = made.select(rows)
        if self.output == "weighted":
            self.sample_weight_ = np.concatenate([np.ones(n), made.labels[rows, classes]])
        is_series, labels = isinstance(y, pd.Series), self.classes_[classes]
        if self.output == "soft":
            result: Any = np.concatenate([np.eye(len(self.classes_))[index], made.labels])
            result = pd.DataFrame(result, columns=self.classes_) if is_series else result
        elif is_series:
            result = pd.concat([y, pd.Series(labels, name=y.name).astype(y.dtype)], ignore_index=True)
        else:
            given = np.asarray(y).ravel()
            result = np.concatenate([given, labels.astype(given.dtype)])
        return _append_points(X, points), result


def _append_points(X: Any, points: NDArray[np.float64]) -> Any:
    """Return the rows of `X`, then the points, as a frame or an array; floating dtypes that can hold them are kept."""
    if isinstance(X, pd.DataFrame):
        dtypes = {name: dtype for j, (name, dtype) in enumerate(X.dtypes.items()) if _can_hold(dtype, points[:, j])}
        converted = X.astype({name: dtypes.get(name, np.float64) for name in X.columns})
        synthetic = pd.DataFrame(points, columns=X.columns).astype(dtypes)
        return pd.concat([converted, synthetic], ignore_index=True)
    dtype = np.asarray(X).dtype
    dtype = dtype if _can_hold(dtype, points) else np.dtype(np.float64)
    return np.concatenate([np.asarray(X).astype(dtype), points.astype(dtype)])


def resolve_n_aug(n_aug: Any, n: int) -> int:
    """Return the number of points to add: `n_aug` is a fraction of the `n` rows (float) or a number (int)."""
    if isinstance(n_aug, Integral):
        return check_count("n_aug", n_aug)
    fraction = check_positive("n_aug", n_aug, "a float is a fraction of the rows (1.0 doubles them), an int a number")
    return max(1, round(fraction * n))


def _can_hold(dtype: Any, points: NDArray[np.float64]) -> bool:
    """Return True for a floating dtype whose range covers the points."""
    if getattr(dtype, "kind", "") != "f":
        return False
    largest = float(np.finfo(getattr(dtype, "numpy_dtype", dtype)).max)
    return bool(np.abs(points).max(initial=0.0) <= largest)
