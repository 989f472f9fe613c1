"""Data of a report: a table, its comparison, its diagnosis, and what follows from them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any, TypeAlias, final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from genlabel.data.tables import Table
from genlabel.evaluation.comparison import PairedDifference, rank_methods
from genlabel.evaluation.comparison.run import PRIOR_BASELINE
from genlabel.evaluation.comparison.verdict import as_plain, pair_methods
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.html import DataTable


@final
@dataclass(frozen=True)
class Chart:
    """Figure of a section with its title and caption."""

    figure: Figure
    title: str
    caption: str


@final
@dataclass(frozen=True)
class Code:
    """Command to type."""

    text: str


Block: TypeAlias = str | Chart | DataTable | Code | Sequence[str] | Mapping[str, str]
"""Block of a section: a paragraph, a figure, a table, a command, a list, or names with values."""


@final
@dataclass(frozen=True)
class ReportSection:
    """Section of the report."""

    id: str
    title: str
    blocks: Sequence[Block]


@final
@dataclass(frozen=True)
class ReportData:
    """Table with what is known of it.

    Parameters
    ----------
    table : Table
    results : DataFrame or None
        Results of `genlabel.evaluation.comparison.compare`.
    diagnosis : Diagnosis or None
    test_size : float
        Share of the rows that a split holds out.
    notes : sequence of str
    settings : dict of str
    command : str
        Command that makes the report.
    """

    table: Table
    results: pd.DataFrame | None
    diagnosis: Diagnosis | None
    test_size: float
    notes: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels of the table, (k,)."""
        return np.unique(self.table.y.to_numpy())

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features that were diagnosed; None where string columns became several features."""
        names = [str(name) for name in self.table.X.columns]
        return names if self.diagnosis is not None and len(names) == self.diagnosis.d else None

    @property
    def n_splits(self) -> int:
        """Number of splits of the comparison."""
        return 0 if self.results is None else int(self.results["split"].nunique())

    @cached_property
    def ranking(self) -> list[str]:
        """Methods of the comparison, the lowest log-loss first."""
        return [] if self.results is None else rank_methods(self.results)

    @cached_property
    def best(self) -> str:
        """Method of the lowest log-loss but the prior baseline; without a comparison, the best arm."""
        methods = [name for name in [*self.ranking, *self._ranked_arms] if name != PRIOR_BASELINE]
        return next(iter([*methods, *self.ranking]), "")

    @property
    def _ranked_arms(self) -> list[str]:
        """Arms of the paired experiment, the lowest log-loss first."""
        experiment = self.diagnosis.experiment if self.diagnosis is not None else None
        return [] if experiment is None else sorted(experiment.log_loss, key=lambda arm: experiment.log_loss[arm])

    @cached_property
    def compared_counts(self) -> dict[str, PredictionCounts]:
        """Counts of the held-out predictions of the comparison, by method; empty if it has none."""
        if self.results is None or "held_out" not in self.results:
            return {}
        counted = self.results[self.results["held_out"].map(lambda value: isinstance(value, Mapping))]
        groups = counted.groupby("method", sort=False)["held_out"]
        return {str(name): reduce(add, map(PredictionCounts.from_dict, group)) for name, group in groups}

    @cached_property
    def counts(self) -> dict[str, PredictionCounts]:
        """Counts of held-out predictions, by method: of the comparison, else of the paired experiment."""
        return self.compared_counts or (self.diagnosis.prediction_counts if self.diagnosis is not None else {})

    @property
    def counted_method(self) -> str:
        """The best method whose predictions are counted; empty if there is none."""
        order = [self.best, *self.ranking] if self.compared_counts else self._ranked_arms
        return next((name for name in order if name in self.counts), "")

    @property
    def best_counts(self) -> PredictionCounts:
        """Counts of the method `counted_method`."""
        return self.counts[self.counted_method]

    @property
    def repeats_of_a_row(self) -> float:
        """Average number of times that a row is held out, 1 at least."""
        return max(1.0, self.n_splits * self.test_size) if self.compared_counts else 1.0

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """Summary, ranking, pairs and verdict of the comparison as plain values."""
        return {} if self.results is None else as_plain(self.results, self.test_size)

    @cached_property
    def near(self) -> list[str]:
        """Methods within noise of the best one."""
        pairs = [(name, self.pair(self.best, name)) for name in self.ranking if name != self.best]
        return [name for name, pair in pairs if pair is not None and pair.within_noise]

    def mean(self, method: str, score: str) -> float:
        """Return the mean of a score over the splits; NaN where it was not measured."""
        if self.results is None or score not in self.results:
            return float("nan")
        return float(self.results.loc[self.results["method"] == method, score].mean())

    def pair(self, method: str, other: str, score: str = "log_loss") -> PairedDifference | None:
        """Return the difference of two methods; None unless both were compared."""
        if self.results is None or not {method, other} <= set(self.ranking):
            return None
        return pair_methods(self.results, method, other, score, self.test_size)
