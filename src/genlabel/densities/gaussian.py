"""One full Gaussian for each class: the paper's Gaussian mixture (GM) model."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor

from genlabel.checks import check_choice, check_interval
from genlabel.densities.base import ClassSample, PerClassDensity
from genlabel.densities.covariance import (
    Whitening,
    ledoit_wolf,
    moments,
    shrink,
    usable_covariance,
    whitening,
)

__all__ = ["GaussianDensity", "GaussianModel"]


@final
class GaussianModel:
    """N(mean, covariance) of one class, evaluated through its whitening."""

    def __init__(self, whiten: Whitening) -> None:
        self.whiten = whiten

    def log_prob(self, x: Tensor) -> Tensor:
        """-1/2 (|a|^2 + log det S + d log 2 pi), with a = (x - mean) whitened, one column a point."""
        matrix = self.whiten.matrix.to(x)
        shift = -(self.whiten.centre @ self.whiten.matrix).to(x)
        a = torch.addmm(shift[:, None], matrix.T, x.T)
        return -0.5 * (a.square_().sum(0) + self.whiten.log_det + len(matrix) * math.log(2.0 * math.pi))


@final
class GaussianDensity(PerClassDensity):
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

    Examples
    --------
    >>> density = GaussianDensity(reg=0.0).fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[ -0.919, -13.419]])
    """

    def __init__(self, shrinkage: Any = None, reg: float = 1e-4) -> None:
        self.shrinkage = shrinkage
        self.reg = reg

    def _fit_class(self, sample: ClassSample) -> GaussianModel:
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")
        mean, covariance = moments(sample.X, sample.weight, unbiased=False)
        if self.shrinkage is None or not sample.has_spread:
            covariance = usable_covariance(sample, covariance, "GaussianDensity")
        else:
            covariance = shrink(covariance, self._intensity(sample, mean, covariance))
        covariance = covariance + self.reg * torch.eye(len(mean), dtype=mean.dtype)
        return GaussianModel(whitening(sample, mean, covariance, "GaussianDensity"))

    def _intensity(self, sample: ClassSample, mean: Tensor, covariance: Tensor) -> float:
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ["ledoit-wolf"], also="None or a number in [0, 1]")
            return ledoit_wolf(sample.X, sample.weight, mean, covariance)
        return check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
