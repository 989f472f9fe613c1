"""Statements of the paper about its tables, checked on the printed values and on ours alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import pandas as pd

from genlabel_paper.paired import mean_scores, pair_trials
from genlabel_paper.report.pieces import EXACT, NOTHING, Claim
from genlabel_paper.runs.manifest import name_set

Methods: TypeAlias = str | tuple[str, ...]
"""One method, or several of which the best one on each dataset is meant."""


@final
@dataclass(frozen=True)
class Rule:
    """Says for each dataset, a line of a table of means, whether a statement about some methods is true."""

    needs: tuple[str, ...]
    """The methods that it compares."""
    test: Callable[[pd.DataFrame], pd.Series[bool]]


@final
@dataclass(frozen=True)
class Check:
    """A statement that the paper makes about many datasets, and how to check it."""

    text: str
    said: str
    """The paper's words or numbers."""
    rule: Rule
    sets: Sequence[str] | None = None
    """The datasets that it is about; all of the table if not given."""
    at_least: int | None = None
    """On how many of them it must be true; on each one at hand if not given."""
    gain: tuple[Methods, Methods] | None = None
    """Two methods whose difference is told."""
    brief: str = ""
    """A few words for a list of all statements."""

    def claim(self, ours: Trials, paper: pd.DataFrame) -> Claim:
        """Return the statement with the paper's numbers and ours.

        Parameters
        ----------
        ours : Trials
            Only splits and seeds that all methods of the statement have are counted.
        paper : DataFrame
            The printed means, a line for each dataset and a column for each method.

        Examples
        --------
        >>> check = Check("Mixup is better.", "on all", above("mixup", "vanilla"))
        >>> lines = [("36", 0, 0, "mixup", 90.0), ("36", 0, 0, "vanilla", 85.0), ("36", 0, 1, "vanilla", 99.0)]
        >>> records = pd.DataFrame(lines, columns=["dataset", "split", "seed", "method", "accuracy"])
        >>> check.claim(Trials(records, ["36", "61"]), pd.DataFrame(index=["36"], columns=["mixup"])).found
        'on 1 of 1 sets; 1 not measured'
        """
        needs = self.rule.needs
        means, printed = self._lines(ours.means(needs)), self._lines(paper)
        trials = ours.least(needs, list(means.dropna().index))
        said, found = f"{self.said}; its table: {self._tell(printed)}", self._tell(means)
        return Claim(self.text, said, found, self.holds(means), trials, brief=self.brief)

    def holds(self, means: pd.DataFrame) -> bool | None:
        """Whether it is true of means, a line for each dataset and a column for each method; None if too few are known.

        >>> frame = pd.DataFrame({"mixup": [90.0, 80.0], "vanilla": [85.0, 81.0]}, index=["36", "61"])
        >>> Check("Mixup is better.", "on all", above("mixup", "vanilla")).holds(frame)
        False
        """
        lines = self._lines(means)
        known = lines.dropna()
        need = len(lines) if self.at_least is None else self.at_least
        left, count = len(lines) - len(known), int(self.rule.test(known).sum())
        return None if not len(known) else True if count >= need else False if count + left < need else None

    def _lines(self, means: pd.DataFrame) -> pd.DataFrame:
        lines = means.index if self.sets is None else [name for name in self.sets if name in means.index]
        return means.reindex(index=lines, columns=list(self.rule.needs))

    def _tell(self, means: pd.DataFrame) -> str:
        known = means.dropna()
        if not len(known):
            return NOTHING
        true = self.rule.test(known)
        text = f"on {int(true.sum())} of {len(known)} sets"
        text += f"; not on {', '.join(map(name_set, known.index[~true]))}" if not true.all() else ""
        text += f"; {len(means) - len(known)} not measured" if len(known) < len(means) else ""
        return text + (f"; {_tell_gain(known, *self.gain)}" if self.gain else "")


def above(better: Methods, worse: Methods, by: float = 0.0) -> Rule:
    """Is a method better than another by more than `by`? Of several, the best one on each dataset counts.

    >>> frame = pd.DataFrame({"a": [1.0, 1.0], "b": [0.0, 3.0], "c": [2.0, 2.0]})
    >>> above("a", "b").test(frame).tolist(), above(("a", "b"), "c").test(frame).tolist()
    ([True, False], [False, True])
    """

    def test(means: pd.DataFrame) -> pd.Series[bool]:
        return _best(means, better) - _best(means, worse) > by + EXACT

    return Rule(tuple(dict.fromkeys([*_names(better), *_names(worse)])), test)


def both(*rules: Rule) -> Rule:
    """Are all of them true?

    >>> frame = pd.DataFrame({"a": [1.0, 1.0], "b": [0.0, 3.0]})
    >>> both(above("a", "b"), above("b", "a")).test(frame).tolist()
    [False, False]
    """

    def test(means: pd.DataFrame) -> pd.Series[bool]:
        return pd.concat([rule.test(means) for rule in rules], axis=1).all(axis=1)

    return Rule(tuple(dict.fromkeys(name for rule in rules for name in rule.needs)), test)


def in_words(names: Sequence[str]) -> str:
    """Join names as a sentence does.

    >>> in_words(["a"]), in_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


@final
class Trials:
    """What the methods measured on the datasets of a table, trial by trial.

    Parameters
    ----------
    records : DataFrame
        Of one setting and alpha.
    datasets : sequence of str
    metric : str
    """

    def __init__(self, records: pd.DataFrame, datasets: Sequence[str], metric: str = "accuracy") -> None:
        self.datasets, self.metric = list(datasets), metric
        self.records = records[records["dataset"].isin(self.datasets)] if len(records) else records

    def least(self, methods: Sequence[str], datasets: Sequence[str]) -> int:
        """Return the fewest splits and seeds that all of the methods have on any of the datasets."""
        counts = pair_trials(self.records, self.metric, methods).groupby("dataset").size()
        return int(counts.reindex(list(datasets)).min()) if len(datasets) else 0

    def means(self, methods: Sequence[str]) -> pd.DataFrame:
        """Return means over the splits and seeds that all of the methods have: a line for each dataset.

        >>> lines = [("61", 0, 0, "mixup", 90.0), ("61", 0, 1, "mixup", 94.0)]
        >>> records = pd.DataFrame(lines, columns=["dataset", "split", "seed", "method", "accuracy"])
        >>> Trials(records, ["61", "36"]).means(["mixup"])["mixup"].tolist()
        [92.0, nan]
        """
        return mean_scores(pair_trials(self.records, self.metric, methods)).reindex(self.datasets)


def _names(methods: Methods) -> list[str]:
    return [methods] if isinstance(methods, str) else list(methods)


def _best(means: pd.DataFrame, methods: Methods) -> pd.Series[float]:
    return means[_names(methods)].max(axis=1)


def _tell_gain(means: pd.DataFrame, better: Methods, worse: Methods) -> str:
    gain = _best(means, better) - _best(means, worse)
    if len(gain) == 1:
        return f"difference {gain.iloc[0]:+.2f} points"
    return f"differences from {gain.min():+.2f} to {gain.max():+.2f} points, median {gain.median():+.2f}"
