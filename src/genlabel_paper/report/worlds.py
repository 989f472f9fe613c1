"""Worlds: the paper's tables under a reading and a look, how near each is to print, and what holds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import pandas as pd

from genlabel_paper.report.claims import Check
from genlabel_paper.report.experiment import PrintedValues
from genlabel_paper.report.printed import rows_of
from genlabel_paper.report.selected import at_hand
from genlabel_paper.study.multiverse import base_of
from genlabel_paper.study.readings import LOOKS, OURS, READINGS, Look, Reading

__all__ = ["Nearness", "PrintedTable", "Scores", "World", "count_holding", "nearness", "worlds"]

KEYS = ("dataset", "method", "split", "seed")
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
    def title(self) -> str:
        """In words."""
        if self.split is not None:
            return f"one split, the {('first', 'second', 'third')[self.split]}"
        if self == World():
            return f"ours: {self.look.title}"
        if self.reading == OURS:
            return self.look.title
        plain = self.look == LOOKS[0]
        return self.reading.title if plain else f"{self.reading.title}; {self.look.title}"


def worlds() -> list[World]:
    """Return the designed set: ours and its looks, one split, each reading by itself, and the best of each together.

    Together are the nearest look and the nearest reading; then all readings that are nearer than ours, in all looks.

    >>> [world.title for world in worlds()][:2]
    ['ours: last epoch, candidate by 6 folds', 'best epoch on validation rows, candidate by 6 folds']
    """
    single = [World(reading) for reading in READINGS.values() if reading.name not in ("ours", "together")]
    kept = [World(READINGS["codes"], look) for look in LOOKS[1:2]]
    together = [World(READINGS["together"], look) for look in LOOKS]
    return [*(World(look=look) for look in LOOKS), World(split=0), *single, *kept, *together]


@final
class Scores:
    """Means and spreads of the records of readings, for every world at once.

    Parameters
    ----------
    records : DataFrame
        Of `genlabel.records.read_records`; those of settings without a reading are left out.
    """

    def __init__(self, records: pd.DataFrame) -> None:
        both = {name: base_of(name) for name in (records["setting"].unique() if "setting" in records else [])}
        read = [name for name, (_, reading) in both.items() if reading]
        chosen = records[records["setting"].isin(read)] if read else pd.DataFrame(columns=["setting", *KEYS, *KNOWN])
        self._frame = chosen.assign(
            base=chosen["setting"].map(lambda name: both[name][0]),
            reading=chosen["setting"].map(lambda name: both[name][1]),
        )

    @property
    def trials(self) -> pd.Series[int]:
        """How many trials there are of each base, reading, dataset and method."""
        found: pd.Series[int] = self._frame.groupby(["base", "reading", "dataset", "method"]).size()
        return found

    @cached_property
    def _all(self) -> pd.DataFrame:
        return self._summed(self._frame)

    @cached_property
    def _first(self) -> pd.DataFrame:
        return self._summed(self._frame[self._frame["split"] == 0])

    def _summed(self, frame: pd.DataFrame) -> pd.DataFrame:
        groups = frame.groupby(["base", "reading", "dataset", "method"])[list(KNOWN)]
        return pd.concat({"mean": groups.mean(), "spread": groups.std()}, axis=1)

    def has(self, world: World) -> bool:
        """Whether there are records of the reading of a world; where it says nothing of a table, that is as in ours."""
        return bool((self._frame["reading"] == world.reading.name).any())

    def of(self, table: PrintedTable, world: World) -> pd.DataFrame:
        """Means and spreads of a table in a world, by dataset and method: where a reading says nothing, those of ours.

        >>> Scores(pd.DataFrame()).of(PrintedTable("t", {}, [], ("logistic",)), World()).empty
        True
        """
        if world.split not in (None, 0):
            raise ValueError(f"split={world.split} is not the first; only that one is looked at alone")
        source = self._all if world.split is None else self._first
        parts = [self._of_base(source, base, world) for base in table.settings]
        found = pd.concat(parts)
        known = [key for key in found.index if (key[1], key[0]) in table.paper]
        return found.loc[known]

    def _of_base(self, source: pd.DataFrame, base: str, world: World) -> pd.DataFrame:
        """The datasets and methods of a setting: of the reading where it has any, else of ours."""
        found = {
            name: source.xs((base, name), level=("base", "reading"))
            if (base, name) in source.index.droplevel(["dataset", "method"])
            else source.iloc[:0].droplevel(["base", "reading"])
            for name in (world.reading.name, OURS.name)
        }
        both = found[world.reading.name].combine_first(found[OURS.name])
        columns = {part: both[part, world.look.key] for part in ("mean", "spread")}
        return pd.DataFrame(columns)


class Nearness(NamedTuple):
    """How near a table in a world is to print."""

    within: float
    """Percent of the printed cells that are within one joint spread, which is no less than half a point."""
    median: float
    """Median absolute difference, in points."""
    ranks: float
    """Mean over the sets of the rank correlation of the methods; of two methods, whether the same one is ahead."""
    cells: int


def nearness(found: pd.DataFrame, paper: PrintedValues) -> Nearness | None:
    """Return how near means and spreads, by dataset and method, are to print; None without any.

    >>> from genlabel_paper.report.pieces import Printed
    >>> index = pd.MultiIndex.from_tuples([("61", "mixup"), ("61", "vanilla")])
    >>> found = pd.DataFrame({"mean": [88.0, 92.0], "spread": [1.0, 2.0]}, index=index)
    >>> nearness(found, {("mixup", "61"): Printed(88.5, 1.0), ("vanilla", "61"): Printed(97.0, 1.0)})
    Nearness(within=50.0, median=2.75, ranks=1.0, cells=2)
    """
    known = found.dropna(subset=["mean"])
    if not len(known):
        return None
    printed = [paper[method, dataset] for dataset, method in known.index]
    values = pd.DataFrame(
        {"ours": known["mean"], "paper": [one.mean for one in printed], "spread": known["spread"].fillna(0.0)}
    )
    joint = np.maximum(np.hypot(values["spread"], [one.spread or 0.0 for one in printed]), [p.least for p in printed])
    gaps = (values["ours"] - values["paper"]).abs()
    return Nearness(100.0 * float((gaps <= joint).mean()), float(gaps.median()), _rank_correlation(values), len(values))


def _rank_correlation(values: pd.DataFrame) -> float:
    """Mean over the sets of Spearman's correlation; a set on which either side is all equal says nothing."""
    ranks = values.groupby(level=0)[["ours", "paper"]].rank()
    centred = ranks - ranks.groupby(level=0).transform("mean")
    products = (centred["ours"] * centred["paper"]).groupby(level=0).sum()
    squares = (centred**2).groupby(level=0).sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return float((products / np.sqrt(squares["ours"] * squares["paper"])).mean())


def count_holding(found: pd.DataFrame, table: PrintedTable) -> tuple[int, int]:
    """Return how many of the paper's statements about a table are true of means, and how many can be judged."""
    means = found["mean"].unstack().reindex(index=at_hand(table.paper), columns=table.methods)
    verdicts = [check.holds(means) for check in table.checks]
    return sum(holds is True for holds in verdicts), sum(holds is not None for holds in verdicts)
