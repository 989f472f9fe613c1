"""Base class of the classifiers: log-probabilities and the methods that follow from them; Venn-Abers intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from genlabel._arrays import Standardization
from genlabel._validation import (
    check_choice,
    check_interval,
    check_labels,
    check_positive,
    check_weights,
    ignore_overflow,
)
from genlabel.data.tables.files import join_names, name_hint
from genlabel.data.tables.table import EncodedColumn
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.unusual_values import find_unusual_values
from genlabel.estimators.validation import TabularEncoder
from genlabel.metrics import index_labels

Array = NDArray[np.float64]
MAX_DEVIATION = 1e140
"""Standardized values are clipped here, so that sums of their squares do not overflow."""


class Intervals(NamedTuple):
    """Lower and upper probabilities, of the same shape."""

    lower: Array
    upper: Array


class Calibration(NamedTuple):
    """Log-probabilities and classes of rows that a model was not trained on."""

    log_proba: NDArray[np.float32]
    """Predicted log-probabilities (n, k)."""
    y: NDArray[np.int32]
    """Class indices (n,)."""
    fold: NDArray[np.int32]
    """Fold of each row, (n,); one network was trained without the rows of a fold."""
    weight: Array | None = None
    """Sample weights (n,); None if all are 1."""
    class_weight: Array | None = None
    """Class weights (k,); None if none were given."""
    crossed: bool = False
    """True if new rows are predicted by the network of each fold, and compared with the rows of that fold."""

    @classmethod
    def of(
        cls,
        log_proba: NDArray[Any],
        y: NDArray[Any],
        fold: NDArray[Any] | None = None,
        weight: Array | None = None,
        class_weight: Array | None = None,
        crossed: bool = False,
    ) -> Calibration:
        """Return the rows with finite predictions, from log-probabilities (n, k) and class indices (n,)."""
        use = ~np.isnan(log_proba).any(1)
        fold = (np.zeros(len(y)) if fold is None else fold)[use].astype(np.int32)
        weight = None if weight is None else weight[use]
        return cls(log_proba.astype(np.float32)[use], y[use].astype(np.int32), fold, weight, class_weight, crossed)

    def __call__(self, log_proba: NDArray[Any]) -> Intervals:
        """Return the intervals (m, k) of rows with log-probabilities (m, k), the mean over the folds.

        If crossed, the log-probabilities are those of the network of each fold, (folds, m, k). In each fold, each class
        is compared with all others. A new row has the mean weight of the known ones.
        """
        all_queries = log_proba.astype(np.float32)
        m, k = all_queries.shape[-2:]
        intervals = []
        for f in np.unique(self.fold):
            rows = self.fold == f
            queries = all_queries[f] if self.crossed else all_queries
            y, known = self.y[rows], self.log_proba[rows]
            weight = np.ones(len(y)) if self.weight is None else self.weight[rows]
            mass = weight if self.class_weight is None else weight * self.class_weight[y]
            mean = _mean_weight(weight, np.ones(len(weight)))
            bounds = np.empty((2, m, k))
            for c in range(1 if k == 2 else k):
                hits = y == c
                as_miss = mean * _mean_weight(mass[~hits], weight[~hits])
                as_hit = mean * _mean_weight(mass[hits], weight[hits])
                bounds[:, :, c] = venn_abers(known[:, c], hits, queries[:, c], mass, (as_miss, as_hit))
            if k == 2:
                bounds[:, :, 1] = 1.0 - bounds[::-1, :, 0]
            intervals.append(bounds)
        return Intervals(*np.mean(intervals, axis=0)) if intervals else Intervals(np.zeros((m, k)), np.ones((m, k)))


def _mean_weight(mass: Array, weight: Array) -> float:
    """Return the mean of mass over weight; 1 without rows, or without any mass."""
    total = float(mass.sum())
    return total / float(weight.sum()) if total > 0 else 1.0


def venn_abers(
    scores: Any, hits: Any, new: Any, weight: Any = None, added: tuple[float, float] = (1.0, 1.0)
) -> Intervals:
    """Return the isotonic fits at new scores (m,), each of which joins the known rows once as a miss and once as a hit.

    These are the two probabilities of an inductive Venn-Abers predictor (Vovk, Petej and Fedorova, 2015, section 2).
    An isotonic fit is the slope of the greatest convex minorant of the points (sum of weights, sum of weighted hits);
    with a new point, it is the slope of the bridge between the hull of the points before it and the shifted hull of
    those after it. Both ends of the bridge move to the right with the new score: O((n + m) log n) for all of them.
    `added` is the weight of a new row as a miss, and as a hit.

    >>> lower, upper = venn_abers([1, 2, 3, 4], [False, True, False, True], [0, 2.5, 9])
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.0, 0.333, 0.5], [0.5, 0.667, 1.0])
    """
    known, queries, is_hit = np.asarray(scores), np.asarray(new), np.asarray(hits, dtype=bool)
    mass = np.ones(len(known)) if weight is None else np.asarray(weight, dtype=np.float64)
    known, is_hit, mass = known[mass > 0], is_hit[mass > 0], mass[mass > 0]
    upper = _fit_with_hit(known, is_hit, mass, queries, added[1])
    lower = 1.0 - _fit_with_hit(-known, ~is_hit, mass, -queries, added[0])  # a miss is a hit of the other class
    return Intervals(np.minimum(lower, upper), upper)


def _fit_with_hit(scores: NDArray[Any], hits: NDArray[Any], mass: Array, new: NDArray[Any], added: float) -> Array:
    """Return the isotonic fits (m,) at new scores, each of which joins as a hit."""
    values, group = np.unique(scores, return_inverse=True)
    width = np.bincount(group, mass, minlength=len(values))
    height = np.bincount(group, mass * hits, minlength=len(values))
    # Known rows with the very score of a new row are neither before nor after it: its bridge spans them, too.
    before = np.searchsorted(values, new, side="left")
    after = np.searchsorted(values, new, side="right")
    slots, inverse = np.unique(before + after, return_inverse=True)  # after is before, or before + 1
    ends, starts = slots // 2, (slots + 1) // 2
    slope = height / width
    bends = np.flatnonzero(slope[1:] > slope[:-1]) + 1
    corners = np.unique(np.concatenate([[0, len(values)], bends, ends, starts]))  # no other point is on any hull
    x = np.concatenate([[0.0], np.cumsum(width)])[corners].tolist()
    y = np.concatenate([[0.0], np.cumsum(height)])[corners].tolist()
    pairs = zip(np.searchsorted(corners, ends).tolist(), np.searchsorted(corners, starts).tolist(), strict=True)
    return np.clip(bridge_slopes(x, y, added, pairs), 0.0, 1.0)[inverse]


def bridge_slopes(x: list[float], y: list[float], added: float, pairs: Iterable[tuple[int, int]]) -> list[float]:
    """Return the slope of a bridge for each of the `pairs` (end, start), which are in ascending order.

    A bridge goes from a point at or before `end` to a point at or after `start`, and no point is below it. It spans a
    new point, by which the x and the y of all later points grow by `added`.
    """

    def slope(i: int, j: int, shift: float = 0.0) -> float:
        return (y[j] + shift - y[i]) / (x[j] + shift - x[i])

    last = len(x) - 1
    following = [last] * (last + 1)  # the next point on the lower hull of each point and all after it
    for j in range(last - 1, -1, -1):
        after = j + 1
        while after != last and slope(j, after) >= slope(after, following[after]):
            after = following[after]
        following[j] = after
    hull = [0]  # the lower hull of the points before the new one
    reached = left = right = 0  # the last point that was added to the hull; the ends of the bridge
    result = []
    for end, start in pairs:
        for point in range(reached + 1, end + 1):
            while len(hull) - 1 > left and slope(hull[-2], hull[-1]) >= slope(hull[-1], point):
                hull.pop()
            hull.append(point)
        reached, right = max(reached, end), max(right, start)
        while True:  # move the ends of the bridge to the right until no point is below it
            steepness = slope(hull[left], right, added)
            while right != last and (lower := slope(hull[left], following[right], added)) <= steepness:
                right, steepness = following[right], lower
            if left + 1 == len(hull) or slope(hull[left + 1], right, added) < steepness:
                break
            left += 1
        result.append(slope(hull[left], right, added))
    return result


def threshold_costs(threshold: float, pos_label: Any, classes: NDArray[Any]) -> dict[Any, float]:
    """Return the costs under which the positive one of two classes is predicted from a probability on.

    >>> threshold_costs(0.2, "yes", np.array(["no", "yes"]))
    {'no': 0.2, 'yes': 0.8}
    """
    names = classes.tolist()
    if len(names) != 2:
        raise ValueError(f"threshold={threshold!r} is for two classes, but there are {len(names)}; use costs instead")
    if pos_label is None and names in ([0, 1], [-1, 1]):
        pos_label = 1
    if pos_label not in names:
        if pos_label is None:
            raise ValueError(f"threshold={threshold!r} needs pos_label, the class that it is for: {join_names(names)}")
        raise ValueError(f"pos_label={pos_label!r} is not a class; {name_hint(str(pos_label), names, 'classes')}")
    share = check_interval("threshold", threshold, 1e-9, 1 - 1e-9, "it is the lowest probability of pos_label")
    return {name: 1 - share if name == pos_label else share for name in names}


class ProbabilityClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class of the classifiers: a subclass fits, and defines :meth:`predict_log_proba_scaled`."""

    classes_: NDArray[Any]
    class_count_: NDArray[np.int64]
    class_weight_: NDArray[np.float64] | None
    costs_: Array
    venn_abers_: Calibration
    encoder_: TabularEncoder
    scaler_: Standardization
    typicality_: Typicality

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def predict_log_proba_scaled(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), at standardized points, `scaler_(X)`."""

    @final
    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return the rows of `X` as the values (m, d) that `scaler_` takes: missing ones imputed, strings encoded."""
        check_is_fitted(self, "scaler_")
        return self.encoder_(self, X)

    def _scale(self, X: Any) -> NDArray[np.float64]:
        points = self.encode(X)
        with ignore_overflow():
            return self.scaler_(points).clip(-MAX_DEVIATION, MAX_DEVIATION)

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), columns in the order of `classes_`."""
        return self.predict_log_proba_scaled(self._scale(X))

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (m, k), columns in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any, return_typicality: bool = False) -> Any:
        """Return the most probable class of each row, (m,); with `return_typicality`, also its typicality, (m,).

        After :meth:`set_costs` or :meth:`set_threshold` it is the class of the lowest expected cost instead.
        """
        index = self.decide(self.predict_log_proba(X))
        labels = self.classes_[index]
        return (labels, self.typicality(X)) if return_typicality else labels

    @final
    def decide(self, log_proba: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the index of the class that `predict` chooses at log-probabilities (m, k), (m,)."""
        return np.asarray((log_proba + np.log(self.costs_) if hasattr(self, "costs_") else log_proba).argmax(axis=1))

    @final
    def set_costs(self, costs: Mapping[Any, float] | str | None) -> Self:
        """Make `predict` choose the class of the lowest expected cost; probabilities do not change.

        A fit forgets the costs; a saved model keeps them.

        Parameters
        ----------
        costs : dict of class -> number, "balanced" or None
            Cost of a wrong prediction for a row of the class; 1 for a class that is not named. "balanced" is inversely
            proportional to the class frequencies, for the highest balanced accuracy. None is equal costs.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GenerativeClassifier().fit(X, y)
        >>> int((model.predict(X) == 2).sum()), int((model.set_costs({2: 50}).predict(X) == 2).sum())
        (51, 66)
        """
        check_is_fitted(self, "scaler_")
        self.__dict__.pop("costs_", None)
        if costs is None:
            return self
        if isinstance(costs, str):
            check_choice("costs", costs, ["balanced"], also="a dict such as {'yes': 5}")
            frequency = self.class_count_ * (1.0 if self.class_weight_ is None else self.class_weight_)
            self.costs_ = frequency.mean() / np.maximum(frequency, 1e-12)
            return self
        values = np.ones(len(self.classes_))
        for name, cost in costs.items():
            values[index_labels([name], self.classes_)] = check_positive("costs", cost, "5 counts as much as five")
        self.costs_ = values
        return self

    @final
    def set_threshold(self, threshold: float, pos_label: Any = None) -> Self:
        """Make `predict` choose `pos_label` from this probability on, as scikit-learn's `FixedThresholdClassifier`.

        It needs two classes; `pos_label` may be left out if they are 0 and 1, or -1 and 1. It is a pair of costs, see
        :meth:`set_costs`.
        """
        check_is_fitted(self, "scaler_")
        return self.set_costs(threshold_costs(threshold, pos_label, self.classes_))

    @final
    def typicality(self, X: Any) -> NDArray[np.float64]:
        """Return the typicality of each row with respect to the training rows, (m,), in (0, 1].

        It is a conformal p-value (:class:`Typicality`): about one in twenty rows like those of the training set has a
        typicality of 0.05 or less; most rows unlike them do. :meth:`atypical_columns` names the column to check first,
        :meth:`unusual_values` the values that are absurd by themselves. A classifier without densities needs
        :meth:`fit_typicality` first.
        """
        points = self.encode(X)
        self._check_typicality()
        return self.typicality_(points)

    def _check_typicality(self) -> None:
        if not hasattr(self, "typicality_"):
            name = type(self).__name__
            raise NotFittedError(f"{name} has no typicality; call fit_typicality(X, y) with its training rows")

    @final
    def atypical_columns(self, X: Any, columns: Sequence[EncodedColumn] | None = None) -> pd.DataFrame:
        """Return how much more typical each row becomes with a common value in each column, (m, columns).

        The gains in log-density have the index and the column names of `X`. The column with the largest gain is the one
        to check first; if two columns contradict each other, both have a gain. If an earlier step of a pipeline has
        encoded `X`, `columns` are those of its table.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = GenerativeClassifier().fit(X, y)
        >>> model.atypical_columns(X[:1].assign(**{"petal width (cm)": 2.5})).idxmax(axis=1).tolist()
        ['petal width (cm)']
        """
        points = self.encode(X)
        self._check_typicality()
        columns = self.encoder_.table_columns(self) if columns is None else columns
        gains = self.typicality_.columns(points, [column.features for column in columns])
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(gains, index, [column.name for column in columns])

    @final
    def unusual_values(self, X: Any) -> pd.DataFrame:
        """Return the values of `X` that are unlike the training rows by themselves, one line for each.

        These are numbers that are farther outside the range of their column in training than this range is wide, and
        categories that training never had. The result has the position of the row in `X`, the column, the value, and
        the minimum and the maximum of the column in training (NaN for a category).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = GenerativeClassifier().fit(X, y)
        >>> model.unusual_values(X[:2].assign(**{"petal width (cm)": [0.2, 25.0]})).to_dict("records")
        [{'row': 1, 'column': 'petal width (cm)', 'value': 25.0, 'minimum': 0.1, 'maximum': 2.5}]
        """
        points, encoder = self.encode(X), self.encoder_
        return find_unusual_values(encoder.table_columns(self), X, points, encoder.minimum, encoder.maximum)

    @final
    def fit_typicality(self, X: Any, y: Any, sample_weight: Any = None, *, density: Any = "auto") -> Self:
        """Learn the typicality of rows from those of `X` (n, d) with labels `y` (n,); predictions do not change.

        `density` is the parameter of :class:`Typicality`.
        """
        self.typicality_ = Typicality(density).fit(self.encode(X), y, sample_weight)
        return self

    @final
    def predict_proba_interval(self, X: Any) -> Intervals:
        """Return a lower and an upper probability of each class, (m, k) each, with that of `predict_proba` in between.

        Isotonic regression on the rows that a fold of the search held out estimates how often rows with such a
        probability are of a class; the new row joins them once as one of the class and once as one of another (Vovk,
        Petej and Fedorova, 2015, sections 2 and 3). The bounds are means over the folds; where the predicted
        probability lies outside, the interval is widened to it. It is not a confidence interval of this row:
        docs/intervals.md. A classifier without held-out rows needs :meth:`fit_interval` first.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import MixupClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> lower, upper = MixupClassifier(random_state=0).fit(X, y).predict_proba_interval(X[:1])
        >>> bool(lower[0, 0] > 0.8), bool(upper[0, 1] < 0.2)
        (True, True)
        """
        check_is_fitted(self, "scaler_")
        if not hasattr(self, "venn_abers_"):
            raise NotFittedError(
                f"{type(self).__name__} has no held-out rows; call fit_interval(X, y) with rows that were not used in "
                "its training"
            )
        points = self._scale(X)
        proba = np.exp(self.predict_log_proba_scaled(points))
        lower, upper = self.venn_abers_(self._log_proba_to_calibrate(points))
        return Intervals(np.minimum(lower, proba), np.maximum(upper, proba))

    def _log_proba_to_calibrate(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probabilities that `venn_abers_` takes: (m, k), or (folds, m, k)."""
        return self.predict_log_proba_scaled(points)

    @final
    def fit_interval(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn intervals from rows `X` (m, d) with labels `y` (m,) that the classifier was not trained on.

        They replace the rows that the search held out; the guarantee of Venn-Abers then holds exactly. Predictions do
        not change.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GenerativeClassifier().fit(X[::2], y[::2]).fit_interval(X[1::2], y[1::2])
        >>> model.predict_proba_interval(X[:1]).lower.round(2).tolist()
        [[0.95, 0.0, 0.0]]
        """
        log_proba = self.predict_log_proba(X)
        n = len(log_proba)
        if np.shape(y) != (n,):
            raise ValueError(f"y has shape {np.shape(y)}; expected ({n},), one label for each row of X")
        check_labels(y)
        index = index_labels(y, self.classes_)
        weight = None if sample_weight is None else check_weights(sample_weight, n)
        self.venn_abers_ = Calibration.of(log_proba, index, weight=weight, class_weight=self.class_weight_)
        return self
