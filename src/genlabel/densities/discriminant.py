"""Gaussians between one for each class and one for all: regularised discriminant analysis."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import chunks
from genlabel.checks import check_choice, check_interval, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.covariance import (
    Gaussians,
    GroupMoments,
    group_by_class,
    group_moments,
    normal_log_prob,
    to_gaussians,
)
from genlabel.densities.folded import AT_ONCE, FoldedSample

__all__ = ["DiscriminantDensity"]


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
        moments = group_moments(group_by_class(X, index, weight[None]))
        covariance = self._covariances(moments)[:, 0]
        self.gaussians_, singular = to_gaussians(moments.mean[:, 0], covariance)
        for name, spread, floored in zip(self.classes_.tolist(), moments.spread[:, 0], singular, strict=True):
            if not spread and self.pooling < 1:
                self._warn(name, "has no spread; using the covariance within all classes")
            elif floored:
                self._warn(name, "has a singular covariance; using a floor on its eigenvalues")

    def _check(self) -> None:
        check_interval("pooling", self.pooling, 0.0, 1.0, "0 keeps the covariance of each class")
        check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
        check_choice("target", self.target, ["sphere", "diagonal"])
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")

    @property
    def means_(self) -> NDArray[np.float64]:
        """The means mu_c, (k, d)."""
        return self.gaussians_.mean.numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """The covariances Sigma_c as they are used, (k, d, d)."""
        return torch.linalg.inv(self.gaussians_.matrix @ self.gaussians_.matrix.mT).numpy()

    def gaussians(self) -> Gaussians:
        """Its Gaussians, by their whitenings."""
        return self.gaussians_

    def _log_prob(self, X: Tensor) -> Tensor:
        return normal_log_prob(X, self.gaussians_).to(X)

    @property
    def family(self) -> Hashable | None:
        """All share the moments of the folds."""
        return "discriminant"

    def held_out_log_prob(self, folds: FoldedSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
        """All settings, classes and folds are one batch of covariances, or as many as memory allows."""
        for density in densities:
            density._check()
        found = folds.unanswered(len(densities))
        numbers = folds.k * folds.X.shape[1] ** 2
        for part in folds.parts(numbers):
            moments = group_moments(group_by_class(part.X, part.classes, part.training_weight))
            for some in chunks(len(densities), max(1, AT_ONCE // (numbers * len(part.valid)))):
                covariance = torch.stack([density._covariances(moments) for density in densities[some]])
                gaussians, _ = to_gaussians(moments.mean.expand(len(covariance), -1, -1, -1), covariance)
                for f, rows in enumerate(part.valid):
                    of_fold = Gaussians(*(values[:, :, f].flatten(0, 1) for values in gaussians))
                    answer = normal_log_prob(folds.X[rows], of_fold).view(len(rows), len(covariance), -1)
                    found[some, rows] = answer.transpose(0, 1)
        return found

    def _covariances(self, moments: GroupMoments) -> Tensor:
        """Sigma_c of every group, (k, g, d, d)."""
        covariance = torch.where(moments.spread[..., None, None], moments.covariance, moments.within)
        mixed = torch.lerp(covariance, moments.within.expand_as(covariance), float(self.pooling))
        diagonal = mixed.diagonal(dim1=-2, dim2=-1)
        if self.target == "sphere":
            diagonal = diagonal.mean(-1, keepdim=True).expand_as(diagonal)
        return (1.0 - self.shrinkage) * mixed + torch.diag_embed(self.shrinkage * diagonal + self.reg)

    def _warn(self, name: object, what: str) -> None:
        warn(("DiscriminantDensity", name), f"DiscriminantDensity: class {name!r} {what}", DensityWarning)
