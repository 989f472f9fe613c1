"""Points between two classes of any density that can be evaluated: a root on a segment, or along a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from genlabel.densities import ClassDensity
from genlabel.mixing.genmix.surface import Candidates, Finder

NODES = 7
"""Places inside a segment that are asked where its ends lie on the same side of the surface."""
MOST_STEPS = 60
LARGEST = 1e8
"""What a difference of log-densities is clipped to: where a density vanishes, it is infinite."""


class Brackets(NamedTuple):
    """Lines x = origin + t direction, with t in [low, high] where the surface is crossed."""

    origin: NDArray[np.float64]
    """(m, d)"""
    direction: NDArray[np.float64]
    """(m, d)"""
    low: NDArray[np.float64]
    """(m,)"""
    high: NDArray[np.float64]
    """(m,)"""
    at_low: NDArray[np.float64]
    """(m,): log p_j - log p_i less the height, at `low`."""
    at_high: NDArray[np.float64]
    """(m,)"""

    def at(self, t: NDArray[np.float64], which: Any = slice(None)) -> NDArray[np.float64]:
        """Points of some of the lines, at places t."""
        return np.asarray(self.origin[which] + t[:, None] * self.direction[which])

    def put(self, rows: NDArray[np.int64], others: Brackets) -> None:
        """Put others in the place of some, for good."""
        for whole, part in zip(self, others, strict=True):
            whole[rows] = part

    @property
    def crossed(self) -> NDArray[np.bool_]:
        """Whether the sign changes, (m,)."""
        return np.asarray(self.at_low * self.at_high <= 0.0)


@final
class SegmentFinder(Finder):
    """Between a row of class i and a row of class j, log p_j - log p_i - logit(lambda) changes its sign.

    Where its signs at the two rows are equal, places between them are asked; where there is no change either, a line
    along its gradient. The root in a bracket is found by Chandrupatla's method (1997): bisection, and inverse quadratic
    interpolation where that is safe. A line on which a third class is the most likely near the root is left at once.

    `tolerance` is the error in p_j / (p_i + p_j) at which a search ends.
    """

    patience: ClassVar[int] = 50

    def __init__(
        self, density: ClassDensity, X: NDArray[np.float64], index: NDArray[np.int64], tolerance: float
    ) -> None:
        self.density = density
        self.X, self.index = X, index
        self.tolerance = tolerance
        self.known = np.full((len(X), len(density.classes_)), np.nan)
        """(n, k): log p_c of the rows that were the end of a segment."""

    def find(self, pair: NDArray[np.int64], height: NDArray[np.float64], rng: np.random.Generator) -> Candidates:
        """Draw two rows for each pair, and seek a root between them."""
        brackets = self._brackets(draw_rows(self.index, pair, rng), pair, height)
        points = np.full_like(brackets.origin, np.nan)
        log_prob = np.full((len(points), self.known.shape[1]), np.nan)
        rows = self._promising(brackets, pair, height)
        some = Brackets(*(part[rows] for part in brackets))
        lam = expit(height[rows])

        def difference(t: NDArray[np.float64], which: NDArray[np.int64]) -> NDArray[np.float64]:
            return self._ask(some.at(t, which), pair[rows[which]], height[rows[which]])[0]

        def is_near(value: NDArray[np.float64], which: NDArray[np.int64]) -> NDArray[np.bool_]:
            return np.asarray(np.abs(expit(value + height[rows[which]]) - lam[which]) <= self.tolerance)

        t = bracketed_roots(difference, some.low, some.high, some.at_low, some.at_high, is_near)
        points[rows] = some.at(t)
        log_prob[rows] = self.density.log_prob(points[rows])
        return Candidates(points, log_prob)

    def _promising(self, brackets: Brackets, pair: NDArray[np.int64], height: NDArray[np.float64]) -> NDArray[np.int64]:
        """The lines that cross the surface where no third class is the most likely: near the root, if it were flat."""
        rows = np.flatnonzero(brackets.crossed)
        if self.known.shape[1] == 2 or len(rows) == 0:
            return rows
        low, high, at_low, at_high = (part[rows] for part in brackets[2:])
        total = np.abs(at_low) + np.abs(at_high)
        share = np.divide(np.abs(at_low), total, out=np.full_like(total, 0.5), where=total > 0.0)
        guess = brackets.at(low + share * (high - low), rows)
        return rows[~self._ask(guess, pair[rows], height[rows])[1]]

    def _ask(
        self, points: NDArray[np.float64], pair: NDArray[np.int64], height: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """log p_j - log p_i less the height, and whether a third class is the most likely, (m,) each."""
        return _compare(self.density.log_prob(points), pair, height)

    def _brackets(self, ends: NDArray[np.int64], pair: NDArray[np.int64], height: NDArray[np.float64]) -> Brackets:
        unknown = np.unique(ends[np.isnan(self.known[ends]).any(-1)])
        self.known[unknown] = self.density.log_prob(self.X[unknown])
        at_low, at_high = (_compare(self.known[rows], pair, height)[0] for rows in ends.T)
        start, m = self.X[ends[:, 0]], len(pair)
        found = Brackets(start, self.X[ends[:, 1]] - start, np.zeros(m), np.ones(m), at_low, at_high)
        rest = np.flatnonzero(~found.crossed)
        if len(rest):
            found.put(rest, self._inside(Brackets(*(part[rest] for part in found)), pair[rest], height[rest]))
        return found

    def _inside(self, ends: Brackets, pair: NDArray[np.int64], height: NDArray[np.float64]) -> Brackets:
        """Brackets between places inside the segments; where there are none, along the gradient at the nearest."""
        m, t = len(pair), np.linspace(0.0, 1.0, NODES + 2)
        at = ends.origin[:, None] + t[1:-1, None] * ends.direction[:, None]
        inner, third = self._ask(at.reshape(m * NODES, -1), np.repeat(pair, NODES, 0), np.repeat(height, NODES))
        values = np.column_stack([ends.at_low, inner.reshape(m, NODES), ends.at_high])
        changes = values[:, :-1] * values[:, 1:] <= 0.0
        place, rows = changes.argmax(1), np.arange(m)
        two = values[rows, place], values[rows, place + 1]
        found = Brackets(ends.origin.copy(), ends.direction.copy(), t[place], t[place + 1], *two)
        nearest = np.nan_to_num(np.abs(inner.reshape(m, NODES)), nan=np.inf).argmin(1)
        rest = np.flatnonzero(~changes.any(1) & ~third.reshape(m, NODES)[rows, nearest])
        if len(rest):
            reach = 0.5 * np.linalg.norm(ends.direction[rest], axis=1)
            found.put(rest, self._along_gradient(at[rest, nearest[rest]], reach, pair[rest], height[rest]))
        return found

    def _along_gradient(
        self,
        origin: NDArray[np.float64],
        reach: NDArray[np.float64],
        pair: NDArray[np.int64],
        height: NDArray[np.float64],
    ) -> Brackets:
        """Lines from points (m, d) towards the surface, twice as far as it would be if it were flat, or `reach`."""
        value, slope = self._difference_and_slope(origin, pair, height)
        size = np.linalg.norm(slope, axis=1)
        size = np.where(size > 0.0, size, 1.0)
        length = np.minimum(2.0 * np.abs(value) / size, reach)
        direction = slope * np.nan_to_num(-np.sign(value) * length / size)[:, None]
        at_end, _ = self._ask(origin + direction, pair, height)
        return Brackets(origin, direction, np.zeros(len(pair)), np.ones(len(pair)), value, at_end)

    def _difference_and_slope(
        self, points: NDArray[np.float64], pair: NDArray[np.int64], height: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """log p_j - log p_i less the height, (m,), and its gradient, (m, d)."""
        with torch.enable_grad():
            x = torch.from_numpy(points).requires_grad_()
            found = self.density.log_prob(x).gather(1, torch.from_numpy(pair)).diff(dim=1)[:, 0]
            slope = torch.autograd.grad(found.sum(), x)[0]
        return found.detach().numpy() - height, np.nan_to_num(slope.numpy())


def _compare(
    log_prob: NDArray[np.float64], pair: NDArray[np.int64], height: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """log p_j - log p_i less the height, and whether a third class is the most likely, (m,) each."""
    rows = np.arange(len(pair))[:, None]
    inside = log_prob[rows, pair]
    with np.errstate(invalid="ignore"):
        found = np.clip(inside[:, 1] - inside[:, 0] - height, -LARGEST, LARGEST)
    return found, np.asarray(log_prob.max(1) > inside.max(1))


def draw_rows(index: NDArray[np.int64], pair: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a row of each class of the pairs (m, 2), (m, 2); `index` (n,) are the classes of the rows.

    >>> draw_rows(np.array([0, 1, 1]), np.array([[0, 1], [1, 0]]), np.random.default_rng(0))
    array([[0, 1],
           [1, 0]])
    """
    order = np.argsort(index, kind="stable")
    count = np.bincount(index)
    first = np.cumsum(count) - count
    return order[first[pair] + (rng.random(pair.shape) * count[pair]).astype(np.int64)]


def bracketed_roots(
    function: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    at_low: NDArray[np.float64],
    at_high: NDArray[np.float64],
    is_near: Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.bool_]],
) -> NDArray[np.float64]:
    """Return a root of each of m functions within its bracket, (m,), by Chandrupatla's method, all at once.

    `function(t, which)` and `is_near(value, which)` are asked of some of them, `which` (the indices), at a time.

    >>> cube = lambda t, which: t**3 - np.array([0.5, 0.001])[which]
    >>> ends = np.zeros(2), np.ones(2)
    >>> everyone = np.arange(2)
    >>> near = lambda value, which: np.abs(value) < 1e-12
    >>> bracketed_roots(cube, *ends, cube(ends[0], everyone), cube(ends[1], everyone), near).round(6)
    array([0.793701, 0.1     ])
    """
    lower = np.abs(at_low) <= np.abs(at_high)
    best, value = np.where(lower, low, high), np.where(lower, at_low, at_high)
    which = np.flatnonzero(~is_near(value, np.arange(len(low))))
    a, b, fa, fb = high[which], low[which], at_high[which], at_low[which]
    t = np.full(len(which), 0.5)
    for _ in range(MOST_STEPS):
        if len(which) == 0:
            break
        x = a + t * (b - a)
        fx = function(x, which)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        better = np.abs(fx) < np.abs(value[which])
        best[which[better]], value[which[better]] = x[better], fx[better]
        t = _next(a, b, c, fa, fb, fc)
        go_on = ~is_near(fx, which) & (np.abs(b - a) > 1e-15) & ~np.isnan(fx)
        which = which[go_on]
        a, b, fa, fb, t = (part[go_on] for part in (a, b, fa, fb, t))
    return best


def _next(*bracket: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where to look next, as a share of the way from a to b: interpolated where that is safe, else in the middle."""
    a, b, c, fa, fb, fc = bracket
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (phi * phi < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(inverse)
        least = np.minimum(1e-15 / np.abs(b - a), 0.5)
    return np.where(safe, np.clip(inverse, least, 1.0 - least), 0.5)
