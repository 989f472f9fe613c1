"""The processes of a distributed run (`torchrun`): which one this is, sums over all; without a run, one alone."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rank_and_world_size() -> tuple[int, int]:
    """Return which of how many processes this is.

    >>> rank_and_world_size()
    (0, 1)
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def all_reduce_sum(values: Tensor) -> Tensor:
    """Add up the values of all processes, in place, and return them.

    >>> all_reduce_sum(torch.ones(2))
    tensor([1., 1.])
    """
    if rank_and_world_size()[1] > 1:
        torch.distributed.all_reduce(values)
    return values


def broadcast_from_rank0(tensors: Iterable[Tensor]) -> None:
    """Give every process the numbers of the first, in place."""
    if rank_and_world_size()[1] > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor.detach(), 0)
