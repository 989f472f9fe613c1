"""Coefficients A and B of the second-order expansions: mean weights of the other parent of a mixed point."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2, norm

from genlabel._arrays import Values, chunks
from genlabel._validation import check_positive
from genlabel_paper.theory.gaussian import GaussianPair, proof_log_odds, sigma_inverse
from genlabel_paper.theory.inputs import read_binary_sample
from genlabel_paper.theory.quadrature import DEPTH, nodes_between

MIXUP = (1.0 / 3.0, 1.0 / 6.0)
"""Coefficients (A, B) of mixup with uniform lam: E[1 - lam] and E[(1 - lam)^2] under Beta(2, 1) (arXiv Lemma 8)."""
PANELS, PANELS_OF_TWO, MAX_DEVIATION = 44, 9, 6.5
"""Panels for a normal variable, alone and with another one, and their end in standard deviations."""
CHUNK_SIZE = 1 << 10
"""Draws of the noise whose values of lam are in memory at a time."""
GRID_SIZE, BISECTIONS = 32, 50
"""Search for the lam at which a label jumps."""
MIN_DEPTH = 5
"""Smallest number of halvings of the panels of lam towards a jump."""

Array = NDArray[np.float64]


class Moments(NamedTuple):
    """Integrals of 1, 1 - lam, (1 - lam)^2 under the density on [0, 1] of a label, see `pair_coefficients`."""

    mass: Any
    A: Any
    B: Any


def is_limit(sigma_1: object) -> bool:
    """Return whether sigma_1 is infinity, the limit.

    >>> is_limit(np.inf), is_limit(1e9)
    (True, False)
    """
    return isinstance(sigma_1, Real) and bool(sigma_1 == np.inf)


def limit_coefficients(c: float) -> tuple[float, float]:
    """Return the limits of A and B as sigma_1 grows: (c^2 + 1) / (2 (c + 1)^2), (c^2 - c + 1) / (3 (c + 1)^2).

    arXiv Lemma 1, proof, step 4, Eq. (36). Both are below mixup's 1/3 and 1/6 exactly where c^2 - 4 c + 1 < 0.

    >>> limit_coefficients(1.0)
    (0.25, 0.08333333333333333)
    """
    check_positive("c", c, "1 gives both classes one covariance")
    return (c**2 + 1.0) / (2.0 * (c + 1.0) ** 2), (c**2 - c + 1.0) / (3.0 * (c + 1.0) ** 2)


def taylor_coefficients(c: float, tau: float, d: int, sigma_1: float, *, noise: bool = True) -> tuple[float, float]:
    """Return A and B of the expansion of the GenLabel loss, E_F[1 - lam] and E_F[(1 - lam)^2], by integration.

    With lam_1 the weight that y_gen gives to the label of x_i (arXiv Eq. (27)), the density F of arXiv Eqs. (32), (34)
    and (35) is F(lam) = lam_1(lam) + 1 - lam_1(1 - lam), and so A = E[(1 - lam) lam_1 + lam (1 - lam_1)] with
    uniform lam: the mean weight of the parent that does *not* determine the label. Accurate to 2e-5 for c in the range
    of the theorem, and to 5e-4 for c from 0.1 to 10 for any overlap of the classes.
    NOTE[PAPER]: the paper's A^i is that of the draws of the sample; this is its mean over draws.

    Parameters
    ----------
    c, tau, d, sigma_1
        Parameters of :class:`genlabel_paper.theory.GaussianPair`; an infinite sigma_1 gives the limits.
    noise : bool
        Average over random x_i and x_j, or use the means of the classes.

    Examples
    --------
    >>> A, B = taylor_coefficients(1.0, 0.0, 2, 10.0)
    >>> round(A, 4), round(B, 4)
    (0.2513, 0.0846)
    """
    if is_limit(sigma_1):
        return limit_coefficients(c)
    zero, one = class_coefficients(c, tau, d, sigma_1, noise=noise)
    return (zero.A + one.A) / 2.0, (zero.B + one.B) / 2.0


def class_coefficients(c: float, tau: float, d: int, sigma_1: float, *, noise: bool = True) -> tuple[Moments, Moments]:
    """Return mass, A and B of pairs whose x_i has class 0, and class 1.

    The loss of a mixed pair is that of x_i's own label under the density 2 lam_1(lam).
    NOTE[PAPER]: its mass is 1 for both classes only if c = 1. The lemma swaps the names of i and j in one half of the
    sum, but keeps lam_1 of the old names, and so obtains the means over both classes, as in
    :func:`taylor_coefficients`.

    Parameters
    ----------
    c, tau, d, sigma_1, noise
        See :func:`taylor_coefficients`.

    Examples
    --------
    >>> zero, one = class_coefficients(3.0, 0.0, 2, np.inf)
    >>> zero
    Moments(mass=1.5, A=0.5625, B=0.28125)
    """
    if is_limit(sigma_1):
        check_positive("c", c, "1 gives both classes one covariance")
        return _half_moments(c / (1.0 + c)), _half_moments(1.0 / (1.0 + c))
    return _class_moments(GaussianPair(sigma_1, c, tau, d), noise)


def pair_coefficients(X: Values, y: Values, pair: GaussianPair) -> Moments:
    """Return mass, A and B of every pair of a sample, (n, n) each, for row i mixed with column j.

    Pairs of one class keep their label; any density with F(lam) + F(1 - lam) = 2 describes them, and the uniform one
    has the moments 1, 1/2 and 1/3.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
        Labels 0 or 1.
    pair : GaussianPair
        Densities of the labels.

    Examples
    --------
    >>> moments = pair_coefficients([[-1.0, 0.0], [-1.0, 0.1], [1.0, 0.0]], [0, 0, 1], GaussianPair(sigma_1=1.0))
    >>> moments.A.round(3).tolist()  # pairs of one class have 1/2
    [[0.5, 0.5, 0.359], [0.5, 0.5, 0.359], [0.359, 0.359, 0.5]]
    """
    x, labels = read_binary_sample(X, y)
    points, index, n = x.numpy(), labels.numpy(), len(x)
    if points.shape[1] != pair.d:
        raise ValueError(f"X has {points.shape[1]} features, but the densities have d={pair.d}")
    mixed = Moments(np.ones((n, n)), np.full((n, n), 0.5), np.full((n, n), 1.0 / 3.0))
    i, j = np.nonzero(index[:, None] < index)
    if not len(i):
        return mixed
    odds = pair.along(points[i], points[j])
    for (rows, columns), part in zip(((i, j), (j, i)), _moments(odds.at, odds.jumps), strict=True):
        for matrix, moment in zip(mixed, part, strict=True):
            matrix[rows, columns] = moment
    return mixed


@lru_cache(maxsize=256)
def _class_moments(pair: GaussianPair, noise: bool) -> tuple[Moments, Moments]:
    """Return means over the noise g along e_1 and, if the classes differ in width, over the rest chi of its square."""
    constant = np.zeros(1), np.ones(1)
    both = noise and pair.d > 1 and pair.c != 1.0
    g, weight = _normal_nodes(PANELS_OF_TWO if both else PANELS) if noise else constant
    chi, chi_weight = _chi_square_nodes(pair.d - 1, PANELS_OF_TWO // 2) if both else constant
    zero, one = np.zeros(3), np.zeros(3)
    for rows in chunks(len(g), CHUNK_SIZE // len(chi)):
        odds = _log_odds(pair, g[rows, None, None], chi[:, None])
        moments = _moments(odds, _jumps(odds, (len(g[rows]), len(chi))), _depth(pair))
        zero, one = (
            total + [weight[rows] @ moment @ chi_weight for moment in part]
            for total, part in zip((zero, one), moments, strict=True)
        )
    return Moments(*zero.tolist()), Moments(*one.tolist())


def _moments(log_odds: Callable[[Array], Array], jumps: Array, depth: int = DEPTH) -> tuple[Moments, Moments]:
    """Return the moments (...) of both classes from log q - log p at lam (..., q), x_i of class 0, and its jumps."""
    lam, weight = nodes_between(jumps, depth)
    odds = log_odds(lam)
    first = 2.0 * weight * expit(-odds)
    second = 2.0 * weight - first
    zero = (first.sum(-1), (first * (1.0 - lam)).sum(-1), (first * (1.0 - lam) ** 2).sum(-1))
    one = (second.sum(-1), (second * lam).sum(-1), (second * lam**2).sum(-1))
    return Moments(*zero), Moments(*one)


def _depth(pair: GaussianPair) -> int:
    """Return the halvings until a panel is half as wide as the transition of the label, 1 / (4 sigma^2 c_d)."""
    steep = 4.0 * max(pair.sigma_1, pair.sigma_2) ** 2 * sigma_inverse(pair.tau, pair.d)[0, 0]
    return int(np.clip(np.ceil(np.log2(steep)) + 1.0, MIN_DEPTH, DEPTH))


def _jumps(log_odds: Callable[[Array], Array], shape: tuple[int, ...]) -> Array:
    """Return the first and last sign change (*shape, 2) of the log-odds, by bisection within a grid; 1/2 for none."""
    grid = np.linspace(0.0, 1.0, GRID_SIZE + 1)
    positive = log_odds(np.broadcast_to(grid, (*shape, GRID_SIZE + 1))) > 0.0
    change = positive[..., 1:] != positive[..., :-1]
    cell = np.stack([change.argmax(-1), GRID_SIZE - 1 - change[..., ::-1].argmax(-1)], -1)
    low, high = grid[cell], grid[cell + 1]
    start = np.take_along_axis(positive, cell, -1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        before = (log_odds(middle) > 0.0) == start
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return np.where(change.any(-1, keepdims=True), np.sort((low + high) / 2.0, -1), 0.5)


def _log_odds(pair: GaussianPair, g: Array, chi: Array) -> Callable[[Array], Array]:
    """Return log q - log p at mixed points with noise g along e_1 and rest chi of its squared length.

    Z' = s sqrt(c_d) g and z_bar = s^2 (g^2 + chi) with s^2 = lam^2 / sigma_1^2 + (1 - lam)^2 / sigma_2^2: arXiv
    Lemmas 6 and 7, Eqs. (24) and (25). g and chi are independent, and one draw serves all lam: A and B need only the
    mean over the noise at each lam.
    """
    root = np.sqrt(sigma_inverse(pair.tau, pair.d)[0, 0])

    def log_odds(lam: Array) -> Array:
        s = np.hypot(lam / pair.sigma_1, (1.0 - lam) / pair.sigma_2)
        return proof_log_odds(lam, s * root * g, s**2 * (g**2 + chi), pair)

    return log_odds


def _half_moments(share: float) -> Moments:
    """Return the moments of the density 2 on [1 - share, 1]."""
    return Moments(2.0 * share, share**2, 2.0 * share**3 / 3.0)


@cache
def _normal_nodes(panels: int) -> tuple[Array, Array]:
    """Return nodes and weights of a standard normal variable, by Gauss-Legendre rules on equal panels."""
    ends = np.linspace(-MAX_DEVIATION, MAX_DEVIATION, panels + 1)
    point, weight = np.polynomial.legendre.leggauss(8)
    points = ((ends[1:] + ends[:-1])[:, None] / 2 + MAX_DEVIATION / panels * point).ravel()
    density = np.tile(weight, panels) * norm.pdf(points)
    return points, density / density.sum()


@cache
def _chi_square_nodes(degrees: int, panels: int) -> tuple[Array, Array]:
    """Return nodes and weights of a chi-squared variable, as a monotone function of a normal one."""
    point, weight = _normal_nodes(panels)
    upper = chi2.isf(norm.sf(point), degrees)
    return np.where(point > 0, upper, chi2.ppf(norm.cdf(point), degrees)), weight
