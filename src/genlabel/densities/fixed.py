"""Densities that are given, not learned: one distribution for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch.distributions import MultivariateNormal

from genlabel._arrays import Array, as_tensor
from genlabel.densities.per_class import ClassSample, LogDensity, PerClassDensity


@final
class FixedDensity(PerClassDensity):
    """The true densities of a synthetic set, in the order of the sorted classes.

    Parameters
    ----------
    models : sequence of objects with `log_prob(x)`, (m, d) -> (m,)
        For example `torch.distributions` objects with float64 parameters.

    Examples
    --------
    >>> density = fixed_gaussians([[-1.0], [1.0]]).fit([[-1.0], [1.0]], [0, 1])
    >>> density.log_prob([[0.0]]).round(3)
    array([[-1.419, -1.419]])
    """

    def __init__(self, models: Sequence[LogDensity]) -> None:
        self.models = models

    def _fit_class(self, sample: ClassSample) -> LogDensity:
        k = len(self.classes_)
        if len(self.models) != k:
            raise ValueError(f"{len(self.models)} known densities for {k} classes; give one for each class")
        return self.models[self.classes_.tolist().index(sample.name)]


@final
@dataclass(frozen=True)
class SphericalGaussian:
    """A Gaussian with the same variance in all directions, known by plain numbers."""

    mean: tuple[float, ...]
    variance: float

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-densities of points (m, d), (m,)."""
        centre = torch.tensor(self.mean, dtype=x.dtype, device=x.device)
        if x.shape[-1] != len(centre):
            raise ValueError(f"X has {x.shape[-1]} features, the means that are known {len(centre)}; give as many")
        covariance = self.variance * torch.eye(len(centre), dtype=x.dtype, device=x.device)
        model: LogDensity = MultivariateNormal(centre, covariance)
        return model.log_prob(x)


def fixed_gaussians(means: Array | Sequence[Sequence[float]], variance: float = 1.0) -> FixedDensity:
    """Spherical Gaussians at the given `means` (k, d): the paper's choice for the cubes and the 9 Gaussians.

    >>> density = fixed_gaussians([[0.0, 0.0], [3.0, 4.0]], variance=4.0).fit([[0.0, 0.0], [3.0, 4.0]], [0, 1])
    >>> log_prob = density.log_prob([[0.0, 0.0]])[0]
    >>> float(log_prob[0] - log_prob[1])  # |(3, 4)|^2 / (2 * 4)
    3.125
    """
    centres = as_tensor(means)
    return FixedDensity([SphericalGaussian(tuple(mean), variance) for mean in centres.tolist()])
