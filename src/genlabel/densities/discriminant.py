"""Gaussians between one for each class and one for all: regularised discriminant analysis."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import chunks
from genlabel._registry import DENSITIES
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities._low_rank import LowRankGaussians, centre_by_class, thin_log_prob
from genlabel.densities.base import MAX_CHUNK_VALUES, ClassDensity, DensityWarning
from genlabel.densities.covariance import (
    Gaussians,
    GroupMoments,
    group_by_class,
    group_moments,
    normal_log_prob,
    to_gaussians,
)
from genlabel.densities.cross_validation import CrossValSample


@DENSITIES.register("discriminant")
@final
class DiscriminantDensity(ClassDensity):
    r"""A Gaussian for each class, whose covariance leans on the other classes and on a simpler one.

    .. math:: \Sigma_c = (1 - s) A_c + s\, T(A_c) + \mathrm{reg}\, I, \qquad
              A_c = (1 - \mathrm{pooling})\, S_c + \mathrm{pooling}\, S_\mathrm{within}

    (Friedman, 1989, "Regularized discriminant analysis"). Pooling 0 is quadratic, pooling 1 linear discriminant
    analysis.

    Parameters
    ----------
    pooling : float in [0, 1]
        Weight of the covariance within all classes.
    shrinkage : float in [0, 1]
        The intensity s.
    target : "sphere" or "diagonal"
        T(A) is tr(A)/d I, or the diagonal of A.
    reg : float
        Added to the diagonal; meant for standardised features.

    A class without spread has the covariance within all classes, with a :class:`DensityWarning` that names it;
    a singular covariance is floored, with one too.

    Examples
    --------
    >>> density = DiscriminantDensity(pooling=1.0, reg=0.0).fit([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1])
    >>> density.covariances_.ravel().round(3)
    array([2.5, 2.5])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.377, -8.577]])
    """

    def __init__(self, pooling: float = 0.0, shrinkage: float = 0.0, target: str = "sphere", reg: float = 1e-4) -> None:
        self.pooling = pooling
        self.shrinkage = shrinkage
        self.target = target
        self.reg = reg

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check()
        self.gaussians_: Gaussians | LowRankGaussians
        if self._is_thin(*X.shape):
            centred = centre_by_class(X, index, weight)
            axes = centred.axes(self.pooling)
            axes = [one.of_sphere() for one in axes] if self.shrinkage == 1 else axes
            found = LowRankGaussians(centred.mean, axes, self.shrinkage, self.reg)
            nil = [found.is_nil(axes) for axes in found.axes]
            self.gaussians_, spread, singular = found, centred.spread, [any(nil)] * len(self.classes_)
        else:
            moments = group_moments(group_by_class(X, index, weight[None]))
            self.gaussians_, floored = to_gaussians(moments.mean[:, 0], self._covariances(moments)[:, 0])
            spread, singular = moments.spread[:, 0].tolist(), floored.tolist()
        for name, differs, floored_one in zip(self.classes_.tolist(), spread, singular, strict=True):
            if not differs and self.pooling < 1:
                self._warn(name, "has no spread; using the covariance within all classes")
            elif floored_one:
                self._warn(name, "has a singular covariance; using a floor on its eigenvalues")

    def _is_thin(self, n: int, d: int) -> bool:
        """Whether the covariances of `n` rows of `d` features have few axes, and are a sphere beyond them."""
        return n < d and self.target == "sphere" and self.pooling in (0, 1)

    def _check(self) -> None:
        check_interval("pooling", self.pooling, 0.0, 1.0, "0 keeps the covariance of each class")
        check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
        check_choice("target", self.target, ["sphere", "diagonal"])
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")

    @property
    def means_(self) -> NDArray[np.float64]:
        """The means mu_c, (k, d)."""
        return self.gaussians().mean.numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """The covariances Sigma_c as they are used, (k, d, d)."""
        matrix = self.gaussians().matrix
        return torch.linalg.inv(matrix @ matrix.mT).numpy()

    def gaussians(self) -> Gaussians:
        """Its Gaussians, by their whitenings."""
        return self.gaussians_.dense()

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.gaussians_.log_prob(X).to(X)

    @property
    def cv_family(self) -> Hashable | None:
        """All share the moments of the folds."""
        return "discriminant"

    def held_out_log_prob(self, folds: CrossValSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
        """All settings, classes and folds are one batch of covariances, or as many as memory allows.

        With more features than rows, those that lean on a sphere share the axes of the covariances.
        """
        for density in densities:
            density._check()
        thin = [m for m, density in enumerate(densities) if density._is_thin(*folds.X.shape)]
        if not thin:
            return _held_out(folds, densities)
        found = folds.empty_log_prob(len(densities))
        settings = [(densities[m].pooling, densities[m].shrinkage, densities[m].reg) for m in thin]
        found[thin] = thin_log_prob(folds, settings)
        others = [m for m in range(len(densities)) if m not in thin]
        if others:
            found[others] = _held_out(folds, [densities[m] for m in others])
        return found

    def _gaussians(self, moments: GroupMoments) -> Gaussians:
        """The Gaussians of every group, (k, g)."""
        covariance = self._covariances(moments)
        (_, matrix, log_det), _ = to_gaussians(moments.mean[: len(covariance)], covariance)
        k = len(moments.mean)
        return Gaussians(moments.mean, matrix.expand(k, -1, -1, -1), log_det.expand(k, -1))

    def _covariances(self, moments: GroupMoments) -> Tensor:
        """Sigma_c of every group, (k, g, d, d), or (1, g, d, d) where the classes have one."""
        if self.pooling == 1:
            mixed = moments.within[None]
        else:
            covariance = torch.where(moments.spread[..., None, None], moments.covariance, moments.within)
            mixed = torch.lerp(covariance, moments.within.expand_as(covariance), float(self.pooling))
        diagonal = mixed.diagonal(dim1=-2, dim2=-1)
        if self.target == "sphere":
            diagonal = diagonal.mean(-1, keepdim=True).expand_as(diagonal)
        return (1.0 - self.shrinkage) * mixed + torch.diag_embed(self.shrinkage * diagonal + self.reg)

    def _warn(self, name: object, what: str) -> None:
        warn(("DiscriminantDensity", name), f"DiscriminantDensity: class {name!r} {what}", DensityWarning)


def _held_out(folds: CrossValSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
    """Log-densities (M, n, k) of rows held out, settings and folds in parts that memory has room for."""
    found = folds.empty_log_prob(len(densities))
    numbers = folds.k * folds.X.shape[1] ** 2
    for part in folds.split_folds(numbers):
        moments = group_moments(group_by_class(part.X, part.classes, part.training_weight))
        for some in chunks(len(densities), max(1, MAX_CHUNK_VALUES // (numbers * len(part.valid)))):
            each = [density._gaussians(moments) for density in densities[some]]
            mean, matrix, log_det = (torch.stack(values) for values in zip(*each, strict=True))
            for f, rows in enumerate(part.valid):
                of_fold = Gaussians(*(values[:, :, f].flatten(0, 1) for values in (mean, matrix, log_det)))
                answer = normal_log_prob(folds.X[rows], of_fold).view(len(rows), len(each), -1)
                found[some, rows] = answer.transpose(0, 1)
    return found
