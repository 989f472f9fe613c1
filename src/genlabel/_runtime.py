"""Runtime state of torch: number of threads, evaluation mode, and the processes of a distributed run (`torchrun`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_lock = Lock()
_depth = 0
_outer_limits: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and the linear algebra libraries to one thread in this block, and restore their numbers afterwards.

    The many small steps of a fit gain nothing from a second thread, which slows down other work. Blocks may be nested,
    and entered by several threads at once: the last one to leave restores the numbers before the first one.
    """
    global _depth, _outer_limits
    import torch

    with _lock:
        if _depth == 0:
            number = torch.get_num_threads()
            _outer_limits = number, limit_to_one_thread()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                number, limits = _outer_limits
                _outer_limits = None
                limits.restore_original_limits()
                torch.set_num_threads(number)


def limit_to_one_thread() -> Any:
    """Limit the threads from now on; return an object that restores those of the linear algebra libraries."""
    import torch

    torch.set_num_threads(1)
    return _thread_controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _thread_controller(loaded_modules: int) -> Any:
    """Return the controller of the loaded libraries, which are searched again (milliseconds) after new imports."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def eval_mode(network: Any) -> Iterator[None]:
    """Put a torch module in evaluation mode in this block, uncompiled, and restore its mode afterwards."""
    import torch

    before = network.training
    network.eval()
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        network.train(before)


def rank_and_world_size() -> tuple[int, int]:
    """Return the index of this process and the number of processes; (0, 1) without a distributed run."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def all_reduce_sum(values: Tensor) -> Tensor:
    """Sum the values of all processes, in place, and return them."""
    import torch

    if rank_and_world_size()[1] > 1:
        torch.distributed.all_reduce(values)
    return values


def broadcast_from_rank0(tensors: Iterable[Tensor]) -> None:
    """Copy the values of the first process to all others, in place."""
    import torch

    if rank_and_world_size()[1] > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor.detach(), 0)
