"""What the records of a suite say of its methods: wins and losses, ranks, and Wilcoxon's test with Holm's step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from genlabel._validation import check_choice
from genlabel.evaluation.records import WinTieLoss, count_wins, mean_scores, pair_trials


@dataclass(frozen=True)
class Metric:
    """How a score is read."""

    title: str
    sign: int
    """1 if less is better, -1 if more is."""
    same: float
    """Two means that are no further apart than this are a tie."""
    digits: int


METRICS = {
    "accuracy": Metric("accuracy", -1, 0.5, 2),
    "log_loss": Metric("log-loss", 1, 0.002, 4),
    "brier": Metric("Brier score", 1, 0.002, 4),
    "calibration_error": Metric("calibration error", 1, 0.002, 4),
}

ACCIDENT = 1.1
"""A fit whose log-loss is more than so many times that of the class shares of its training rows is an accident."""


def complete_sets(records: pd.DataFrame, methods: Iterable[str] | None = None) -> tuple[pd.DataFrame, list[int]]:
    """Return the records of the sets on which each method has every split, and the ids of the others.

    Parameters
    ----------
    records : DataFrame
        As of `genlabel.evaluation.records.read_records`.
    methods : iterable of str, optional
        All that the records have, if not given; the records of others are left out.

    Examples
    --------
    >>> records = pd.DataFrame({"dataset": [1, 1, 2], "split": 0, "method": ["a", "b", "a"]})
    >>> complete_sets(records)[1], complete_sets(records, ["a"])[1]
    ([2], [])
    """
    names = list(records["method"].unique()) if methods is None else list(methods)
    for name in names:
        check_choice("method", name, records["method"].unique())
    ours = records[records["method"].isin(names)].drop_duplicates(["dataset", "split", "method"], keep="last")
    fits = ours.groupby("dataset").size().reindex(records["dataset"].unique(), fill_value=0)
    whole = fits[fits == len(names) * ours["split"].nunique()].index
    return ours[ours["dataset"].isin(whole)], [int(number) for number in fits.index.difference(whole)]


def set_means(records: pd.DataFrame, metric: str, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean of a score over the splits: a row for each complete set, a column for each method.

    >>> records = pd.DataFrame({"dataset": 1, "split": [0, 1], "method": "a", "log_loss": [0.2, 0.4]})
    >>> set_means(records, "log_loss").round(3).values.tolist()
    [[0.3]]
    """
    complete, _ = complete_sets(records, methods)
    order = list(complete["method"].unique()) if methods is None else list(methods)
    pairs = pair_trials(complete, metric, order)
    # Split by split pandas adds with compensation, else without: the last bit decides on ties among signed ranks.
    return mean_scores(pairs.sort_index(level="split"))


def wins(records: pd.DataFrame, a: str, b: str, metric: str = "log_loss", same: float | None = None) -> WinTieLoss:
    """Count the complete sets on which `a` is better than `b`, the same, and worse, by the mean over the splits.

    Parameters
    ----------
    records : DataFrame
        As of `genlabel.evaluation.records.read_records`.
    a, b : str
        Two methods.
    metric : "accuracy", "log_loss", "brier" or "calibration_error"
    same : float, optional
        Means that are no further apart are a tie: if not given, half a point of accuracy, 0.002 of the others.

    Examples
    --------
    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "log_loss": [1, 2, 4, 3]}
    ... )
    >>> wins(records, "a", "b")
    Wins(better=1, tie=0, worse=1)
    """
    check_choice("metric", metric, METRICS)
    means = set_means(records, metric, [a, b])
    gain = METRICS[metric].sign * (means[b] - means[a])
    return count_wins(gain, METRICS[metric].same if same is None else same)


def mean_ranks(records: pd.DataFrame, metric: str = "log_loss") -> pd.Series[Any]:
    """Mean rank of each method over the complete sets, 1 being the best; equals share their ranks.

    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "log_loss": [1, 2, 3, 3]}
    ... )
    >>> mean_ranks(records).to_dict()
    {'a': 1.25, 'b': 1.75}
    """
    check_choice("metric", metric, METRICS)
    means = METRICS[metric].sign * set_means(records, metric)
    return means.rank(axis=1).mean()


def count_worse_than_prior(records: pd.DataFrame) -> pd.Series[int]:
    """Count the fits of each method whose log-loss is above that of predicting the class shares by more than 10 %.

    Parameters
    ----------
    records : DataFrame
        As of `genlabel.evaluation.records.read_records`, with the column shares_log_loss: that of the class shares of
        the training
        rows on the same held-out rows. A record without it is not counted.

    Examples
    --------
    >>> records = pd.DataFrame({"method": ["a", "a", "b"], "log_loss": [0.7, 0.8, 0.1], "shares_log_loss": 0.69})
    >>> count_worse_than_prior(records).to_dict()
    {'a': 1, 'b': 0}
    """
    found = records["log_loss"] > ACCIDENT * records["shares_log_loss"]
    return found.groupby(records["method"], sort=False).sum().astype(int)


def cost_ratios(records: pd.DataFrame, reference: str) -> pd.DataFrame:
    """How many times as long a fit of the reference takes as one of each other method, over the complete sets.

    Returns
    -------
    DataFrame
        A row for each other method: median, of the ratios of the sets, and total, the ratio of the sums.

    Examples
    --------
    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "seconds": [2.0, 1.0, 12.0, 3.0]}
    ... )
    >>> cost_ratios(records, "a")
       median  total
    b     3.0    3.5
    """
    means = set_means(records, "seconds")
    check_choice("reference", reference, means.columns)
    others = means.drop(columns=reference)
    median = others.rdiv(means[reference], axis=0).median()
    found = pd.DataFrame({"median": median, "total": means[reference].sum() / others.sum()})
    return found.rename_axis(index=None)


def wilcoxon_holm(records: pd.DataFrame, reference: str, metric: str = "log_loss") -> pd.DataFrame:
    """Test a method against each other: Wilcoxon's signed ranks on the means of the complete sets, Holm-adjusted.

    Returns
    -------
    DataFrame
        A row for each other method: p, of its own, two-sided, and holm, adjusted for the number of methods.

    Examples
    --------
    >>> records = pd.DataFrame(
    ...     {"dataset": range(1, 7), "split": 0, "method": "a", "log_loss": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    ... )
    >>> worse = records.assign(method="b", log_loss=records["log_loss"] ** 0.5)
    >>> wilcoxon_holm(pd.concat([records, worse]), "a")
             p     holm
    b  0.03125  0.03125
    """
    check_choice("metric", metric, METRICS)
    means = set_means(records, metric)
    check_choice("reference", reference, means.columns)
    others = [name for name in means.columns if name != reference]
    p = np.array([_wilcoxon((means[name] - means[reference]).to_numpy()) for name in others])
    return pd.DataFrame({"p": p, "holm": holm(p)}, index=pd.Index(others, dtype=object))


def holm(p: Any) -> NDArray[np.float64]:
    """Adjust p-values for their number by Holm's step-down rule.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none becomes smaller than one before it.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted


def statement(a: str, b: str, metric: str, found: WinTieLoss, p: float) -> str:
    """Say a comparison in one line.

    >>> statement("default", "mixup", "log_loss", WinTieLoss(82, 9, 9), 1e-12)
    'default has lower log-loss than mixup on 82 % of 100 sets, higher on 9 %; p = 1e-12 (Wilcoxon, Holm)'
    """
    check_choice("metric", metric, METRICS)
    better, worse = ("lower", "higher") if METRICS[metric].sign > 0 else ("higher", "lower")
    shares = [f"{100 * count / max(found.sets, 1):.0f} %" for count in (found.better, found.worse)]
    return (
        f"{a} has {better} {METRICS[metric].title} than {b} on {shares[0]} of {found.sets} sets, {worse} on "
        f"{shares[1]}; p = {p:.2g} (Wilcoxon, Holm)"
    )


def _wilcoxon(differences: NDArray[np.float64]) -> float:
    """Two-sided p-value; 1 where nothing differs."""
    if not differences.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(stats.wilcoxon(differences).pvalue)
