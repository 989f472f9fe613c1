"""Example 3: logistic regression on two points and many copies of a third, and the optimal angle of each scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from genlabel._validation import check_choice, check_count, check_interval, check_positive
from genlabel_paper.theory.inputs import check_scheme
from genlabel_paper.theory.labels import MAX_RATIO, gaussian_label
from genlabel_paper.theory.quadrature import mixing_nodes

Floats = NDArray[np.float64]
KNOWN = ("vanilla", "mixup", "genlabel")
UNDEFINED = {
    "mixup-without-mi": "each mixed point is nearest to one of its parents, so none intrudes: it is 'mixup'",
    "logistic": "it is 'genlabel' with sigma / sqrt(2)",
    "svm": "its angle is pi / 4 for every r",
}
LABELS = ("unit", "distance", "mixture")
PRINTED = {"vanilla": 0.22, "mixup": 0.30, "genlabel": 0.25}
"""Angles at r = 25 in units of pi (arXiv Figure 7)."""
GRID_SIZE = 17
"""Number of angles of the grid search."""
REFINEMENT, BISECTIONS = 4, 40
"""For many settings: refinement of the grid for the derivative, and steps to its root."""
BOUNDARY_ANGLES, MAX_SMOOTH_NORM = 18, 20.0
"""Fine-grid angles next to 0 and pi / 2 where, above this norm, the derivative may change within a step."""
NORM_RATIO = 1.25
"""Ratio of the norms at which an order of margins is checked."""
NORM_LIMITS = (1e-6, 1e12)
"""Range of norms in which the angle is accurate."""
MAX_ORDER_NORM = 1e9
"""Largest norm at which an order of margins is checked."""


def make_example3(n: int = 30) -> tuple[Floats, NDArray[np.int64]]:
    """Return two positive points and `n` copies of a negative one, whose weight turns the boundary.

    `S = {((1, 0), +1), ((0, 1), +1)}` and `n` times `((-1, 0), -1)`; `y` holds the paper's -1 and +1.

    Citation: arXiv Example 3 and Figure 7.

    Parameters
    ----------
    n : int
        Number of copies of the negative point, at least 1.

    Examples
    --------
    >>> X, y = make_example3(n=2)
    >>> X.astype(int).tolist(), y.tolist()
    ([[1, 0], [0, 1], [-1, 0], [-1, 0]], [1, 1, -1, -1])
    """
    # NOTE[PAPER]: n is not given; the paper's angle of plain training, 0.22 pi, at r = 25 needs n from 18 to 59.
    check_count("n", n)
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    return X.repeat([1, 1, n], axis=0), np.array([1, 1, -1], dtype=np.int64).repeat([1, 1, n])


def example3_loss(
    scheme: str, r: float, phi: float, n: int, alpha: float = 1.0, sigma: float = 0.1, *, labels: str = "unit"
) -> float:
    r"""Return the logistic loss of theta = r (cos phi, sin phi), summed over the points or over all (n + 2)^2 pairs.

    .. math:: 2n \int_{L_1 \cup L_2} \ell + n^2 \ell(y_3) + 2 \int_{L_3} \ell + \ell(y_1) + \ell(y_2)

    arXiv Example 3, proof, Eqs. (5) to (8); the sum over the n + 2 points for "vanilla".

    Parameters
    ----------
    scheme : "vanilla", "mixup" or "genlabel"
    r : float
        Norm of theta, positive.
    phi : float in [0, pi / 2]
    n : int
        Copies of the negative point; NOTE[PAPER]: n, alpha and sigma are not printed, see
        :func:`example3_parameters`.
    alpha : float
        Parameter of lam ~ Beta(alpha, alpha), positive.
    sigma : float
        Width of GenLabel's Gaussians, positive.
    labels : "unit", "distance" or "mixture"
        Labels of "genlabel". "unit" is the proof's rho, that of Proposition 1 for points at distance 1. NOTE[PAPER]:
        L_1 has length sqrt(2) and L_2 has length 2; "distance" uses rho for these. The proof models class +1 as a
        Gaussian mixture, whose posterior is "mixture". Pairs of one class keep their label in all three.

    Examples
    --------
    >>> round(example3_loss("vanilla", 1.0, 0.0, n=1), 6)  # 2 log(1 + 1/e) + log 2
    1.319671
    """
    _check(scheme, r, n, alpha, sigma, labels)
    check_interval("phi", phi, 0.0, math.pi / 2, "the angle of a theta that separates the points")
    weight, y, t, _ = _points(scheme, phi, n, alpha, sigma, labels)
    return float(weight @ (y * np.logaddexp(0.0, -r * t) + (1.0 - y) * np.logaddexp(0.0, r * t)))


def example3_angle(
    scheme: str, r: float, n: int, alpha: float = 1.0, sigma: float = 0.1, *, labels: str = "unit"
) -> float:
    """Return the angle phi in [0, pi / 2] of the least loss, in radians (arXiv Figure 7b); see :func:`example3_loss`.

    The best of a grid, then the root of the derivative next to it. Vanilla's is the only root of
    (n + 1) tan(phi) (1 + e^(r sin phi)) = 1 + e^(r cos phi), whose logarithm rises with phi: below pi / 4 for every r.

    Examples
    --------
    >>> [round(example3_angle(scheme, 25.0, 30) / np.pi, 4) for scheme in ("vanilla", "mixup", "genlabel")]
    [0.2207, 0.3198, 0.2486]
    """
    _check(scheme, r, n, alpha, sigma, labels)
    if scheme == "vanilla":
        return math.atan(math.exp(brentq(lambda u: _vanilla_log_ratio(u, r, n), -math.log1p(n), 0.0, xtol=1e-14)))

    def derivative(phi: float) -> float:
        weight, y, t, turn = _points(scheme, phi, n, alpha, sigma, labels)
        return float(weight @ ((expit(r * t) - y) * turn))

    def loss(phi: float) -> float:
        return example3_loss(scheme, r, phi, n, alpha=alpha, sigma=sigma, labels=labels)

    grid = np.linspace(0.0, math.pi / 2, GRID_SIZE)
    best = int(np.argmin([loss(phi) for phi in grid]))
    return _root(derivative, grid[max(best - 1, 0)], grid[min(best + 1, GRID_SIZE - 1)])


def example3_angles(
    scheme: str,
    r: Sequence[float],
    n: Sequence[int],
    sigma: Sequence[float] = (0.1,),
    *,
    alpha: float = 1.0,
    labels: str = "unit",
) -> Floats:
    """Return the angles of many settings, (len(n), len(sigma), len(r)), each within 1e-5 of `example3_angle`.

    The derivative of the loss is a sum of a term that depends on r and a term that depends on sigma, so all their
    combinations cost little more than one. It is computed at 65 angles; the root is that of a cubic spline. Near 0 and
    pi / 2, where the derivative changes within 1 / r, angles are computed by `example3_angle`; wide Gaussians lead
    there.

    Parameters
    ----------
    scheme : "vanilla", "mixup" or "genlabel"
    r, n, sigma : sequences
        See :func:`example3_loss`; all combinations are computed.
    alpha : float
    labels : "unit", "distance" or "mixture"

    Examples
    --------
    >>> (example3_angles("genlabel", [5.0, 25.0], [30], [0.1, 0.4])[0] / np.pi).round(4)
    array([[0.1597, 0.2486],
           [0.1678, 0.3014]])
    """
    for one in product([scheme], r, n, [alpha], sigma, [labels]):
        _check(*one)
    if scheme == "vanilla":
        angles = np.array([[example3_angle(scheme, norm, count) for norm in r] for count in n])
        return np.repeat(angles[:, None], len(sigma), axis=1)
    grid, norms = np.linspace(0.0, math.pi / 2, REFINEMENT * (GRID_SIZE - 1) + 1), np.array(r)
    losses, derivatives = zip(
        *(_losses_and_derivatives(scheme, phi, norms, n, alpha, sigma, labels) for phi in grid), strict=True
    )
    best = np.argmin(losses[::REFINEMENT], axis=0)
    low, high = REFINEMENT * np.maximum(best - 1, 0), REFINEMENT * np.minimum(best + 1, GRID_SIZE - 1)
    angles = _spline_root(grid, np.array(derivatives), low, high)
    for i, j, k in np.argwhere(
        (norms > MAX_SMOOTH_NORM) & (np.minimum(angles, math.pi / 2 - angles) < grid[BOUNDARY_ANGLES])
    ):
        angles[i, j, k] = example3_angle(scheme, r[k], n[i], alpha=alpha, sigma=sigma[j], labels=labels)
    return angles


def example3_margin(
    scheme: str, r: float, n: int, alpha: float = 1.0, sigma: float = 0.1, *, labels: str = "unit"
) -> float:
    """Return min(cos phi, sin phi) at the angle of :func:`example3_angle` (arXiv Example 3, proof).

    Examples
    --------
    >>> round(example3_margin("genlabel", 25.0, 30), 3), round(2**-0.5, 3)
    (0.704, 0.707)
    """
    phi = example3_angle(scheme, r, n, alpha=alpha, sigma=sigma, labels=labels)
    return min(math.cos(phi), math.sin(phi))


def example3_limit(scheme: str, alpha: float = 1.0, sigma: float = 0.1, *, labels: str = "unit") -> float:
    """Return the angle as r goes to infinity, for every n, in radians.

    The loss over r then is the hinge loss of L_1 and L_2 alone, as the other points are classified correctly. Vanilla's
    limit is pi / 4, the SVM's (arXiv Example 3, proof). NOTE[PAPER]: GenLabel's is not, although arXiv Remark 1 states
    it. Near the middle of L_2 points have labels of both classes, which pulls cos phi down: with the printed labels the
    limit is pi / 4 + 2 pi^2 sigma^4 / 3 and higher orders, for every alpha. With "mixture" it is about
    pi / 4 - sigma^2 log 2, as one of the two Gaussians of class +1 has half the weight of the one of class -1.

    Examples
    --------
    >>> [round(example3_limit(scheme) / np.pi, 4) for scheme in ("vanilla", "mixup", "genlabel")]
    [0.25, 0.3249, 0.2502]
    """
    _check(scheme, 1.0, 1, alpha, sigma, labels)
    if scheme == "vanilla":
        return math.pi / 4

    def derivative(phi: float) -> float:
        weight, y, t, turn = _points(scheme, phi, 1, alpha, sigma, labels)
        return float(weight @ (((t > 0.0) - y) * turn))

    return _root(derivative, 0.0, math.pi / 2)


class Example3Ranges(NamedTuple):
    """Settings that give the printed angles (`example3_angles`): bounds of n, and intervals of alpha and sigma."""

    n: tuple[int, int]
    alpha: tuple[float, float]
    sigma: tuple[float, float]


def example3_parameters(r: float = 25.0, n: int = 30) -> Example3Ranges:
    """Return the n, alpha and sigma whose angles are the printed 0.22 pi, 0.30 pi and 0.25 pi to two decimals.

    arXiv Figure 7. The range of alpha is among those of at least 0.2, that of sigma with alpha = 1.

    Examples
    --------
    >>> ranges = example3_parameters()
    >>> ranges.n, [round(value, 3) for value in ranges.alpha + ranges.sigma]
    ((18, 59), [1.49, 1.996, 0.0, 0.237])
    """
    low, high = ({scheme: (angle + side) * math.pi for scheme, angle in PRINTED.items()} for side in (-0.005, 0.005))
    _check("vanilla", r, n, 1.0, 0.1, "unit")
    copies = [_copies(bound["vanilla"], r) for bound in (high, low)]
    alpha = [_solve(lambda a: example3_angle("mixup", r, n, alpha=a), b["mixup"], 0.2, 20.0) for b in (high, low)]
    sigma = [
        _solve(lambda s: example3_angle("genlabel", r, n, sigma=s), b["genlabel"], 1e-3, 10.0) for b in (low, high)
    ]
    integers = max(math.floor(copies[0]) + 1, 1), math.floor(copies[1])
    if integers[0] > integers[1] or alpha[0] == alpha[1] or sigma[0] == sigma[1]:
        raise ValueError(f"at r={r!r} no n, alpha and sigma give all three printed angles; they are printed for r = 25")
    return Example3Ranges(integers, (alpha[0], alpha[1]), (sigma[0], sigma[1]))


def example3_order(
    n: int = 30, *, r: float = 25.0, alpha: float = 1.0, sigma: float = 0.1, labels: str = "unit"
) -> tuple[float, float]:
    """Return the interval of norms around `r` with margin(genlabel) > margin(vanilla) > margin(mixup), as in the paper.

    NOTE[PAPER]: arXiv Eq. (2) states the order for all norms. It begins at a norm where mixup has turned too far, and
    it ends where vanilla is nearer to pi / 4 than GenLabel, which passes it; the end is infinity if it is beyond 1e9.
    There may be another, shorter interval below: for n = 30 it is from 2.69 to 2.99.

    Examples
    --------
    >>> [round(norm, 1) for norm in example3_order()]
    [13.2, 3685.5]
    """

    def lead(norm: float) -> float:
        first, second, third = (
            example3_margin(scheme, norm, n, alpha=alpha, sigma=sigma, labels=labels)
            for scheme in ("genlabel", "vanilla", "mixup")
        )
        return min(first - second, second - third)

    if lead(r) <= 0.0:
        raise ValueError(
            f"the margins have another order at r={r!r} with n={n!r}, alpha={alpha!r}, sigma={sigma!r}; change them"
        )
    low = high = r
    while lead(low) > 0.0 and low / NORM_RATIO > NORM_LIMITS[0]:
        low /= NORM_RATIO
    while lead(high) > 0.0 and high <= MAX_ORDER_NORM:
        high *= NORM_RATIO
    start = float(brentq(lead, low, NORM_RATIO * low, xtol=1e-9)) if lead(low) <= 0.0 else low
    return start, float(brentq(lead, high / NORM_RATIO, high, xtol=1e-9)) if high <= MAX_ORDER_NORM else math.inf


class _Points(NamedTuple):
    """Points with weights, labels y (probability of class +1), t = theta^T x / r and turn = dt / dphi; each (m,)."""

    weight: Floats
    y: Floats
    t: Floats
    turn: Floats


_nodes = lru_cache(maxsize=4 * GRID_SIZE * REFINEMENT)(mixing_nodes)


def _points(scheme: str, phi: float, n: int, alpha: float, sigma: float, labels: str) -> _Points:
    """Return the points of the loss: the n + 2 points of "vanilla", or those of all pairs at the nodes of lam."""
    c, s = math.cos(phi), math.sin(phi)
    copies = float(n if scheme == "vanilla" else n**2)
    originals = (np.array([1.0, 1.0, copies]), np.array([1.0, 1.0, 0.0]), np.array([c, s, -c]), np.array([-s, c, s]))
    parts = [_Points(*originals)]  # x_1, x_2, x_3
    if scheme != "vanilla":
        lam, weight = _nodes(alpha, (0.5, s / (s + c)))  # arXiv Example 3, proof: L_1, L_2, L_3
        rho = _rho(scheme, lam, sigma, labels)
        parts += [_Points(2 * n * weight, 1.0 - rho[0], (1.0 - lam) * s - lam * c, (1.0 - lam) * c + lam * s)]
        parts += [_Points(2 * n * weight, rho[1], (2.0 * lam - 1.0) * c, (1.0 - 2.0 * lam) * s)]
        parts += [_Points(2 * weight, np.ones_like(lam), (1.0 - lam) * c + lam * s, lam * c - (1.0 - lam) * s)]
    return _Points(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def _rho(scheme: str, lam: Floats, sigma: float, labels: str) -> tuple[Floats, Floats]:
    """Return rho of L_1, where lam weighs x_3 of class -1, and of L_2, where it weighs x_1 of class +1."""
    if scheme == "mixup":
        return lam, lam
    if labels != "mixture":
        first, second = (1.0, 1.0) if labels == "unit" else (math.sqrt(2.0), 2.0)
        return gaussian_label(lam, sigma, first), gaussian_label(lam, sigma, second)  # arXiv Proposition 1
    # log p of a point x under N(m, sigma^2 I) is m^T x / sigma^2 plus a term shared by all m of norm 1.
    steep = min(1.0 / sigma, MAX_RATIO) ** 2
    middle = np.logaddexp(-lam * steep, (1.0 - lam) * steep) - math.log(2.0)
    line = np.logaddexp((2.0 * lam - 1.0) * steep, 0.0) - math.log(2.0)
    return expit(lam * steep - middle), expit(line - (1.0 - 2.0 * lam) * steep)


def _losses_and_derivatives(
    scheme: str, phi: float, r: Floats, n: Sequence[int], alpha: float, sigma: Sequence[float], labels: str
) -> tuple[Floats, Floats]:
    """Return the loss at an angle and its derivative over r, (len(n), len(sigma), len(r)) each.

    y log(1 + e^-z) + (1 - y) log(1 + e^z) = log(1 + e^z) - y z: only the weights depend on n, only y on sigma.
    """
    of_n = [_points(scheme, phi, count, alpha, sigma[0], labels) for count in n]
    weight, (_, _, t, turn) = np.stack([points.weight for points in of_n]), of_n[0]
    y = np.stack([_points(scheme, phi, n[0], alpha, width, labels).y for width in sigma], axis=1)
    z = t[:, None] * r
    loss = (weight @ np.logaddexp(0.0, z))[:, None] - ((weight * t) @ y)[..., None] * r
    return loss, (weight @ (expit(z) * turn[:, None]))[:, None] - ((weight * turn) @ y)[..., None]


def _spline_root(grid: Floats, values: Floats, first: NDArray[np.intp], last: NDArray[np.intp]) -> Floats:
    """Return where splines through values (len(grid), ...) turn positive between two grid indices (...)."""
    pieces = CubicSpline(grid, values).c
    low, high = grid[first], grid[last]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        index = np.clip(np.searchsorted(grid, middle, side="right") - 1, 0, len(grid) - 2)
        a, b, c, d = np.take_along_axis(pieces, index[None, None], axis=1)[:, 0]
        x = middle - grid[index]
        positive = ((a * x + b) * x + c) * x + d >= 0.0
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    return np.asarray((low + high) / 2.0)


def _vanilla_log_ratio(u: float, r: float, n: int) -> float:
    """Return the log of the ratio of the two terms of R(phi) (arXiv Example 3, proof) at u = log tan(phi)."""
    phi = math.atan(math.exp(u))
    return float(math.log1p(n) + u + log_expit(-r * math.cos(phi)) - log_expit(-r * math.sin(phi)))


def _copies(phi: float, r: float) -> float:
    """Return the real n for which vanilla's angle is phi."""
    return math.expm1(min(-_vanilla_log_ratio(math.log(math.tan(phi)), r, 0), 700.0))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function turns positive between two points, or one of them if it does not."""
    if function(low) >= 0.0:
        return low
    return float(brentq(function, low, high, xtol=1e-14)) if function(high) > 0.0 else high


def _solve(f: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Return x between two points with f(x) = target, or 0 or infinity if the target is beyond the nearer end."""
    first, last = f(low) - target, f(high) - target
    if first * last > 0.0:
        return 0.0 if abs(first) < abs(last) else math.inf
    return math.exp(brentq(lambda u: f(math.exp(u)) - target, math.log(low), math.log(high), xtol=1e-10))


def _check(scheme: str, r: float, n: int, alpha: float, sigma: float, labels: str) -> None:
    check_scheme(scheme, KNOWN, "Example 3", UNDEFINED)
    check_interval("r", r, *NORM_LIMITS, "it is the norm of theta, 25 in Figure 7")
    check_count("n", n)
    check_positive("alpha", alpha, "1 draws lam uniformly")
    check_positive("sigma", sigma, "it is the width of GenLabel's Gaussians, such as 0.1")
    check_choice("labels", labels, LABELS)
