"""Gaussian densities: one for each class, and discriminant analyses between one for each class and one for all."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, chunks, like
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.covariance import (
    LOG_2_PI,
    Gaussians,
    GroupMoments,
    LowRankGaussians,
    PrincipalAxes,
    Whitening,
    class_axes,
    low_rank_log_prob,
    moments,
    usable_covariance,
)
from genlabel.densities.samples import MAX_CHUNK_VALUES, CrossValSample, Groups, class_samples
from genlabel.registry import DENSITIES

MIN_PAIR_FEATURES = 64  # features from which log-densities of mixed points come from the distances of their parents
MAX_DISTANCES = 1 << 24  # pairwise distances that may be stored for this


class NormalDensity(ClassDensity):
    """Base class of the densities with one Gaussian for each class."""

    @abstractmethod
    def gaussians(self) -> Gaussians:
        """Return the Gaussians of the classes."""

    @property
    def means_(self) -> NDArray[np.float64]:
        """Means mu_c, (k, d)."""
        return self.gaussians().mean.numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Covariances Sigma_c after shrinkage and regularization, (k, d, d)."""
        matrix = self.gaussians().matrix
        return torch.linalg.inv(matrix @ matrix.mT).numpy()


@DENSITIES.register("discriminant")
@final
@dataclass(eq=False, repr=False)
class DiscriminantDensity(NormalDensity):
    r"""A Gaussian for each class, with a covariance shrunk toward that of all classes and toward a simpler one.

    .. math:: \Sigma_c = (1 - s) A_c + s\, T(A_c) + \mathrm{reg}\, I, \qquad
              A_c = (1 - \mathrm{pooling})\, S_c + \mathrm{pooling}\, S_\mathrm{within}

    (Friedman, 1989, "Regularized discriminant analysis"). Pooling 0 is quadratic, pooling 1 linear discriminant
    analysis.

    Parameters
    ----------
    pooling : float in [0, 1]
        Weight of the within-class covariance of all classes.
    shrinkage : float in [0, 1]
        Intensity s.
    target : "sphere" or "diagonal"
        T(A) is tr(A)/d I, or the diagonal of A.
    reg : float
        Variance added to the diagonal; meant for standardized features.

    A class without spread gets the within-class covariance, and a singular covariance is regularized, each with a
    :class:`DensityWarning` that names the class.

    Examples
    --------
    >>> density = DiscriminantDensity(pooling=1.0, reg=0.0).fit([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1])
    >>> density.covariances_.ravel().round(3)
    array([2.5, 2.5])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.377, -8.577]])
    """

    pooling: float = 0.0
    shrinkage: float = 0.0
    target: str = "sphere"
    reg: float = 1e-4

    cv_family = "discriminant"  # all discriminant densities share the moments of the folds

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters()
        self.gaussians_: Gaussians | LowRankGaussians
        if self._is_low_rank(*X.shape):
            mean, axes, spread = class_axes(X, index, weight, self.pooling)
            if self.shrinkage == 1:
                axes = [PrincipalAxes(vectors[:0].clone(), variance) for vectors, variance in axes]
            self.gaussians_ = gaussians = LowRankGaussians(mean, axes, self.shrinkage, self.reg)
            singular = [any(gaussians.variance_beyond(each) == 0.0 for each in axes)] * len(self.classes_)
        else:
            moments = GroupMoments.of(Groups.by_class(X, index, weight[None]))
            self.gaussians_, mask = Gaussians.of(moments.mean[:, 0], self._covariances(moments)[:, 0])
            spread, singular = moments.has_spread[:, 0].tolist(), mask.tolist()
        for name, has_spread, is_singular in zip(self.classes_.tolist(), spread, singular, strict=True):
            if not has_spread and self.pooling < 1:
                problem = "has no spread; using the covariance within all classes"
            elif is_singular:
                problem = "has a singular covariance; using a floor on its eigenvalues"
            else:
                continue
            warn(("DiscriminantDensity", name), f"DiscriminantDensity: class {name!r} {problem}", DensityWarning)

    def _is_low_rank(self, n: int, d: int) -> bool:
        """Return True if covariances of `n` rows of `d` features have few axes and are spherical beyond them."""
        return n < d and self.target == "sphere" and self.pooling in (0, 1)

    def _check_parameters(self) -> None:
        check_interval("pooling", self.pooling, 0.0, 1.0, "0 keeps the covariance of each class")
        check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
        check_choice("target", self.target, ["sphere", "diagonal"])
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")

    def gaussians(self) -> Gaussians:
        """Return the Gaussians of the classes."""
        return self.gaussians_ if isinstance(self.gaussians_, Gaussians) else self.gaussians_.dense()

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.gaussians_.log_prob(X).to(X)

    def _covariances(self, moments: GroupMoments) -> Tensor:
        """Return Sigma_c of every group, (k, g, d, d), or (1, g, d, d) if all classes share it."""
        if self.pooling == 1:
            pooled = moments.within[None]
        else:
            covariance = torch.where(moments.has_spread[..., None, None], moments.covariance, moments.within)
            pooled = torch.lerp(covariance, moments.within.expand_as(covariance), float(self.pooling))
        diagonal = pooled.diagonal(dim1=-2, dim2=-1)
        if self.target == "sphere":
            diagonal = diagonal.mean(-1, keepdim=True).expand_as(diagonal)
        return (1.0 - self.shrinkage) * pooled + torch.diag_embed(self.shrinkage * diagonal + self.reg)

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
        """Return held-out log-densities (M, n, k); all densities share the moments, or the axes, of the folds."""
        for density in densities:
            density._check_parameters()
        log_prob = sample.empty_log_prob(len(densities))
        is_low_rank = [density._is_low_rank(*sample.X.shape) for density in densities]
        for pooling in {density.pooling for m, density in enumerate(densities) if is_low_rank[m]}:
            members = [m for m, density in enumerate(densities) if is_low_rank[m] and density.pooling == pooling]
            for train, rows in zip(sample.train, sample.valid, strict=True):
                mean, axes, _ = class_axes(sample.X[train], sample.classes[train], sample.weight[train], pooling)
                fitted = [LowRankGaussians(mean, axes, densities[m].shrinkage, densities[m].reg) for m in members]
                log_prob[torch.tensor(members)[:, None], rows] = low_rank_log_prob(fitted, sample.X[rows])
        full = [m for m in range(len(densities)) if not is_low_rank[m]]
        values = sample.k * sample.X.shape[1] ** 2
        for groups, valid in sample.fold_groups(values) if full else ():
            moments = GroupMoments.of(groups)
            for batch in chunks(len(full), max(1, MAX_CHUNK_VALUES // (values * len(valid)))):
                parts = []
                for m in full[batch]:
                    covariance = densities[m]._covariances(moments)
                    (_, matrix, log_det), _ = Gaussians.of(moments.mean[: len(covariance)], covariance)
                    parts.append((moments.mean, matrix.expand(sample.k, -1, -1, -1), log_det.expand(sample.k, -1)))
                stacked = [torch.stack(same) for same in zip(*parts, strict=True)]
                for f, rows in enumerate(valid):
                    gaussians = Gaussians(*(part[:, :, f].flatten(0, 1) for part in stacked))
                    fold_log_prob = gaussians.log_prob(sample.X[rows]).view(len(rows), len(parts), -1)
                    log_prob[torch.tensor(full[batch])[:, None], rows] = fold_log_prob.transpose(0, 1)
        return log_prob


@DENSITIES.register("gaussian", shrinkage="ledoit-wolf")
@final
@dataclass(eq=False, repr=False)
class GaussianDensity(NormalDensity):
    r"""A Gaussian with full covariance for each class, p_c = N(mu_c, Sigma_c): the Gaussian mixture of the paper.

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

    Examples
    --------
    >>> density = GaussianDensity(reg=0.0).fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[ -0.919, -13.419]])
    """

    shrinkage: str | float | None = None
    reg: float = 1e-4

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")
        shrinkage = self.shrinkage
        if isinstance(shrinkage, str):
            check_choice("shrinkage", shrinkage, ["ledoit-wolf"], also="None or a number in [0, 1]")
        elif shrinkage is not None:
            shrinkage = check_interval("shrinkage", shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
        self.whitenings_: list[Whitening] = []
        for sample in class_samples(self.classes_, X, index, weight):
            mean, covariance = moments(sample.X, sample.weight)
            covariance = usable_covariance(sample, covariance, "GaussianDensity", shrinkage)
            covariance = covariance + self.reg * torch.eye(len(mean), dtype=mean.dtype)
            self.whitenings_.append(Whitening.of(sample, mean, covariance, "GaussianDensity"))

    def gaussians(self) -> Gaussians:
        """Return the Gaussians of the classes."""
        centers, matrices, log_dets = zip(*self.whitenings_, strict=True)
        return Gaussians(torch.stack(centers), torch.stack(matrices), torch.tensor(log_dets, dtype=centers[0].dtype))

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.gaussians().log_prob(X, X.dtype)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return `log_prob(X)`; for many mixed points in many dimensions, from the distances between their parents.

        Whitening is affine, so that with whitened rows a, by Stewart's theorem,
        |lam a_i + (1 - lam) a_j|^2 = lam |a_i|^2 + (1 - lam) |a_j|^2 - lam (1 - lam) |a_i - a_j|^2.
        """
        if lam is None or points is None:
            return self.log_prob(X)
        is_faster = self.n_features_in_ >= MIN_PAIR_FEATURES and len(X) >= len(points)
        if not is_faster or len(self.classes_) * len(points) ** 2 > MAX_DISTANCES:
            return self.log_prob(X)
        x = as_tensor(points).cpu().double()
        if getattr(self, "_last_distances", (None,))[0] is not x:
            to_mean, between = [], []
            for center, matrix, _ in self.whitenings_:
                a = (x - center) @ matrix
                to_mean.append((a * a).sum(1))
                between.append((to_mean[-1][:, None] + to_mean[-1] - 2.0 * (a @ a.T)).clamp_min_(0.0))
            self._last_distances = (x, torch.stack(to_mean), torch.stack(between))  # (n, d), (k, n), (k, n, n)
        _, square, square_between = self._last_distances
        i, j, t = (torch.from_numpy(np.ascontiguousarray(as_numpy(part))) for part in (rows, partner_rows, lam))
        distance = t * square[:, i] + (1.0 - t) * square[:, j] - t * (1.0 - t) * square_between[:, i, j]
        log_dets = torch.tensor([white.log_det for white in self.whitenings_], dtype=x.dtype)
        constant = log_dets + x.shape[1] * LOG_2_PI
        return like((-0.5 * (distance.clamp_min(0.0).T + constant)).to(as_tensor(X)), X)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached distances."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last_distances"}
