"""Paired comparison of methods on the trials that they share: means by dataset, and wins, ties and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

EXACT = 1e-9
"""Differences of means up to this size are rounding errors and count as ties."""


class WinTieLoss(NamedTuple):
    """Number of datasets on which a method is better than another, equal, and worse."""

    better: int
    tie: int
    worse: int

    @property
    def sets(self) -> int:
        """Number of datasets compared."""
        return sum(self)

    @property
    def percent(self) -> tuple[float, float, float]:
        """Shares in percent; NaN without datasets."""
        if not self.sets:
            return (float("nan"),) * 3
        return (100 * self.better / self.sets, 100 * self.tie / self.sets, 100 * self.worse / self.sets)


def count_wins(gain: pd.Series[float], width: float) -> WinTieLoss:
    """Count the datasets whose gain is above `width`, within it, and below.

    >>> count_wins(pd.Series([0.6, 0.5, -0.1, -3.0]), 0.5)
    WinTieLoss(better=1, tie=2, worse=1)
    """
    better, worse = int((gain > width + EXACT).sum()), int((gain < -width - EXACT).sum())
    return WinTieLoss(better, len(gain) - better - worse, worse)


def pair_trials(records: pd.DataFrame, metric: str, methods: Sequence[str]) -> pd.DataFrame:
    """Return the scores of the trials that every method has: a row for each trial, a column for each method.

    Parameters
    ----------
    records : DataFrame
        Columns dataset, method, split, and seed if trials differ in it.
    metric : str
    methods : sequence of str

    Examples
    --------
    >>> records = pd.DataFrame({"dataset": 61, "method": ["a", "b", "a"], "split": [0, 0, 1], "accuracy": [90, 88, 99]})
    >>> pair_trials(records, "accuracy", ["a", "b"]).loc[61].to_numpy().tolist()
    [[90.0, 88.0]]
    """
    index = [name for name in ("dataset", "split", "seed") if name in records]
    selected = records[records["method"].isin(list(methods))] if "method" in records else records
    if metric not in selected or not selected[metric].notna().any():
        empty = pd.MultiIndex.from_arrays([[]] * max(len(index), 2), names=index or ["dataset", "split"])
        return pd.DataFrame(index=empty, columns=list(methods), dtype=float)
    scores = selected.pivot_table(index=index, columns="method", values=metric)
    return scores.reindex(columns=list(methods)).dropna().astype(float)


def mean_scores(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the means of paired trials, summed in row order: a row for each dataset.

    >>> records = pd.DataFrame({"dataset": 61, "method": "a", "split": [0, 1], "accuracy": [90.0, 94.0]})
    >>> mean_scores(pair_trials(records, "accuracy", ["a"]))["a"].to_dict()
    {61: 92.0}
    """
    return pairs.groupby("dataset").mean()
