"""Sections of the methods: side by side, and how far to trust the best one (calibration, confusion matrix, classes)."""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._text import count_of, signed
from genlabel.data.tables import Table
from genlabel.evaluation.comparison import PRIOR_BASELINE, accuracy_in_percent, summarize
from genlabel.evaluation.prediction_counts import PredictionCounts, wilson_interval
from genlabel.reporting import charts
from genlabel.reporting.figures import MAX_CLASSES, plot_comparison
from genlabel.reporting.findings import Findings
from genlabel.reporting.html import (
    DataTable,
    Row,
    TableCell,
    name_of,
    number_cell,
    percent,
    percent_cell,
)
from genlabel.reporting.report.data import Block, Chart, ReportSection
from genlabel.reporting.terminal import COLUMNS, score_texts

MAX_FULL_CLASSES = 8
"""Maximum of classes of a confusion matrix with all cells; for more classes the frequent errors are listed too."""
MAX_ERRORS = 12
MIN_PREDICTIONS = 5
"""Minimum number of predictions of a bin of probability that is drawn."""
COLUMN_HELP = {
    "log_loss": "penalty for the probability of the true class; 0 is perfect, lower is better",
    "accuracy": "share of unseen rows that are predicted right",
    "balanced_accuracy": "mean over the classes of the share of their rows that are predicted right",
    "auc": "how often a row of a class ranks above a row of another; 0.5 is guessing",
    "brier": "squared distance of the probabilities from the truth, 0 to 2; lower is better",
    "off by": "mean distance of the probabilities from how often they come true, all splits together; 0 is perfect",
    "seconds": "training time of one fit on one processor core",
}
"""Meaning of each score, in words."""
_CLASS_CAPTION = (
    "Each class by {}, on unseen rows. Precision: share of the predictions of a class that are right; recall: share of "
    "its rows that are found; F1: their harmonic mean"
)


def comparison_section(findings: Findings, results: pd.DataFrame) -> ReportSection:
    """Return the section with scores and pairs of methods."""
    # the prior baseline lies far from the others
    shown = [name for name in findings.ranking if name != PRIOR_BASELINE] or findings.ranking
    ordered = pd.concat([results[results["method"] == name] for name in shown])
    best, prior = findings.best, findings.mean(PRIOR_BASELINE, "log_loss")
    caption = f"{best} has {findings.lowest}, {findings.mean(best, 'log_loss'):.3f}. "
    if not isnan(prior):
        caption += f"The {PRIOR_BASELINE} (not drawn), which do not use the columns, have {prior:.3f}. "
    if findings.n_splits > 1:
        caption += (
            f"Lines are 95 % intervals of the mean over {findings.n_splits} splits. Methods share the splits, so "
            "methods whose lines overlap may still differ: see the pairs below."
        )
    chart = Chart(plot_comparison(ordered, test_size=findings.test_size, narrow=True), "Scores of the methods", caption)
    rows: list[Row] = []
    for pair in findings.pairs:
        interval = "" if isnan(pair.low) else _minus(f"{signed(pair.low)} to {signed(pair.high)}")
        better = TableCell(f"{pair.better} of {pair.splits}", pair.better)
        gain = TableCell(_minus(signed(pair.gain)), pair.gain)
        rows.append([pair.method, pair.other, better, gain, TableCell(interval, pair.low), pair.result])
    head = ["method", "other", "better on", "gain", "95 % interval", "result"]
    caption = (
        "Pairs on the same splits. The gain is the fall of the log-loss from the other to the method; plus is better"
    )
    pairs: Block = DataTable(caption, head, rows, words=[1, 5]) if rows else "There is only one method; no pairs."
    summary = summarize(accuracy_in_percent(results))
    columns = [column for column in COLUMNS if column[1] in results]
    means = summary[[(score, "mean") for _, score, *_ in columns]]
    rows = [
        [
            method,
            *map(TableCell, score_texts(summary, method, columns), means.loc[method]),
            *([_gap_cell(findings, method)] if findings.compared_counts else []),
        ]
        for method in findings.ranking
    ]
    splits = count_of(findings.n_splits, "split")
    caption = f"Mean over {splits}, ± standard deviation; the marked row has {findings.lowest}"
    head = ["method", *(title for title, *_ in columns), *(["off by"] if findings.compared_counts else [])]
    scores = DataTable(caption, head, rows, best=[findings.ranking.index(best)], sorted_by=1)
    terms = {title: COLUMN_HELP[score] for title, score, *_ in columns if score in COLUMN_HELP}
    terms |= {"off by": COLUMN_HELP["off by"]} if findings.compared_counts else {}
    return ReportSection("methods", "The methods side by side", [chart, scores, terms, pairs])


def _minus(text: str) -> str:
    """Return the text of a difference with a minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")


def _gap_cell(findings: Findings, method: str) -> TableCell:
    counts = findings.compared_counts.get(method)
    return number_cell(float("nan") if counts is None else counts.calibration_gap, 3)


def trust_section(findings: Findings, table: Table) -> ReportSection:
    """Return the section about held-out predictions, which were counted."""
    splits = count_of(findings.n_splits, "split")
    source = f"{splits} of the comparison" if findings.compared_counts else "folds of the short experiment"
    introduction = f"Predictions of unseen (held-out) rows, in the {source}."
    if findings.repeats_of_a_row > 1:
        introduction += f" A row is held out, and counted, {findings.repeats_of_a_row:.0f} times on average."
    method, counts = findings.counted_method, findings.counts[findings.counted_method]
    n_rows = table.y.astype(str).value_counts()
    sizes = [n_rows.reindex(counts.classes, fill_value=0).to_numpy(), counts.class_counts]
    others = [name for name in charts.ARM_COLORS if name in findings.counts and name != method]
    with np.errstate(invalid="ignore"):
        f1 = 2 * counts.precision * counts.recall / (counts.precision + counts.recall)
    shares = [counts.precision, counts.recall, f1, *(findings.counts[other].recall for other in others)]
    rows: list[Row] = [
        [
            name,
            *(TableCell(f"{size[c]:,}", int(size[c])) for size in sizes),
            *(percent_cell(float(share[c])) for share in shares),
        ]
        for c, name in enumerate(counts.classes)
    ]
    head = ["class", "rows", "held out", "precision", "recall", "F1", *(f"recall, {name}" for name in others)]
    classes = DataTable(_CLASS_CAPTION.format(method), head, rows)
    blocks = [introduction, _calibration_chart(findings), *_confusion(method, counts), classes]
    return ReportSection("trust", "How far to trust it", blocks)


def _calibration_chart(findings: Findings) -> Chart:
    names = (*charts.ARM_COLORS, findings.counted_method)
    methods = list(dict.fromkeys(name for name in names if name in findings.counts))
    best = findings.counts[findings.counted_method]
    rare = int(best.class_counts.argmin()) if len(best.classes) == 2 else None
    x = "predicted probability" if rare is None else f"predicted probability of {name_of(best.classes[rare], 16)}"
    n_rows, n_columns = -(-len(methods) // 2), min(2, len(methods))
    figure = charts.new_figure(charts.PAGE_WIDTH, 0.6 + 2.2 * n_rows)
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(methods) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.flat, methods, strict=False):
        curve = _calibration_curve(name, findings.counts[name], rare, findings.repeats_of_a_row)
        ax.plot([0, 1], [0, 1], "--", color=charts.GRAY, linewidth=1.2)
        charts.draw_curves(ax, [curve], "", "")
        ax.set_title(f"{charts.plain_text(name, 22)}\noff by {findings.counts[name].calibration_gap:.3f}", fontsize=9)
    figure.supxlabel(charts.plain_text(x), fontsize=10)
    figure.supylabel("observed frequency", fontsize=10)
    bins = _bins(best, rare)
    size, mass, hits = bins[np.abs(bins[:, 1] - bins[:, 2]).argmax()]
    predicted, observed = mass / max(size, 1), hits / max(size, 1)
    caption = (
        "On the dashed line probabilities come true as often as they say. The probabilities of "
        f"{findings.counted_method} are off by {best.calibration_gap:.3f} on average, most in the bin where they say "
        f"{percent(predicted)} and {percent(observed)} come true "
        f"({'too high' if predicted > observed else 'too low'}). Lines are 95 % intervals, dots are larger for more "
        f"predictions; bins of fewer than {MIN_PREDICTIONS} are left out."
    )
    return Chart(figure, "Calibration of the probabilities", caption)


def _calibration_curve(name: str, counts: PredictionCounts, rare: int | None, repeats: float) -> charts.Curve:
    """Return observed frequency by predicted probability; a row counts once for the intervals."""
    bins = _bins(counts, rare)
    size, mass, hits = bins[bins[:, 0] >= MIN_PREDICTIONS].T
    x, y = (mass / size).tolist(), (hits / size).tolist()
    low, high = np.array([wilson_interval(*pair) for pair in zip(y, size / repeats, strict=True)]).reshape(-1, 2).T
    tips = [
        f"{name}: predicted {percent(p)}, observed {percent(q)} of {count_of(int(n), 'prediction')}"
        for p, q, n in zip(x, y, size, strict=True)
    ]
    sizes = (4.0 + 5.0 * np.sqrt(size / max(float(counts.reliability[:, 0].max()), 1.0))) ** 2
    color = charts.ARM_COLORS.get(name, charts.GRAY)
    return charts.Curve(x, y, tips, color, low.tolist(), high.tolist(), sizes.tolist())


def _bins(counts: PredictionCounts, rare: int | None) -> NDArray[np.float64]:
    """Return the counts by bin of probability (10, 3); with two classes, of the probability of the rarer one."""
    if rare != 0:
        return counts.reliability
    size, mass, hits = counts.reliability[::-1].T
    return np.stack([size, size - mass, size - hits], axis=1)


def _confusion(method: str, counts: PredictionCounts) -> list[Block]:
    """Return the confusion matrix with its most frequent error in words, and for many classes a table of errors."""
    names, k = list(counts.classes), len(counts.classes)
    errors = counts.confusion.copy()
    np.fill_diagonal(errors, 0)
    total, share = int(errors.sum()), counts.confusion / np.maximum(counts.class_counts, 1)[:, None]
    caption = f"{method}: {count_of(total, 'error')} in {count_of(counts.rows, 'prediction')}."
    if total:
        i, j = np.unravel_index(int(errors.argmax()), errors.shape)
        caption += (
            f" The most frequent: {name_of(names[i])} predicted as {name_of(names[j])}, "
            f"{percent(errors[i, j] / total, 0)} of the errors and {percent(float(share[i, j]), 0)} of that class."
        )
    if k > MAX_CLASSES:
        return [caption, _error_table(method, counts, errors)]
    cells, unit = [], " %" if k <= MAX_FULL_CLASSES else ""
    for i, j in np.ndindex(k, k):
        times = int(counts.confusion[i, j])
        if times or k <= MAX_FULL_CLASSES:
            text = f"{100 * share[i, j]:.0f}{unit}" if times else ""
            predicted = f"{name_of(names[i])} predicted as {name_of(names[j])}"
            tip = f"{predicted}: {times} of {counts.class_counts[i]} ({percent(float(share[i, j]))})"
            cells.append(charts.HeatCell(i, j, float(share[i, j]), text, tip, charts.COOL if i == j else charts.HEAT))
    figure = charts.heat_map_figure(k)
    charts.draw_heat_map(figure.subplots(), names, cells, across="predicted class", down="true class")
    chart = Chart(figure, f"Confusion matrix of {method}", f"{caption} Cells are percentages of a row.")
    return [chart, _error_table(method, counts, errors)] if k > MAX_FULL_CLASSES else [chart]


def _error_table(method: str, counts: PredictionCounts, errors: NDArray[np.int64]) -> DataTable:
    share = errors / np.maximum(counts.class_counts, 1)[:, None]
    order = np.argsort(-errors, axis=None, kind="stable")[: min(MAX_ERRORS, np.count_nonzero(errors))]
    rows: list[Row] = [
        [counts.classes[i], counts.classes[j], number_cell(errors[i, j], 0), percent_cell(share[i, j])]
        for i, j in zip(*np.unravel_index(order, errors.shape), strict=True)
    ]
    head = ["true class", "predicted as", "times", "of its class"]
    return DataTable(f"The most frequent errors of {method}", head, rows, words=[1])
