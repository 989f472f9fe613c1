"""Intervals of what is counted and of what is paired: a share of dependent cases, a mean difference over rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH = 1.96
"""Standard errors to each side of a 95 % interval."""


class Gap(NamedTuple):
    """A mean difference over the same rows, and its 95 % interval."""

    mean: float
    low: float
    high: float


def mean_gap(first: NDArray[np.float64], second: NDArray[np.float64], fold: NDArray[np.intp] | None = None) -> Gap:
    """Return the mean of `first` less `second`, losses (n,) of the same held-out rows, with its 95 % interval.

    By themselves the rows are taken as independent, and the models as they are. With `fold` (n,), the interval is of
    the methods: the variance of the mean of K folds is taken as s^2 (1/K + 1/(K - 1)), because their training rows
    overlap (Nadeau and Bengio, 2003); s^2 is that of the folds' means, as seen among them or as the spread of the rows
    within has it, whichever is larger.

    >>> gap = mean_gap(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), np.array([0, 0, 1, 1]))
    >>> gap.mean, gap.low < 0.0 < gap.high
    (1.0, True)
    """
    apart = first - second
    mean, square = float(apart.mean()), float("inf")
    if fold is None and len(apart) > 1:
        square = float(apart.var(ddof=1)) / len(apart)
    elif fold is not None and len(np.unique(fold)) > 1:
        means = np.array([apart[fold == one].mean() for one in np.unique(fold)])
        count = len(means)
        spread = max(float(means.var(ddof=1)), float(apart.var(ddof=1)) * count / len(apart))
        square = spread * (1.0 / count + 1.0 / (count - 1))
    half = WIDTH * float(np.sqrt(square))
    return Gap(mean, mean - half, mean + half)


def share_interval(share: float, size: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that was found among `size` independent cases, a whole number or not.

    >>> low, high = share_interval(0.5, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    square = WIDTH**2 / size
    middle = (share + square / 2.0) / (1.0 + square)
    half = WIDTH / (1.0 + square) * np.sqrt(share * (1.0 - share) / size + square / (4.0 * size))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def independent_blends(count: int, first: int, second: int, same: bool) -> float:
    """Return how many independent blends `count` blends of `first` and `second` rows are worth, at least.

    The share among all pairs of rows is a mean over arrangements of min(first, second) disjoint pairs (first / 2 within
    one class), so that its variance is at most that of so many independent ones (Hoeffding 1963, section 5); the
    `count` blends that were drawn add theirs.

    >>> round(independent_blends(100, 50, 100, same=False), 1)
    33.3
    """
    disjoint = first // 2 if same else min(first, second)
    return 1.0 / (1.0 / count + 1.0 / disjoint)
