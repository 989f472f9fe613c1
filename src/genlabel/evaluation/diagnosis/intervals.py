"""95 % intervals of a mean difference over the same rows, and of a share of dependent cases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Z_95 = 1.96
"""Standard errors to each side of a 95 % interval."""


class MeanDifference(NamedTuple):
    """Mean difference over the same rows, with its 95 % interval."""

    mean: float
    low: float
    high: float


def mean_difference(
    first: NDArray[np.float64], second: NDArray[np.float64], fold: NDArray[np.intp] | None = None
) -> MeanDifference:
    """Return the mean of `first - second`, losses (n,) of the same held-out rows, with its 95 % interval.

    Without `fold` the rows are taken as independent and the models as fixed. With `fold` (n,), the interval is that of
    the training methods: the variance of the mean over K folds is s^2 (1/K + 1/(K - 1)), because their training rows
    overlap (Nadeau and Bengio, 2003), where s^2 is the variance of the fold means: the observed one, or the one that
    follows from the rows, whichever is larger.

    >>> gain = mean_difference(np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4), np.array([0, 0, 1, 1]))
    >>> gain.mean, gain.low < 0.0 < gain.high
    (1.0, True)
    """
    difference = first - second
    mean, square = float(difference.mean()), float("inf")
    if fold is None and len(difference) > 1:
        square = float(difference.var(ddof=1)) / len(difference)
    elif fold is not None and len(np.unique(fold)) > 1:
        means = np.array([difference[fold == one].mean() for one in np.unique(fold)])
        count = len(means)
        spread = max(float(means.var(ddof=1)), float(difference.var(ddof=1)) * count / len(difference))
        square = spread * (1.0 / count + 1.0 / (count - 1))
    half = Z_95 * float(np.sqrt(square))
    return MeanDifference(mean, mean - half, mean + half)


def wilson_interval(share: float, size: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share among `size` independent cases, which need not be a whole number.

    >>> low, high = wilson_interval(0.5, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    square = Z_95**2 / size
    middle = (share + square / 2.0) / (1.0 + square)
    half = Z_95 / (1.0 + square) * np.sqrt(share * (1.0 - share) / size + square / (4.0 * size))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def effective_size(count: int, first: int, second: int, same: bool) -> float:
    """Return a lower bound of how many independent cases `count` mixed samples of `first` and `second` rows are worth.

    The share among all pairs of rows is a mean over arrangements of min(first, second) disjoint pairs (first / 2 within
    one class), so its variance is at most that of as many independent pairs (Hoeffding 1963, section 5); the `count`
    samples that were drawn add theirs.

    >>> round(effective_size(100, 50, 100, same=False), 1)
    33.3
    """
    disjoint = first // 2 if same else min(first, second)
    return 1.0 / (1.0 / count + 1.0 / disjoint)
