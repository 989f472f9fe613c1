"""Side-by-side timing: the runs of the two baselines alternate, so that a noisy machine disturbs both alike."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

__all__ = ["alternate", "seconds"]


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def alternate(first: Callable[[], object], second: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median seconds of two calls, run in turn after one warm-up each."""
    first(), second()
    pairs = [(seconds(first), seconds(second)) for _ in range(repeats)]
    return median(a for a, _ in pairs), median(b for _, b in pairs)
