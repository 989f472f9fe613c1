"""Covariances that can always be inverted: estimation, shrinkage and whitening of one class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from genlabel.checks import warn
from genlabel.densities.base import ClassSample, DensityWarning
from genlabel.standardisation import ROUNDING

__all__ = ["Whitening", "effective_size", "ledoit_wolf", "moments", "shrink", "usable_covariance", "whitening"]

SINGULAR = 1e-10
"""A correlation matrix with a smaller eigenvalue counts as singular."""
FLOOR = 1e-4
"""What the eigenvalues of a singular one are raised to: the paper's 1e-4 on standardised features."""


class Whitening(NamedTuple):
    """An affine map to unit covariance: a = (x - centre) @ matrix."""

    centre: Tensor
    """(d,)"""
    matrix: Tensor
    """(d, d), with matrix @ matrix.T the inverse covariance."""
    log_det: float
    """Log-determinant of the covariance."""


def moments(X: Tensor, weight: Tensor, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Weighted mean (d,) and covariance (d, d); `unbiased` divides as `numpy.cov(aweights=...)` does."""
    share = weight / weight.sum()
    mean = share @ X
    centred = X - mean
    covariance = (share[:, None] * centred).T @ centred
    if unbiased:
        covariance = covariance / (1.0 - float((share**2).sum()))
    return mean, covariance


def effective_size(weight: Tensor) -> float:
    """Number of equal weights that say as much, (sum w)^2 / sum w^2 (Kish)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def ledoit_wolf(X: Tensor, weight: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """Ledoit-Wolf's shrinkage intensity in [0, 1] towards the scaled identity (Ledoit and Wolf, 2004).

    With mu = tr(S) / d, delta^2 = |S - mu I|^2 and beta^2 = sum_i w_i (|x_i|^4 - |S|^2) / (n sum_i w_i), the
    intensity is min(beta^2, delta^2) / delta^2 on centred points. Weights count as repetitions; where they are small
    (normalised, say), n is their effective number.
    """
    d = X.shape[1]
    norms = ((X - mean) ** 2).sum(1)
    total = float((covariance**2).sum())
    delta = total - float(covariance.trace()) ** 2 / d
    n = max(float(weight.sum()), effective_size(weight))
    beta = (float((weight / weight.sum()) @ norms**2) - total) / n
    return min(max(beta, 0.0), delta) / delta if delta > 0 else 1.0


def usable_covariance(sample: ClassSample, covariance: Tensor, owner: str) -> Tensor:
    """Return a covariance for a class that is too small for its own, and warn once by the class's name.

    One point (or several equal ones) says nothing of spread: the covariance within the classes stands in.
    At most d points span no volume: Ledoit-Wolf's shrinkage is used.
    """
    n, d = sample.X.shape
    if not sample.has_spread:
        _warn(owner, sample, f"has {n} sample(s) and no spread", "the covariance within all classes")
        return sample.pooled
    if n > d:
        return covariance
    _warn(owner, sample, f"has {n} samples for {d} features", "Ledoit-Wolf shrinkage")
    mean, biased = moments(sample.X, sample.weight, unbiased=False)
    return shrink(covariance, ledoit_wolf(sample.X, sample.weight, mean, biased))


def shrink(covariance: Tensor, intensity: float) -> Tensor:
    """Return (1 - intensity) S + intensity tr(S)/d I."""
    d = len(covariance)
    eye = torch.eye(d, dtype=covariance.dtype)
    return (1.0 - intensity) * covariance + intensity * covariance.trace() / d * eye


def whitening(sample: ClassSample, centre: Tensor, covariance: Tensor, owner: str) -> Whitening:
    """Return the whitening of a covariance; a singular one is floored, with a warning by the class's name.

    The work is done on the correlation matrix, so that features of scale 1e-12 and 1e12 meet as equals.
    """
    scale = _scales(centre, covariance, sample.pooled)
    values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
    if float(values[0]) < SINGULAR:
        _warn(
            owner,
            sample,
            "has a singular covariance",
            f"eigenvalues of its correlation of at least {FLOOR:g}",
        )
        values = values.clamp_min(FLOOR)
    matrix = (vectors / values.sqrt()) / scale[:, None]
    log_det = float(values.log().sum() + 2.0 * scale.log().sum())
    return Whitening(centre, matrix, log_det)


def _scales(centre: Tensor, covariance: Tensor, pooled: Tensor) -> Tensor:
    """Standard deviation of each feature; where it is but rounding, the one within all classes, or else 1."""
    own, other = covariance.diagonal().clamp_min(0).sqrt(), pooled.diagonal().clamp_min(0).sqrt()
    noise = ROUNDING * centre.abs() + torch.finfo(own.dtype).tiny ** 0.5
    return torch.where(own > noise, own, torch.where(other > noise, other, torch.ones_like(own)))


def _warn(owner: str, sample: ClassSample, what: str, remedy: str) -> None:
    warn((owner, sample.name), f"{owner}: class {sample.name!r} {what}; using {remedy}", DensityWarning)
