"""Verdicts with noise: intervals of counts and differences over draws of the splits and seeds of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel_paper.paired import pair_trials

LEVEL = 0.05
"""Share of the draws outside of an interval, half of it on each side."""
DRAWS = 2000
"""Draws of the bootstrap."""
MIN_TRIALS = 2
"""Smallest number of trials of a dataset with a verdict: one trial proves nothing."""
MIN_COVERAGE, FULL_COVERAGE = 0.2, 0.95
"""Fractions of the datasets that must be measured before a statement about all is checked, and checked for good."""
METHOD = (
    "A statement holds if it is true in nearly every repetition on other splits and seeds, fails if it is true in "
    "nearly none, and cannot be told otherwise. The repetitions are drawn from the trials: bootstrap over the splits "
    f"of each dataset and the seeds of each split, {DRAWS:,} draws, one unit fewer than there are, which gives the "
    "variance of few units without bias (Rao and Wu, 1988). The verdict compares what the statement requires with the "
    "central 95 % of the draws. One trial alone proves nothing."
)
CREDIT = "95 % over splits and seeds"
"""Words in front of an interval."""


def resampled_means(
    records: pd.DataFrame, metric: str, methods: Sequence[str], datasets: Sequence[str], seed: int = 0
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the datasets with their means in each draw of splits and seeds: a row for each draw, a column a method.

    Methods are compared on the trials that all of them have; datasets without such trials are left out.

    >>> rows = [("61", split, seed, "mixup", 90.0 + split) for split in range(3) for seed in range(2)]
    >>> records = pd.DataFrame(rows, columns=["dataset", "split", "seed", "method", "accuracy"])
    >>> ((name, means),) = resampled_means(records, "accuracy", ["mixup"], ["61", "36"])
    >>> name, len(means), bool(means["mixup"].between(90.0, 92.0).all())
    ('61', 2000, True)
    """
    rng = np.random.default_rng(seed)
    pairs = pair_trials(records, metric, methods)
    for name, trials in pairs.groupby("dataset"):
        if name in datasets:
            weights = draw_weights(trials.index.get_level_values("split").to_numpy(), rng)
            yield str(name), pd.DataFrame(weights @ trials.to_numpy(), columns=trials.columns)


def draw_weights(splits: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the weights (draws, n) of n trials by their splits: splits are drawn first, then the seeds of each.

    >>> weights = draw_weights(np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(0))
    >>> weights.shape, bool(np.allclose(weights.sum(1), 1.0))
    ((2000, 6), True)
    """
    names = np.unique(splits)
    drawn = max(len(names) - 1, 1)
    counts = rng.multinomial(drawn, np.full(len(names), 1.0 / len(names)), DRAWS)
    weights = np.zeros((DRAWS, len(splits)))
    for name, count in zip(names, counts.T, strict=True):
        inside = splits == name
        seeds = int(inside.sum())
        drawn_seeds = max(seeds - 1, 1)
        weights[:, inside] = rng.multinomial(count * drawn_seeds, np.full(seeds, 1.0 / seeds)) / (drawn * drawn_seeds)
    return weights


def central_interval(draws: NDArray[np.float64]) -> tuple[float, float]:
    """Return the central 95 % of draws, values of which are its ends.

    >>> central_interval(np.arange(1000.0))
    (24.0, 974.0)
    """
    low, high = np.quantile(draws, [LEVEL / 2, 1.0 - LEVEL / 2], method="inverted_cdf")
    return float(low), float(high)


def decide(interval: tuple[float, float], required: float, trials: int) -> bool | None:
    """Return whether a number is at least `required`; None if its interval has both, or of a single trial.

    >>> decide((9, 15), 13, 15), decide((14, 16), 13, 15), decide((1, 4), 12, 15), decide((4, 4), 3, 1)
    (None, True, False, None)
    """
    low, high = interval
    if trials < MIN_TRIALS or low < required <= high:
        return None
    return low >= required
