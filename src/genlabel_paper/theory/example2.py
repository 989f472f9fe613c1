"""Example 2: softmax regression on three points, and the margin that linear labels lose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.svm import LinearSVC

from genlabel._validation import check_count, check_positive
from genlabel.attacks import linear_margins
from genlabel_paper.theory.inputs import check_scheme
from genlabel_paper.theory.labels import check_lam, logistic_label
from genlabel_paper.theory.quadrature import mixing_nodes

Floats = NDArray[np.float64]
LABELED = ("mixup", "logistic", "genlabel")
KNOWN = ("vanilla", *LABELED, "svm")
UNDEFINED = {"mixup-without-mi": "each mixed point is nearest to one of its parents, so none intrudes: it is 'mixup'"}
WITHOUT_LABELS = {"vanilla": "it does not mix points", "svm": "it does not mix points"}
MIN_SIGMA = 0.01
"""Smallest width of a logistic label; the minimizer grows as 1 / sigma^2."""
UNPRINTED = ("vanilla", "logistic", "genlabel")
CONTRASTS: Floats = np.array([[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]) / np.sqrt([6.0, 2.0])
"""Basis (3, 2) of the weights with zero sum over the classes; a vector added to all rows of W changes no score."""
OWN, RIVAL = np.nonzero(~np.eye(3, dtype=bool))
"""Indices of the six ordered pairs of classes."""


@final
@dataclass(frozen=True, eq=False)
class Example2:
    """Solution of Example 2 by a scheme: `W` (3, 2), the points `X` (3, 2) of classes 0 to 2, and their margins (3,).

    `margins` are exact L2 distances to the nearest boundary, negative on the wrong side; `sigma` is the width of the
    labels, 0 for a scheme without labels.

    Examples
    --------
    >>> example2_solution("mixup").margins.round(2).tolist(), example2_solution("genlabel").margins.round(2).tolist()
    ([5.28, 4.7, 4.7], [5.0, 5.0, 5.0])
    """

    scheme: str
    W: Floats
    X: Floats
    margins: Floats
    sigma: float = 0.0

    def boundaries(self) -> dict[tuple[int, int], Floats]:
        """Return the unit normals of the lines on which two classes tie, towards the first class."""
        differences = {(a, b): self.W[a] - self.W[b] for a, b in ((0, 1), (0, 2), (1, 2))}
        return {pair: normal / np.linalg.norm(normal) for pair, normal in differences.items()}

    def scores(self, lam: ArrayLike) -> Floats:
        """Return softmax scores (..., 3) at x = (2 lam - 1) (d, d), between x_2 and x_3 (arXiv Figure 4e-g).

        NOTE[PAPER]: arXiv Section 3.2 takes p_1 for 0 there. Without a bias all three are 1/3 at lam = 1/2, for any W.
        """
        weight = check_lam(lam)[..., None]
        scores: Floats = softmax((weight * self.X[1] + (1.0 - weight) * self.X[2]) @ self.W.T, axis=-1)
        return scores

    def labels(self, lam: ArrayLike) -> Floats:
        """Return the labels (..., 3) of the scheme at the same points; raise if it does not mix."""
        check_scheme(self.scheme, LABELED, "the labels of Example 2", WITHOUT_LABELS)
        return _labels(self.scheme, 1, 2, check_lam(lam), self.X, self.sigma)


def make_example2(d: float = 5.0) -> tuple[Floats, NDArray[np.int64]]:
    """Return the three points of the plane for which linear labels shrink the margin.

    `S = {((-d, d), e_1), ((d, d), e_2), ((-d, -d), e_3)}`; class `e_c` is the label c - 1.

    Citation: arXiv Example 2.

    Parameters
    ----------
    d : float
        Positive coordinate.

    Examples
    --------
    >>> X, y = make_example2()
    >>> X.tolist(), y.tolist()
    ([[-5.0, 5.0], [5.0, 5.0], [-5.0, -5.0]], [0, 1, 2])
    """
    d = check_positive("d", d, "the paper's is 5")
    return d * np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]), np.arange(3, dtype=np.int64)


def example2_solution(
    scheme: str, d: float = 5.0, sigma: float | None = None, *, steps: int = 1000, learning_rate: float = 0.1
) -> Example2:
    """Return the solution of Example 2 by a scheme; parameters of :func:`example2_weights`.

    Examples
    --------
    >>> example2_solution("svm").boundaries()[1, 2].round(2)
    array([0.71, 0.71])
    """
    X, y = make_example2(d)
    W = example2_weights(scheme, d, sigma, steps=steps, learning_rate=learning_rate)
    return Example2(scheme, W, X, linear_margins(W, X, y), _width(scheme, d, sigma))


def example2_weights(
    scheme: str, d: float = 5.0, sigma: float | None = None, *, steps: int = 1000, learning_rate: float = 0.1
) -> Floats:
    r"""Return the weights W (3, 2) of softmax(W x), without bias, that a scheme learns from the three points.

    arXiv Example 2. A mixing scheme minimizes the expected cross-entropy over all 9 ordered pairs and lam ~ unif[0, 1].
    Mixup's W is W(d = 1) / d, as the problem is scale-free. GenLabel's is W_c = x_c / sigma^2, with no loss beyond the
    labels' own entropy: log p_c(x) = x_c^T x / sigma^2 + terms common to all c, as the points have one norm; so its
    margins are those of the SVM for every sigma. NOTE[PAPER]: the paper says the same of logistic labels, which is true
    in the limit of small sigma only: they have one curve for x_1, which is 2 d from the other points, and for x_2 and
    x_3, which are 2 sqrt(2) d apart. Rows are shifted to sum to zero, which changes no score.

    Parameters
    ----------
    scheme : "vanilla", "mixup", "logistic", "genlabel" or "svm"
        "vanilla" has no minimizer, as the points are separable: it is `steps` of gradient descent. "svm" is the
        multiclass SVM of Crammer and Singer (scikit-learn) without intercept.
    d : float
        Positive coordinate of the points, 5 in the paper.
    sigma : float or None
        Width of the labels. "logistic": in units of lam; None is 1 / (2 sqrt(d)) (arXiv Section 3.2). "genlabel": width
        of the Gaussians at the points, in units of x; None is sqrt(d), which gives the printed SVM weights.
    steps, learning_rate : int and float
        Gradient descent of "vanilla", see :func:`example2_descent`.

    Examples
    --------
    >>> W = example2_weights("genlabel")
    >>> (W - W[0] + [-1, 1]).round(9).tolist()  # arXiv Section 3.2, the SVM solution
    [[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]
    """
    check_scheme(scheme, KNOWN, "Example 2", UNDEFINED)
    if scheme == "vanilla":
        return example2_descent(d, steps=steps, learning_rate=learning_rate)[-1]
    X, y = make_example2(1.0)
    width = _width(scheme, d, sigma)
    if scheme == "svm":
        svm = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=1e6, tol=1e-12, random_state=0)
        return _centered(svm.fit(X, y).coef_) / d
    if scheme == "genlabel":
        return _centered(X * (d / width) / width)
    start = X / (3.0 * width**2) if width else np.zeros((3, 2))
    return _minimize(_problem(scheme, 1.0, width), CONTRASTS, np.zeros((3, 2)), CONTRASTS.T @ start) / d


def example2_descent(d: float = 5.0, *, steps: int = 1000, learning_rate: float = 0.1) -> Floats:
    """Return the weights (steps + 1, 3, 2) of gradient descent on the mean cross-entropy of the three points, from 0.

    arXiv Example 2, vanilla training; NOTE[PAPER]: steps and learning rate are not printed, and the margins depend
    on them. The first step has the SVM's direction and margins; then they fall, and rise slowly again.

    Examples
    --------
    >>> path = example2_descent(steps=100)
    >>> X, y = make_example2()
    >>> [float(linear_margins(path[step], X, y).min().round(3)) for step in (1, 10, 100)]
    [5.0, 4.398, 4.522]
    """
    check_count("steps", steps)
    check_positive("learning_rate", learning_rate, "0.1 is the default")
    X, y = make_example2(d)
    path = np.zeros((steps + 1, 3, 2))
    for step in range(steps):
        error = softmax(X @ path[step].T, axis=1)
        error[y, y] -= 1.0
        path[step + 1] = path[step] - learning_rate / 3.0 * error.T @ X
    return path


def example2_margins(W: ArrayLike, d: float = 5.0) -> Floats:
    """Return the margins (..., 3) of the three points under weights (..., 3, 2), such as those of a descent.

    A vectorized :func:`genlabel.attacks.linear_margins`.

    Examples
    --------
    >>> example2_margins([[-1, 1], [1, 1], [-1, -1]]).round(9)  # the weights of arXiv Section 3.2
    array([5., 5., 5.])
    """
    weight, (X, _) = np.asarray(W, dtype=np.float64), make_example2(d)
    normals = weight[..., OWN, :] - weight[..., RIVAL, :]
    distances = (normals * X[OWN]).sum(-1) / np.linalg.norm(normals, axis=-1)
    margins: Floats = distances.reshape(*weight.shape[:-2], 3, 2).min(-1)
    return margins


def example2_steps_to_match(d: float = 5.0, *, learning_rate: float = 0.1, max_steps: int = 10_000) -> int:
    """Return the step of gradient descent from which vanilla's smallest margin stays above mixup's.

    Only `max_steps` steps are checked; 1 if the margin is above in all of them.

    NOTE[PAPER]: arXiv Eq. (2) has margin(vanilla) > margin(mixup) for these points; it depends on rate and steps, which
    are not printed.

    Examples
    --------
    >>> example2_steps_to_match()
    4056
    """
    target = example2_margins(example2_weights("mixup", d), d).min()
    path = example2_descent(d, steps=check_count("max_steps", max_steps), learning_rate=learning_rate)
    below = np.flatnonzero(example2_margins(path[1:], d).min(1) <= target) + 1
    if below.size and below[-1] == max_steps:
        raise ValueError(f"vanilla's margin is below mixup's after max_steps={max_steps!r}; increase it")
    return int(below[-1]) + 1 if below.size else 1


def example2_loss(W: ArrayLike, scheme: str, d: float = 5.0, sigma: float | None = None) -> float:
    """Return the expected cross-entropy of the weights W (3, 2) under the labels of "mixup", "logistic" or "genlabel".

    The mean over all 9 ordered pairs of points and lam ~ unif[0, 1] (arXiv Example 2).

    Examples
    --------
    >>> round(example2_loss(np.zeros((3, 2)), "mixup"), 6)  # log 3
    1.098612
    """
    check_scheme(scheme, LABELED, "the loss of Example 2", UNDEFINED | WITHOUT_LABELS)
    W = np.asarray(W, dtype=np.float64)
    if W.shape != (3, 2) or not np.isfinite(W).all():
        raise ValueError(f"W has shape {W.shape}; it must be finite, (3, 2), with a row for each class")
    problem = _problem(scheme, d, _width(scheme, d, sigma))
    return float(-problem.weight @ (problem.Y * log_softmax(problem.X @ W.T, axis=1)).sum(1))


def example2_printed_weights(scheme: str, d: float = 5.0) -> Floats:
    """Return the weights (3, 2) that arXiv Section 3.2 prints for "svm" or for "mixup" (linear labels).

    For "mixup" it prints w_2 and w_3 only; w_1 minimizes :func:`example2_loss` given these.
    NOTE[PAPER]: they are not a minimizer, and no better for large d: on the line through x_2 and x_3 they give
    w_2^T x = 2 lam - 1 for every d, where exp(u) = 1 + u is inaccurate.

    Examples
    --------
    >>> loss = [example2_loss(W, "mixup") for W in (example2_printed_weights("mixup"), example2_weights("mixup"))]
    >>> [round(value, 4) for value in loss]
    [0.6012, 0.4442]
    """
    check_scheme(
        scheme, ("mixup", "svm"), "Section 3.2", dict.fromkeys(UNPRINTED, "the paper prints no weights for it")
    )
    if scheme == "svm":
        return np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]])
    half = 1.0 / (2.0 * check_positive("d", d, "the paper's is 5"))
    printed = np.array([[0.0, 0.0], [-1.0 + half, 1.0 + half], [-1.0 - half, 1.0 - half]])
    return _minimize(_problem(scheme, d, 0.0), np.array([[1.0], [0.0], [0.0]]), printed, printed[1:2])


class _Problem(NamedTuple):
    """Mixed points (m, 2), their labels (m, 3) and weights (m,) with sum 1."""

    X: Floats
    Y: Floats
    weight: Floats


def _problem(scheme: str, d: float, sigma: float) -> _Problem:
    """Return the mixed points of all 9 ordered pairs at the nodes of lam."""
    X, _ = make_example2(d)
    lam, weight = mixing_nodes()
    pairs = [(i, j) for i in range(3) for j in range(3)]
    X_mix = np.concatenate([lam[:, None] * X[i] + (1.0 - lam[:, None]) * X[j] for i, j in pairs])
    Y = np.concatenate([_labels(scheme, i, j, lam, X, sigma) for i, j in pairs])
    return _Problem(X_mix, Y, np.tile(weight / 9.0, 9))


def _labels(scheme: str, i: int, j: int, lam: Floats, X: Floats, sigma: float) -> Floats:
    """Return labels (..., 3) of lam x_i + (1 - lam) x_j: linear, logistic (arXiv Section 3.2), posterior (Eq. (1))."""
    if scheme == "genlabel":
        mixed = lam[..., None] * X[i] + (1.0 - lam[..., None]) * X[j]
        posterior: Floats = softmax(mixed / sigma @ (X / sigma).T, axis=-1)
        return posterior
    rho = np.asarray(logistic_label(lam, sigma)) if scheme == "logistic" else lam
    labels: Floats = rho[..., None] * np.eye(3)[i] + (1.0 - rho[..., None]) * np.eye(3)[j]
    return labels


def _width(scheme: str, d: float, sigma: float | None) -> float:
    """Return the width of the labels, 0 for a scheme without labels."""
    check_positive("d", d, "the paper's is 5")
    if scheme not in ("logistic", "genlabel"):
        return 0.0
    default = 1.0 / (2.0 * math.sqrt(d)) if scheme == "logistic" else math.sqrt(d)  # arXiv Section 3.2
    width = check_positive("sigma", default if sigma is None else sigma, "None is the paper's")
    if scheme == "logistic" and width < MIN_SIGMA:
        raise ValueError(
            f"sigma={width!r} is too small for the minimizer; use {MIN_SIGMA} or more, or 'svm', the limit"
        )
    return width


def _centered(W: Floats) -> Floats:
    centred: Floats = W - W.mean(axis=0)
    return centred


def _minimize(problem: _Problem, basis: Floats, base: Floats, start: Floats) -> Floats:
    """Return W = base + basis V (3, 2) of the least cross-entropy, by a trust-region Newton method from V = start."""
    k = basis.shape[1]

    def weights_and_scores(v: Floats) -> tuple[Floats, Floats]:
        W = base + basis @ v.reshape(k, 2)
        return W, softmax(problem.X @ W.T, axis=1)

    def loss(v: Floats) -> tuple[float, Floats]:
        W, scores = weights_and_scores(v)
        value = -problem.weight @ (problem.Y * log_softmax(problem.X @ W.T, axis=1)).sum(1)
        gradient = basis.T @ ((scores - problem.Y) * problem.weight[:, None]).T @ problem.X
        return float(value), gradient.ravel()

    def hessian(v: Floats) -> Floats:
        _, scores = weights_and_scores(v)
        B = scores @ basis
        covariance = np.einsum("mc,ca,cb->mab", scores, basis, basis) - B[:, :, None] * B[:, None, :]
        matrix: Floats = np.einsum("m,mab,mi,mj->aibj", problem.weight, covariance, problem.X, problem.X, optimize=True)
        return matrix.reshape(2 * k, 2 * k)

    result = minimize(loss, start.ravel(), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-12})
    return weights_and_scores(result.x)[0]
