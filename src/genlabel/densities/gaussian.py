"""One full Gaussian for each class: the paper's Gaussian mixture (GM) model."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.checks import check_choice, check_interval
from genlabel.densities.base import ClassDensity, ClassSample, class_samples
from genlabel.densities.covariance import (
    Whitening,
    ledoit_wolf,
    moments,
    shrink,
    usable_covariance,
    whitening,
)
from genlabel.densities.groups import Gaussians, normal_log_prob

__all__ = ["GaussianDensity"]


@final
class GaussianDensity(ClassDensity):
    r"""A Gaussian with full covariance for each class, p_c = N(mu_c, Sigma_c).

    .. math:: \Sigma_c = (1 - s) S_c + s \frac{\operatorname{tr} S_c}{d} I + \mathrm{reg}\, I,

    with S_c the covariance divided by n_c (arXiv, Preliminaries, "Gaussian mixture model").

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

    def __init__(self, shrinkage: Any = None, reg: float = 1e-4) -> None:
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

    def _log_prob(self, X: Tensor) -> Tensor:
        centres, matrices = (torch.stack(parts) for parts in list(zip(*self.whitenings_, strict=True))[:2])
        log_dets = torch.tensor([white.log_det for white in self.whitenings_], dtype=centres.dtype)
        return normal_log_prob(X, Gaussians(centres, matrices, log_dets), X.dtype)

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
