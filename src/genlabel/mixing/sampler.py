"""Base class of samplers: `fit_resample(X, y)` returns the given rows, then synthetic rows with their provenance."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
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


class Sampler(OneToOneFeatureMixin, BaseEstimator, ABC):
    """Base class of samplers that add points with soft labels, in imbalanced-learn's convention.

    It passes the checks of imbalanced-learn, and works in its pipelines. Its tags refuse sparse tables, missing values
    and strings. There is no `sampling_strategy`: the class of a mixed point follows from its soft label, so the number
    of points is a parameter, and the numbers of each class are a result. A subclass defines `_synthesize`, which
    returns points, soft labels, the pair of classes that each point lies between, and the weight of the second one. It
    has the parameters `output` and `random_state`.

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
    sampling_strategy_ : dict
        Number of synthetic rows of each class; with output="soft", of the classes drawn in proportion to the labels.
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
    >>> Midpoint().fit_resample([[0.0], [2.0], [5.0], [7.0]], ["a", "a", "b", "b"])[0]
    [[0.0], [2.0], [5.0], [7.0], [3.5]]
    """

    output: str
    random_state: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Call :meth:`fit_resample` for the fitted attributes, as pipelines and scikit-learn's tools do."""
        self.fit_resample(X, y)
        return self

    @final
    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows of `X` (n, d) and `y` (n,), followed by synthetic rows; a call that fails changes nothing.

        With output="hard", the class of a synthetic row is drawn in proportion to its soft label. With "soft", the
        returned y is a matrix (m, k) with columns in the order of `classes_`. With "weighted", each synthetic point is
        repeated for every class in its label (with weight above 1e-6), and `sample_weight_` holds the weights. `y` may
        also be a column (n, 1) or one-hot (n, k). A DataFrame, Series or list is returned as one, one-hot labels as
        one-hot labels; integer columns become floating.
        """
        check_choice("output", self.output, ["hard", "soft", "weighted"])
        X = check_frame(X, numbers=True)
        labels = _read_labels(y)
        check_labels(labels)
        dtypes = X.dtypes.to_dict() if isinstance(X, pd.DataFrame) else {}
        sparse = {name: dtype.subtype for name, dtype in dtypes.items() if isinstance(dtype, pd.SparseDtype)}
        dense = X.astype(sparse) if sparse else X
        rng = as_rng(self.random_state)
        with restore_on_error(self), deduplicate_warnings():
            with ignore_overflow():
                points, target = validate_data(self, dense, labels, dtype=np.float64, order="C", ensure_min_samples=2)
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
        """Return the tags; imbalanced-learn's, which has more of them, once it is imported."""
        imblearn = sys.modules.get("imblearn.base")
        tags = super().__sklearn_tags__() if imblearn is None else imblearn.BaseSampler.__sklearn_tags__(self)
        tags.estimator_type = "sampler"
        tags.input_tags.sparse = False
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
        counts = np.bincount(classes, minlength=len(self.classes_))
        self.sampling_strategy_ = dict(zip(self.classes_.tolist(), counts.tolist(), strict=True))
        if self.output == "weighted":
            self.sample_weight_ = np.concatenate([np.ones(n), made.labels[rows, classes]])
        if self.output == "soft":
            soft = np.concatenate([np.eye(len(self.classes_))[index], made.labels])
            return _append_points(X, points), _as_given(soft, y, self.classes_)
        return _append_points(X, points), _append_labels(y, self.classes_[classes])


def _read_labels(y: Any) -> Any:
    """Return the labels (n,) of a target: of a column (n, 1) its values, of a one-hot matrix the column indices."""
    matrix = np.asarray(y)
    if matrix.ndim != 2:
        return y
    if matrix.shape[1] == 1:
        return matrix[:, 0]
    is_one_hot = matrix.dtype.kind in "biuf" and bool(np.isin(matrix, [0, 1]).all() and (matrix.sum(1) == 1).all())
    if not is_one_hot:
        raise ValueError(f"y has shape {matrix.shape}; expected one label a row, (n,), or a one-hot matrix")
    return matrix.argmax(1)


def _as_given(matrix: NDArray[Any], given: Any, columns: Any) -> Any:
    """Return a matrix as a frame, a list or an array, as it was given."""
    if isinstance(given, pd.DataFrame | pd.Series):
        return pd.DataFrame(matrix, columns=columns)
    return matrix.tolist() if isinstance(given, list) else matrix


def _append_labels(y: Any, labels: NDArray[Any]) -> Any:
    """Return the labels `y`, then those of synthetic rows (s,), in the form of `y`."""
    if isinstance(y, pd.Series):
        return pd.concat([y, pd.Series(labels, name=y.name).astype(y.dtype)], ignore_index=True)
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        return _append_labels(y.iloc[:, 0], labels).to_frame()
    given = np.asarray(y)
    if given.ndim == 2 and given.shape[1] > 1:
        one_hot = np.eye(given.shape[1])[labels].astype(given.dtype)
        return _as_given(np.concatenate([given, one_hot]), y, getattr(y, "columns", None))
    joined = np.concatenate([given.ravel(), labels.astype(given.dtype)])
    return _as_given(joined.reshape(-1, *given.shape[1:]), y, None)


def _append_points(X: Any, points: NDArray[np.float64]) -> Any:
    """Return the rows of `X`, then the points, in the form of `X`; floating dtypes that can hold them are kept."""
    if isinstance(X, pd.DataFrame):
        dtypes = {name: dtype for j, (name, dtype) in enumerate(X.dtypes.items()) if _can_hold(dtype, points[:, j])}
        converted = X.astype({name: dtypes.get(name, np.float64) for name in X.columns})
        synthetic = pd.DataFrame(points, columns=X.columns).astype(dtypes)
        return pd.concat([converted, synthetic], ignore_index=True)
    given = np.asarray(X)
    dtype = given.dtype if _can_hold(given.dtype, points) else np.dtype(np.float64)
    return _as_given(np.concatenate([given.astype(dtype), points.astype(dtype)]), X, None)


def resolve_n_aug(n_aug: Any, n: int) -> int:
    """Return the number of points to add: `n_aug` is a fraction of the `n` rows (float) or a number (int)."""
    if isinstance(n_aug, Integral):
        return check_count("n_aug", n_aug)
    fraction = check_positive("n_aug", n_aug, "a float is a fraction of the rows (1.0 doubles them), an int a number")
    return max(1, round(fraction * n))


def _can_hold(dtype: Any, points: NDArray[np.float64]) -> bool:
    """Return True for a floating dtype, also of sparse columns, whose range covers the points."""
    if getattr(dtype, "kind", "") != "f":
        return False
    floating = getattr(dtype, "subtype", getattr(dtype, "numpy_dtype", dtype))
    return bool(np.abs(points).max(initial=0.0) <= float(np.finfo(floating).max))
