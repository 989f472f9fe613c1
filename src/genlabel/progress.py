"""Progress of long fits, for whoever listens: a terminal, a command, a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "epoch_listener", "listen"]

Listener = Callable[[int], None]
"""Called with the number of epochs done since the last call."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Hear of the epochs of every fit within; safe in threads.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> epochs = []
    >>> with listen(epochs.append):
    ...     model = MixupClassifier.from_paper(epochs=5).fit(*load_iris(return_X_y=True))  # a search, and the final fit
    >>> sum(epochs)
    10
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def epoch_listener(verbose: int, name: str) -> Iterator[Listener | None]:
    """Whom a fit tells of its epochs: the listener, and a line on the terminal if it is `verbose`."""
    outer = _listener.get()
    if verbose <= 0:
        yield outer
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(name), TextColumn("{task.completed:.0f} epochs"), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(name, total=None)

        def tell(epochs: int) -> None:
            bar.advance(task, epochs)
            if outer is not None:
                outer(epochs)

        yield tell
