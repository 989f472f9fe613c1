"""What a report is made of: a table, its comparison, its diagnosis; and what follows from them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import isnan
from operator import add
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.data.tables import Table
from genlabel.evaluation.comparison import PRIOR_BASELINE, PairedDifference, as_plain, pair_methods, rank_methods
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, shorten

ARMS = ("vanilla", "mixup", "GenLabel")
"""The methods that differ in their mixing alone, in the order of their colours."""
NAME = 40
"""Letters of a user's name within a sentence."""


@final
@dataclass(frozen=True)
class ReportSection:
    """A section of the report."""

    id: str
    title: str
    inside: Sequence[Markup]


@final
@dataclass(frozen=True)
class ReportData:
    """A table, and what was found out about it."""

    table: Table
    results: pd.DataFrame | None
    """As of `genlabel.evaluation.comparison.compare`."""
    diagnosis: Diagnosis | None
    test_size: float
    notes: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    @cached_property
    def ranking(self) -> list[str]:
        """The methods, that of the lowest log-loss first; none without a comparison."""
        return [] if self.results is None else rank_methods(self.results)

    @cached_property
    def best(self) -> str:
        """The method of the lowest log-loss that looks at the features; of the paired run without a comparison."""
        return next(
            (name for name in [*self.ranking, *self._arms] if name != PRIOR_BASELINE), "".join(self.ranking[:1])
        )

    @property
    def _arms(self) -> list[str]:
        """The arms of the paired run, that of the lowest log-loss first; none without one."""
        trial = self.diagnosis.trial if self.diagnosis is not None else None
        return [] if trial is None else sorted(trial.log_loss, key=lambda name: trial.log_loss[name])

    @cached_property
    def compared(self) -> dict[str, PredictionCounts]:
        """Counts of held-out predictions of the comparison, by method; empty if it has none."""
        if self.results is None or "held_out" not in self.results:
            return {}
        kept = self.results[self.results["held_out"].map(lambda one: isinstance(one, Mapping))]
        groups = kept.groupby("method", sort=False)["held_out"]
        return {str(name): reduce(add, map(PredictionCounts.from_dict, group)) for name, group in groups}

    @cached_property
    def tallies(self) -> dict[str, PredictionCounts]:
        """Counts of held-out predictions, by method: those of the comparison, else those of the paired run."""
        return self.compared or (self.diagnosis.tallies if self.diagnosis is not None else {})

    @property
    def counted(self) -> str:
        """The best method, of the comparison or of the paired run, whose predictions are counted; empty if none are."""
        order = [self.best, *self.ranking] if self.compared else self._arms
        return next((name for name in order if name in self.tallies), "")

    @property
    def times(self) -> float:
        """How often a row is counted, about; once at least."""
        return max(1.0, self.splits * self.test_size) if self.compared else 1.0

    @property
    def splits(self) -> int:
        """Of the comparison."""
        return 0 if self.results is None else int(self.results["split"].nunique())

    def mean(self, method: str, score: str) -> float:
        """Over the splits; NaN where it was not measured."""
        if self.results is None or score not in self.results:
            return float("nan")
        return float(self.results.loc[self.results["method"] == method, score].mean())

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Summary, ranking, pairs and verdict of the comparison, as of `as_plain`; nothing without one."""
        return {} if self.results is None else as_plain(self.results, self.test_size)

    def pair(self, method: str, other: str, score: str = "log_loss") -> PairedDifference | None:
        """One method against another; None unless both were compared on a split."""
        if self.results is None or not {method, other} <= set(self.ranking):
            return None
        return pair_methods(self.results, method, other, score, self.test_size)

    @cached_property
    def near(self) -> list[str]:
        """The methods within noise of the best, itself left out."""
        others = [name for name in self.ranking if name != self.best]
        pairs = [(name, self.pair(self.best, name)) for name in others]
        return [name for name, pair in pairs if pair is not None and pair.within_noise]

    @property
    def classes(self) -> NDArray[Any]:
        """(k,)"""
        return np.unique(self.table.y.to_numpy())

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the numbers that were diagnosed; None where texts became several of them."""
        names = [str(name) for name in self.table.X.columns]
        return names if self.diagnosis is not None and len(names) == self.diagnosis.d else None


def percent(share: float, digits: int = 1) -> str:
    """Return a share in words.

    >>> percent(0.956), percent(0.5, 0)
    ('95.6 %', '50 %')
    """
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign.

    >>> signed(0.25), signed(-0.25)
    ('+0.250', '−0.250')
    """
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def name_of(text: object, longest: int = NAME) -> str:
    """Return a name of the user's as it stands within a sentence.

    >>> name_of("setosa"), name_of(3)
    ('setosa', '“3”')
    """
    short = shorten(text, longest)
    return f"\N{LEFT DOUBLE QUOTATION MARK}{short}\N{RIGHT DOUBLE QUOTATION MARK}" if _is_number(short) else short


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text
    return True


def format_label(label: NDArray[np.float64], names: Sequence[str], most: int = 3) -> str:
    """Return the likeliest classes of a soft label (k,).

    >>> format_label(np.array([0.0, 0.25, 0.75]), ["a", "b", "c"])
    'c 0.75, b 0.25'
    """
    order = np.argsort(-label, kind="stable")[:most]
    return ", ".join(f"{names[c]} {label[c]:.2f}" for c in order if label[c] >= 0.005)


def listed(names: Sequence[object], most: int = 6) -> str:
    """Return names as a list in words.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a', 'a, b and 1 more')
    """
    shown = [name_of(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"


def count(number: int, what: str) -> str:
    """Return a number of things.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{'es' if what.endswith('s') else 's'}"


def number_cell(value: float, digits: int) -> Cell:
    """Return a cell of a number, by which its column is sorted; empty if there is none.

    >>> number_cell(0.256, 2).text, number_cell(float("nan"), 2).text
    ('0.26', '')
    """
    return Cell("" if isnan(value) else f"{value:.{digits}f}", float(value))
