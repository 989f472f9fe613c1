"""Data of a report, and the answers at its top: whether mixing helps, what to train, how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import isnan
from operator import add
from typing import NamedTuple, TypeAlias, final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from genlabel.data.tables import Table
from genlabel.evaluation.comparison import MIN_SPLITS, PRIOR_BASELINE, PairedDifference, pair_all, rank_methods
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.explanation import Explanation
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.html import DataTable, count_of, list_names, name_of, percent, shorten, signed

MIN_SPEEDUP = 5.0
"""Smallest ratio of run times at which the report names a faster method."""
MAX_NOTES, MAX_NOTE = 3, 160
"""Notes at the top, and the characters of each."""
UNBALANCED = 0.8
"""Share of the largest class from which accuracy says little about a method."""


class Chart(NamedTuple):
    """Figure of a section with its title and caption."""

    figure: Figure
    title: str
    caption: str


class Code(NamedTuple):
    """Command to type."""

    text: str


Block: TypeAlias = str | Chart | DataTable | Code | Sequence[str] | Mapping[str, str]
"""Block of a section: a paragraph, a figure, a table, a command, a list, or names with values."""


class ReportSection(NamedTuple):
    """Section of the report."""

    id: str
    title: str
    blocks: Sequence[Block]


@final
@dataclass(frozen=True)
class ReportData:
    """Arguments of `write_report`, and values that several sections derive from them."""

    table: Table
    results: pd.DataFrame | None
    diagnosis: Diagnosis | None
    test_size: float
    notes: Sequence[str]
    settings: Mapping[str, str]
    command: str
    explanation: Explanation | None = None

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
        """Method of the lowest log-loss, except the prior baseline; without a comparison, the best arm."""
        return next((name for name in [*self.ranking, *self.arms] if name != PRIOR_BASELINE), PRIOR_BASELINE)

    @property
    def arms(self) -> list[str]:
        """Arms of the paired experiment, the lowest log-loss first."""
        experiment = self.diagnosis.experiment if self.diagnosis is not None else None
        return [] if experiment is None else sorted(experiment.log_loss, key=experiment.log_loss.__getitem__)

    @cached_property
    def compared_counts(self) -> dict[str, PredictionCounts]:
        """Counts of the held-out predictions of the comparison, by method; empty if it has none."""
        if self.results is None or "held_out" not in self.results:
            return {}
        counted = self.results[self.results["held_out"].map(lambda value: isinstance(value, Mapping))]
        groups = counted.groupby("method", sort=False)["held_out"]
        return {str(name): reduce(add, map(PredictionCounts.from_dict, group)) for name, group in groups}

    @property
    def counts(self) -> dict[str, PredictionCounts]:
        """Counts of held-out predictions, by method: of the comparison, else of the paired experiment."""
        return self.compared_counts or (self.diagnosis.prediction_counts if self.diagnosis is not None else {})

    @property
    def counted_method(self) -> str:
        """The best method whose predictions are counted; empty if there is none."""
        order = [self.best, *self.ranking] if self.compared_counts else self.arms
        return next((name for name in order if name in self.counts), "")

    @property
    def repeats_of_a_row(self) -> float:
        """Average number of times that a row is held out, at least 1."""
        return max(1.0, self.n_splits * self.test_size) if self.compared_counts else 1.0

    @cached_property
    def near(self) -> list[str]:
        """Methods within noise of the best one."""
        pairs = (self.pair(self.best, name) for name in self.ranking if name != self.best)
        return [pair.other for pair in pairs if pair is not None and pair.within_noise]

    def mean(self, method: str, score: str) -> float:
        """Return the mean of a score over the splits; NaN where it was not measured."""
        if self.results is None or score not in self.results:
            return float("nan")
        return float(self.results.loc[self.results["method"] == method, score].mean())

    def pair(self, method: str, other: str) -> PairedDifference | None:
        """Return the difference in log-loss of two methods; None unless both were compared on a split."""
        pairs = [] if self.results is None else pair_all(self.results, [(method, other)], self.test_size)
        return next(iter(pairs), None)


def headline(data: ReportData) -> str:
    """Return the verdict in one or two sentences."""
    sentences = [] if data.diagnosis is None else [data.diagnosis.verdict.sentence]
    if data.results is not None:
        rest = near_words(data) or "every other method is worse beyond the noise"
        sentences.append(f"Lowest held-out log-loss: {data.best}; {rest}.")
    return " ".join(sentences)


def near_words(data: ReportData) -> str:
    """Return which methods are within noise of the best one, in words; empty if there are none."""
    if data.n_splits == 1:
        return "one split shows no noise"
    return f"{list_names(data.near)} {'is' if len(data.near) == 1 else 'are'} within noise of it" if data.near else ""


def answers(data: ReportData) -> dict[str, list[str]]:
    """Return paragraphs by question; a question without an answer is left out."""
    paragraphs = {"Would mixing help?": mixing_answer(data), "What should I train?": training_answer(data)}
    paragraphs["How far can I trust it?"] = trust_answer(data)
    return {question: lines for question, lines in paragraphs.items() if lines}


def mixing_answer(data: ReportData) -> list[str]:
    """Return sentences about the gain of mixing, in the paired experiment and in the comparison."""
    lines = []
    if data.diagnosis is not None and data.diagnosis.experiment is not None:
        gains = [
            f"{name} {signed(gain.mean)} ({signed(gain.low)} to {signed(gain.high)})"
            for name, gain in data.diagnosis.experiment.gains.items()
        ]
        lines.append(
            "Gains of networks that differ only in their mixed samples, in nats of held-out log-loss with 95 % "
            f"intervals: {'; '.join(gains)}."
        )
    elif data.diagnosis is not None:
        reasons = "; ".join(data.diagnosis.verdict.reasons)
        lines.append(f"{reasons[:1].upper()}{reasons[1:]}.")
    pairs = [data.pair("mixup", "vanilla"), data.pair("GenLabel", "vanilla")]
    differences = "; ".join(str(pair) for pair in pairs if pair is not None)
    if differences:
        lines.append(f"With default settings, each with its own search: {differences}.")
    return lines


def training_answer(data: ReportData) -> list[str]:
    """Return sentences about the best method, those within noise of it, and a faster one among them."""
    if data.results is None:
        return ["This page has only a diagnosis; genlabel compare measures what to train."] if data.diagnosis else []
    best, n_splits = data.best, data.n_splits
    first = (
        f"{best} has the lowest mean log-loss, {data.mean(best, 'log_loss'):.3f} nats over "
        f"{count_of(n_splits, 'split')}, and an accuracy of {percent(data.mean(best, 'accuracy'))}."
    )
    if n_splits == 1:
        return [first, "One split shows no noise, so no method can be called better; --n-splits 10 says more."]
    near = f"Within noise of it: {list_names(data.near)}." if data.near else ""
    lines = [f"{first} {near or 'Every other method is worse beyond the noise.'}"]
    seconds = {name: data.mean(name, "seconds") for name in [best, *data.near] if name != PRIOR_BASELINE}
    fastest = min(seconds, key=lambda name: seconds[name])
    if fastest != best and seconds[best] >= MIN_SPEEDUP * seconds[fastest]:
        times = (seconds[fastest], seconds[best])
        fast_time, best_time = (f"{time:.2g} s" if time >= 0.01 else "under 0.01 s" for time in times)
        lines.append(f"Of these {fastest} is the fastest: {fast_time} per fit, {best_time} for {best}.")
    if n_splits < MIN_SPLITS:
        lines.append(f"So few splits ({n_splits}) say little about the noise; --n-splits 10 says more.")
    return lines


def trust_answer(data: ReportData) -> list[str]:
    """Return sentences about accuracy next to guessing, calibration, and the weakest class."""
    if not data.counted_method:
        return []
    method, counts = data.counted_method, data.counts[data.counted_method]
    accuracy = counts.confusion.diagonal().sum() / counts.rows
    majority = counts.class_counts.max() / counts.rows
    recall = np.where(np.isnan(counts.recall), np.inf, counts.recall)
    worst = int(recall.argmin())
    text = (
        f"On held-out rows {method} has an accuracy of {percent(accuracy)}; always predicting the most frequent class "
        f"has {percent(majority)}. Its weakest class is {name_of(counts.classes[worst])}, with a recall of "
        f"{percent(float(recall[worst]), 0)}."
    )
    if data.compared_counts:
        scores = ("balanced_accuracy", "auc", "calibration_error")
        balanced, auc, error = (data.mean(method, score) for score in scores)
        if majority >= UNBALANCED and not isnan(balanced) and not isnan(auc):
            text += (
                f" With classes so unbalanced, accuracy says little: balanced accuracy is {percent(balanced)} "
                f"({percent(1 / data.table.y.nunique(), 0)} is guessing), AUC {auc:.3f}."
            )
        if not isnan(error):
            text += f" Its probabilities are off by {error:.3f} on average (calibration error; larger for few rows)."
    return [text]


def first_notes(data: ReportData) -> str:
    """Return the first notes about the table, not those about training."""
    notes = [note for note in dict.fromkeys(data.notes) if note in data.table.notes]
    more = f", and {len(notes) - MAX_NOTES} more" if len(notes) > MAX_NOTES else ""
    return "; ".join(shorten(note, MAX_NOTE, tail=False) for note in notes[:MAX_NOTES]) + more
