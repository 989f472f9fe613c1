"""Root search for any density that can be evaluated: on a segment between two rows, or along a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from genlabel.densities import ClassDensity
from genlabel.mixing.genmix.finders import Candidates, Finder, Floats, draw_rows

INNER_NODES = 7
"""Points inside a segment that are evaluated if its ends lie on the same side of the surface."""
MAX_STEPS = 60
MAX_LOG_RATIO = 1e8
"""Differences of log-densities are clipped to this: they are infinite where a density vanishes."""


class Brackets(NamedTuple):
    """Lines x = origin + t direction with an interval [low, high] of t that may contain a root."""

    origin: Floats
    """(m, d)"""
    direction: Floats
    """(m, d)"""
    low: Floats
    """(m,)"""
    high: Floats
    """(m,)"""
    at_low: Floats
    """log p_j - log p_i minus the wanted log-ratio at `low`, (m,)."""
    at_high: Floats
    """(m,)"""

    def points(self, t: Floats, which: Any = slice(None)) -> Floats:
        """Return the points of the lines `which` at t."""
        return np.asarray(self.origin[which] + t[:, None] * self.direction[which])

    def select(self, rows: NDArray[np.int64]) -> Brackets:
        """Return some of the lines."""
        return Brackets(*(field[rows] for field in self))

    def assign(self, rows: NDArray[np.int64], others: Brackets) -> None:
        """Replace some of the lines in place."""
        for field, values in zip(self, others, strict=True):
            field[rows] = values

    @property
    def crossed(self) -> NDArray[np.bool_]:
        """Mask of lines whose sign changes, (m,)."""
        return np.asarray(self.at_low * self.at_high <= 0.0)


@final
class SegmentFinder(Finder):
    """Find a sign change of log p_j - log p_i - logit(lambda) between a row of class i and a row of class j.

    If the signs at the two rows are equal, points between them are evaluated; if there is no change either, a line
    along the gradient. The root in a bracket is found by Chandrupatla's method (1997): bisection, with inverse
    quadratic interpolation where that is safe. A line is dropped at once if a third class is the most likely near its
    root.

    A search ends when the error in p_j / (p_i + p_j) is at most `tolerance`.
    """

    patience: ClassVar[int] = 50

    def __init__(self, density: ClassDensity, X: Floats, index: NDArray[np.int64], tolerance: float) -> None:
        self.density = density
        self.X, self.index = X, index
        self.tolerance = tolerance
        self.row_log_prob = np.full((len(X), len(density.classes_)), np.nan)
        """log p_c of the rows that were an end of a segment so far, (n, k)."""

    def find(self, pair: NDArray[np.int64], log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Draw two rows for each pair, and search for a root between them."""
        brackets = self._brackets(draw_rows(self.index, pair, rng), pair, log_ratio)
        points = np.full_like(brackets.origin, np.nan)
        log_prob = np.full((len(points), self.row_log_prob.shape[1]), np.nan)
        rows = self._promising(brackets, pair, log_ratio)
        lines = brackets.select(rows)
        lam = expit(log_ratio[rows])

        def difference(t: Floats, which: NDArray[np.int64]) -> Floats:
            return self._evaluate(lines.points(t, which), pair[rows[which]], log_ratio[rows[which]])[0]

        def is_near(value: Floats, which: NDArray[np.int64]) -> NDArray[np.bool_]:
            return np.asarray(np.abs(expit(value + log_ratio[rows[which]]) - lam[which]) <= self.tolerance)

        t = bracketed_roots(difference, lines.low, lines.high, lines.at_low, lines.at_high, is_near)
        points[rows] = lines.points(t)
        log_prob[rows] = self.density.log_prob(points[rows])
        return Candidates(points, log_prob)

    def _promising(self, brackets: Brackets, pair: NDArray[np.int64], log_ratio: Floats) -> NDArray[np.int64]:
        """Return the lines that cross the surface with no third class most likely at the linearly guessed root."""
        rows = np.flatnonzero(brackets.crossed)
        if self.row_log_prob.shape[1] == 2 or len(rows) == 0:
            return rows
        low, high, at_low, at_high = brackets.select(rows)[2:]
        total = np.abs(at_low) + np.abs(at_high)
        fraction = np.divide(np.abs(at_low), total, out=np.full_like(total, 0.5), where=total > 0.0)
        guess = brackets.points(low + fraction * (high - low), rows)
        return rows[~self._evaluate(guess, pair[rows], log_ratio[rows])[1]]

    def _evaluate(self, points: Floats, pair: NDArray[np.int64], log_ratio: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return log p_j - log p_i minus the log-ratio, and a mask of points where a third class is likeliest, (m,)."""
        return _compare(self.density.log_prob(points), pair, log_ratio)

    def _brackets(self, ends: NDArray[np.int64], pair: NDArray[np.int64], log_ratio: Floats) -> Brackets:
        """Return a bracket for each pair of rows `ends` (m, 2), refined where their signs are equal."""
        unknown = np.unique(ends[np.isnan(self.row_log_prob[ends]).any(-1)])
        self.row_log_prob[unknown] = self.density.log_prob(self.X[unknown])
        at_low, at_high = (_compare(self.row_log_prob[rows], pair, log_ratio)[0] for rows in ends.T)
        start, m = self.X[ends[:, 0]], len(pair)
        brackets = Brackets(start, self.X[ends[:, 1]] - start, np.zeros(m), np.ones(m), at_low, at_high)
        rest = np.flatnonzero(~brackets.crossed)
        if len(rest):
            brackets.assign(rest, self._inside(brackets.select(rest), pair[rest], log_ratio[rest]))
        return brackets

    def _inside(self, ends: Brackets, pair: NDArray[np.int64], log_ratio: Floats) -> Brackets:
        """Return brackets between points inside the segments, or along the gradient at the best of these points."""
        m, t = len(pair), np.linspace(0.0, 1.0, INNER_NODES + 2)
        nodes = ends.origin[:, None] + t[1:-1, None] * ends.direction[:, None]
        shape, repeated = (m, INNER_NODES), (np.repeat(pair, INNER_NODES, 0), np.repeat(log_ratio, INNER_NODES))
        inner, third = self._evaluate(nodes.reshape(m * INNER_NODES, -1), *repeated)
        values = np.column_stack([ends.at_low, inner.reshape(shape), ends.at_high])
        changes = values[:, :-1] * values[:, 1:] <= 0.0
        at, rows = changes.argmax(1), np.arange(m)
        signs = values[rows, at], values[rows, at + 1]
        brackets = Brackets(ends.origin.copy(), ends.direction.copy(), t[at], t[at + 1], *signs)
        best = np.nan_to_num(np.abs(inner.reshape(shape)), nan=np.inf).argmin(1)
        rest = np.flatnonzero(~changes.any(1) & ~third.reshape(shape)[rows, best])
        if len(rest):
            max_length = 0.5 * np.linalg.norm(ends.direction[rest], axis=1)
            lines = self._along_gradient(nodes[rest, best[rest]], max_length, pair[rest], log_ratio[rest])
            brackets.assign(rest, lines)
        return brackets

    def _along_gradient(
        self, origin: Floats, max_length: Floats, pair: NDArray[np.int64], log_ratio: Floats
    ) -> Brackets:
        """Return lines from points (m, d) towards the surface, twice as long as the linear distance to it."""
        with torch.enable_grad():
            x = torch.from_numpy(origin).requires_grad_()
            difference = self.density.log_prob(x).gather(1, torch.from_numpy(pair)).diff(dim=1)[:, 0]
            gradient = np.nan_to_num(torch.autograd.grad(difference.sum(), x)[0].numpy())
        value = difference.detach().numpy() - log_ratio
        size = np.linalg.norm(gradient, axis=1)
        size = np.where(size > 0.0, size, 1.0)
        length = np.minimum(2.0 * np.abs(value) / size, max_length)
        direction = gradient * np.nan_to_num(-np.sign(value) * length / size)[:, None]
        at_end, _ = self._evaluate(origin + direction, pair, log_ratio)
        return Brackets(origin, direction, np.zeros(len(pair)), np.ones(len(pair)), value, at_end)


def _compare(log_prob: Floats, pair: NDArray[np.int64], log_ratio: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what `SegmentFinder._evaluate` does, from log-densities (m, k)."""
    own = log_prob[np.arange(len(pair))[:, None], pair]
    with np.errstate(invalid="ignore"):
        difference = np.clip(own[:, 1] - own[:, 0] - log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return difference, np.asarray(log_prob.max(1) > own.max(1))


def bracketed_roots(
    function: Callable[[Floats, NDArray[np.int64]], Floats],
    low: Floats,
    high: Floats,
    at_low: Floats,
    at_high: Floats,
    is_near: Callable[[Floats, NDArray[np.int64]], NDArray[np.bool_]],
) -> Floats:
    """Return a root of each of m functions within its bracket, (m,), by Chandrupatla's method, all at once.

    `function(t, which)` and `is_near(value, which)` evaluate the functions with the indices `which`.

    >>> cubic = lambda t, which: t**3 - np.array([0.5, 0.001])[which]
    >>> low, high, both = np.zeros(2), np.ones(2), np.arange(2)
    >>> is_near = lambda value, which: np.abs(value) < 1e-12
    >>> bracketed_roots(cubic, low, high, cubic(low, both), cubic(high, both), is_near).round(6)
    array([0.793701, 0.1     ])
    """
    lower = np.abs(at_low) <= np.abs(at_high)
    best, value = np.where(lower, low, high), np.where(lower, at_low, at_high)
    which = np.flatnonzero(~is_near(value, np.arange(len(low))))
    a, b, fa, fb = high[which], low[which], at_high[which], at_low[which]
    t = np.full(len(which), 0.5)
    for _ in range(MAX_STEPS):
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
        t = _next_fraction(a, b, c, fa, fb, fc)
        active = ~is_near(fx, which) & (np.abs(b - a) > 1e-15) & ~np.isnan(fx)
        which = which[active]
        a, b, fa, fb, t = (values[active] for values in (a, b, fa, fb, t))
    return best


def _next_fraction(*bracket: Floats) -> Floats:
    """Return where to evaluate next between a and b: interpolated where that is safe, else the middle."""
    a, b, c, fa, fb, fc = bracket
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (phi * phi < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(inverse)
        least = np.minimum(1e-15 / np.abs(b - a), 0.5)
    return np.where(safe, np.clip(inverse, least, 1.0 - least), 0.5)
