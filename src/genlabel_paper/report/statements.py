"""Statements of the paper about its tables, checked on the printed values and on ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel_paper.paired import EXACT, mean_scores, pair_trials
from genlabel_paper.report.results import NOTHING_MEASURED, Claim
from genlabel_paper.report.verdicts import (
    CREDIT,
    DRAWS,
    FULL_COVERAGE,
    MIN_COVERAGE,
    MIN_TRIALS,
    central_interval,
    decide,
    resampled_means,
)
from genlabel_paper.runs.manifest import dataset_title

Methods: TypeAlias = str | tuple[str, ...]
"""One method, or the best of several on each dataset."""


@final
@dataclass(frozen=True)
class Comparison:
    """Statement that one method, or the best of several, is better than another by more than `by`."""

    better: Methods
    worse: Methods
    by: float = 0.0

    def test(self, means: pd.DataFrame) -> pd.Series[bool]:
        """Return on which datasets it is true of means."""
        return self.gain(means) > self.by + EXACT

    def gain(self, means: pd.DataFrame) -> pd.Series[float]:
        """Return the difference of the best of both sides."""
        return _best(means, self.better) - _best(means, self.worse)


@final
@dataclass(frozen=True)
class Rule:
    """Comparisons of methods that are all true on a dataset where a statement is."""

    comparisons: tuple[Comparison, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Compared methods."""
        names = [name for one in self.comparisons for name in (*_names(one.better), *_names(one.worse))]
        return tuple(dict.fromkeys(names))

    def test(self, means: pd.DataFrame) -> pd.Series[bool]:
        """Return on which datasets, lines of a table of means, all comparisons are true."""
        return pd.concat([one.test(means) for one in self.comparisons], axis=1).all(axis=1)


@final
@dataclass(frozen=True)
class Check:
    """Statement of the paper about many datasets, with its test."""

    text: str
    printed: str
    """The paper's words or numbers."""
    rule: Rule
    datasets: Sequence[str] | None = None
    """Datasets of the statement; all of the table by default."""
    at_least: int | None = None
    """Number of datasets on which it must be true; all available ones by default."""
    gain: tuple[Methods, Methods] | None = None
    """Two methods whose difference is reported."""
    brief: str = ""
    """Short version for a list of all statements."""

    def claim(self, ours: PairedMeans, paper: pd.DataFrame) -> Claim:
        """Return the statement with the paper's numbers and ours, and a verdict.

        Parameters
        ----------
        ours : PairedMeans
            Our means over the splits and seeds that all methods of the statement have.
        paper : DataFrame
            Printed means, one line per dataset and one column per method.

        Examples
        --------
        >>> check = Check("Mixup is better.", "on all", above("mixup", "vanilla"))
        >>> lines = [("36", 0, 0, "mixup", 90.0), ("36", 0, 0, "vanilla", 85.0), ("36", 0, 1, "vanilla", 99.0)]
        >>> records = pd.DataFrame(lines, columns=["dataset", "split", "seed", "method", "accuracy"])
        >>> check.claim(PairedMeans(records, ["36", "61"]), pd.DataFrame(index=["36"], columns=["mixup"])).ours
        'on 1 of 1 datasets; 1 not measured; one trial, which proves nothing'
        """
        needs = self.rule.needs
        means, printed_means = self._select(ours.means(needs)), self._select(paper)
        trials = ours.min_trials(needs, list(means.dropna().index))
        printed = f"{self.printed}; its table: {self._describe(printed_means)}" if len(paper) else self.printed
        known = means.dropna()
        if len(known) < MIN_COVERAGE * len(means) or not len(known):
            return Claim(self.text, printed, NOTHING_MEASURED, None, trials, brief=self.brief)
        holds, words = judge(self.rule, ours, list(means.index), self.at_least)
        text, short = f"{self._describe(means)}; {words}", f"{int(self.rule.test(known).sum())} of {len(known)}"
        complete = len(known) >= FULL_COVERAGE * len(means)
        return Claim(self.text, printed, text, holds, trials, brief=self.brief, short=short, complete=complete)

    def holds(self, means: pd.DataFrame) -> bool | None:
        """Return whether it is true of means (datasets, methods), without their noise; None if too few are known.

        >>> frame = pd.DataFrame({"mixup": [90.0, 80.0], "vanilla": [85.0, 81.0]}, index=["36", "61"])
        >>> Check("Mixup is better.", "on all", above("mixup", "vanilla")).holds(frame)
        False
        """
        lines = self._select(means)
        known = lines.dropna()
        if not len(known):
            return None
        required = len(lines) if self.at_least is None else self.at_least
        n_true, n_unknown = int(self.rule.test(known).sum()), len(lines) - len(known)
        if n_true >= required:
            return True
        return False if n_true + n_unknown < required else None

    def _select(self, means: pd.DataFrame) -> pd.DataFrame:
        lines = means.index if self.datasets is None else [name for name in self.datasets if name in means.index]
        return means.reindex(index=lines, columns=list(self.rule.needs))

    def _describe(self, means: pd.DataFrame) -> str:
        known = means.dropna()
        if not len(known):
            return NOTHING_MEASURED
        is_true = self.rule.test(known)
        parts = [f"on {int(is_true.sum())} of {len(known)} datasets"]
        if not is_true.all():
            parts.append(f"not on {', '.join(map(dataset_title, known.index[~is_true]))}")
        if len(known) < len(means):
            parts.append(f"{len(means) - len(known)} not measured")
        if self.gain:
            parts.append(_describe_gain(known, *self.gain))
        return "; ".join(parts)


def above(better: Methods, worse: Methods, by: float = 0.0) -> Rule:
    """Return the rule that a method is better than another by more than `by`; of several, the best on each dataset.

    >>> frame = pd.DataFrame({"a": [1.0, 1.0], "b": [0.0, 3.0], "c": [2.0, 2.0]})
    >>> above("a", "b").test(frame).tolist(), above(("a", "b"), "c").test(frame).tolist()
    ([True, False], [False, True])
    """
    return Rule((Comparison(better, worse, by),))


def both(*rules: Rule) -> Rule:
    """Return the rule that all rules are true.

    >>> frame = pd.DataFrame({"a": [1.0, 1.0], "b": [0.0, 3.0]})
    >>> both(above("a", "b"), above("b", "a")).test(frame).tolist()
    [False, False]
    """
    return Rule(tuple(one for rule in rules for one in rule.comparisons))


@final
class PairedMeans:
    """Mean scores of methods over the trials that all of them have.

    Parameters
    ----------
    records : DataFrame
        Records of one setting and alpha.
    datasets : sequence of str
    metric : str
    """

    def __init__(self, records: pd.DataFrame, datasets: Sequence[str], metric: str = "accuracy") -> None:
        self.datasets, self.metric = list(datasets), metric
        self.records = records[records["dataset"].isin(self.datasets)] if len(records) else records

    def min_trials(self, methods: Sequence[str], datasets: Sequence[str]) -> int:
        """Return the smallest number of shared trials of the methods on one of the datasets."""
        counts = pair_trials(self.records, self.metric, methods).groupby("dataset").size()
        return int(counts.reindex(list(datasets)).min()) if len(datasets) else 0

    def means(self, methods: Sequence[str]) -> pd.DataFrame:
        """Return means over the trials that all of the methods have, one line per dataset.

        >>> lines = [("61", 0, 0, "mixup", 90.0), ("61", 0, 1, "mixup", 94.0)]
        >>> records = pd.DataFrame(lines, columns=["dataset", "split", "seed", "method", "accuracy"])
        >>> PairedMeans(records, ["61", "36"]).means(["mixup"])["mixup"].tolist()
        [92.0, nan]
        """
        return mean_scores(pair_trials(self.records, self.metric, methods)).reindex(self.datasets)

    def count_draws(self, rule: Rule, datasets: Sequence[str]) -> NDArray[np.float64]:
        """Return on how many of the datasets a rule is true in each draw of splits and seeds."""
        is_true = [rule.test(means).to_numpy() for means in self._draws(rule.needs, datasets)]
        return np.sum(is_true, axis=0, dtype=np.float64) if is_true else np.zeros(DRAWS)

    def gain_draws(self, comparison: Comparison, datasets: Sequence[str]) -> NDArray[np.float64]:
        """Return the mean gain over the datasets in each draw of splits and seeds."""
        gains = [comparison.gain(means).to_numpy() for means in self._draws(Rule((comparison,)).needs, datasets)]
        return np.mean(gains, axis=0)

    def draws(self, methods: Sequence[str]) -> pd.DataFrame:
        """Return the means of methods on the first dataset in each draw."""
        return self._draws(methods, self.datasets[:1])[0]

    def _draws(self, methods: Sequence[str], datasets: Sequence[str]) -> list[pd.DataFrame]:
        return [means for _, means in resampled_means(self.records, self.metric, methods, datasets)]


def judge(
    rule: Rule, ours: PairedMeans, datasets: Sequence[str], at_least: int | None = None
) -> tuple[bool | None, str]:
    """Return whether a rule is true on enough of the datasets, all by default, and the interval in words.

    A dataset without trials may be one on which it is true. For a single dataset the interval is that of the gain.

    >>> rows = [("61", split, 0, name, 90.0 + split * (name == "mixup")) for split in (1, 2) for name in ("mixup", "a")]
    >>> records = pd.DataFrame(rows, columns=["dataset", "split", "seed", "method", "accuracy"])
    >>> judge(above("mixup", "a"), PairedMeans(records, ["61", "36"]), ["61", "36"])
    (None, '95 % over splits and seeds: on 1 to 2 of 2')
    """
    means = ours.means(rule.needs).reindex(list(datasets))
    trials = ours.min_trials(rule.needs, list(means.dropna().index))
    if trials < MIN_TRIALS:
        return None, "one trial, which proves nothing"
    low, high = central_interval(ours.count_draws(rule, datasets))
    high += len(means) - len(means.dropna())
    words = f"{CREDIT}: on {low:.0f} to {high:.0f} of {len(means)}"
    if len(means) == 1 and len(rule.comparisons) == 1:
        interval = central_interval(ours.gain_draws(rule.comparisons[0], datasets))
        words = f"{CREDIT}: {interval[0]:+.2f} to {interval[1]:+.2f}"
    return decide((low, high), len(means) if at_least is None else at_least, trials), words


def _names(methods: Methods) -> list[str]:
    return [methods] if isinstance(methods, str) else list(methods)


def _best(means: pd.DataFrame, methods: Methods) -> pd.Series[float]:
    return means[_names(methods)].max(axis=1)


def _describe_gain(means: pd.DataFrame, better: Methods, worse: Methods) -> str:
    gain = _best(means, better) - _best(means, worse)
    if len(gain) == 1:
        return f"difference {gain.iloc[0]:+.2f} points"
    return f"differences from {gain.min():+.2f} to {gain.max():+.2f} points, median {gain.median():+.2f}"
