"""What a loop hands over: a batch with its labels, the rank of the process, the layout of images."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel._distributed import rank_and_world_size


def check_batch(x: Tensor, y: Tensor, k: int) -> None:
    """Raise unless x can be mixed and y are labels of its rows; what lives on a GPU is not waited for.

    >>> check_batch(torch.zeros(2, 3), torch.tensor([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: y must hold class indices, 0 to 4; it has 0 to 7: give num_classes all of them
    """
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise TypeError(f"x is a {type(x).__name__} and y a {type(y).__name__}; give tensors, those of one batch")
    if not x.is_floating_point():
        raise TypeError(
            f"x is {x.dtype}, and would be rounded where it is mixed; give pixels as floats: x.float() / 255"
        )
    if len(x) != len(y) or not len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}; give one batch, of at least one row")
    if y.ndim == 2:
        if y.shape[1] != k:
            raise ValueError(f"y has {y.shape[1]} columns, but num_classes={k}; give soft labels (n, {k})")
    elif y.ndim != 1 or y.is_floating_point() or y.is_complex():
        raise ValueError(
            f"y is {y.dtype} {tuple(y.shape)}; give class indices (n,) as integers, or soft labels (n, {k})"
        )
    elif not y.is_cuda and not (int(y.min()) >= 0 and int(y.max()) < k):
        raise ValueError(
            f"y must hold class indices, 0 to {k - 1}; it has {int(y.min())} to {int(y.max())}: give num_classes all "
            "of them"
        )


def as_targets(y: Tensor, k: int, device: torch.device) -> Tensor:
    """Return labels (n, k) in float32, whatever the precision of the images: in bfloat16, class 257 would be 256.

    >>> as_targets(torch.tensor([1, 0]), 3, torch.device("cpu"))
    tensor([[0., 1., 0.], [1., 0., 0.]])
    """
    y = y.to(device, non_blocking=True)
    return one_hot(y.long(), k, torch.float32) if y.ndim == 1 else y.to(torch.float32)


def as_laid_out(mixed: Tensor, x: Tensor) -> Tensor:
    """Return images in the memory format of those that they were mixed from: channels_last stays.

    >>> x = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    >>> as_laid_out(torch.zeros(2, 3, 4, 4), x).is_contiguous(memory_format=torch.channels_last)
    True
    """
    if x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
        return mixed.contiguous(memory_format=torch.channels_last)
    return mixed


def process_rank() -> int:
    """Return the rank of this process among those that train together: by torch.distributed, else RANK, else 0."""
    rank, many = rank_and_world_size()
    if many > 1:
        return rank
    return int(os.environ.get("RANK", "0"))
