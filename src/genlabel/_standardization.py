"""Standardization of features, there and back, with one rule for those that are constant."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Array, to_device

ROUNDING = 1e-13
"""A standard deviation of no more than this share of the mean is no spread, but rounding."""


class Standardization(NamedTuple):
    """Each feature less its mean, over its standard deviation: numpy or torch, as it was fitted.

    A feature whose points are all equal, or differ by rounding alone, is constant: it has scale 1, and is left out
    unless :meth:`fit` is asked to keep it.

    >>> X = np.array([[0.0, 7.0, 1.0], [4.0, 7.0, 3.0]])
    >>> fitted = Standardization.fit(X)
    >>> fitted(X)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> fitted.inverse(fitted(X))
    array([[0., 7., 1.],
           [4., 7., 3.]])
    """

    mean: Any
    """(d,)"""
    scale: Any
    """(d,)"""
    keep: Any
    """(d,): False for the features that are left out."""

    @classmethod
    def fit(
        cls, X: Array, weight: Array | None = None, *, keep_constant: bool = False, whole: Standardization | None = None
    ) -> Standardization:
        """Learn mean and deviation of the features of `X` (n, d), with the weights (n,) of its rows, if they have any.

        A fold keeps the features of the `whole` sample, and its scale of those that are constant in the fold.
        """
        xp: Any = torch if isinstance(X, Tensor) else np
        mean, deviation = _moments_of_tensor(X, weight) if isinstance(X, Tensor) else _moments(X, weight)
        varies = xp.not_equal(X[:1], X).any(0) & (deviation > ROUNDING * xp.abs(mean))
        keep = xp.ones_like(varies) if keep_constant else varies
        scale = xp.where(varies, deviation, 1.0 if whole is None else whole.scale)
        # A tensor's `keep` stays on the CPU, so that a call need not wait for a GPU to know whether all are kept.
        return cls(mean, scale, whole.keep if whole is not None else keep.cpu() if xp is torch else keep)

    @classmethod
    def identity(cls, X: Array) -> Standardization:
        """The one that leaves the features of `X` (n, d) as they are."""
        xp: Any = torch if isinstance(X, Tensor) else np
        return cls(xp.zeros_like(X[0]), xp.ones_like(X[0]), xp.ones(X.shape[1], dtype=bool))

    def __call__(self, X: Any) -> Any:
        """Standardised points, (m, number of kept features); of a tensor in the precision of the fit, on its device."""
        if not isinstance(X, Tensor):
            return ((X - self.mean) / self.scale)[:, self.keep]
        mean, scale = to_device(self.mean, X), to_device(self.scale, X)
        scaled = (X.to(mean.dtype) - mean) / scale
        return scaled if bool(self.keep.all()) else scaled[:, to_device(self.keep.nonzero()[:, 0], X)]

    def inverse(self, points: Any) -> Any:
        """The points (m, d) of which these (m, number of kept features) are the standardised ones.

        Features that were left out have their mean.
        """
        if isinstance(points, Tensor):
            mean, scale, keep = (part.to(points.device) for part in self)
            found = mean.repeat(len(points), 1)
        else:
            mean, scale, keep = self
            found = np.tile(mean, (len(points), 1))
        found[:, keep] = points * scale[keep] + mean[keep]
        return found

    @property
    def log_volume(self) -> float:
        """Sum of the logarithms of the kept scales: what a log-density of standardised points loses on the way back."""
        return float(torch.as_tensor(self.scale).log()[torch.as_tensor(self.keep)].sum())


def _moments(X: NDArray[np.float64], weight: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted mean and deviation of each column.

    NOTE: the estimators standardise so, the densities by :func:`_moments_of_tensor`; they differ in the last digit, and
    published numbers rest on either. The squares of what is divided by its reach neither overflow nor vanish.
    """
    mean = np.average(X, axis=0, weights=weight)
    centred = X - mean
    reach = np.abs(centred).max(0)
    unit = np.where(reach > 0, reach, 1.0)
    return mean, unit * np.sqrt(np.average((centred / unit) ** 2, axis=0, weights=weight))


def _moments_of_tensor(X: Tensor, weight: Any) -> tuple[Tensor, Tensor]:
    """The same by matrix products, on any device; the unit is a power of 2, which changes no digit."""
    share = X.new_full((len(X),), 1.0 / len(X)) if weight is None else weight / weight.sum()
    mean = share @ X
    centred = X - mean
    unit = torch.ldexp(torch.ones_like(mean), centred.abs().amax(0).frexp().exponent - 1)
    return mean, unit * (share @ (centred / unit) ** 2).sqrt()
