"""The answers at the top of a report: whether mixing helps, what to train, how far to trust it."""

from __future__ import annotations

from math import isnan

import numpy as np

from genlabel.evaluation.comparison import PRIOR_BASELINE
from genlabel.evaluation.comparison.verdict import MIN_SPLITS
from genlabel.reporting.html import shorten
from genlabel.reporting.report.data import ReportData
from genlabel.reporting.words import count_of, list_names, name_of, percent, signed

MIN_SPEEDUP = 5.0
"""Ratio of times from which a faster method is named."""
MAX_NOTES, MAX_NOTE = 3, 160
"""Notes at the top, and the characters of each."""
UNBALANCED = 0.8
"""Share of the largest class from which accuracy says little."""
CSS_CLASSES = {
    "vanilla": "warns",
    "not mixup": "warns",
    "no difference": "unsure",
    "not tried": "unsure",
    "not trusted": "unsure",
}
"""CSS class of the box, by the word of the verdict."""


def headline(data: ReportData) -> str:
    """Return the verdict in one or two sentences."""
    sentences = []
    if data.diagnosis is not None:
        sentences.append(data.diagnosis.verdict.sentence)
    if data.results is not None:
        rest = f"{list_names(data.near)} cannot be told from it" if data.near else "no other method comes near it"
        rest = "one split shows no noise" if data.n_splits == 1 else rest
        sentences.append(f"Lowest held-out log-loss: {data.best}; {rest}.")
    return " ".join(sentences)


def answers(data: ReportData) -> dict[str, list[str]]:
    """Return paragraphs by question; a question without an answer is left out."""
    found = {
        "Would mixing help?": mixing_answer(data),
        "What should I train?": training_answer(data),
        "How far can I trust it?": trust_answer(data),
    }
    return {question: lines for question, lines in found.items() if lines}


def mixing_answer(data: ReportData) -> list[str]:
    """Return sentences about the gain of mixing, in the paired experiment and in the comparison."""
    lines = []
    if data.diagnosis is not None and data.diagnosis.experiment is not None:
        gains = [
            f"{name} {signed(gain.mean)} ({signed(gain.low)} to {signed(gain.high)})"
            for name, gain in data.diagnosis.experiment.gains.items()
        ]
        lines.append(
            "Gains of networks that differ in nothing but their mixed samples, in nats of held-out log-loss with 95 % "
            f"intervals: {'; '.join(gains)}."
        )
    elif data.diagnosis is not None:
        reasons = "; ".join(data.diagnosis.verdict.reasons)
        lines.append(f"{reasons[:1].upper()}{reasons[1:]}.")
    pairs = [data.pair(one, other) for one, other in (("mixup", "vanilla"), ("GenLabel", "vanilla"))]
    differences = "; ".join(str(pair) for pair in pairs if pair is not None)
    if differences:
        lines.append(f"With default settings, each with its own search: {differences}.")
    return lines


def training_answer(data: ReportData) -> list[str]:
    """Return sentences about the best method, those within noise of it, and a faster one among them."""
    if data.results is None:
        return ["This page has a diagnosis only; genlabel compare measures what to train."] if data.diagnosis else []
    best, splits = data.best, count_of(data.n_splits, "split")
    loss, accuracy = data.mean(best, "log_loss"), data.mean(best, "accuracy")
    first = (
        f"{best} has the lowest mean log-loss, {loss:.3f} nats over {splits}, and an accuracy of {percent(accuracy)}."
    )
    few = [f"So few splits ({data.n_splits}) say little about the noise; --n-splits 10 says more."]
    if data.n_splits == 1:
        return [first, "One split shows no noise, so no method can be called better; --n-splits 10 says more."]
    near = (
        f"Within noise of it: {list_names(data.near)}."
        if data.near
        else "Every other method is worse beyond the noise."
    )
    return [f"{first} {near}", *_faster(data), *(few if data.n_splits < MIN_SPLITS else [])]


def _faster(data: ReportData) -> list[str]:
    """Return a sentence about the fastest method within noise of the best, if it is much faster."""
    seconds = {name: data.mean(name, "seconds") for name in [data.best, *data.near] if name != PRIOR_BASELINE}
    fastest = min(seconds, key=lambda name: seconds[name])
    if fastest == data.best or seconds[data.best] < MIN_SPEEDUP * seconds[fastest]:
        return []
    fast, slow = (
        f"{value:.2g} s" if value >= 0.01 else "under 0.01 s" for value in (seconds[fastest], seconds[data.best])
    )
    return [f"Of these {fastest} is the fastest: {fast} per fit, {slow} for {data.best}."]


def trust_answer(data: ReportData) -> list[str]:
    """Return sentences about accuracy next to guessing, calibration, and the weakest class."""
    if not data.counted_method:
        return []
    method, counts = data.counted_method, data.best_counts
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
                f"({percent(1 / len(data.classes), 0)} is guessing), AUC {auc:.3f}."
            )
        if not isnan(error):
            text += f" Its probabilities are off by {error:.3f} on average (calibration error; larger for few rows)."
    return [text]


def first_notes(data: ReportData) -> str:
    """Return the first notes about the table, not those about training."""
    notes = [note for note in dict.fromkeys(data.notes) if note in data.table.notes]
    more = f", and {len(notes) - MAX_NOTES} more" if len(notes) > MAX_NOTES else ""
    return "; ".join(shorten(note, MAX_NOTE, tail=False) for note in notes[:MAX_NOTES]) + more


def css_class(data: ReportData) -> str:
    """Return the CSS class of the box, which gives its color."""
    return "" if data.diagnosis is None else CSS_CLASSES.get(data.diagnosis.verdict.word, "")
