"""Worlds: the paper's tables under a reading and a look, how near each is to print, and what holds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot, nan
from typing import NamedTuple, TypeAlias, final

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from genlabel_paper.report.claims import Check
from genlabel_paper.report.experiment import PrintedValues
from genlabel_paper.report.printed import rows_of
from genlabel_paper.report.selected import at_hand
from genlabel_paper.runs.multiverse import base_of, name_of
from genlabel_paper.runs.readings import LOOKS, OURS, READINGS, Look, Reading

KEYS = ("setting", "dataset", "method")
KNOWN = tuple(look.key for look in LOOKS)


class PrintedTable(NamedTuple):
    """A table of the paper, and what it says of it."""

    id: str
    paper: PrintedValues
    checks: Sequence[Check]
    settings: tuple[str, ...]
    """Those of its cells."""

    @property
    def methods(self) -> list[str]:
        """Its rows that are methods."""
        return [row for row in rows_of(self.paper) if row != "difference"]

    @property
    def at_hand(self) -> list[str]:
        """Its datasets that we could have."""
        return at_hand(self.paper)


@final
@dataclass(frozen=True)
class World:
    """A reading, a look, and perhaps one split alone."""

    reading: Reading = OURS
    look: Look = LOOKS[0]
    split: int | None = None

    @property
    def blind(self) -> bool:
        """Whether nothing is chosen on test rows."""
        return self.look.epoch != "test" and self.look.choice != "test"

    @property
    def title(self) -> str:
        """In words."""
        if self.split is not None:
            return f"one split, the {('first', 'second', 'third')[self.split]}"
        if self == World():
            return f"ours: {self.look.title}, candidate by 6 folds"
        if self.reading == OURS:
            return self.look.title
        plain = self.look == LOOKS[0]
        return self.reading.title if plain else f"{self.reading.title}; {self.look.title}"


def worlds() -> list[World]:
    """Return the designed set: ours and its looks, one split, each reading by itself, and the best of each together.

    Together are the nearest look and the nearest reading; then all readings that are nearer than ours, in all looks.

    >>> [world.title for world in worlds()][:2]
    ['ours: last epoch, candidate by 6 folds', 'best epoch on validation rows']
    """
    single = [World(reading) for reading in READINGS.values() if reading.name not in ("ours", "together")]
    kept = [World(READINGS["codes"], look) for look in LOOKS[1:2]]
    together = [World(READINGS["together"], look) for look in LOOKS]
    return [*(World(look=look) for look in LOOKS), World(split=0), *single, *kept, *together]


class Mean(NamedTuple):
    """Mean and standard deviation of a method on a dataset, in percent."""

    mean: float
    spread: float


Means: TypeAlias = dict[tuple[str, str], Mean]
"""By dataset and method."""


@final
class Scores:
    """Means and spreads of the records of readings, for every world.

    Parameters
    ----------
    records : DataFrame
        Of `genlabel.evaluation.records.read_records`; those of settings without a reading are left out.
    """

    def __init__(self, records: pd.DataFrame) -> None:
        names = records["setting"].unique().tolist() if "setting" in records else []
        read = [name for name in names if base_of(name)[1]]
        chosen = records[records["setting"].isin(read)] if read else pd.DataFrame()
        chosen = chosen.reindex(columns=[*KEYS, "split", *KNOWN]).dropna(subset=list(KNOWN))
        self._all, self._first = (_summed(part) for part in (chosen, chosen[chosen["split"] == 0]))
        self._known = {base_of(name)[1] for name in chosen["setting"].unique().tolist()}

    def has(self, world: World) -> bool:
        """Whether there are records of the reading of a world; where it says nothing of a table, that is as in ours."""
        return world.reading.name in self._known

    def of(self, table: PrintedTable, world: World) -> Means:
        """Return the means and spreads of a table in a world: where a reading says nothing, those of ours.

        >>> Scores(pd.DataFrame()).of(PrintedTable("t", {}, [], ("logistic",)), World())
        {}
        """
        source = self._first if world.split == 0 else self._all
        found: Means = {}
        for (method, dataset), base in product(table.paper, table.settings):
            for reading in (OURS.name, world.reading.name):  # the latter takes the place of the former
                both = source.get((name_of(base, reading), dataset, method))
                if both is not None:
                    found[dataset, method] = both[world.look.key]
        return found


def _summed(records: pd.DataFrame) -> dict[tuple[str, str, str], dict[str, Mean]]:
    """Mean and spread over the splits and seeds of each setting, dataset and method, by look."""
    groups = records.groupby(list(KEYS))[list(KNOWN)]
    means, spreads = groups.mean(), groups.std().fillna(0.0)
    pairs = zip(means.index.tolist(), means.to_numpy().tolist(), spreads.to_numpy().tolist(), strict=True)
    return {
        key: {name: Mean(*both) for name, *both in zip(KNOWN, mean, spread, strict=True)} for key, mean, spread in pairs
    }


class Nearness(NamedTuple):
    """How near a table in a world is to print."""

    within: float = nan
    """Percent of the printed cells that are within one joint spread, which is no less than half a point."""
    median: float = nan
    """Median absolute difference, in points."""
    ranks: float = nan
    """Mean over the sets of the rank correlation of the methods; of two methods, whether the same one is ahead."""
    holds: float = nan
    """Statements of the paper about it that are true there."""


def nearness(means: Means, table: PrintedTable) -> Nearness:
    """Return how near means are to a printed table.

    >>> from genlabel_paper.report.pieces import Printed
    >>> paper = {("mixup", "61"): Printed(88.5, 1.0), ("vanilla", "61"): Printed(97.0, 1.0)}
    >>> means = {("61", "mixup"): Mean(88.0, 1.0), ("61", "vanilla"): Mean(92.0, 2.0)}
    >>> nearness(means, PrintedTable("t", paper, [], ()))
    Nearness(within=50.0, median=2.75, ranks=1.0, holds=0.0)
    """
    if not means:
        return Nearness()
    printed = [table.paper[method, dataset] for dataset, method in means]
    gaps = np.array([ours.mean - paper.mean for ours, paper in zip(means.values(), printed, strict=True)])
    joint = [
        max(hypot(ours.spread, paper.spread or 0.0), paper.least)
        for ours, paper in zip(means.values(), printed, strict=True)
    ]
    within = 100.0 * float(np.mean(np.abs(gaps) <= joint))
    holds = len(holding(means, table))
    return Nearness(within, float(np.median(np.abs(gaps))), _rank_correlation(means, table), float(holds))


def holding(means: Means, table: PrintedTable) -> list[Check]:
    """Return the statements of the paper about a table that are true of means."""
    frame = _frame(means, table)
    return [check for check in table.checks if check.holds(frame)]


def _frame(means: Means, table: PrintedTable) -> pd.DataFrame:
    """The means, a line for each dataset at hand and a column for each method."""
    lines = [[means[d, m].mean if (d, m) in means else nan for m in table.methods] for d in table.at_hand]
    return pd.DataFrame(lines, index=table.at_hand, columns=table.methods)


def _rank_correlation(means: Means, table: PrintedTable) -> float:
    """Mean over the sets of Spearman's correlation; a set on which either side is all equal says nothing."""
    found = []
    for dataset in table.at_hand:
        known = [method for method in table.methods if (dataset, method) in means]
        ours = rankdata([round(means[dataset, method].mean, 6) for method in known])
        paper = rankdata([table.paper[method, dataset].mean for method in known])
        if len(set(ours)) > 1 and len(set(paper)) > 1:
            found.append(round(float(np.corrcoef(ours, paper)[0, 1]), 12))
    return float(np.mean(found)) if found else nan
