"""Standardization of features, there and back, with one rule for those that are constant."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Array, to_device

ROUNDING_TOLERANCE = 1e-13
"""A standard deviation of at most this share of the mean is rounding."""


class Standardization(NamedTuple):
    """Standardization of features: minus the mean, over the standard deviation; of NumPy or torch, as it was fitted.

    A feature whose values are all equal, or differ by rounding, is constant: it has scale 1, and is left out unless
    `keep_constant` of :meth:`fit` is set.

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
    """Mask of the features, (d,): False for those that are left out."""

    @classmethod
    def fit(
        cls, X: Array, weight: Array | None = None, *, keep_constant: bool = False, whole: Standardization | None = None
    ) -> Standardization:
        """Return the standardization of the features of `X` (n, d), with optional weights (n,) of its rows.

        A fold keeps the features of the `whole` data, and its scale of those that are constant in the fold.
        """
        xp: Any = torch if isinstance(X, Tensor) else np
        mean, deviation = _moments_of_tensor(X, weight) if isinstance(X, Tensor) else _moments(X, weight)
        varies = xp.not_equal(X[:1], X).any(0) & (deviation > ROUNDING_TOLERANCE * xp.abs(mean))
        keep = xp.ones_like(varies) if keep_constant else varies
        scale = xp.where(varies, deviation, 1.0 if whole is None else whole.scale)
        # A tensor's `keep` stays on the CPU, so that a call need not wait for a GPU to know whether all are kept.
        return cls(mean, scale, whole.keep if whole is not None else keep.cpu() if xp is torch else keep)

    @classmethod
    def identity(cls, X: Array) -> Standardization:
        """Return the standardization that leaves the features of `X` (n, d) unchanged."""
        xp: Any = torch if isinstance(X, Tensor) else np
        return cls(xp.zeros_like(X[0]), xp.ones_like(X[0]), xp.ones(X.shape[1], dtype=bool))

    def __call__(self, X: Any) -> Any:
        """Return standardized points, (m, selected features); a tensor in the precision of the fit, on its device."""
        if not isinstance(X, Tensor):
            return ((X - self.mean) / self.scale)[:, self.keep]
        mean, scale = to_device(self.mean, X), to_device(self.scale, X)
        scaled = (X.to(mean.dtype) - mean) / scale
        return scaled if bool(self.keep.all()) else scaled[:, to_device(self.keep.nonzero()[:, 0], X)]

    def inverse(self, points: Any) -> Any:
        """Return the points (m, d) whose standardized points are `points` (m, selected features).

        Features that were left out have their mean.
        """
        if isinstance(points, Tensor):
            mean, scale, keep = (values.to(points.device) for values in self)
            result = mean.repeat(len(points), 1)
        else:
            mean, scale, keep = self
            result = np.tile(mean, (len(points), 1))
        result[:, keep] = points * scale[keep] + mean[keep]
        return result

    @property
    def log_volume(self) -> float:
        """Sum of the log-scales of the selected features: subtract it from a log-density of standardized points."""
        return float(torch.as_tensor(self.scale).log()[torch.as_tensor(self.keep)].sum())


def _moments(X: NDArray[np.float64], weight: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weighted mean and deviation of each column; a division by the range keeps squares from overflowing.

    NOTE: the estimators use this function, the densities :func:`_moments_of_tensor`; they differ in the last digit, and
    published results rest on both.
    """
    mean = np.average(X, axis=0, weights=weight)
    centered = X - mean
    reach = np.abs(centered).max(0)
    unit = np.where(reach > 0, reach, 1.0)
    return mean, unit * np.sqrt(np.average((centered / unit) ** 2, axis=0, weights=weight))


def _moments_of_tensor(X: Tensor, weight: Any) -> tuple[Tensor, Tensor]:
    """Return the same by matrix products, on any device; the unit is a power of 2, which changes no digit."""
    share = X.new_full((len(X),), 1.0 / len(X)) if weight is None else weight / weight.sum()
    mean = share @ X
    centered = X - mean
    unit = torch.ldexp(torch.ones_like(mean), centered.abs().amax(0).frexp().exponent - 1)
    return mean, unit * (share @ (centered / unit) ** 2).sqrt()
