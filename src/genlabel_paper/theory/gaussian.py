"""Gaussian setting of the theorems: two classes with the same equicorrelated covariance up to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from genlabel._arrays import Seed, as_rng
from genlabel._validation import check_count, check_interval, check_positive
from genlabel_paper.theory.labels import check_lam

MAX_SIGMA = 1e100
"""Largest sigma, whose square is finite."""

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]


def sigma_matrix(tau: float, d: int) -> NDArray[np.float64]:
    """Return Sigma (d, d): 1 on the diagonal, tau elsewhere (arXiv Section 5.3, Eq. (9)).

    >>> sigma_matrix(0.5, 2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    _check_invertible(tau, check_count("d", d))
    return np.where(np.eye(d, dtype=bool), 1.0, tau)


def inverse_coefficients(tau: float, d: int) -> tuple[float, float]:
    """Return (c_d, tau_d), so that Sigma^-1 is c_d on the diagonal and - c_d tau_d elsewhere.

    arXiv Lemma 2, "inverse", Eqs. (11) and (12): c_d = ((d - 2) tau + 1) / ((1 - tau) ((d - 1) tau + 1)) and
    tau_d = tau / ((d - 2) tau + 1). For Z ~ N(0, Sigma), e_1 Sigma^-1 Z ~ N(0, c_d) (arXiv Lemma 6, Eq. (19)).

    >>> inverse_coefficients(0.5, 2)
    (1.3333333333333333, 0.5)
    """
    _check_invertible(tau, check_count("d", d))
    last = (d - 2) * tau + 1.0
    if last == 0.0:
        raise ValueError(f"tau_d is infinite at tau={tau!r} = -1/(d-2); sigma_inverse(tau, d) is finite there")
    return last / ((1.0 - tau) * ((d - 1) * tau + 1.0)), tau / last


def sigma_inverse(tau: float, d: int) -> NDArray[np.float64]:
    """Return the inverse of Sigma, (d, d), in closed form (arXiv Lemma 2, "inverse", Eq. (10)).

    For Z ~ N(0, Sigma), Z Sigma^-1 Z has the chi-squared distribution of d degrees (arXiv Lemma 7, Eq. (20)).

    NOTE[PAPER]: the lemma leaves out tau = -1/(d-2). There c_d = 0 and tau_d is infinite, but their product in the
    matrix is finite.

    Parameters
    ----------
    tau : float
        Correlation in (-1, 1), not -1/(d-1). Sigma is a covariance only above -1/(d-1).
    d : int

    Examples
    --------
    >>> (sigma_inverse(0.3, 4) @ sigma_matrix(0.3, 4)).round(12).tolist() == np.eye(4).tolist()
    True
    """
    _check_invertible(tau, check_count("d", d))
    scale = (1.0 - tau) * ((d - 1) * tau + 1.0)
    return np.where(np.eye(d, dtype=bool), (d - 2) * tau + 1.0, -tau) / scale


class SquareCoefficients(NamedTuple):
    """Coefficients A_n and B_n, (d,) each, of z Sigma^-1 z = c_d sum_n A_n (z_n - B_n sum_{i > n} z_i)^2.

    `square_coefficients` returns them.
    """

    A: NDArray[np.float64]
    B: NDArray[np.float64]


def square_coefficients(tau: float, d: int) -> SquareCoefficients:
    """Return the coefficients that complete the squares of z Sigma^-1 z (arXiv Lemma 3, "induction on ZZ", Eq. (13)).

    The terms Y_n = Z_n - B_n sum_{i > n} Z_i of Z ~ N(0, Sigma) are independent, Y_n ~ N(0, 1 / (c_d A_n)): arXiv
    Lemmas 4 and 5.
    NOTE[PAPER]: the proof begins with sum Z_i^2 - 2 tau_d sum_{i != j} Z_i Z_j; the second sum is over i < j.

    >>> square_coefficients(0.5, 2)
    SquareCoefficients(A=array([1.  , 0.75]), B=array([0.5, 1. ]))
    """
    _check_covariance(tau, check_count("d", d))
    A, B = [1.0], [inverse_coefficients(tau, d)[1]]
    for _ in range(d - 1):
        A.append(A[-1] * (1.0 - B[-1] ** 2))
        B.append(B[-1] / (1.0 - B[-1]))  # (A B + A B^2) / (A - A B^2) of the previous step
    return SquareCoefficients(np.array(A), np.array(B))


def proof_label(
    lam: ArrayLike,
    z_prime: ArrayLike,
    z_bar: ArrayLike,
    *,
    sigma_1: float,
    c: float = 1.0,
    tau: float = 0.0,
    d: int = 2,
) -> NDArray[np.float64]:
    """Return y_gen at lam x_i + (1 - lam) x_j, for x_i of class 0 and x_j of class 1, in the form of the proof.

    arXiv Lemma 1, proof, step 1, Eqs. (21) to (26). `z_prime` is e_1 Sigma^-1 Z_ij and `z_bar` is Z_ij Sigma^-1 Z_ij
    with Z_ij the mixed point minus (1 - 2 lam) e_1.

    >>> proof_label([0.25, 0.5], 0.0, 0.0, sigma_1=2.0).round(4).tolist()
    [0.982, 0.5]
    """
    along, square = (np.asarray(noise, dtype=np.float64) for noise in (z_prime, z_bar))
    odds = proof_log_odds(check_lam(lam), along, square, GaussianPair(sigma_1, c, tau, d))
    return np.asarray(expit(odds))


def proof_log_odds(
    lam: NDArray[np.float64], z_prime: NDArray[np.float64], z_bar: NDArray[np.float64], pair: GaussianPair
) -> NDArray[np.float64]:
    """Return log q - log p in the form of the proof; :func:`proof_label` is its logistic function."""
    c_d = float(sigma_inverse(pair.tau, pair.d)[0, 0])
    odds = pair.d * np.log(pair.c) + pair.sigma_1**2 * ((2.0 - 4.0 * lam) * c_d + 2.0 * z_prime)
    wider = 2.0 * lam**2 * c_d - 2.0 * lam * z_prime + z_bar / 2.0
    return np.asarray(odds + (pair.sigma_1**2 - pair.sigma_2**2) * wider)


@final
class Parabola(NamedTuple):
    """Log-odds a lam^2 + b lam + c of two Gaussians along p segments, with coefficients (p, 1)."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    c: NDArray[np.float64]

    def at(self, lam: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (p, q) at lam (p, q)."""
        return np.asarray((self.a * lam + self.b) * lam + self.c)

    @property
    def jumps(self) -> NDArray[np.float64]:
        """Sorted sign changes (p, 2) within (0, 1); 1/2 if there is none."""
        root = np.sqrt(np.maximum(self.b**2 - 4.0 * self.a * self.c, 0.0))
        q = -(self.b + np.where(self.b >= 0, root, -root)) / 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.concatenate([q / self.a, self.c / q], -1)
        return np.sort(np.where((roots > 0) & (roots < 1), roots, 0.5), -1)


@final
@dataclass(frozen=True)
class GaussianPair:
    """Class densities N(-e_1, Sigma / sigma_1^2) and N(e_1, Sigma / (c sigma_1)^2) (arXiv Section 5.3).

    Parameters
    ----------
    sigma_1 : float
        Inverse width of class 0.
    c : float
        Width of class 0 over that of class 1; the theorems require 2 - sqrt(3) < c < 2 + sqrt(3).
    tau : float
        Correlation of any two features, above -1/(d-1) and below 1.
        NOTE[PAPER]: the paper requires -1 < tau < 1 without two values; below -1/(d-1) Sigma is not a covariance.
    d : int
        Number of features.

    Examples
    --------
    >>> X, y = GaussianPair(sigma_1=10.0).sample(20, rng=0)
    >>> X.shape, np.bincount(y).tolist()
    ((40, 2), [20, 20])
    """

    sigma_1: float
    c: float = 1.0
    tau: float = 0.0
    d: int = 2

    def __post_init__(self) -> None:
        """Validate the parameters."""
        check_positive("sigma_1", self.sigma_1, "the theorems are for large values")
        check_positive("c", self.c, "1 gives both classes one covariance")
        if max(self.sigma_1, self.sigma_2) > MAX_SIGMA:
            raise ValueError(f"sigma_1={self.sigma_1!r} and c sigma_1={self.sigma_2!r} must be at most {MAX_SIGMA:g}")
        _check_covariance(self.tau, check_count("d", self.d))

    @property
    def sigma_2(self) -> float:
        """Inverse width of class 1, c sigma_1."""
        return self.c * self.sigma_1

    def sample(self, n: int | tuple[int, int], rng: Seed = None) -> Arrays:
        """Draw `n` points of each class, or (n_0, n_1) points, class 0 first."""
        n_0, n_1 = (check_count("n", count) for count in (n if isinstance(n, tuple | list) else (n, n)))
        root = np.linalg.cholesky(sigma_matrix(self.tau, self.d)).T
        Z = as_rng(rng).standard_normal((n_0 + n_1, self.d)) @ root
        y = np.repeat([0, 1], [n_0, n_1]).astype(np.int64)
        X = Z / np.where(y == 0, self.sigma_1, self.sigma_2)[:, None]
        X[:, 0] += 2.0 * y - 1.0
        return X, y

    def along(self, first: ArrayLike, second: ArrayLike) -> Parabola:
        """Return log q - log p at lam x_i + (1 - lam) x_j, for points (p, d), as a function of lam."""
        x_i, x_j = (np.asarray(points, dtype=np.float64) for points in (first, second))
        one, zero, middle = (self.log_odds(points)[:, None] for points in (x_i, x_j, (x_i + x_j) / 2))
        return Parabola(2.0 * (one + zero - 2.0 * middle), 4.0 * middle - one - 3.0 * zero, zero)

    def log_odds(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return log q(x) - log p(x) at points (..., d): the posterior of class 1, y_gen, is its logistic function."""
        points = np.asarray(X, dtype=np.float64)
        inverse, mean = sigma_inverse(self.tau, self.d), np.eye(self.d)[0]
        from_one, from_zero = ((((points - m) @ inverse) * (points - m)).sum(-1) for m in (mean, -mean))
        return np.asarray(self.d * np.log(self.c) + (self.sigma_1**2 * from_zero - self.sigma_2**2 * from_one) / 2.0)


def _check_invertible(tau: float, d: int) -> None:
    check_interval("tau", tau, -1.0, 1.0, "it is a correlation")
    if not -1.0 < tau < 1.0 or (d - 1) * tau + 1.0 == 0.0:
        raise ValueError(f"tau={tau!r} must be above -1, below 1 and not -1/(d-1) = {-1 / max(d - 1, 1):g}")


def _check_covariance(tau: float, d: int) -> None:
    check_interval("tau", tau, -1.0, 1.0, "it is a correlation")
    low = -1.0 / (d - 1) if d > 1 else -1.0
    if not low < tau < 1.0:
        raise ValueError(f"tau={tau!r} is not a correlation of {d} features; choose one above {low:g} and below 1")
