"""Who hears of the epochs of fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EpochCallback = Callable[[int], None]
"""Called with the number of epochs done since the last call."""

_listener: ContextVar[EpochCallback | None] = ContextVar("listener", default=None)


@contextmanager
def epoch_callback(listener: EpochCallback) -> Iterator[None]:
    """Hear of the epochs of every fit within; safe in threads.

    What a fit is at, how far it is and how long it will take is told to :func:`genlabel._progress.progress_callback`.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> epochs = []
    >>> with epoch_callback(epochs.append):
    ...     model = MixupClassifier.from_paper(training__epochs=5).fit(*load_iris(return_X_y=True))
    >>> sum(epochs)  # a search, and the final fit
    10
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> EpochCallback | None:
    """Who listens here, if anyone does."""
    return _listener.get()
