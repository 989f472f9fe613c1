"""One full Gaussian for each class: the Gaussian mixture (GM) model of the paper."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, like
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
from genlabel.densities.per_class import class_samples
from genlabel.registry import DENSITIES

MIN_PAIR_FEATURES = 64  # features above which log-densities of mixed points are computed from those of their parents
MAX_DISTANCES = 1 << 24  # pairwise distances that are stored for it


@DENSITIES.register("gaussian", shrinkage="ledoit-wolf")
@final
class GaussianDensity(ClassDensity):
    r"""A Gaussian with full covariance for each class, p_c = N(mu_c, Sigma_c).

    .. math:: \Sigma_c = (1 - s) S_c + s \frac{\operatorname{tr} S_c}{d} I + \mathrm{reg}\, I,

    with S_c the covariance divided by n_c (arXiv Section 1.2, "Gaussian mixture model").

    Parameters
    ----------
    shrinkage : None, "ledoit-wolf" or float in [0, 1]
        Intensity s; None is the setting of the paper.
    reg : float
        Variance added to the diagonal; 1e-4 is the value of the paper on standardized features.

    A class with at most d points, or with a singular covariance, is regularized, with a
    :class:`DensityWarning` that names it.

    Attributes
    ----------
    means_, covariances_ : ndarray (k, d), (k, d, d)
        Means and regularized covariances.

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
        self.whitenings_: list[Whitening] = []
        for sample in class_samples(self.classes_, X, index, weight):
            mean, covariance = moments(sample.X, sample.weight, unbiased=False)
            if self.shrinkage is None or not sample.has_spread:
                covariance = usable_covariance(sample, covariance, "GaussianDensity")
            else:
                if isinstance(self.shrinkage, str):
                    check_choice("shrinkage", self.shrinkage, ["ledoit-wolf"], also="None or a number in [0, 1]")
                    intensity = ledoit_wolf(sample.X, sample.weight, mean, covariance)
                else:
                    intensity = check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
                covariance = shrink(covariance, intensity)
            covariance = covariance + self.reg * torch.eye(len(mean), dtype=mean.dtype)
            self.whitenings_.append(whitening(sample, mean, covariance, "GaussianDensity"))

    @property
    def means_(self) -> NDArray[np.float64]:
        """Means mu_c, (k, d)."""
        return torch.stack([white.center for white in self.whitenings_]).numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Covariances Sigma_c after shrinkage and regularization, (k, d, d)."""
        matrices = torch.stack([white.matrix for white in self.whitenings_])
        return torch.linalg.inv(matrices @ matrices.mT).numpy()

    def gaussians(self) -> Gaussians:
        """Return the Gaussians of the classes."""
        centers, matrices = (torch.stack(parts) for parts in list(zip(*self.whitenings_, strict=True))[:2])
        log_dets = torch.tensor([white.log_det for white in self.whitenings_], dtype=centers.dtype)
        return Gaussians(centers, matrices, log_dets)

    def _log_prob(self, X: Tensor) -> Tensor:
        return normal_log_prob(X, self.gaussians(), X.dtype)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return `log_prob(X)`; for many mixed points in many dimensions, from the distances between their parents.

        Whitening is affine, so that with whitened rows a, by Stewart's theorem,
        |lam a_i + (1 - lam) a_j|^2 = lam |a_i|^2 + (1 - lam) |a_j|^2 - lam (1 - lam) |a_i - a_j|^2.
        """
        if lam is None or points is None:
            return self.log_prob(X)
        wide = self.n_features_in_ >= MIN_PAIR_FEATURES and len(X) >= len(points)
        if not wide or len(self.classes_) * len(points) ** 2 > MAX_DISTANCES:
            return self.log_prob(X)
        x = as_tensor(points).cpu().double()
        distances: _PairDistances | None = getattr(self, "_last_distances", None)
        if distances is None or distances.points is not x:
            distances = self._last_distances = _PairDistances.of(x, self.whitenings_)
        return like(distances.log_prob(as_numpy(rows), as_numpy(partner_rows), as_numpy(lam)).to(as_tensor(X)), X)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached distances."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last_distances"}


class _PairDistances(NamedTuple):
    """Squared distances between whitened points, for log-densities of mixed points."""

    points: Tensor  # (n, d)
    to_mean: Tensor  # distances of the points to the mean of each class, (k, n)
    between: Tensor  # distances between pairs of points, (k, n, n)
    constant: Tensor  # log det Sigma + d log 2 pi, (k,)

    @classmethod
    def of(cls, X: Tensor, whitenings: list[Whitening]) -> _PairDistances:
        white = [(X - affine.center) @ affine.matrix for affine in whitenings]
        to_mean = torch.stack([(a * a).sum(1) for a in white])
        pairs = zip(to_mean, white, strict=True)
        between = torch.stack([(n[:, None] + n - 2.0 * (a @ a.T)).clamp_min_(0.0) for n, a in pairs])
        constant = torch.tensor([affine.log_det + X.shape[1] * LOG_2_PI for affine in whitenings], dtype=X.dtype)
        return cls(X, to_mean, between, constant)

    def log_prob(self, rows: NDArray[Any], partner_rows: NDArray[Any], lam: NDArray[Any]) -> Tensor:
        """Return the log-density (m, k) of mixed rows."""
        i, j, t = (torch.from_numpy(np.ascontiguousarray(part)) for part in (rows, partner_rows, lam))
        square = t * self.to_mean[:, i] + (1.0 - t) * self.to_mean[:, j] - t * (1.0 - t) * self.between[:, i, j]
        return -0.5 * (square.clamp_min(0.0).T + self.constant)
