"""One full Gaussian for each class: the paper's Gaussian mixture (GM) model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, like
from genlabel._registry import DENSITIES
from genlabel._validation import check_choice, check_interval
from genlabel.densities.base import ClassDensity
from genlabel.densities.covariance import (
    LOG_2_PI,
    Gaussians,
    Whitening,
    ledoit_wolf,
    moments,
    normal_log_prob,
    shrink,
    usable_covariance,
    whitening,
)
from genlabel.densities.per_class import ClassSample, class_samples

WIDE = 64
"""Features from which it pays to label a blend from its parents."""
LARGEST = 1 << 24
"""Distances that are kept for it."""


@DENSITIES.register("gaussian", shrinkage="ledoit-wolf")
@final
class GaussianDensity(ClassDensity):
    r"""A Gaussian with full covariance for each class, p_c = N(mu_c, Sigma_c).

    .. math:: \Sigma_c = (1 - s) S_c + s \frac{\operatorname{tr} S_c}{d} I + \mathrm{reg}\, I,

    with S_c the covariance divided by n_c (arXiv Section 1.2, "Gaussian mixture model").

    Parameters
    ----------
    shrinkage : None, "ledoit-wolf" or float in [0, 1]
        The intensity s; None is the paper's setting.
    reg : float
        Added to the diagonal; 1e-4 is the paper-faithful value on standardised features.

    A class with at most d points, or with a singular covariance, is regularised, with a
    :class:`DensityWarning` that names it.

    Attributes
    ----------
    means_, covariances_ : ndarray (k, d), (k, d, d)
        The Gaussians that are used.

    Examples
    --------
    >>> density = GaussianDensity(reg=0.0).fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[ -0.919, -13.419]])
    """

    def __init__(self, shrinkage: str | float | None = None, reg: float = 1e-4) -> None:
        self.shrinkage = shrinkage
        self.reg = reg

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")
        self.whitenings_ = [self._whitening(sample) for sample in class_samples(self.classes_, X, index, weight)]

    @property
    def means_(self) -> NDArray[np.float64]:
        """The means mu_c, (k, d)."""
        return torch.stack([white.centre for white in self.whitenings_]).numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """The covariances Sigma_c as they are used, shrunk and regularised, (k, d, d)."""
        matrices = torch.stack([white.matrix for white in self.whitenings_])
        return torch.linalg.inv(matrices @ matrices.mT).numpy()

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """As `log_prob(X)`; of many blends in many dimensions, from the distances between their parents.

        Whitening is affine, so that with a the whitened rows and Stewart's theorem
        |lam a_i + (1 - lam) a_j|^2 = lam |a_i|^2 + (1 - lam) |a_j|^2 - lam (1 - lam) |a_i - a_j|^2.
        """
        if lam is None or points is None or not self._pays(len(X), len(points)):
            return self.log_prob(X)
        known = self._distances(as_tensor(points).cpu().double())
        return like(known.log_prob(as_numpy(rows), as_numpy(partner_rows), as_numpy(lam)).to(as_tensor(X)), X)

    def _pays(self, blends: int, points: int) -> bool:
        wide = self.n_features_in_ >= WIDE and blends >= points
        return wide and len(self.classes_) * points**2 <= LARGEST

    def _distances(self, points: Tensor) -> _Distances:
        """Those of the points; the last ones are remembered."""
        known: _Distances | None = getattr(self, "_last_distances", None)
        if known is None or known.points is not points:
            known = self._last_distances = _distances(points, self.whitenings_)
        return known

    def __getstate__(self) -> dict[str, Any]:
        """Without the distances, which are found again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last_distances"}

    def gaussians(self) -> Gaussians:
        """Its Gaussians, by their whitenings."""
        centres, matrices = (torch.stack(parts) for parts in list(zip(*self.whitenings_, strict=True))[:2])
        log_dets = torch.tensor([white.log_det for white in self.whitenings_], dtype=centres.dtype)
        return Gaussians(centres, matrices, log_dets)

    def _log_prob(self, X: Tensor) -> Tensor:
        return normal_log_prob(X, self.gaussians(), X.dtype)

    def _whitening(self, sample: ClassSample) -> Whitening:
        mean, covariance = moments(sample.X, sample.weight, unbiased=False)
        if self.shrinkage is None or not sample.has_spread:
            covariance = usable_covariance(sample, covariance, "GaussianDensity")
        else:
            covariance = shrink(covariance, self._intensity(sample, mean, covariance))
        covariance = covariance + self.reg * torch.eye(len(mean), dtype=mean.dtype)
        return whitening(sample, mean, covariance, "GaussianDensity")

    def _intensity(self, sample: ClassSample, mean: Tensor, covariance: Tensor) -> float:
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ["ledoit-wolf"], also="None or a number in [0, 1]")
            return ledoit_wolf(sample.X, sample.weight, mean, covariance)
        return check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")


class _Distances(NamedTuple):
    """Squared distances of points after whitening, and what else their log-densities need."""

    points: Tensor
    """(n, d)"""
    to_mean: Tensor
    """(k, n): of each point to the mean."""
    between: Tensor
    """(k, n, n): of two of them."""
    constant: Tensor
    """(k,): log det Sigma + d log 2 pi."""

    def log_prob(self, rows: NDArray[Any], partner_rows: NDArray[Any], lam: NDArray[Any]) -> Tensor:
        """Log-density (m, k) of the blends of rows."""
        i, j, t = (torch.from_numpy(np.ascontiguousarray(part)) for part in (rows, partner_rows, lam))
        square = t * self.to_mean[:, i] + (1.0 - t) * self.to_mean[:, j] - t * (1.0 - t) * self.between[:, i, j]
        return -0.5 * (square.clamp_min(0.0).T + self.constant)


def _distances(X: Tensor, whitenings: Sequence[Whitening]) -> _Distances:
    white = [(X - affine.centre) @ affine.matrix for affine in whitenings]
    to_mean = torch.stack([(a * a).sum(1) for a in white])
    pairs = zip(to_mean, white, strict=True)
    between = torch.stack([(n[:, None] + n - 2.0 * (a @ a.T)).clamp_min_(0.0) for n, a in pairs])
    constant = torch.tensor([affine.log_det + X.shape[1] * LOG_2_PI for affine in whitenings], dtype=X.dtype)
    return _Distances(X, to_mean, between, constant)
