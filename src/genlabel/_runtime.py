"""One thread for the many small steps of a fit: a second one gains nothing, and beside other work it costs dearly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0
_before: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Bound torch and the libraries of linear algebra to one thread within; as many as before afterwards.

    May be nested, and entered by several threads at once: the last one out restores what the first one found.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def limit_to_one_thread() -> Any:
    """Bound them from now on; return what restores the libraries of linear algebra."""
    import torch

    torch.set_num_threads(1)
    return _controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _controller(modules: int) -> Any:
    """What knows the libraries that are loaded; they are looked for, in milliseconds, where modules are new."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _enter() -> None:
    global _inside, _before
    import torch

    with _lock:
        if _inside == 0:
            number = torch.get_num_threads()
            _before = number, limit_to_one_thread()
        _inside += 1


def _leave() -> None:
    global _inside, _before
    import torch

    with _lock:
        _inside -= 1
        if _inside == 0:
            number, limits = _before
            _before = None
            limits.restore_original_limits()
            torch.set_num_threads(number)


@contextmanager
def eval_mode(network: Any) -> Iterator[None]:
    """Put a torch module in evaluation mode within, uncompiled; restore its mode afterwards.

    >>> import torch
    >>> dropout = torch.nn.Dropout(0.5)
    >>> with eval_mode(dropout):
    ...     dropout(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    >>> dropout.training
    True
    """
    import torch

    before = network.training
    network.eval()
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        network.train(before)
