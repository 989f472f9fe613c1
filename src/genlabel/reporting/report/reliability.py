"""Section about trust: calibration of the probabilities, the confusion matrix, and scores of each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genlabel.evaluation.diagnosis.intervals import wilson_interval
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.charts import Curve, HeatCell, draw_curves, draw_heat_map, heat_map_figure
from genlabel.reporting.diagnosis_figures import MAX_CLASSES
from genlabel.reporting.figures import ARM_COLORS, COOL, GRAY, HEAT, new_figure, plain_text
from genlabel.reporting.html import DataTable, Row, TableCell
from genlabel.reporting.report.data import Block, Chart, ReportData, ReportSection
from genlabel.reporting.words import count_of, name_of, percent, percent_cell

MAX_FULL_CLASSES = 8
"""Classes whose confusion matrix has all cells, in percent; of more, the frequent errors are listed too."""
MAX_ERRORS = 12
MIN_PREDICTIONS = 5
"""Predictions of a bin of probability that is drawn."""


def reliability_section(data: ReportData) -> ReportSection | None:
    """Return the section; None where no held-out predictions were counted."""
    if not data.counts:
        return None
    splits = count_of(data.n_splits, "split")
    source = f"{splits} of the comparison" if data.compared_counts else "folds of the paired experiment"
    introduction = f"Predictions of held-out rows, in the {source}."
    if data.repeats_of_a_row > 1:
        introduction += f" A row is held out {data.repeats_of_a_row:.0f} times on average, and counted as often."
    blocks = [introduction, _calibration_chart(data), *_confusion(data), _class_table(data)]
    return ReportSection("trust", "How far to trust it", blocks)


def calibration_error(counts: PredictionCounts) -> float:
    """Return the mean distance of probability and frequency over the bins, weighted by predictions.

    >>> calibration_error(PredictionCounts.of(np.log([[0.75, 0.25]] * 4), [0, 0, 0, 1], ["a", "b"]))
    0.0
    """
    size, mass, hits = counts.reliability.T
    return float(np.abs(mass - hits).sum() / max(size.sum(), 1.0))


def _calibration_chart(data: ReportData) -> Chart:
    methods = list(dict.fromkeys(name for name in (*ARM_COLORS, data.counted_method) if name in data.counts))
    best = data.best_counts
    rare = int(best.class_counts.argmin()) if len(best.classes) == 2 else None
    x = "predicted probability" if rare is None else f"predicted probability of {name_of(best.classes[rare], 16)}"
    figure = new_figure(0.8 + 2.5 * len(methods), 3.0)
    axes = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for ax, name in zip(axes, methods, strict=True):
        curve = _calibration_curve(name, data.counts[name], rare, data.repeats_of_a_row)
        ax.plot([0, 1], [0, 1], "--", color=GRAY, linewidth=1.2)
        draw_curves(ax, [curve], plain_text(x), "observed frequency" if ax is axes[0] else "")
        ax.set_title(plain_text(f"{name}, off by {calibration_error(data.counts[name]):.3f}", 34), fontsize=10)
    size, mass, hits = _bins(best, rare).T
    worst = int(np.abs(mass - hits).argmax())
    predicted, observed = mass[worst] / max(size[worst], 1), hits[worst] / max(size[worst], 1)
    caption = (
        f"On the dashed line probabilities are calibrated. {data.counted_method} is off by "
        f"{calibration_error(best):.3f} on average, most where it predicts {percent(predicted)} and observes "
        f"{percent(observed)} ({'too high' if predicted > observed else 'too low'}). Lines "
        f"are 95 % intervals, dots are larger for more predictions; bins of fewer than {MIN_PREDICTIONS} are left out."
    )
    return Chart(figure, "Calibration of the probabilities", caption)


def _calibration_curve(name: str, counts: PredictionCounts, rare: int | None, repeats: float) -> Curve:
    bins = [
        (size, mass / size, hits / size) for size, mass, hits in _bins(counts, rare).tolist() if size >= MIN_PREDICTIONS
    ]
    ends = [wilson_interval(y, size / repeats) for size, _, y in bins]
    tips = [
        f"{name}: predicted {percent(x)}, observed {percent(y)} of {count_of(int(size), 'prediction')}"
        for size, x, y in bins
    ]
    most = max(float(counts.reliability[:, 0].max()), 1.0)
    sizes = [(4.0 + 5.0 * float(np.sqrt(size / most))) ** 2 for size, *_ in bins]
    color = ARM_COLORS.get(name, GRAY)
    low, high = ([end[side] for end in ends] for side in (0, 1))
    return Curve([x for _, x, _ in bins], [y for *_, y in bins], tips, color, low, high, sizes)


def _bins(counts: PredictionCounts, rare: int | None) -> NDArray[np.float64]:
    """Return the counts by bin of probability (10, 3); with two classes those of the rarer one."""
    if rare != 0:
        return counts.reliability
    size, mass, hits = counts.reliability[::-1].T
    return np.stack([size, size - mass, size - hits], axis=1)


def _confusion(data: ReportData) -> list[Block]:
    counts, method = data.best_counts, data.counted_method
    names, k = list(counts.classes), len(counts.classes)
    wrong = counts.confusion.copy()
    np.fill_diagonal(wrong, 0)
    caption = _confusion_caption(method, counts, wrong)
    if k > MAX_CLASSES:
        return [caption, _error_table(method, counts, wrong)]
    share = counts.confusion / np.maximum(counts.class_counts, 1)[:, None]
    cells = []
    for i, j in np.ndindex(k, k):
        times = int(counts.confusion[i, j])
        if times or k <= MAX_FULL_CLASSES:
            text = "" if not times else f"{100 * share[i, j]:.0f}{' %' * (k <= MAX_FULL_CLASSES)}"
            predicted = f"{name_of(names[i])} predicted as {name_of(names[j])}"
            tip = f"{predicted}: {times} of {counts.class_counts[i]} ({percent(float(share[i, j]))})"
            cells.append(HeatCell(i, j, float(share[i, j]), text, tip, COOL if i == j else HEAT))
    figure = heat_map_figure(k)
    draw_heat_map(figure.subplots(), names, names, cells, across="predicted class", down="true class")
    chart = Chart(figure, f"Confusion matrix of {method}", f"{caption} Cells are percentages of a row.")
    return [chart, *([_error_table(method, counts, wrong)] if k > MAX_FULL_CLASSES else [])]


def _confusion_caption(method: str, counts: PredictionCounts, wrong: NDArray[np.int64]) -> str:
    total = int(wrong.sum())
    text = f"{method}: {count_of(total, 'error')} in {count_of(counts.rows, 'prediction')}."
    if not total:
        return text
    i, j = np.unravel_index(int(wrong.argmax()), wrong.shape)
    of_errors, of_class = (percent(int(wrong[i, j]) / n, 0) for n in (total, max(int(counts.class_counts[i]), 1)))
    return (
        f"{text} The most frequent: {name_of(counts.classes[i])} predicted as {name_of(counts.classes[j])}, "
        f"{of_errors} of the errors and {of_class} of that class."
    )


def _error_table(method: str, counts: PredictionCounts, wrong: NDArray[np.int64]) -> DataTable:
    order = np.argsort(-wrong, axis=None, kind="stable")[:MAX_ERRORS]
    rows: list[Row] = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            times = TableCell(str(wrong[i, j]), float(wrong[i, j]))
            rows.append(
                [counts.classes[i], counts.classes[j], times, percent_cell(wrong[i, j] / counts.class_counts[i])]
            )
    head = ["true class", "predicted as", "times", "of its class"]
    return DataTable(f"The most frequent errors of {method}", head, rows, words=[1])


def _class_table(data: ReportData) -> DataTable:
    counts, method = data.best_counts, data.counted_method
    n_rows = {str(name): int(number) for name, number in data.table.y.value_counts().items()}
    others = [name for name in ARM_COLORS if name in data.counts and name != method]
    with np.errstate(invalid="ignore"):
        f1 = 2 * counts.precision * counts.recall / (counts.precision + counts.recall)
    rows: list[Row] = [
        [
            name,
            TableCell(f"{n_rows.get(name, 0):,}", n_rows.get(name, 0)),
            TableCell(f"{counts.class_counts[c]:,}", int(counts.class_counts[c])),
            *(percent_cell(float(score[c])) for score in (counts.precision, counts.recall, f1)),
            *(percent_cell(float(data.counts[other].recall[c])) for other in others),
        ]
        for c, name in enumerate(counts.classes)
    ]
    head = ["class", "rows", "held out", "precision", "recall", "F1", *(f"recall, {name}" for name in others)]
    return DataTable(f"Each class by {method}: precision, recall and F1 score on held-out rows", head, rows)
