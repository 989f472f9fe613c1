"""Assertion that an error is raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(message: str, error: type[Exception] = ValueError) -> Iterator[None]:
    """Raise an AssertionError with the message unless an error of the type is raised within."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{message}: expected {error.__name__}")
