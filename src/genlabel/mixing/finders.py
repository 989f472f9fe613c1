"""Points with a given ratio of two class densities: in closed form, by root search, or by projections onto manifolds.

In every finder, m searches run at once. `pair` (m, 2) holds two class indices i, j for each, and `log_ratio` (m,) the
wanted log p_j - log p_i, that is logit(lambda).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from genlabel.densities import ClassDensity
from genlabel.densities.base import Manifolds
from genlabel.densities.covariance import Gaussians

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
INNER_NODES = 7
"""Points inside a segment that are evaluated if its ends lie on the same side of the surface."""
MAX_STEPS = 60
"""Largest number of steps of a root search."""
MAX_LOG_RATIO = 1e8
"""Bound on differences of log-densities, which are infinite where a density vanishes."""
MAX_PROJECTIONS, BISECTIONS = 25, 50
"""Largest number of moves of a point by projections, and bisections in one move."""


class Candidates(NamedTuple):
    """Points (m, d) that may lie on a surface, with their log-densities (m, k); NaN where none was found."""

    points: Floats
    log_prob: Floats


class Finder(ABC):
    """Base class of searches for points with log p_j - log p_i = logit(lambda)."""

    patience: ClassVar[int]
    """Searches per success above which a pair of classes is given up."""

    @abstractmethod
    def find(self, pair: Classes, log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Search one point for each pair of classes (m, 2), at its log-ratio (m,)."""


def third_is_likelier(log_prob: Floats, pair: Classes) -> NDArray[np.bool_]:
    """Return the mask (m,) of points at which a third class is more likely than the less likely one of the pair."""
    rows = np.arange(len(pair))[:, None]
    others = log_prob.copy()
    others[rows, pair] = -np.inf
    return np.asarray(others.max(1) > log_prob[rows, pair].min(1))


def draw_rows(index: Classes, pair: Classes, rng: np.random.Generator) -> Classes:
    """Draw a row of each class of the pairs (m, 2), (m, 2); `index` (n,) holds the classes of the rows."""
    order = np.argsort(index, kind="stable")
    count = np.bincount(index)
    first = np.cumsum(count) - count
    return order[first[pair] + (rng.random(pair.shape) * count[pair]).astype(np.int64)]


@final
class QuadricFinder(Finder):
    """GenMix+GM: the log-ratio of two Gaussians on a line from a draw of class i to a draw of class j is a quadratic.

    arXiv Section F.2: the surface is that of quadratic discriminant analysis. A root between the two draws is polished
    by one Newton step.

    NOTE[PAPER]: that section prints |log p_j / (p_i + p_j)| for lambda, which is 0 at the means of class j; the
    condition is arXiv Eq. (37), log p_j - log p_i = logit(lambda). Its normalizer has (2 pi)^k with the number of
    classes; that of a Gaussian is (2 pi)^d.
    """

    patience: ClassVar[int] = 50

    def __init__(self, density: ClassDensity, gaussians: Gaussians) -> None:
        self.density, self.gaussians = density, gaussians
        self.spread = torch.linalg.inv(gaussians.matrix)

    def find(self, pair: Classes, log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Draw a line for each pair, and solve for its root."""
        mean, matrix, log_det = self.gaussians
        classes = torch.from_numpy(pair.T.copy())
        normals = (torch.from_numpy(rng.standard_normal((len(pair), mean.shape[1]))) for _ in classes)
        start, end = (_multiply_by_class(z, self.spread, c) + mean[c] for z, c in zip(normals, classes, strict=True))
        direction = end - start
        # Coefficients of t^2, t and 1 in log p_c(start + t direction), up to d/2 log 2 pi, for c = i and c = j.
        coefficients = []
        for c in classes:
            a = _multiply_by_class(start - mean[c], matrix, c)
            v = _multiply_by_class(direction, matrix, c)
            coefficients.append((-0.5 * (v * v).sum(1), -(a * v).sum(1), -0.5 * ((a * a).sum(1) + log_det[c])))
        square, slope, constant = (of_j - of_i for of_i, of_j in zip(*coefficients, strict=True))
        t = roots_on_segment(square, slope, constant - torch.from_numpy(log_ratio), rng)
        points = (start + t[:, None] * direction).numpy()
        log_prob = np.full((len(t), len(mean)), np.nan)
        rows = t.isfinite().nonzero()[:, 0].numpy()
        log_prob[rows] = self.density.log_prob(points[rows])
        rows = rows[~third_is_likelier(log_prob[rows], pair[rows])]
        # One Newton step: the coefficients lose digits far from the mean; the density itself does not.
        error = np.diff(np.take_along_axis(log_prob[rows], pair[rows], 1))[:, 0] - log_ratio[rows]
        slope_at_root = (2.0 * square * t + slope)[rows].numpy()
        step = np.divide(error, slope_at_root, out=np.zeros_like(error), where=slope_at_root != 0.0)
        points[rows] -= step[:, None] * direction[rows].numpy()
        log_prob[rows] = self.density.log_prob(points[rows])
        return Candidates(points, log_prob)


def _multiply_by_class(x: Tensor, matrix: Tensor, classes: Tensor) -> Tensor:
    """Return x A_c for each row x (m, d) and its class c (m,); `matrix` (k, d, d) holds the A_c."""
    result = torch.empty_like(x)
    for c in range(len(matrix)):
        mask = classes == c
        result[mask] = x[mask] @ matrix[c]
    return result


def roots_on_segment(square: Tensor, slope: Tensor, constant: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a root of square t^2 + slope t + constant in [0, 1], (m,): a random one of two, NaN if there is none."""
    # q = -(b + sign(b) sqrt(b^2 - 4ac)) / 2 and the roots q / a, c / q: no cancellation in either.
    q = -0.5 * (slope + torch.copysign((slope * slope - 4.0 * square * constant).sqrt(), slope))
    both = torch.stack([q / square, constant / q], 1)
    inside = (both >= 0.0) & (both <= 1.0)
    take_second = inside[:, 1] & (~inside[:, 0] | torch.from_numpy(rng.random(len(q)) < 0.5))
    root = torch.where(take_second, both[:, 1], both[:, 0])
    return torch.where(inside.any(1), root, torch.full_like(root, torch.nan))


class Brackets(NamedTuple):
    """Lines x = origin + t direction with an interval of t, from low to high, that may hold a root."""

    origin: Floats  # (m, d)
    direction: Floats  # (m, d)
    low: Floats  # (m,)
    high: Floats  # (m,)
    at_low: Floats  # log p_j - log p_i minus the wanted log-ratio at t = low, (m,)
    at_high: Floats  # the same at t = high, (m,)

    def points(self, t: Floats, which: Any = slice(None)) -> Floats:
        """Return the points of the lines `which` at t."""
        return np.asarray(self.origin[which] + t[:, None] * self.direction[which])

    @property
    def crossed(self) -> NDArray[np.bool_]:
        """Mask of lines whose sign changes, (m,)."""
        return np.asarray(self.at_low * self.at_high <= 0.0)

    def select(self, rows: Classes) -> Brackets:
        """Return some of the lines."""
        return Brackets(*(field[rows] for field in self))

    def assign(self, rows: Classes, brackets: Brackets) -> None:
        """Replace some of the lines in place."""
        for field, values in zip(self, brackets, strict=True):
            field[rows] = values


@final
class SegmentFinder(Finder):
    """Find a sign change of log p_j - log p_i - logit(lambda) between a row of class i and a row of class j.

    If the signs at the two rows are equal, points between them are evaluated, and if these have the same sign, a line
    along the gradient. Chandrupatla's method (1997) finds the root in a bracket: bisection, with inverse quadratic
    interpolation where that is safe. A line is dropped at once if a third class is the most likely near its root.

    A search ends when the error in p_j / (p_i + p_j) is at most `tolerance`, a criterion that
    `scipy.optimize.elementwise.find_root` does not have.
    """

    patience: ClassVar[int] = 50

    def __init__(self, density: ClassDensity, X: Floats, index: Classes, tolerance: float) -> None:
        self.density, self.X, self.index, self.tolerance = density, X, index, tolerance
        self.row_log_prob = np.full((len(X), len(density.classes_)), np.nan)
        """log p_c of the rows that have been ends of a segment, (n, k); NaN for the others."""

    def find(self, pair: Classes, log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Draw two rows for each pair, and search for a root between them."""
        brackets = self.brackets_between(draw_rows(self.index, pair, rng), pair, log_ratio)
        points = np.full_like(brackets.origin, np.nan)
        log_prob = np.full((len(points), self.row_log_prob.shape[1]), np.nan)
        rows = self.promising(brackets, pair, log_ratio)
        lines = brackets.select(rows)
        lam = expit(log_ratio[rows])

        def difference(t: Floats, which: Classes) -> Floats:
            log_prob = self.density.log_prob(lines.points(t, which))
            return _compare(log_prob, pair[rows[which]], log_ratio[rows[which]])[0]

        def is_near(value: Floats, which: Classes) -> NDArray[np.bool_]:
            return np.asarray(np.abs(expit(value + log_ratio[rows[which]]) - lam[which]) <= self.tolerance)

        t = bracketed_roots(difference, *lines[2:], is_near)
        points[rows] = lines.points(t)
        log_prob[rows] = self.density.log_prob(points[rows])
        return Candidates(points, log_prob)

    def promising(self, brackets: Brackets, pair: Classes, log_ratio: Floats) -> Classes:
        """Return the lines that cross the surface with no third class most likely at the linearly guessed root."""
        rows = np.flatnonzero(brackets.crossed)
        if self.row_log_prob.shape[1] == 2 or len(rows) == 0:
            return rows
        low, high, at_low, at_high = brackets.select(rows)[2:]
        total = np.abs(at_low) + np.abs(at_high)
        fraction = np.divide(np.abs(at_low), total, out=np.full_like(total, 0.5), where=total > 0.0)
        guess = brackets.points(low + fraction * (high - low), rows)
        return rows[~_compare(self.density.log_prob(guess), pair[rows], log_ratio[rows])[1]]

    def brackets_between(self, ends: Classes, pair: Classes, log_ratio: Floats) -> Brackets:
        """Return a bracket for each pair of rows `ends` (m, 2), refined where their signs are equal."""
        unknown = np.unique(ends[np.isnan(self.row_log_prob[ends]).any(-1)])
        self.row_log_prob[unknown] = self.density.log_prob(self.X[unknown])
        at_low, at_high = (_compare(self.row_log_prob[rows], pair, log_ratio)[0] for rows in ends.T)
        start, m = self.X[ends[:, 0]], len(pair)
        brackets = Brackets(start, self.X[ends[:, 1]] - start, np.zeros(m), np.ones(m), at_low, at_high)
        if len(rest := np.flatnonzero(~brackets.crossed)):
            brackets.assign(rest, self.brackets_inside(brackets.select(rest), pair[rest], log_ratio[rest]))
        return brackets

    def brackets_inside(self, ends: Brackets, pair: Classes, log_ratio: Floats) -> Brackets:
        """Return brackets between points inside the segments, or along the gradient at the best of these points."""
        m = len(pair)
        t = np.linspace(0.0, 1.0, INNER_NODES + 2)
        nodes = ends.origin[:, None] + t[1:-1, None] * ends.direction[:, None]
        log_prob = self.density.log_prob(nodes.reshape(m * INNER_NODES, -1))
        difference, is_third = _compare(log_prob, np.repeat(pair, INNER_NODES, 0), np.repeat(log_ratio, INNER_NODES))
        inner, third = difference.reshape(m, INNER_NODES), is_third.reshape(m, INNER_NODES)
        values = np.column_stack([ends.at_low, inner, ends.at_high])
        changes = values[:, :-1] * values[:, 1:] <= 0.0
        rows, first = np.arange(m), changes.argmax(1)  # the first interval with a change of sign, if there is one
        at_ends = values[rows, first], values[rows, first + 1]
        brackets = Brackets(ends.origin.copy(), ends.direction.copy(), t[first], t[first + 1], *at_ends)
        best = np.nan_to_num(np.abs(inner), nan=np.inf).argmin(1)
        if len(rest := np.flatnonzero(~changes.any(1) & ~third[rows, best])):
            max_length = 0.5 * np.linalg.norm(ends.direction[rest], axis=1)
            lines = self.brackets_along_gradient(nodes[rest, best[rest]], max_length, pair[rest], log_ratio[rest])
            brackets.assign(rest, lines)
        return brackets

    def brackets_along_gradient(self, origin: Floats, max_length: Floats, pair: Classes, log_ratio: Floats) -> Brackets:
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
        at_end, _ = _compare(self.density.log_prob(origin + direction), pair, log_ratio)
        return Brackets(origin, direction, np.zeros(len(pair)), np.ones(len(pair)), value, at_end)


def _compare(log_prob: Floats, pair: Classes, log_ratio: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return log p_j - log p_i minus the log-ratio, and the mask of points where a third class is most likely, (m,)."""
    own = log_prob[np.arange(len(pair))[:, None], pair]
    with np.errstate(invalid="ignore"):
        difference = np.clip(own[:, 1] - own[:, 0] - log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return difference, np.asarray(log_prob.max(1) > own.max(1))


def bracketed_roots(
    function: Callable[[Floats, Classes], Floats],
    low: Floats,
    high: Floats,
    at_low: Floats,
    at_high: Floats,
    is_near: Callable[[Floats, Classes], NDArray[np.bool_]],
) -> Floats:
    """Return a root of each of m functions within its bracket, (m,), by Chandrupatla's method, all at once.

    `function(t, which)` evaluates the functions with the indices `which`, and `is_near(value, which)` returns the mask
    of values that end a search.
    """
    low_is_better = np.abs(at_low) <= np.abs(at_high)
    best, value = np.where(low_is_better, low, high), np.where(low_is_better, at_low, at_high)
    which = np.flatnonzero(~is_near(value, np.arange(len(low))))
    # The root lies between a, the newest point, and b; c is the point before, for the interpolation.
    a, b, fa, fb = high[which], low[which], at_high[which], at_low[which]
    t = np.full(len(which), 0.5)
    for _ in range(MAX_STEPS):
        if len(which) == 0:
            break
        x = a + t * (b - a)
        fx = function(x, which)
        same_sign = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same_sign, a, b), np.where(same_sign, fa, fb)
        b, fb = np.where(same_sign, b, a), np.where(same_sign, fb, fa)
        a, fa = x, fx
        better = np.abs(fx) < np.abs(value[which])
        best[which[better]], value[which[better]] = x[better], fx[better]
        t = next_fraction(a, b, c, fa, fb, fc)
        active = ~is_near(fx, which) & (np.abs(b - a) > 1e-15) & ~np.isnan(fx)
        which = which[active]
        a, b, fa, fb, t = (values[active] for values in (a, b, fa, fb, t))
    return best


def next_fraction(a: Floats, b: Floats, c: Floats, fa: Floats, fb: Floats, fc: Floats) -> Floats:
    """Return the next point as a fraction of the way from a to b: interpolated where that is safe, else the middle."""
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (phi * phi < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(inverse)
        least = np.minimum(1e-15 / np.abs(b - a), 0.5)
    return np.where(safe, np.clip(inverse, least, 1.0 - least), 0.5)


class _Projected(NamedTuple):
    """Points with their projections onto the manifolds."""

    points: Tensor  # (m, d)
    projections: Tensor  # (m, k, d)
    log_prob: Tensor  # (m, k)
    error: Tensor  # log p_j - log p_i minus the wanted log-ratio, (m,)


@final
class ProjectionFinder(Finder):
    """GenMix+GAN: alternate between projecting points onto the manifolds and moving them with frozen projections.

    A search starts at a random point between two rows (arXiv Section F.3, GenMix+GAN). The point is projected onto the
    manifolds, is moved to where its distances to the *frozen* projections have the wanted difference, within a trust
    radius, and is projected again. A step that does not reduce the error is undone, and the radius is halved.

    NOTE[PAPER]: the step goes along m_j - m_i, not along the gradient. On that line the difference of the distances is
    monotone in every norm, so that bisection solves the small problem; the gradient of an L1 or L-infinity distance is
    zero in whole regions, and so is the L2 one where both manifolds lie on the same side.

    A point is done when its error in p_j / (p_i + p_j) is at most `tolerance`.
    """

    patience: ClassVar[int] = 40

    def __init__(self, manifolds: Manifolds, X: Floats, index: Classes, tolerance: float) -> None:
        self.manifolds, self.X, self.index, self.tolerance = manifolds, X, index, tolerance

    def find(self, pair: Classes, log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Move a point between two rows of each pair until it has the log-ratio."""
        first, second = (self.X[rows] for rows in draw_rows(self.index, pair, rng).T)
        start = first + rng.uniform(0.25, 0.75, size=(len(pair), 1)) * (second - first)
        classes, wanted = torch.from_numpy(pair), torch.from_numpy(log_ratio)
        wanted_ratio = wanted.sigmoid()
        state = self._project(torch.from_numpy(start), classes, wanted)
        radius = torch.full_like(wanted, 0.5)  # as a fraction of the distance to the further projection
        for _ in range(MAX_PROJECTIONS):
            is_far = ((state.error + wanted).sigmoid() - wanted_ratio).abs() > self.tolerance
            rows = is_far.nonzero()[:, 0]
            if len(rows) == 0:
                break
            old = _Projected(*(field[rows] for field in state))
            moved = self._move(old, classes[rows], wanted[rows], radius[rows])
            new = self._project(moved, classes[rows], wanted[rows])
            better = new.error.abs() < old.error.abs()
            for field, update in zip(state, new, strict=True):
                field[rows[better]] = update[better]
            radius[rows] = torch.where(better, (2.0 * radius[rows]).clamp_max(1.0), 0.5 * radius[rows])
        return Candidates(state.points.numpy(), state.log_prob.numpy())

    def _project(self, points: Tensor, pair: Tensor, log_ratio: Tensor) -> _Projected:
        """Return points with their projections and errors."""
        projections = self.manifolds.project(points)
        log_prob = self.manifolds.log_prob_near(points, projections)
        return _Projected(points, projections, log_prob, _difference(log_prob, pair) - log_ratio)

    def _move(self, state: _Projected, pair: Tensor, log_ratio: Tensor, radius: Tensor) -> Tensor:
        """Move points along m_j - m_i to where the frozen distances are right, within the trust radius, (m, d)."""
        rows = torch.arange(len(pair))
        first, second = (state.projections[rows, c] for c in pair.T)
        direction = second - first
        size = direction.norm(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)
        distance = torch.maximum((state.points - first).norm(dim=1), (state.points - second).norm(dim=1))
        low, high = -radius * distance / size, radius * distance / size
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            log_prob = self.manifolds.log_prob_near(state.points + middle[:, None] * direction, state.projections)
            below = _difference(log_prob, pair) < log_ratio
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return state.points + (0.5 * (low + high))[:, None] * direction


def _difference(log_prob: Tensor, pair: Tensor) -> Tensor:
    """Return log p_j - log p_i, (m,)."""
    return log_prob.gather(1, pair).diff(dim=1)[:, 0]
