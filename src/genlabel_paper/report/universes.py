"""Universes of the multiverse analysis: the tables under a reading and a selection rule, and their nearness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot, nan
from typing import NamedTuple, TypeAlias, final

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from genlabel_paper.report.dataset_tables import available_datasets
from genlabel_paper.report.results import PrintedValues, rows_of
from genlabel_paper.report.statements import Check
from genlabel_paper.runs.cells import join_reading, split_reading
from genlabel_paper.runs.readings import OURS, READINGS, SELECTION_RULES, Reading, SelectionRule

KEYS = ("setting", "dataset", "method")
RULE_KEYS = tuple(rule.key for rule in SELECTION_RULES)


class PrintedTable(NamedTuple):
    """Table of the paper with its values and statements."""

    id: str
    paper: PrintedValues
    checks: Sequence[Check]
    settings: tuple[str, ...]
    """Settings of its cells."""

    @property
    def methods(self) -> list[str]:
        """Rows that are methods."""
        return [row for row in rows_of(self.paper) if row != "difference"]

    @property
    def datasets(self) -> list[str]:
        """Available datasets."""
        return available_datasets(self.paper)


@final
@dataclass(frozen=True)
class Universe:
    """Reading of the text with a selection rule, on all splits or a single one."""

    reading: Reading = OURS
    rule: SelectionRule = SELECTION_RULES[0]
    split: int | None = None

    @property
    def without_test_rows(self) -> bool:
        """True if nothing is selected on test rows."""
        return self.rule.epoch != "test" and self.rule.choice != "test"

    @property
    def title(self) -> str:
        """Description in words."""
        if self.split is not None:
            return f"one split, the {('first', 'second', 'third')[self.split]}"
        if self == Universe():
            return f"ours: {self.rule.title}, candidate by 6 folds"
        if self.reading == OURS:
            return self.rule.title
        default = self.rule == SELECTION_RULES[0]
        return self.reading.title if default else f"{self.reading.title}; {self.rule.title}"


def universes() -> list[Universe]:
    """Return the universes: ours with all selection rules, a single split, each reading by itself, and combinations.

    The combinations are the nearest rule with the nearest reading, and all readings nearer than ours with all rules.

    >>> [universe.title for universe in universes()][:2]
    ['ours: last epoch, candidate by 6 folds', 'best epoch on validation rows']
    """
    single = [Universe(reading) for reading in READINGS.values() if reading.name not in ("ours", "together")]
    nearest = [Universe(READINGS["codes"], rule) for rule in SELECTION_RULES[1:2]]
    together = [Universe(READINGS["together"], rule) for rule in SELECTION_RULES]
    return [*(Universe(rule=rule) for rule in SELECTION_RULES), Universe(split=0), *single, *nearest, *together]


class MeanSpread(NamedTuple):
    """Mean and standard deviation of a method on a dataset, in percent."""

    mean: float
    spread: float


Means: TypeAlias = dict[tuple[str, str], MeanSpread]
"""Means by dataset and method."""


@final
class ReadingScores:
    """Means and spreads of the records of all readings.

    Parameters
    ----------
    records : DataFrame
        Records as `genlabel_paper.exports.load_records` returns them; settings without a reading are ignored.
    """

    def __init__(self, records: pd.DataFrame) -> None:
        names = records["setting"].unique().tolist() if "setting" in records else []
        with_reading = [name for name in names if split_reading(name)[1]]
        chosen = records[records["setting"].isin(with_reading)] if with_reading else pd.DataFrame(columns=["alpha"])
        chosen = chosen[chosen["alpha"] == 1.0]
        chosen = chosen.reindex(columns=[*KEYS, "split", *RULE_KEYS]).dropna(subset=list(RULE_KEYS))
        self._all, self._first_split = (_aggregate(part) for part in (chosen, chosen[chosen["split"] == 0]))
        self._readings = {split_reading(name)[1] for name in chosen["setting"].unique().tolist()}

    def has(self, universe: Universe) -> bool:
        """Return whether there are records of the reading of a universe."""
        return universe.reading.name in self._readings

    def of(self, table: PrintedTable, universe: Universe) -> Means:
        """Return the means and spreads of a table in a universe, those of ours where the reading changes nothing.

        >>> ReadingScores(pd.DataFrame()).of(PrintedTable("t", {}, [], ("logistic",)), Universe())
        {}
        """
        source = self._first_split if universe.split == 0 else self._all
        means: Means = {}
        for (method, dataset), base in product(table.paper, table.settings):
            for reading in (OURS.name, universe.reading.name):  # the latter replaces the former
                by_rule = source.get((join_reading(base, reading), dataset, method))
                if by_rule is not None:
                    means[dataset, method] = by_rule[universe.rule.key]
        return means


def _aggregate(records: pd.DataFrame) -> dict[tuple[str, str, str], dict[str, MeanSpread]]:
    """Return mean and spread over splits and seeds of each setting, dataset and method, by selection rule."""
    groups = records.groupby(list(KEYS))[list(RULE_KEYS)]
    means, spreads = groups.mean(), groups.std().fillna(0.0)
    pairs = zip(means.index.tolist(), means.to_numpy().tolist(), spreads.to_numpy().tolist(), strict=True)
    return {
        key: {name: MeanSpread(*both) for name, *both in zip(RULE_KEYS, mean, spread, strict=True)}
        for key, mean, spread in pairs
    }


class Nearness(NamedTuple):
    """Nearness of a table in a universe to the printed one."""

    within: float = nan
    """Percentage of the printed values within one joint spread, which is at least half a point."""
    median: float = nan
    """Median absolute difference, in points."""
    ranks: float = nan
    """Mean over the datasets of the rank correlation of the methods."""
    holds: float = nan
    """Number of true statements of the paper about the table."""


def nearness(means: Means, table: PrintedTable) -> Nearness:
    """Return the nearness of means to a printed table.

    >>> from genlabel_paper.report.results import Printed
    >>> paper = {("mixup", "61"): Printed(88.5, 1.0), ("vanilla", "61"): Printed(97.0, 1.0)}
    >>> means = {("61", "mixup"): MeanSpread(88.0, 1.0), ("61", "vanilla"): MeanSpread(92.0, 2.0)}
    >>> nearness(means, PrintedTable("t", paper, [], ()))
    Nearness(within=50.0, median=2.75, ranks=1.0, holds=0.0)
    """
    if not means:
        return Nearness()
    differences, joint_spreads = [], []
    for (dataset, method), ours in means.items():
        paper = table.paper[method, dataset]
        differences.append(abs(ours.mean - paper.mean))
        joint_spreads.append(max(hypot(ours.spread, paper.spread or 0.0), paper.min_difference))
    within = 100.0 * float(np.mean(np.array(differences) <= joint_spreads))
    holds = len(true_statements(means, table))
    return Nearness(within, float(np.median(differences)), _rank_correlation(means, table), float(holds))


def true_statements(means: Means, table: PrintedTable) -> list[Check]:
    """Return the statements of the paper about a table that are true of means."""
    frame = _frame(means, table)
    return [check for check in table.checks if check.holds(frame)]


def _frame(means: Means, table: PrintedTable) -> pd.DataFrame:
    """Return the means, one line per available dataset and one column per method."""
    lines = [[means[d, m].mean if (d, m) in means else nan for m in table.methods] for d in table.datasets]
    return pd.DataFrame(lines, index=table.datasets, columns=table.methods)


def _rank_correlation(means: Means, table: PrintedTable) -> float:
    """Return the mean over the datasets of Spearman's correlation, without datasets where one side is constant."""
    correlations = []
    for dataset in table.datasets:
        known = [method for method in table.methods if (dataset, method) in means]
        ours = rankdata([round(means[dataset, method].mean, 6) for method in known])
        paper = rankdata([table.paper[method, dataset].mean for method in known])
        if len(set(ours)) > 1 and len(set(paper)) > 1:
            correlations.append(round(float(np.corrcoef(ours, paper)[0, 1]), 12))
    return float(np.mean(correlations)) if correlations else nan
