"""Lower and upper probabilities by Venn-Abers: the row joins the held-out ones, once as a hit and once as a miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Intervals(NamedTuple):
    """A lower and an upper probability, each of the same shape."""

    lower: Numbers
    upper: Numbers


class Calibration(NamedTuple):
    """Rows that a model was not trained on, and what was said of them: what intervals are made of."""

    log_proba: NDArray[np.float32]
    """(n, k), as it is predicted."""
    y: NDArray[np.int32]
    """Class indices (n,)."""
    fold: NDArray[np.int32]
    """(n,); the rows of a fold are those that one network has not seen."""
    weight: Numbers | None = None
    """Sample weights (n,); None if all are 1."""
    class_weight: Numbers | None = None
    """(k,), by which the rows of a class count more, as they do in what is predicted; None if none were given."""
    crossed: bool = False
    """Whether a new row is ranked among those of a fold by what the network of the fold says of it."""

    @classmethod
    def of(
        cls,
        log_proba: NDArray[Any],
        y: NDArray[Any],
        fold: NDArray[Any] | None = None,
        weight: Numbers | None = None,
        class_weight: Numbers | None = None,
        crossed: bool = False,
    ) -> Calibration:
        """Keep the rows of which something is said: log-probabilities (n, k) and class indices (n,)."""
        use = ~np.isnan(log_proba).any(1)
        said, folds = log_proba.astype(np.float32)[use], np.zeros(len(y), np.int32) if fold is None else fold
        index, number = (part[use].astype(np.int32) for part in (y, folds))
        return cls(said, index, number, None if weight is None else weight[use], class_weight, crossed)

    def __call__(self, log_proba: NDArray[Any]) -> Intervals:
        """Return the intervals (m, k) of rows with log-probabilities (m, k): the mean of those of the folds.

        Where it is crossed, the log-probabilities are those of the network of each fold, (folds, m, k). In each fold,
        each class is set against all others; of two classes, the intervals of the one mirror those of the other. A new
        row counts as much as the known ones do in the mean, so that the scale of the weights does not matter.

        >>> known = Calibration.of(np.log([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 1, 0, 1]))
        >>> lower, upper = known(np.log([[0.85, 0.15], [0.2, 0.8]]))
        >>> lower.round(2).tolist(), upper.round(2).tolist()
        ([[0.33, 0.0], [0.0, 0.5]], [[1.0, 0.67], [0.5, 1.0]])
        """
        said = log_proba.astype(np.float32)
        parts = [self._of_fold(self.fold == f, said[f] if self.crossed else said) for f in np.unique(self.fold)]
        shape = said.shape[-2:]
        return Intervals(*np.mean(parts, axis=0)) if parts else Intervals(np.zeros(shape), np.ones(shape))

    def _of_fold(self, rows: NDArray[np.bool_], said: NDArray[Any]) -> Numbers:
        """The lower and upper probabilities, (2, m, k), by some of the rows."""
        k = said.shape[1]
        found = np.empty((2, len(said), k))
        for c in range(1 if k == 2 else k):
            found[:, :, c] = self._of_class(c, rows, said[:, c])
        if k == 2:
            found[:, :, 1] = 1.0 - found[::-1, :, 0]
        return found

    def _of_class(self, c: int, rows: NDArray[np.bool_], said: NDArray[Any]) -> Intervals:
        """The intervals (m,) of one class by some of the rows, from its log-probabilities (m,)."""
        y, weight = self.y[rows], np.ones(int(rows.sum())) if self.weight is None else self.weight[rows]
        hits, mass = y == c, weight if self.class_weight is None else weight * self.class_weight[y]
        mean = _ratio(weight, np.ones(len(weight)))
        added = (mean * _ratio(mass[~hits], weight[~hits]), mean * _ratio(mass[hits], weight[hits]))
        return venn_abers(self.log_proba[rows, c], hits, said, mass, added)


def _ratio(mass: Numbers, weight: Numbers) -> float:
    """How much rows count for, in the mean; 1 where there are none, or none of any mass."""
    total = float(mass.sum())
    return total / float(weight.sum()) if total > 0 else 1.0


def venn_abers(
    scores: Any, hits: Any, new: Any, weight: Any = None, added: tuple[float, float] = (1.0, 1.0)
) -> Intervals:
    """Return the isotonic fits at new scores, each of which joins the known rows once as a miss and once as a hit.

    These are the two probabilities of an inductive Venn-Abers predictor (Vovk, Petej and Fedorova, 2015, section 2).
    An isotonic fit is the slope of the greatest convex minorant of the points (sum of weights, sum of weighted hits);
    with a new point, it is the slope of the bridge between the hull of the points before it and the shifted hull of
    those behind it. Both ends of the bridge move to the right with the new score, so that all new scores together take
    O((n + m) log n).

    Parameters
    ----------
    scores : array (n,)
        Of the known rows: the higher, the likelier a hit.
    hits : array (n,) of bool
    new : array (m,)
    weight : array (n,), optional
        A row of weight zero counts as absent.
    added : pair of float
        What a new row counts for as a miss, and as a hit.

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
    at, asked, true = np.asarray(scores), np.asarray(new), np.asarray(hits, dtype=bool)
    mass = np.ones(len(at)) if weight is None else np.asarray(weight, dtype=np.float64)
    at, true, mass = at[mass > 0], true[mass > 0], mass[mass > 0]
    upper = _as_hits(at, true, mass, asked, added[1])
    lower = 1.0 - _as_hits(-at, ~true, mass, -asked, added[0])  # a miss is a hit of the other class
    return Intervals(np.minimum(lower, upper), upper)


def _as_hits(scores: NDArray[Any], hits: NDArray[Any], mass: Numbers, new: NDArray[Any], added: float) -> Numbers:
    """The isotonic fits (m,) at new scores, each of which joins as a hit."""
    values, group = np.unique(scores, return_inverse=True)
    width = np.bincount(group, mass, minlength=len(values))
    height = np.bincount(group, mass * hits, minlength=len(values))
    before, behind = (np.searchsorted(values, new, side=side) for side in ("left", "right"))
    slots, inverse = np.unique(before + behind, return_inverse=True)
    ends, starts = slots // 2, (slots + 1) // 2  # rows of the very score of a new one are neither before nor behind it
    slope = height / width
    bends = np.flatnonzero(slope[1:] > slope[:-1]) + 1
    corners = np.unique(np.concatenate([[0, len(values)], bends, ends, starts]))  # no other point is on any hull
    x, y = (np.concatenate([[0.0], np.cumsum(part)])[corners].tolist() for part in (width, height))
    found = _Bridges(x, y, added).over(np.searchsorted(corners, ends), np.searchsorted(corners, starts))
    return np.clip(found, 0.0, 1.0)[inverse]


class _Bridges:
    """Bridges between points before and behind a new one, as it moves to the right; it adds as much to x as to y."""

    def __init__(self, x: list[float], y: list[float], added: float) -> None:
        self.x, self.y, self.added = x, y, added
        self.following = self._hulls_behind()
        self.hull = [0]
        """The lower hull of the points before the new one, from the left end of the bridge on."""

    def _slope(self, i: int, j: int, shift: float = 0.0) -> float:
        return (self.y[j] + shift - self.y[i]) / (self.x[j] + shift - self.x[i])

    def _hulls_behind(self) -> list[int]:
        """For each point, the next one on the lower hull of it and all behind it."""
        last = len(self.x) - 1
        found = [last] * (last + 1)
        for j in range(last - 1, -1, -1):
            after = j + 1
            while after != last and self._slope(j, after) >= self._slope(after, found[after]):
                after = found[after]
            found[j] = after
        return found

    def over(self, ends: Sequence[int] | NDArray[Any], starts: Sequence[int] | NDArray[Any]) -> list[float]:
        """The slopes of bridges from points up to each end to points from each start on, both in order."""
        found, reached, left, right = [], 0, 0, 0
        for end, start in zip(map(int, ends), map(int, starts), strict=True):
            for point in range(reached + 1, end + 1):
                self._join(point, left)
            reached = max(reached, end)
            left, right = self._bridge(left, max(right, start))
            found.append(self._slope(self.hull[left], right, self.added))
        return found

    def _join(self, point: int, left: int) -> None:
        """One point more before the new one."""
        hull = self.hull
        while len(hull) - 1 > left and self._slope(hull[-2], hull[-1]) >= self._slope(hull[-1], point):
            hull.pop()
        hull.append(point)

    def _bridge(self, left: int, right: int) -> tuple[int, int]:
        """Move the ends of the bridge to the right until no point is below it."""
        hull, last = self.hull, len(self.x) - 1
        while True:
            slope = self._slope(hull[left], right, self.added)
            while right != last and (lower := self._slope(hull[left], self.following[right], self.added)) <= slope:
                right, slope = self.following[right], lower
            if left + 1 == len(hull) or self._slope(hull[left + 1], right, self.added) < slope:
                return left, right
            left += 1
