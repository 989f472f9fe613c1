"""What every sampler shares: `fit_resample(X, y)`, the given rows first, then synthetic ones with their provenance."""

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
    check_magnitude,
    check_positive,
    deduplicate_warnings,
    ignore_overflow,
    restore_on_error,
)

OUTPUTS = ("hard", "soft", "weighted")
LEAST_SHARE = 1e-6
"""A class with no more of a label than this has no weighted row."""


class Synthetic(NamedTuple):
    """Points that a sampler made, s of them, with soft labels over k classes.

    A :class:`Sampler` makes it in its one method; `fit_resample` puts it behind the given rows.
    """

    points: NDArray[np.float64]
    """(s, d)"""
    labels: NDArray[np.float64]
    """(s, k), rows on the simplex."""
    pair: NDArray[np.int64]
    """(s, 2): indices of the classes that each point lies between."""
    lam: NDArray[np.float64]
    """(s,): the weight of the second of the two."""
    parents: NDArray[np.int64] | None = None
    """(s, 2): the rows that each point is a blend of, where it is one."""

    def take(self, rows: Any) -> Synthetic:
        """Some of the points."""
        parents = None if self.parents is None else self.parents[rows]
        return Synthetic(self.points[rows], self.labels[rows], self.pair[rows], self.lam[rows], parents)

    @classmethod
    def join(cls, parts: Sequence[Synthetic]) -> Synthetic:
        """The points of several, one after the other."""
        points, labels, pair, lam, parents = zip(*parts, strict=True)
        joined = cls(*(np.concatenate(part) for part in (points, labels, pair, lam)))
        return joined._replace(parents=None if parents[0] is None else np.concatenate(parents))


class Sampler(BaseEstimator, ABC):
    """A way of making synthetic points with soft labels, in imbalanced-learn's convention.

    A subclass gives :meth:`_synthesize`, and parameters `output` and `random_state`.

    Attributes
    ----------
    classes_ : ndarray (k,)
        The classes, sorted.
    is_synthetic_ : ndarray of bool (m,)
        Which rows of the result are synthetic; the first n are the given ones, in their order.
    pair_ : ndarray of int (s, 2)
        For each synthetic row, the indices into `classes_` of the two classes that it lies between.
    lam_ : ndarray (s,)
        For each synthetic row, the weight of the second class of its pair.
    parents_ : ndarray of int (s, 2) or None
        For each synthetic row, the given rows of which it is a blend, if it is one.
    sample_weight_ : ndarray (m,)
        With output="weighted".
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> class Middle(Sampler):  # one point, half way between the means of two classes
    ...     def __init__(self, output="soft", random_state=None):
    ...         self.output, self.random_state = output, random_state
    ...     def _synthesize(self, X, index, rng):
    ...         middle = (X[index == 0].mean(0) + X[index == 1].mean(0)) / 2
    ...         return Synthetic(middle[None], np.array([[0.5, 0.5]]), np.array([[0, 1]]), np.array([0.5]))
    >>> X, y = Middle().fit_resample([[0.0], [2.0], [5.0], [7.0]], ["a", "a", "b", "b"])
    >>> X.ravel().tolist(), y[-2:].tolist()
    ([0.0, 2.0, 5.0, 7.0, 3.5], [[0.0, 1.0], [0.5, 0.5]])
    """

    output: str
    random_state: Any

    @final
    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows of `X` (n, d) and `y` (n,) with synthetic rows behind them. A failing call changes nothing.

        With output="hard", the class of a synthetic row is drawn in proportion to its soft label. With "soft", the
        result's y is a matrix (m, k), its columns in the order of `classes_`. With "weighted", each synthetic point is
        repeated for every class in its label (of a share above 1e-6), and `sample_weight_` holds the shares. A
        DataFrame or Series comes back as one; columns of whole numbers become floating.
        """
        check_choice("output", self.output, OUTPUTS)
        check_frame(X, numbers=True)
        rng = as_rng(self.random_state)
        with restore_on_error(self), deduplicate_warnings():
            with ignore_overflow():
                points, target = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
            check_classification_targets(target)
            check_magnitude(float(np.abs(points).max()))
            self.classes_, index = np.unique(target, return_inverse=True)
            self._check_classes(np.bincount(index))
            made = self._synthesize(points, index, rng)
            return self._put_together(X, y, index, made, rng)

    def __sklearn_tags__(self) -> Any:
        """That labels are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _synthesize(self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator) -> Synthetic:
        """Make points from the rows `X` (n, d) of the classes `index` (n,); `classes_` is known."""

    def _put_together(
        self, X: Any, y: Any, index: NDArray[np.int64], made: Synthetic, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        n, k = len(index), len(self.classes_)
        rows, columns = _rows(made, self.output, rng)
        weight = made.labels[rows, columns]
        self.is_synthetic_ = np.arange(n + len(rows)) >= n
        of_rows = made.take(rows)
        self.pair_, self.lam_, self.parents_ = of_rows.pair, of_rows.lam, of_rows.parents
        if self.output == "weighted":
            self.sample_weight_ = np.concatenate([np.ones(n), weight])
        if self.output == "soft":
            target = _like_matrix(np.concatenate([np.eye(k)[index], made.labels]), y, self.classes_)
        else:
            target = _append_labels(y, self.classes_[columns])
        return _append_points(X, made.points[rows]), target

    def _check_classes(self, counts: NDArray[np.int64]) -> None:
        name = type(self).__name__
        if len(counts) < 2:
            raise ValueError(f"{name} needs at least 2 classes to mix; y has one class, {self.classes_.tolist()[0]!r}")
        if counts.min() < 2:
            alone = self.classes_[counts < 2].tolist()
            raise ValueError(
                f"{name} needs at least 2 samples of each class; only one sample has class {alone[0]!r}"
                + (f" (and so for {len(alone) - 1} more)" if len(alone) > 1 else "")
                + "; drop those rows or merge them into another class"
            )


def count_of(n_aug: Any, n: int) -> int:
    """Return how many points are asked for: `n_aug` is a share of the `n` rows (float) or a number (int).

    >>> count_of(0.5, 10), count_of(3, 10)
    (5, 3)
    """
    if isinstance(n_aug, Integral):
        return check_count("n_aug", n_aug)
    share = check_positive("n_aug", n_aug, "a float is a share of the rows, 1.0 is as many again; an int is a number")
    return max(1, round(share * n))


def _rows(made: Synthetic, output: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """The point and the class of each synthetic row of the result."""
    if output == "weighted":
        rows, columns = (made.labels > LEAST_SHARE).nonzero()
        return rows, columns
    draws = rng.random((len(made.points), 1))
    drawn = (made.labels.cumsum(1) < draws * made.labels.sum(1, keepdims=True)).sum(1)
    return np.arange(len(drawn)), drawn


def _append_points(X: Any, points: NDArray[np.float64]) -> Any:
    """The given rows as they are, and the points behind them; whole numbers become floating."""
    if not isinstance(X, pd.DataFrame):
        given = np.asarray(X)
        kind = given.dtype if _holds(given.dtype, points) else np.dtype(np.float64)
        return np.concatenate([given.astype(kind), points.astype(kind)])
    kinds = {name: kind for place, (name, kind) in enumerate(X.dtypes.items()) if _holds(kind, points[:, place])}
    first = X.astype({name: kinds.get(name, np.float64) for name in X.columns})
    made = pd.DataFrame(points, columns=X.columns).astype(kinds)
    return pd.concat([first, made], ignore_index=True)


def _holds(kind: Any, points: NDArray[np.float64]) -> bool:
    """Whether the kind of given numbers is floating, and reaches as far as the points do."""
    if getattr(kind, "kind", "") != "f":
        return False
    reach = float(np.finfo(getattr(kind, "numpy_dtype", kind)).max)
    return bool(np.abs(points).max(initial=0.0) <= reach)


def _append_labels(y: Any, labels: NDArray[Any]) -> Any:
    if not isinstance(y, pd.Series):
        given = np.asarray(y).ravel()
        return np.concatenate([given, labels.astype(given.dtype)])
    return pd.concat([y, pd.Series(labels, name=y.name).astype(y.dtype)], ignore_index=True)


def _like_matrix(labels: NDArray[np.float64], y: Any, classes: NDArray[Any]) -> Any:
    return pd.DataFrame(labels, columns=classes) if isinstance(y, pd.Series) else labels
