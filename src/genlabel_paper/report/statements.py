"""Statements of the paper about its tables, checked on the printed values and on ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import pandas as pd

from genlabel_paper.paired import EXACT, mean_scores, pair_trials
from genlabel_paper.report.results import NOTHING_MEASURED, Claim
from genlabel_paper.runs.manifest import dataset_title

Methods: TypeAlias = str | tuple[str, ...]
"""One method, or the best of several on each dataset."""


@final
@dataclass(frozen=True)
class Rule:
    """Test of a statement about some methods on each dataset, a line of a table of means."""

    needs: tuple[str, ...]
    """Compared methods."""
    test: Callable[[pd.DataFrame], pd.Series[bool]]


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
        'on 1 of 1 datasets; 1 not measured'
        """
        needs = self.rule.needs
        means, printed_means = self._select(ours.means(needs)), self._select(paper)
        trials = ours.min_trials(needs, list(means.dropna().index))
        printed = f"{self.printed}; its table: {self._describe(printed_means)}"
        return Claim(self.text, printed, self._describe(means), self.holds(means), trials, brief=self.brief)

    def holds(self, means: pd.DataFrame) -> bool | None:
        """Return whether it is true of means (datasets, methods); None if too few are known.

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

    def test(means: pd.DataFrame) -> pd.Series[bool]:
        return _best(means, better) - _best(means, worse) > by + EXACT

    return Rule(tuple(dict.fromkeys([*_names(better), *_names(worse)])), test)


def both(*rules: Rule) -> Rule:
    """Return the rule that all rules are true.

    >>> frame = pd.DataFrame({"a": [1.0, 1.0], "b": [0.0, 3.0]})
    >>> both(above("a", "b"), above("b", "a")).test(frame).tolist()
    [False, False]
    """

    def test(means: pd.DataFrame) -> pd.Series[bool]:
        return pd.concat([rule.test(means) for rule in rules], axis=1).all(axis=1)

    return Rule(tuple(dict.fromkeys(name for rule in rules for name in rule.needs)), test)


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


def _names(methods: Methods) -> list[str]:
    return [methods] if isinstance(methods, str) else list(methods)


def _best(means: pd.DataFrame, methods: Methods) -> pd.Series[float]:
    return means[_names(methods)].max(axis=1)


def _describe_gain(means: pd.DataFrame, better: Methods, worse: Methods) -> str:
    gain = _best(means, better) - _best(means, worse)
    if len(gain) == 1:
        return f"difference {gain.iloc[0]:+.2f} points"
    return f"differences from {gain.min():+.2f} to {gain.max():+.2f} points, median {gain.median():+.2f}"
