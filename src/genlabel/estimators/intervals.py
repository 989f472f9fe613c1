"""Venn-Abers intervals: lower and upper probabilities by isotonic regression on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
    """(n,); the rows of a fold are those that one network was not trained on."""
    weight: Array | None = None
    """Sample weights (n,); None if all are 1."""
    class_weight: Array | None = None
    """Class weights (k,); None if none were given."""
    crossed: bool = False
    """True if the rows of each fold are compared with the predictions of the network of that fold."""

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
        folds = np.zeros(len(y), np.int32) if fold is None else fold
        index, number = (values[use].astype(np.int32) for values in (y, folds))
        used_weight = None if weight is None else weight[use]
        return cls(log_proba.astype(np.float32)[use], index, number, used_weight, class_weight, crossed)

    def __call__(self, log_proba: NDArray[Any]) -> Intervals:
        """Return the intervals (m, k) of rows with log-probabilities (m, k), the mean over the folds.

        If crossed, the log-probabilities are those of the network of each fold, (folds, m, k). In each fold, each class
        is compared with all others; the intervals of two classes mirror each other. A new row has the mean weight of
        the known ones, so that the scale of the weights does not matter.

        >>> known = Calibration.of(np.log([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 1, 0, 1]))
        >>> lower, upper = known(np.log([[0.85, 0.15], [0.2, 0.8]]))
        >>> lower.round(2).tolist(), upper.round(2).tolist()
        ([[0.33, 0.0], [0.0, 0.5]], [[1.0, 0.67], [0.5, 1.0]])
        """
        all_queries = log_proba.astype(np.float32)
        m, k = all_queries.shape[-2:]
        folds = []
        for f in np.unique(self.fold):
            rows, queries = self.fold == f, all_queries[f] if self.crossed else all_queries
            y, weight = self.y[rows], np.ones(int(rows.sum())) if self.weight is None else self.weight[rows]
            mass = weight if self.class_weight is None else weight * self.class_weight[y]
            mean, result = _mean_weight(weight, np.ones(len(weight))), np.empty((2, m, k))
            for c in range(1 if k == 2 else k):
                hits = y == c
                added = [mean * _mean_weight(mass[among], weight[among]) for among in (~hits, hits)]
                known = self.log_proba[rows, c]
                result[:, :, c] = venn_abers(known, hits, queries[:, c], mass, (added[0], added[1]))
            if k == 2:
                result[:, :, 1] = 1.0 - result[::-1, :, 0]
            folds.append(result)
        return Intervals(*np.mean(folds, axis=0)) if folds else Intervals(np.zeros((m, k)), np.ones((m, k)))


def _mean_weight(mass: Array, weight: Array) -> float:
    """Return the mean of mass over weight; 1 without rows, or without any mass."""
    total = float(mass.sum())
    return total / float(weight.sum()) if total > 0 else 1.0


def venn_abers(
    scores: Any, hits: Any, new: Any, weight: Any = None, added: tuple[float, float] = (1.0, 1.0)
) -> Intervals:
    """Return the isotonic fits at new scores, each of which joins the known rows once as a miss and once as a hit.

    These are the two probabilities of an inductive Venn-Abers predictor (Vovk, Petej and Fedorova, 2015, section 2).
    An isotonic fit is the slope of the greatest convex minorant of the points (sum of weights, sum of weighted hits);
    with a new point, it is the slope of the bridge between the hull of the points before it and the shifted hull of
    those after it. Both ends of the bridge move to the right with the new score, so that all new scores together take
    O((n + m) log n).

    Parameters
    ----------
    scores : array (n,)
        Scores of the known rows: the higher, the more likely a hit.
    hits : array (n,) of bool
    new : array (m,)
        Scores of the new rows.
    weight : array (n,), optional
        A row of weight zero counts as absent.
    added : pair of float
        Weight of a new row as a miss, and as a hit.

    Returns
    -------
    Intervals
        lower, upper (m,).

    Examples
    --------
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
    before, after = (np.searchsorted(values, new, side=side) for side in ("left", "right"))
    slots, inverse = np.unique(before + after, return_inverse=True)
    ends, starts = slots // 2, (slots + 1) // 2  # rows with the very score of a new one are neither before nor after it
    slope = height / width
    bends = np.flatnonzero(slope[1:] > slope[:-1]) + 1
    corners = np.unique(np.concatenate([[0, len(values)], bends, ends, starts]))  # no other point is on any hull
    x, y = (np.concatenate([[0.0], np.cumsum(sizes)])[corners].tolist() for sizes in (width, height))
    slopes = _Bridges(x, y, added).slopes(np.searchsorted(corners, ends), np.searchsorted(corners, starts))
    return np.clip(slopes, 0.0, 1.0)[inverse]


class _Bridges:
    """Bridges between points before and after a new one, as it moves to the right; it adds as much to x as to y."""

    def __init__(self, x: list[float], y: list[float], added: float) -> None:
        self.x, self.y, self.added = x, y, added
        last = len(x) - 1
        self.next_on_hull = [last] * (last + 1)
        """For each point, the next one on the lower hull of it and all after it."""
        for j in range(last - 1, -1, -1):
            after = j + 1
            while after != last and self._slope(j, after) >= self._slope(after, self.next_on_hull[after]):
                after = self.next_on_hull[after]
            self.next_on_hull[j] = after

    def _slope(self, i: int, j: int, shift: float = 0.0) -> float:
        return (self.y[j] + shift - self.y[i]) / (self.x[j] + shift - self.x[i])

    def slopes(self, ends: Sequence[int] | NDArray[Any], starts: Sequence[int] | NDArray[Any]) -> list[float]:
        """Return the slopes of bridges from points up to each end to points from each start on, both in order."""
        result, reached, left, right, last = [], 0, 0, 0, len(self.x) - 1
        hull = [0]  # the lower hull of the points before the new one
        for end, start in zip(map(int, ends), map(int, starts), strict=True):
            for point in range(reached + 1, end + 1):
                while len(hull) - 1 > left and self._slope(hull[-2], hull[-1]) >= self._slope(hull[-1], point):
                    hull.pop()
                hull.append(point)
            reached, right = max(reached, end), max(right, start)
            while True:  # move the ends of the bridge to the right until no point is below it
                slope, following = self._slope(hull[left], right, self.added), self.next_on_hull
                while right != last and (lower := self._slope(hull[left], following[right], self.added)) <= slope:
                    right, slope = following[right], lower
                if left + 1 == len(hull) or self._slope(hull[left + 1], right, self.added) < slope:
                    break
                left += 1
            result.append(self._slope(hull[left], right, self.added))
        return result
