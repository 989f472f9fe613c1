"""Arrays of NumPy and torch: conversion in both directions, and standardization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from torch import Tensor

Array = NDArray[Any] | Tensor
"""A numpy array or a torch tensor."""
Values = ArrayLike | Tensor
"""Array-like input: numbers, lists, arrays, tensors, columns and tables."""
Seed = np.random.Generator | np.random.RandomState | np.random.SeedSequence | Sequence[int] | int | None
"""Argument of :func:`as_rng`; None is a new generator each time."""
ROUNDING_TOLERANCE = 1e-13
"""A standard deviation of at most this fraction of the mean is rounding."""


def as_tensor(X: Values) -> Tensor:
    """Return `X` as a floating tensor: a tensor keeps dtype and device, everything else becomes float64."""
    dtype = getattr(X, "dtype", None)
    if isinstance(X, Tensor):
        if X.is_complex():
            raise ValueError(f"Complex data not supported: X has values of {dtype}; pass real numbers")
        return X if X.is_floating_point() else X.double()
    if getattr(dtype, "kind", "f") in "mM":
        raise TypeError(f"X has values of {dtype}; convert dates and durations to numbers")
    # The order changes sums in the last digits.
    any_shape: dict[str, Any] = {
        "ensure_2d": False,
        "allow_nd": True,
        "ensure_min_samples": 0,
        "ensure_min_features": 0,
    }
    options: dict[str, Any] = {"dtype": np.float64, "order": "C", "copy": True, "ensure_all_finite": False}
    # scikit-learn refuses matrices of NumPy, and tables with columns of equal names.
    values = np.asarray(X, dtype=np.float64) if isinstance(X, np.matrix) or hasattr(X, "columns") else X
    return torch.from_numpy(check_array(values, input_name="X", **options, **any_shape))


def as_numpy(values: Values) -> NDArray[Any]:
    """Return `values` as a numpy array; a tensor is detached and brought to the CPU."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def like(result: Tensor, X: Values) -> Any:
    """Return `result` as a tensor if `X` is one, else as a numpy array."""
    return result if isinstance(X, Tensor) else result.cpu().numpy()


def to_device(values: Any, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return `values` on the device of a tensor, in `dtype` if it is given; the copy to a GPU is asynchronous."""
    tensor = torch.as_tensor(values)
    if like.is_cuda and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device=like.device, dtype=dtype or tensor.dtype, non_blocking=True)


def named_device(device: Any) -> torch.device:
    """Return the device of a name; "auto" is the GPU if there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        result = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is not known; use 'auto', 'cpu' or 'cuda'") from error
    if result.type not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is not supported; use 'auto', 'cpu' or 'cuda'")
    if result.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but PyTorch finds no GPU; use 'auto' or 'cpu'")
    return result


def one_hot(index: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """Return the rows e_c of the identity for class indices c of any shape."""
    return torch.eye(k, dtype=dtype, device=index.device)[index]


def chunks(n: int, size: int) -> list[slice]:
    """Return consecutive slices of at most `size` that cover `range(n)`, at least one."""
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), max(size, 1))]


def as_rng(rng: Seed) -> np.random.Generator:
    """Return a numpy generator from a generator, a seed, a `RandomState` or None."""
    if isinstance(rng, np.random.RandomState):
        return np.random.default_rng(rng.randint(0, 2**31 - 1, size=4))
    if isinstance(rng, torch.Generator):
        raise TypeError("rng is a torch.Generator; pass a numpy one, np.random.default_rng(seed), or a seed")
    return np.random.default_rng(rng)


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
    mask: Any
    """False for the features that are left out, (d,)."""

    @classmethod
    def fit(
        cls, X: Array, weight: Array | None = None, *, keep_constant: bool = False, whole: Standardization | None = None
    ) -> Standardization:
        """Return the standardization of the features of `X` (n, d), with optional weights (n,) of its rows.

        A fold keeps the features of the `whole` data, and its scale of those that are constant in the fold.
        """
        xp: Any = torch if isinstance(X, Tensor) else np
        mean: Any
        deviation: Any
        # NOTE: the estimators use NumPy, the densities torch; they differ in the last digit, and published results rest
        # on both. A division by the range, or by a power of 2, which changes no digit, keeps squares from overflowing.
        if isinstance(X, Tensor):
            share = X.new_full((len(X),), 1.0 / len(X)) if weight is None else weight / weight.sum()
            mean = share @ X
            centered = X - mean
            unit = torch.ldexp(torch.ones_like(mean), centered.abs().amax(0).frexp().exponent - 1)
            deviation = unit * (share @ (centered / unit) ** 2).sqrt()
        else:
            mean = np.average(X, axis=0, weights=weight)
            largest = np.abs(X - mean).max(0)
            size = np.where(largest > 0, largest, 1.0)
            deviation = size * np.sqrt(np.average(((X - mean) / size) ** 2, axis=0, weights=weight))
        varies = xp.not_equal(X[:1], X).any(0) & (deviation > ROUNDING_TOLERANCE * xp.abs(mean))
        if whole is not None:
            return cls(mean, xp.where(varies, deviation, whole.scale), whole.mask)
        mask = xp.ones_like(varies) if keep_constant else varies
        if isinstance(mask, Tensor):
            mask = mask.cpu()  # so that a call need not wait for a GPU to know whether all features are selected
        return cls(mean, xp.where(varies, deviation, 1.0), mask)

    @classmethod
    def identity(cls, X: Array) -> Standardization:
        """Return the standardization that leaves the features of `X` (n, d) unchanged."""
        xp: Any = torch if isinstance(X, Tensor) else np
        return cls(xp.zeros_like(X[0]), xp.ones_like(X[0]), xp.ones(X.shape[1], dtype=bool))

    def __call__(self, X: Any) -> Any:
        """Return standardized points, (m, selected features); a tensor keeps its device, with the dtype of the fit."""
        if not isinstance(X, Tensor):
            return ((X - self.mean) / self.scale)[:, self.mask]
        mean, scale = to_device(self.mean, X), to_device(self.scale, X)
        scaled = (X.to(mean.dtype) - mean) / scale
        return scaled if bool(self.mask.all()) else scaled[:, to_device(self.mask.nonzero()[:, 0], X)]

    def inverse(self, points: Any) -> Any:
        """Return the points (m, d) whose standardized points are `points` (m, selected features).

        Features that were left out have their mean.
        """
        is_tensor = isinstance(points, Tensor)
        mean, scale, mask = (values.to(points.device) for values in self) if is_tensor else self
        result = mean.repeat(len(points), 1) if is_tensor else np.tile(mean, (len(points), 1))
        result[:, mask] = points * scale[mask] + mean[mask]
        return result

    @property
    def log_volume(self) -> float:
        """Sum of the log-scales of the selected features: subtract it from a log-density of standardized points."""
        return float(torch.as_tensor(self.scale).log()[torch.as_tensor(self.mask)].sum())
