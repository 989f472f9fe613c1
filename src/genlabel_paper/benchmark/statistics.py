"""Statistics of the benchmark: wins and losses, mean ranks, cost ratios, and Wilcoxon tests with Holm's correction."""

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
from genlabel_paper.paired import WinTieLoss, count_wins, mean_scores, pair_trials
from genlabel_paper.runs.cells import in_percent


@dataclass(frozen=True)
class Metric:
    """Title, direction and tie width of a score."""

    title: str
    sign: int
    """1 if lower is better, -1 if higher is better."""
    tie: float
    """Largest difference of two means that counts as a tie."""
    digits: int


METRICS = {
    "accuracy": Metric("accuracy", -1, 0.5, 2),
    "log_loss": Metric("log-loss", 1, 0.002, 4),
    "brier": Metric("Brier score", 1, 0.002, 4),
    "calibration_error": Metric("calibration error", 1, 0.002, 4),
}

ACCIDENT_RATIO = 1.1
"""An accident is a fit whose log-loss is above this multiple of the log-loss of its training class priors."""


def complete_datasets(records: pd.DataFrame, methods: Iterable[str] | None = None) -> tuple[pd.DataFrame, list[int]]:
    """Return the records of the datasets with every split of every method, and the ids of the other datasets.

    Parameters
    ----------
    records : DataFrame
        Records as `genlabel_paper.exports.load_records` returns them.
    methods : iterable of str, optional
        Methods to keep; all by default.

    Examples
    --------
    >>> records = pd.DataFrame({"dataset": [1, 1, 2], "split": 0, "method": ["a", "b", "a"]})
    >>> complete_datasets(records)[1], complete_datasets(records, ["a"])[1]
    ([2], [])
    """
    names = list(records["method"].unique()) if methods is None else list(methods)
    for name in names:
        check_choice("method", name, records["method"].unique())
    chosen = records[records["method"].isin(names)].drop_duplicates(["dataset", "split", "method"], keep="last")
    fits = chosen.groupby("dataset").size().reindex(records["dataset"].unique(), fill_value=0)
    complete = fits[fits == len(names) * chosen["split"].nunique()].index
    return chosen[chosen["dataset"].isin(complete)], [int(number) for number in fits.index.difference(complete)]


def dataset_means(records: pd.DataFrame, metric: str, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the mean of a score over the splits, accuracy in percent: a row per complete dataset, a column per method.

    >>> records = pd.DataFrame({"dataset": 1, "split": [0, 1], "method": "a", "log_loss": [0.2, 0.4]})
    >>> dataset_means(records, "log_loss").round(3).values.tolist()
    [[0.3]]
    """
    complete, _ = complete_datasets(records, methods)
    order = list(complete["method"].unique()) if methods is None else list(methods)
    pairs = pair_trials(in_percent(complete), metric, order)
    # Sorted by split, pandas sums with compensation: the last bit decides ties among the signed ranks.
    return mean_scores(pairs.sort_index(level="split"))


def wins(records: pd.DataFrame, a: str, b: str, metric: str = "log_loss", tie: float | None = None) -> WinTieLoss:
    """Count the complete datasets on which `a` is better than `b`, tied, and worse, by the mean over the splits.

    Parameters
    ----------
    records : DataFrame
        Records as `genlabel_paper.exports.load_records` returns them.
    a, b : str
        Methods to compare.
    metric : "accuracy", "log_loss", "brier" or "calibration_error"
    tie : float, optional
        Largest difference of means that counts as a tie; by default half a point of accuracy, 0.002 of the others.

    Examples
    --------
    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "log_loss": [1, 2, 4, 3]}
    ... )
    >>> wins(records, "a", "b")
    WinTieLoss(better=1, tie=0, worse=1)
    """
    check_choice("metric", metric, METRICS)
    means = dataset_means(records, metric, [a, b])
    gain = METRICS[metric].sign * (means[b] - means[a])
    return count_wins(gain, METRICS[metric].tie if tie is None else tie)


def mean_ranks(records: pd.DataFrame, metric: str = "log_loss") -> pd.Series[Any]:
    """Return the mean rank of each method over the complete datasets; 1 is the best, ties share the mean rank.

    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "log_loss": [1, 2, 3, 3]}
    ... )
    >>> mean_ranks(records).to_dict()
    {'a': 1.25, 'b': 1.75}
    """
    check_choice("metric", metric, METRICS)
    means = METRICS[metric].sign * dataset_means(records, metric)
    return means.rank(axis=1).mean()


def count_worse_than_prior(records: pd.DataFrame) -> pd.Series[int]:
    """Count the accidents of each method: log-loss more than 10 % above that of the class priors.

    Parameters
    ----------
    records : DataFrame
        Records with the column shares_log_loss: the log-loss of the training class priors on the same held-out rows.
        Records without it do not count.

    Examples
    --------
    >>> records = pd.DataFrame({"method": ["a", "a", "b"], "log_loss": [0.7, 0.8, 0.1], "shares_log_loss": 0.69})
    >>> count_worse_than_prior(records).to_dict()
    {'a': 1, 'b': 0}
    """
    accidents = records["log_loss"] > ACCIDENT_RATIO * records["shares_log_loss"]
    return accidents.groupby(records["method"], sort=False).sum().astype(int)


def cost_ratios(records: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the ratio of the fit time of the reference to that of each other method, over the complete datasets.

    Returns
    -------
    DataFrame
        One row per other method: `median` of the ratios of the datasets, and `total`, the ratio of the sums.

    Examples
    --------
    >>> records = pd.DataFrame(
    ...     {"dataset": [1, 1, 2, 2], "split": 0, "method": ["a", "b"] * 2, "seconds": [2.0, 1.0, 12.0, 3.0]}
    ... )
    >>> cost_ratios(records, "a")
       median  total
    b     3.0    3.5
    """
    means = dataset_means(records, "seconds")
    check_choice("reference", reference, means.columns)
    others = means.drop(columns=reference)
    median = others.rdiv(means[reference], axis=0).median()
    ratios = pd.DataFrame({"median": median, "total": means[reference].sum() / others.sum()})
    return ratios.rename_axis(index=None)


def wilcoxon_holm(records: pd.DataFrame, reference: str, metric: str = "log_loss") -> pd.DataFrame:
    """Test a method against each other method: Wilcoxon signed-rank tests on the dataset means, Holm-adjusted.

    Returns
    -------
    DataFrame
        One row per other method: `p`, two-sided, and `holm`, adjusted for the number of methods.

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
    means = dataset_means(records, metric)
    check_choice("reference", reference, means.columns)
    others = [name for name in means.columns if name != reference]
    p = np.array([_wilcoxon((means[name] - means[reference]).to_numpy()) for name in others])
    return pd.DataFrame({"p": p, "holm": holm(p)}, index=pd.Index(others, dtype=object))


def holm(p: Any) -> NDArray[np.float64]:
    """Return p-values adjusted by Holm's step-down procedure.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on, with running maxima.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted


def statement(a: str, b: str, metric: str, counts: WinTieLoss, p: float) -> str:
    """Return a comparison as one line of text.

    >>> statement("default", "mixup", "log_loss", WinTieLoss(82, 9, 9), 1e-12)
    'default has lower log-loss than mixup on 82 % of 100 datasets, higher on 9 %; p = 1e-12 (Wilcoxon, Holm)'
    """
    check_choice("metric", metric, METRICS)
    better, worse = ("lower", "higher") if METRICS[metric].sign > 0 else ("higher", "lower")
    percent = [f"{100 * count / max(counts.sets, 1):.0f} %" for count in (counts.better, counts.worse)]
    return (
        f"{a} has {better} {METRICS[metric].title} than {b} on {percent[0]} of {counts.sets} datasets, {worse} on "
        f"{percent[1]}; p = {p:.2g} (Wilcoxon, Holm)"
    )


def _wilcoxon(differences: NDArray[np.float64]) -> float:
    """Return the two-sided p-value, 1 if all differences are 0."""
    if not differences.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(stats.wilcoxon(differences).pvalue)
