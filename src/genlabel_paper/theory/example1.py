"""Example 1: three points on a line, and the margin that mixup loses by manifold intrusion."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from genlabel._validation import check_choice, check_interval, check_positive
from genlabel_paper.theory.inputs import check_scheme
from genlabel_paper.theory.quadrature import mixing_nodes

PAIRS = {
    "vanilla": ((0, 0), (1, 1), (2, 2)),
    "mixup": ((0, 1), (1, 2), (2, 0)),
    "mixup-without-mi": ((0, 1), (1, 2)),
    "genlabel": ((0, 1), (1, 2), (2, 0)),
}
"""Pairs of points that a scheme mixes, each once (arXiv Example 1); the points themselves without mixing."""
UNDEFINED = {
    "logistic": "its labels are 'mixup' with a curve in lam, which arXiv Section 3.2 has for Example 2 only",
    "svm": "the classifier f_theta is not linear; the largest margin is 1/2, at theta = 1/2",
}
MIN_SIGMA = 1e-8
"""Width of the Gaussians below which the labels are those of the limit 0; the loss differs by rounding only."""


def make_example1() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the three points on the line where mixup meets manifold intrusion.

    `S = {(-1, e_1), (0, e_2), (+1, e_1)}`; class `e_c` is the label c - 1.

    Citation: arXiv Example 1.

    Examples
    --------
    >>> X, y = make_example1()
    >>> X.ravel().tolist(), y.tolist()
    ([-1.0, 0.0, 1.0], [0, 1, 0])
    """
    return np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0], dtype=np.int64)


def example1_prediction(x: ArrayLike, theta: float) -> NDArray[np.float64]:
    """Return f_theta(x) = min(|x| / (2 theta), 1), the predicted probability of class 1, the class of -1 and +1.

    arXiv Example 1 and its proof. The probability is 1/2 at |x| = theta, so the margin is min(theta, 1 - theta).

    Parameters
    ----------
    x : array of any shape
    theta : float
        Parameter of the classifier, positive.

    Examples
    --------
    >>> example1_prediction([-1.0, 0.0, 0.25], theta=0.25)
    array([1. , 0. , 0.5])
    """
    check_positive("theta", theta, "it is where the classifier predicts 1/2")
    return np.minimum(np.abs(np.asarray(x, dtype=np.float64)), 2.0 * theta) / (2.0 * theta)


def example1_loss(
    scheme: str, theta: float, *, as_printed: bool = False, sigma: float = 0.0, same_class: str = "relabel"
) -> float:
    r"""Return L_1 + L_2 + L_3, the squared errors summed over the pairs that the scheme mixes, lam ~ unif[0, 1].

    With u = \|x\|, which is uniform on [0, 1] for every pair, each L_i is 2 E[(f_theta(u) - y(u))^2]: the 2 is for the
    two coordinates of the label, and y is u (linear labels), 1 (the pair of -1 and +1) or 1(u > 1/2) (GenLabel).
    The closed forms hold for every theta > 0; the proof of arXiv Example 1 has theta <= 1/2.

    Parameters
    ----------
    scheme : "vanilla", "mixup", "mixup-without-mi" or "genlabel"
        "vanilla" sums over the three points. "genlabel" is not in the paper's Example 1: its labels are the posteriors
        of Gaussians of width `sigma` at the points, a mixture of two for class 1.
    theta : float
        Parameter of the classifier, positive.
    as_printed : bool
        NOTE[PAPER]: the proof omits the factor 2 of L_3, which L_1 and L_2 have. True omits it too.
    sigma : float
        Width of the Gaussians of "genlabel"; 0 is the limit of small widths, otherwise the loss is by quadrature.
    same_class : "relabel" or "keep"
        "keep" leaves the pair of -1 and +1 its label with "genlabel", as in arXiv Section 5.3.

    Examples
    --------
    >>> round(example1_loss("mixup", 0.25), 12), round(example1_loss("mixup", 0.25, as_printed=True), 12)
    (0.666666666667, 0.5)
    """
    _check(scheme, theta, as_printed, sigma, same_class)
    if scheme == "genlabel" and sigma >= MIN_SIGMA:
        return example1_loss_by_quadrature(scheme, theta, sigma=sigma, same_class=same_class)
    if scheme == "vanilla":
        return 4.0 * max(0.0, 1.0 - 1.0 / (2.0 * theta)) ** 2
    between, within = _errors(scheme, same_class)
    loss = 2.0 * 2.0 * between(2.0 * theta)
    return loss + (1.0 if as_printed else 2.0) * within(2.0 * theta)


def example1_loss_by_quadrature(
    scheme: str, theta: float, *, as_printed: bool = False, sigma: float = 0.0, same_class: str = "relabel"
) -> float:
    """Return the loss of :func:`example1_loss` pair by pair, by quadrature over lam; same parameters.

    Examples
    --------
    >>> round(example1_loss_by_quadrature("genlabel", 0.4), 6), round(example1_loss("genlabel", 0.4), 6)
    (0.475, 0.475)
    """
    _check(scheme, theta, as_printed, sigma, same_class)
    X, y = make_example1()
    x, first = X[:, 0], (y == 0).astype(np.float64)
    total = 0.0
    for i, j in PAIRS[scheme]:
        lam, weight = mixing_nodes(edges=_kinks(x[i], x[j], theta, sigma))
        x_mix = lam * x[i] + (1.0 - lam) * x[j]
        relabeled = scheme == "genlabel" and (same_class == "relabel" or y[i] != y[j])
        target = _posterior(x_mix, sigma) if relabeled else lam * first[i] + (1.0 - lam) * first[j]
        error = example1_prediction(x_mix, theta) - target  # of the first coordinate; that of the second is -error
        halved = as_printed and y[i] == y[j]
        total += float(weight @ error**2) * (1.0 if halved else 2.0)
    return total


def example1_theta(scheme: str, as_printed: bool = False, *, sigma: float = 0.0, same_class: str = "relabel") -> float:
    """Return the theta that minimizes :func:`example1_loss`; same parameters.

    Mixup: 3/8, and 7/16 as printed; mixup without intrusion: 1/2 (arXiv Example 1). GenLabel in the limit of small
    widths: sqrt(3)/4 = 0.433, as f_theta cannot follow a step; sqrt(2)/4 = 0.354 if the pair of -1 and +1 keeps its
    label. A width above 0 is minimized numerically, to about 1e-8.

    Examples
    --------
    >>> example1_theta("mixup"), example1_theta("mixup", as_printed=True), example1_theta("mixup-without-mi")
    (0.375, 0.4375, 0.5)
    >>> round(example1_theta("genlabel"), 4), round(example1_theta("genlabel", sigma=0.2), 4)
    (0.433, 0.4613)
    """
    _check(scheme, 1.0, as_printed, sigma, same_class)
    if scheme == "vanilla":
        raise ValueError("scheme='vanilla' has no one minimizer: every theta in (0, 1/2] fits the three points")
    if scheme == "genlabel" and sigma >= MIN_SIGMA:
        return _minimize(lambda theta: example1_loss(scheme, theta, sigma=sigma, same_class=same_class))
    if scheme == "genlabel":
        # 4 (s/3 + 1/(4 s)) for the two mixed pairs, and 2 (s/3 + 1/(4 s)) or 2 s/3 for the other: s^2 = 3/4 or 1/2.
        step, one = (6.0, 0.0) if same_class == "relabel" else (4.0, 2.0)
        return math.sqrt(0.75 * step / (step + one)) / 2.0
    # arXiv Example 1: 4 (1 - s)^2 / 3 + w s / 3 with s = 2 theta is least at s = 1 - w / 8.
    # NOTE[PAPER]: the printed L_3 has w = 1, hence 7/16; both coordinates of the label make it 2, hence 3/8.
    w = {"mixup": 1 if as_printed else 2, "mixup-without-mi": 0}[scheme]
    return (1.0 - w / 8.0) / 2.0


def example1_margin(scheme: str, as_printed: bool = False, *, sigma: float = 0.0, same_class: str = "relabel") -> float:
    """Return min(theta, 1 - theta) at the minimizer (arXiv Example 1); parameters of :func:`example1_theta`.

    Examples
    --------
    >>> example1_margin("mixup") < example1_margin("genlabel") < example1_margin("mixup-without-mi")
    True
    """
    theta = example1_theta(scheme, as_printed=as_printed, sigma=sigma, same_class=same_class)
    return min(theta, 1.0 - theta)


def _check(scheme: str, theta: float, as_printed: bool, sigma: float, same_class: str) -> None:
    check_scheme(scheme, PAIRS, "Example 1", UNDEFINED)
    check_positive("theta", theta, "it is where the classifier predicts 1/2")
    check_interval("sigma", sigma, 0.0, 1e6, "it is the width of GenLabel's Gaussians, 0 for the limit")
    check_choice("same_class", same_class, ["relabel", "keep"])
    if as_printed and not scheme.startswith("mixup"):
        raise ValueError(f"as_printed={as_printed!r}: the paper prints no loss of {scheme!r} in Example 1; pass False")


def _errors(scheme: str, same_class: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return E[(f - y)^2] of a pair of two classes, and of the pair of one class, as functions of s = 2 theta."""
    same = {"mixup": _error_one, "mixup-without-mi": _error_none, "genlabel": _error_one}[scheme]
    if scheme != "genlabel":
        return _error_linear, same
    return _error_step, _error_step if same_class == "relabel" else same


def _error_linear(s: float) -> float:
    """Return E[(min(u / s, 1) - u)^2]: L_2 / 2 of the proof of arXiv Example 1, and its other branch."""
    return ((1.0 - s) if s <= 1.0 else (1.0 - 1.0 / s)) ** 2 / 3.0


def _error_one(s: float) -> float:
    """Return E[(min(u / s, 1) - 1)^2]: L_3 of the proof as printed, and its other branch."""
    return s / 3.0 if s <= 1.0 else 1.0 - 1.0 / s + (1.0 / s) ** 2 / 3.0


def _error_step(s: float) -> float:
    """Return E[(min(u / s, 1) - 1(u > 1/2))^2]."""
    if s <= 0.5:
        return 0.5 - 2.0 * s / 3.0
    return s / 3.0 - 0.5 + 1.0 / (4.0 * s) if s <= 1.0 else 0.5 - 3.0 / (4.0 * s) + (1.0 / s) ** 2 / 3.0


def _error_none(s: float) -> float:
    """Return 0, the squared error of labels that are not mixed, at every width."""
    return 0.0


def _posterior(x: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Return the posterior of class 1, an equal mixture of N(-1, sigma^2) and N(1, sigma^2), against N(0, sigma^2).

    arXiv Eq. (1).
    """
    if sigma < MIN_SIGMA:
        return np.heaviside(np.abs(x) - 0.5, 0.5)
    odds = np.logaddexp((x - 0.5) / sigma**2, (-x - 0.5) / sigma**2) - math.log(2.0)
    posterior: NDArray[np.float64] = expit(odds)
    return posterior


def _kinks(x_i: float, x_j: float, theta: float, sigma: float) -> list[float]:
    """Return the lam at which the prediction or the label of the mixed point has a kink or a steep transition."""
    if x_i == x_j:
        return []
    positions = [0.0, 0.5, 0.5 + sigma**2 * math.log(2.0), 2.0 * theta]
    return [(sign * position - x_j) / (x_i - x_j) for position in positions for sign in (-1.0, 1.0)]


def _minimize(loss: Callable[[float], float]) -> float:
    """Return the minimizer on (0, 1]: the best of a grid, then Brent's method between its neighbors."""
    grid = np.linspace(0.0, 1.0, 41)[1:]
    best = int(np.argmin([loss(theta) for theta in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x)
