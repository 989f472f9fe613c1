"""Section about the two labels of mixed samples, mixup's and the stacked density's, along lambda and one by one."""

from __future__ import annotations

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.result import MIN_SHARE
from genlabel.reporting.charts import Curve, draw_curves
from genlabel.reporting.figures import GRAY, PALETTE, new_figure, plain_text
from genlabel.reporting.html import DataTable, Row, TableCell
from genlabel.reporting.report.data import Chart, ReportData, ReportSection
from genlabel.reporting.words import count_of, format_label, name_of, number_cell

BINS = 8
MIN_BIN, SMALL_GROUP, MIN_BINNED = 3, 4, 120
"""Mixed samples of a bin; those of a group where a pair has too few for bins; and how many suffice for bins."""
MAX_PAIRS, MAX_ROWS = 3, 20
MAX_TITLE_NAME, MAX_CELL_NAME = 13, 24

Values = NDArray[np.float64]


def label_section(data: ReportData) -> ReportSection | None:
    """Return the section; None where no mixed samples were measured."""
    diagnosis = data.diagnosis
    if diagnosis is None or diagnosis.mixed is None:
        return None
    charts, table = _curves(diagnosis, diagnosis.mixed), _largest_distances(diagnosis, diagnosis.mixed)
    return ReportSection("labels", "Two labels along lambda", [*charts, table])


def _curves(diagnosis: Diagnosis, mixed: MixedSampleStats) -> list[Chart]:
    """Draw the mean label of the stacked density along lambda and mixup's lines, for the pairs that differ most."""
    different = mixed.pairs[mixed.pairs["class_1"] != mixed.pairs["class_2"]]
    worst = different.sort_values("total_variation", ascending=False).head(MAX_PAIRS)
    place = {name: number for number, name in enumerate(diagnosis.classes.tolist())}
    pairs = [(place[pair["class_1"]], place[pair["class_2"]]) for pair in worst.to_dict("records")]
    if not pairs:
        return []
    figure = new_figure(1.2 + 2.5 * len(pairs), 3.1)
    axes = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
    names = ["first class", "second class", *(["all other classes"] if len(diagnosis.classes) > 2 else [])]
    for ax, (one, other) in zip(axes, pairs, strict=True):
        lam, labels = _of_pair(mixed, one, other)
        columns = [labels[:, one], labels[:, other]]
        if labels.shape[1] > 2:
            columns.append(1.0 - labels[:, one] - labels[:, other])
        ax.plot([0, 1], [0, 1], "--", color=PALETTE[0], linewidth=1.4)
        ax.plot([0, 1], [1, 0], "--", color=PALETTE[1], linewidth=1.4)
        shown = [name_of(diagnosis.classes[one]), name_of(diagnosis.classes[other]), "all other classes"]
        curves = [
            _binned(lam, column, name, color) for column, name, color in zip(columns, shown, PALETTE[:3], strict=False)
        ]
        draw_curves(ax, curves, "lambda: weight of the first class", "probability" if ax is axes[0] else "")
        title = " with ".join(name_of(diagnosis.classes[c], MAX_TITLE_NAME) for c in (one, other))
        ax.set_title(plain_text(title), fontsize=10)
    handles = [Line2D([], [], color=color, label=name) for color, name in zip(PALETTE, names, strict=False)]
    handles.append(Line2D([], [], color=GRAY, linestyle="--", label="dashed: mixup's label"))
    figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False, fontsize=9)
    return [Chart(figure, "Labels of mixed samples along lambda", _caption(diagnosis, mixed, *pairs[0]))]


def _of_pair(mixed: MixedSampleStats, one: int, other: int) -> tuple[Values, Values]:
    """Return the weights of the first class and the stacked density's labels of the mixed samples of a pair."""
    first, second, lam = mixed.samples.pairs
    here = (mixed.class_index[first] == one) & (mixed.class_index[second] == other)
    return lam[here], mixed.samples.density_labels[here]


def _binned(lam: Values, values: Values, name: str, color: str) -> Curve:
    """Return means over bins of lambda or, of few mixed samples, over groups of neighbors."""
    if len(lam) < MIN_BINNED:
        groups = np.array_split(np.argsort(lam, kind="stable"), max(1, len(lam) // SMALL_GROUP))
    else:
        cell = np.minimum((lam * BINS).astype(np.intp), BINS - 1)
        groups = [np.flatnonzero(cell == number) for number in range(BINS)]
    x, y, tips = [], [], []
    for here in groups:
        if len(here) >= MIN_BIN:
            x.append(float(lam[here].mean()))
            y.append(float(values[here].mean()))
            tips.append(f"{name}: {y[-1]:.2f} at lambda {x[-1]:.2f} (mean of {count_of(len(here), 'mixed sample')})")
    return Curve(x, y, tips, color)


def _caption(diagnosis: Diagnosis, mixed: MixedSampleStats, one: int, other: int) -> str:
    """Return a sentence about both labels near lambda = 1/2 of the pair whose labels differ most."""
    lam, labels = _of_pair(mixed, one, other)
    middle = np.abs(lam - 0.5) <= 0.15
    names = [name_of(name) for name in diagnosis.classes]
    text = f"The labels differ most for mixed samples of {names[one]} with {names[other]}."
    if middle.sum() < MIN_BIN:
        return text
    mean, weight = labels[middle].mean(0), float(lam[middle].mean())
    text += (
        f" Near lambda = 1/2 mixup gives {names[one]} {weight:.2f}, {names[other]} {1 - weight:.2f}; the stacked "
        f"density gives {names[one]} {mean[one]:.2f}, {names[other]} {mean[other]:.2f} on average"
    )
    rest = mean.copy()
    rest[[one, other]] = 0.0
    third = int(rest.argmax())
    return text + (f", {names[third]} {rest[third]:.2f}." if rest[third] >= 0.005 else ".")


def _largest_distances(diagnosis: Diagnosis, mixed: MixedSampleStats) -> DataTable:
    """Return the mixed samples whose two labels differ most."""
    samples, names = mixed.samples, [name_of(name, MAX_CELL_NAME) for name in diagnosis.classes]
    lam = samples.pairs.lam
    enough = np.minimum(lam, 1.0 - lam) >= MIN_SHARE
    order = np.argsort(-np.where(enough, samples.total_variation, -1.0), kind="stable")[:MAX_ROWS]
    rows: list[Row] = []
    for number in order:
        parents = [part[number] for part in samples.pairs[:2]]
        rows.append(
            [
                *(TableCell(str(mixed.rows[row]), float(mixed.rows[row])) for row in parents),
                *(str(diagnosis.classes[mixed.class_index[row]]) for row in parents),
                number_cell(float(lam[number]), 2),
                *(format_label(label[number], names) for label in (samples.linear_labels, samples.density_labels)),
                number_cell(float(samples.total_variation[number]), 2),
                number_cell(float(samples.typicality[number]), 3),
            ]
        )
    head = ["row 1", "row 2", "class 1", "class 2", "lambda", "mixup's label", "the stacked density's"]
    caption = (
        "Mixed samples whose two labels differ most, of those with a tenth of either parent at least; rows are counted "
        "from 0, lambda is the weight of the first"
    )
    return DataTable(caption, [*head, "distance", "typicality"], rows, words=[2, 3, 5, 6])
