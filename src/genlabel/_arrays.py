"""Conversion between NumPy and torch: results are of the kind of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[Any] | Tensor
"""A numpy array or a torch tensor."""
Values = ArrayLike | Tensor
"""Array-like input: numbers, lists, arrays, tensors, columns and tables."""
Seed = np.random.Generator | np.random.RandomState | np.random.SeedSequence | Sequence[int] | int | None
"""Argument of :func:`as_rng`; None is a new generator each time."""


def as_tensor(X: Values) -> Tensor:
    """Return `X` as a floating tensor: a tensor keeps dtype and device, everything else becomes float64.

    >>> as_tensor([[1, 2]]).dtype
    torch.float64
    """
    if isinstance(X, Tensor) and not X.is_complex():
        return X if X.is_floating_point() else X.double()
    try:
        dtype = getattr(X, "dtype", None)
        if isinstance(X, Tensor) or getattr(dtype, "kind", "f") in "cmM":
            raise TypeError(f"its values are {dtype}")
        return torch.from_numpy(np.array(X, dtype=np.float64, order="C"))  # the order changes sums in the last digits
    except (TypeError, ValueError) as error:
        hint = "call X.toarray()" if hasattr(X, "toarray") else "convert strings and dates to numbers"
        reason = " ".join(str(error).split())
        raise ValueError(f"X could not be read as an array of numbers ({reason}); {hint}") from error


def as_numpy(values: Values) -> NDArray[Any]:
    """Return `values` as a numpy array; a tensor is detached and brought to the CPU."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def like(result: Tensor, X: Values) -> Any:
    """Return `result` as the kind of array that `X` is."""
    return result if isinstance(X, Tensor) else result.cpu().numpy()


def to_device(values: Any, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return `values` on the device of a tensor, in `dtype` if it is given; the copy to a GPU is asynchronous."""
    tensor = torch.as_tensor(values)
    if like.is_cuda and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device=like.device, dtype=dtype or tensor.dtype, non_blocking=True)


def named_device(device: Any) -> torch.device:
    """Return the device of a name; "auto" is the GPU if there is one.

    >>> named_device("cpu")
    device(type='cpu')
    >>> named_device("tpu")
    Traceback (most recent call last):
    ValueError: device='tpu' is not known; use 'auto', 'cpu' or 'cuda'
    """
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
