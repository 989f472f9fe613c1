"""Sections of the methods: side by side, and how far to trust the best one (calibration, confusion matrix, classes)."""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.evaluation.comparison import PRIOR_BASELINE, accuracy_in_percent, as_plain, summarize
from genlabel.evaluation.prediction_counts import PredictionCounts, wilson_interval
from genlabel.reporting import charts
from genlabel.reporting.figures import MAX_CLASSES, plot_comparison
from genlabel.reporting.html import (
    DataTable,
    Row,
    TableCell,
    count_of,
    name_of,
    number_cell,
    percent,
    percent_cell,
    signed,
)
from genlabel.reporting.report.data import Block, Chart, ReportData, ReportSection, near_words
from genlabel.reporting.terminal import COLUMNS, score_texts

MAX_FULL_CLASSES = 8
"""Maximum of classes of a confusion matrix with all cells; for more classes the frequent errors are listed too."""
MAX_ERRORS = 12
MIN_PREDICTIONS = 5
"""Minimum number of predictions of a bin of probability that is drawn."""


def comparison_section(data: ReportData, results: pd.DataFrame) -> ReportSection:
    """Return the section with scores and pairs of methods."""
    # the prior baseline lies far from the others
    shown = [name for name in data.ranking if name != PRIOR_BASELINE] or data.ranking
    ordered = pd.concat([results[results["method"] == name] for name in shown])
    best, near, prior = data.best, near_words(data), data.mean(PRIOR_BASELINE, "log_loss")
    caption = f"{best} has the lowest log-loss, {data.mean(best, 'log_loss'):.3f} nats"
    caption += f"; {near}. " if near else ", clearly. "
    if not isnan(prior):
        caption += f"The prior baseline, which does not use the features, has {prior:.3f}. "
    if data.n_splits > 1:
        caption += (
            f"Lines are 95 % intervals of the mean over {data.n_splits} splits; methods share the splits, so methods "
            "whose lines overlap may still differ: see the pairs below."
        )
    chart = Chart(plot_comparison(ordered, test_size=data.test_size), "Scores of the methods", caption)
    rows: list[Row] = []
    for pair in as_plain(results, data.test_size)["pairs"]:
        low, high, interval, result = pair["low"], pair["high"], "", "unknown"
        if low is not None and high is not None:
            interval = f"{signed(low, 4)} to {signed(high, 4)}"
            result = "better" if low > 0 else "worse" if high < 0 else "within noise"
        better = TableCell(f"{pair['better']} of {pair['splits']}", pair["better"])
        gain = TableCell(signed(pair["gain"], 4), pair["gain"])
        rows.append([pair["method"], pair["other"], better, gain, TableCell(interval, low), result])
    head = ["method", "other", "better on", "gain, nats", "95 % interval", "result"]
    caption = "Pairs on the same splits; the gain is the log-loss of the other minus that of the method"
    pairs: Block = DataTable(caption, head, rows, words=[1, 5]) if rows else "There is only one method; no pairs."
    summary = summarize(accuracy_in_percent(results))
    columns = [column for column in COLUMNS if column[1] in results]
    means = summary[[(score, "mean") for _, score, *_ in columns]]
    rows = [
        [method, *map(TableCell, score_texts(summary, method, columns), means.loc[method])] for method in data.ranking
    ]
    caption = (
        f"Mean over {count_of(data.n_splits, 'split')}, ± standard deviation; the marked row has the lowest log-loss"
    )
    head = ["method", *("calibration error" if title == "calibration" else title for title, *_ in columns)]
    scores = DataTable(caption, head, rows, best=[data.ranking.index(best)], sorted_by=1)
    return ReportSection("methods", "The methods side by side", [chart, scores, pairs])


def trust_section(data: ReportData) -> ReportSection:
    """Return the section about held-out predictions, which were counted."""
    splits = count_of(data.n_splits, "split")
    source = f"{splits} of the comparison" if data.compared_counts else "folds of the paired experiment"
    introduction = f"Predictions of held-out rows, in the {source}."
    if data.repeats_of_a_row > 1:
        introduction += f" A row is held out, and counted, {data.repeats_of_a_row:.0f} times on average."
    method, counts = data.counted_method, data.counts[data.counted_method]
    n_rows = data.table.y.astype(str).value_counts()
    sizes = [n_rows.reindex(counts.classes, fill_value=0).to_numpy(), counts.class_counts]
    others = [name for name in charts.ARM_COLORS if name in data.counts and name != method]
    with np.errstate(invalid="ignore"):
        f1 = 2 * counts.precision * counts.recall / (counts.precision + counts.recall)
    shares = [counts.precision, counts.recall, f1, *(data.counts[other].recall for other in others)]
    rows: list[Row] = [
        [
            name,
            *(TableCell(f"{size[c]:,}", int(size[c])) for size in sizes),
            *(percent_cell(float(share[c])) for share in shares),
        ]
        for c, name in enumerate(counts.classes)
    ]
    head = ["class", "rows", "held out", "precision", "recall", "F1", *(f"recall, {name}" for name in others)]
    classes = DataTable(f"Each class by {method}: precision, recall and F1 score on held-out rows", head, rows)
    blocks = [introduction, _calibration_chart(data), *_confusion(method, counts), classes]
    return ReportSection("trust", "How far to trust it", blocks)


def _calibration_error(counts: PredictionCounts) -> float:
    """Return the mean distance of probability and frequency over the bins, weighted by predictions."""
    size, mass, hits = counts.reliability.T
    return float(np.abs(mass - hits).sum() / max(size.sum(), 1.0))


def _calibration_chart(data: ReportData) -> Chart:
    methods = list(dict.fromkeys(name for name in (*charts.ARM_COLORS, data.counted_method) if name in data.counts))
    best = data.counts[data.counted_method]
    rare = int(best.class_counts.argmin()) if len(best.classes) == 2 else None
    x = "predicted probability" if rare is None else f"predicted probability of {name_of(best.classes[rare], 16)}"
    figure = charts.new_figure(0.8 + 2.5 * len(methods), 3.0)
    axes = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for ax, name in zip(axes, methods, strict=True):
        curve = _calibration_curve(name, data.counts[name], rare, data.repeats_of_a_row)
        ax.plot([0, 1], [0, 1], "--", color=charts.GRAY, linewidth=1.2)
        charts.draw_curves(ax, [curve], charts.plain_text(x), "observed frequency" if ax is axes[0] else "")
        ax.set_title(charts.plain_text(f"{name}, off by {_calibration_error(data.counts[name]):.3f}", 34), fontsize=10)
    bins = _bins(best, rare)
    size, mass, hits = bins[np.abs(bins[:, 1] - bins[:, 2]).argmax()]
    predicted, observed = mass / max(size, 1), hits / max(size, 1)
    caption = (
        f"On the dashed line probabilities are calibrated. {data.counted_method} is off by "
        f"{_calibration_error(best):.3f} on average, most where it predicts {percent(predicted)} and observes "
        f"{percent(observed)} ({'too high' if predicted > observed else 'too low'}). Lines "
        f"are 95 % intervals, dots are larger for more predictions; bins of fewer than {MIN_PREDICTIONS} are left out."
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
