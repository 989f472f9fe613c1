"""Sections of a diagnosis: the paired experiment, the stacked density, where mixed samples land, their two labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from math import isnan
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from genlabel._text import count_of
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.diagnose import MIN_PARENT_WEIGHT, describe_gains
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats, format_label
from genlabel.reporting import charts
from genlabel.reporting.figures import MAX_CLASSES, draw_density_check, draw_gains, draw_intrusion
from genlabel.reporting.html import DataTable, Row, TableCell, capitalize, name_of, number_cell, percent
from genlabel.reporting.report.data import Block, Chart, ReportSection

INTRODUCTION = (
    "Three networks that differ in their training rows alone: no mixing; mixed rows with mixup's labels (the same "
    "average of both labels); mixed rows with GenLabel's labels (by the stacked density, a model of the rows of each "
    "class). All choose among the same settings, on the same folds."
)
NOT_COMPARED = (
    "These networks are smaller fits than the methods above: they choose among fewer settings, have to mix, and are "
    "not averaged with a model of the classes. So their scores differ from those above."
)
MAX_PAIR_ROWS, MAX_LABEL_ROWS = 200, 20
MAX_LABEL_PAIRS = 3
BINS = 8
MIN_BIN = 3
"""Minimum number of mixed samples of a bin."""
MIN_BINNED, GROUP_SIZE = 120, 4
"""A pair of classes with fewer mixed samples has, instead of bins, groups of this size."""
MAX_TITLE_NAME, MAX_CELL_NAME = 13, 24

Values = NDArray[np.float64]


def mixing_section(diagnosis: Diagnosis, compared: bool = False) -> ReportSection:
    """Return the section about the paired experiment; `compared` if the page has a comparison too."""
    if diagnosis.experiment is None:
        return ReportSection("mixing", "Would mixing help", [diagnosis.verdict.reasons, _density_check(diagnosis)])
    experiment = diagnosis.experiment
    caption = (
        f"Right of zero is better. {'. '.join(describe_gains(experiment))}. "
        f"{count_of(experiment.rows, 'row')} were held out once each, in {experiment.folds} folds."
    )
    figure = charts.new_figure(charts.PAGE_WIDTH, 2.9)
    draw_gains(figure.subplots(), experiment)
    chart = Chart(figure, "Gains in the short experiment", caption)
    scores = experiment.to_frame().assign(accuracy=lambda frame: 100 * frame["accuracy"])
    columns = {"log-loss": ("log_loss", 4), "accuracy %": ("accuracy", 1), "affinity": ("affinity", 2)}
    columns["diversity"] = ("diversity", 2)
    rows: list[Row] = [
        [str(arm), *(number_cell(values[name], digits) for name, digits in columns.values())]
        for arm, values in scores.iterrows()
    ]
    caption = (
        "Affinity: accuracy of the network without mixing on mixed rows, divided by that on rows; diversity: training "
        "loss on mixed rows, divided by that without mixing on rows. Neither alone predicts the gain."
    )
    table = DataTable(caption, ["network", *columns], rows)
    introduction = [INTRODUCTION, NOT_COMPARED] if compared else [INTRODUCTION]
    blocks = [*introduction, chart, table, _density_check(diagnosis)]
    return ReportSection("mixing", "Would mixing help: a short experiment", blocks)


def _density_check(diagnosis: Diagnosis) -> Block:
    check = diagnosis.density_check
    if isnan(check.density):
        return f"{capitalize('; '.join(check.reasons))}."
    figure = charts.new_figure(charts.PAGE_WIDTH, 2.6)
    draw_density_check(figure.subplots(), check)
    caption = (
        f"The stacked density, a model of the rows of each class that gives GenLabel's labels, "
        f"{'can' if check.trusted else 'cannot'} be trusted here: its log-loss is {check.density:.3f} on "
        f"{count_of(check.rows, 'unseen row')}, that of logistic regression {check.logistic:.3f}, that "
        f"of the class priors {check.prior:.3f}."
    )
    return Chart(figure, "Can the stacked density be trusted", caption)


def intrusion_section(diagnosis: Diagnosis, mixed: MixedSampleStats) -> ReportSection:
    """Return the section about where mixed samples land."""
    k, mean = len(diagnosis.classes), mixed.means
    figure = charts.heat_map_figure(k) if k <= MAX_CLASSES else charts.new_figure(charts.PAGE_WIDTH, 5.2)
    draw_intrusion(figure.subplots(), diagnosis, mixed)
    worst = mixed.clearest_pair
    caption = (
        f"{percent(mean['intrusion'])} of mixed rows end up nearest to a class that neither parent has; with random "
        f"labels {percent(mixed.chance)} would. "
    )
    if worst is not None:
        caption += (
            f"The clearest pair is {name_of(worst['class_1'])} with {name_of(worst['class_2'])}: "
            f"{percent(worst['intrusion'], 0)} ({percent(worst['low'], 0)} to {percent(worst['high'], 0)}). "
        )
    if k <= 2:
        caption += "With two classes, only mixed rows of a class with itself can. "
    caption += f"{percent(mean['atypical'], 0)} of mixed rows are unlike any row."
    if 4 < k <= MAX_CLASSES:
        caption += " Cells are in percent."
    chart = Chart(figure, "Share of mixed rows that land among another class, by pair of classes", caption)
    columns: dict[str, Callable[[dict[Hashable, Any]], TableCell]] = {
        "% of mixup": lambda pair: number_cell(100 * pair["weight"], 1),
        "measured": lambda pair: number_cell(pair["n_mixed"], 0),
        "intrude %": lambda pair: number_cell(100 * pair["intrusion"], 1),
        "95 % interval": lambda pair: TableCell(f"{100 * pair['low']:.0f} to {100 * pair['high']:.0f}", pair["low"]),
        "random labels %": lambda pair: number_cell(100 * pair["permuted"], 1),
        "unlike any row %": lambda pair: number_cell(100 * pair["atypical"], 0),
        "label distance": lambda pair: number_cell(pair["total_variation"], 2),
    }
    rows: list[Row] = [
        [str(pair["class_1"]), str(pair["class_2"]), *(cell(pair) for cell in columns.values())]
        for pair in diagnosis.to_frame("pairs", MAX_PAIR_ROWS).to_dict("records")
    ]
    caption = (
        "Pairs of classes, those first whose mixed rows land among another class most clearly; label distance: between "
        "mixup's label and GenLabel's, 0 the same, 1 no class in common"
    )
    table = DataTable(caption, ["class 1", "class 2", *columns], rows, words=[1])
    return ReportSection("intrusion", "Where mixed rows land", [chart, table])


def label_section(diagnosis: Diagnosis, mixed: MixedSampleStats) -> ReportSection:
    """Return the section about the two labels of mixed samples, along lambda and where they differ most."""
    samples, names = mixed.samples, [name_of(name, MAX_CELL_NAME) for name in diagnosis.classes]
    lam = samples.pairs.lam
    has_both = np.minimum(lam, 1.0 - lam) >= MIN_PARENT_WEIGHT
    order = np.argsort(-np.where(has_both, samples.total_variation, -1.0), kind="stable")[:MAX_LABEL_ROWS]
    rows: list[Row] = [
        [
            *(number_cell(mixed.rows[row], 0) for row in parents),
            *(str(diagnosis.classes[mixed.class_index[row]]) for row in parents),
            number_cell(float(lam[number]), 2),
            *(format_label(label[number], names) for label in (samples.linear_labels, samples.density_labels)),
            number_cell(float(samples.total_variation[number]), 2),
            number_cell(float(samples.typicality[number]), 3),
        ]
        for number, *parents in zip(order, samples.pairs.first[order], samples.pairs.second[order], strict=True)
    ]
    head = ["row 1", "row 2", "class 1", "class 2", "lambda", "mixup's label", "GenLabel's label"]
    caption = (
        "Mixed rows whose two labels differ most, of those with a tenth of either parent at least; rows are counted "
        "from 0, lambda is the weight of the first; typicality: 1 like the rows of the table, near 0 unlike any"
    )
    table = DataTable(caption, [*head, "distance", "typicality"], rows, words=[2, 3, 5, 6])
    return ReportSection("labels", "Two labels along lambda", [*_label_chart(diagnosis, mixed), table])


def _label_chart(diagnosis: Diagnosis, mixed: MixedSampleStats) -> list[Chart]:
    """Draw the mean label of the stacked density along lambda and mixup's lines, for the pairs that differ most."""
    different = mixed.pairs[mixed.pairs["class_1"] != mixed.pairs["class_2"]]
    worst = different.sort_values("total_variation", ascending=False).head(MAX_LABEL_PAIRS)
    classes, names = diagnosis.classes.tolist(), [name_of(name) for name in diagnosis.classes]
    pairs = [tuple(map(classes.index, pair)) for pair in worst[["class_1", "class_2"]].to_numpy().tolist()]
    if not pairs:
        return []
    n_curves = min(len(classes), 3)
    figure = charts.new_figure(charts.PAGE_WIDTH, 1.0 + 2.1 * len(pairs))
    axes = figure.subplots(len(pairs), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (first, second) in zip(axes, pairs, strict=True):
        lam, labels = _labels_of_pair(mixed, first, second)
        columns = [labels[:, first], labels[:, second], 1.0 - labels[:, first] - labels[:, second]][:n_curves]
        ax.plot([0, 1], [0, 1], "--", color=charts.PALETTE[0], linewidth=1.4)
        ax.plot([0, 1], [1, 0], "--", color=charts.PALETTE[1], linewidth=1.4)
        curve_names = (names[first], names[second], "all other classes")
        curves = list(map(partial(_mean_curve, lam), columns, curve_names, charts.PALETTE))
        charts.draw_curves(ax, curves, "lambda: weight of the first class" if ax is axes[-1] else "", "probability")
        title = " with ".join(name_of(classes[c], MAX_TITLE_NAME) for c in (first, second))
        ax.set_title(charts.plain_text(title), fontsize=10)
    legend = ["first class", "second class", "all other classes"][:n_curves]
    handles = [Line2D([], [], color=color, label=label) for color, label in zip(charts.PALETTE, legend, strict=False)]
    handles.append(Line2D([], [], color=charts.GRAY, linestyle="--", label="dashed: mixup's label"))
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize=9)
    return [Chart(figure, "Labels of mixed rows along lambda", _label_caption(mixed, names, *pairs[0]))]


def _labels_of_pair(mixed: MixedSampleStats, first_class: int, second_class: int) -> tuple[Values, Values]:
    """Return the weights of the first class and the stacked density's labels of the mixed samples of a pair."""
    first, second, lam = mixed.samples.pairs
    of_pair = (mixed.class_index[first] == first_class) & (mixed.class_index[second] == second_class)
    return lam[of_pair], mixed.samples.density_labels[of_pair]


def _mean_curve(lam: Values, values: Values, name: str, color: str) -> charts.Curve:
    """Return means over bins of lambda or, for few mixed samples, over groups of samples with neighboring lambda."""
    if len(lam) < MIN_BINNED:
        groups = np.array_split(np.argsort(lam, kind="stable"), max(1, len(lam) // GROUP_SIZE))
    else:
        cell = np.minimum((lam * BINS).astype(np.intp), BINS - 1)
        groups = [np.flatnonzero(cell == number) for number in range(BINS)]
    groups = [group for group in groups if len(group) >= MIN_BIN]
    x, y = ([float(part[group].mean()) for group in groups] for part in (lam, values))
    tips = [
        f"{name}: {mean:.2f} at lambda {weight:.2f} (mean of {count_of(len(group), 'mixed row')})"
        for weight, mean, group in zip(x, y, groups, strict=True)
    ]
    return charts.Curve(x, y, tips, color)


def _label_caption(mixed: MixedSampleStats, names: list[str], first: int, second: int) -> str:
    """Return a sentence about both labels near lambda = 1/2 of the pair whose labels differ most."""
    lam, labels = _labels_of_pair(mixed, first, second)
    middle = np.abs(lam - 0.5) <= 0.15
    text = f"The labels differ most for mixed rows of {names[first]} with {names[second]}."
    if middle.sum() < MIN_BIN:
        return text
    mean, weight = labels[middle].mean(0), float(lam[middle].mean())
    text += (
        f" Near lambda = 1/2 mixup gives {names[first]} {weight:.2f}, {names[second]} {1 - weight:.2f}; GenLabel "
        f"gives {names[first]} {mean[first]:.2f}, {names[second]} {mean[second]:.2f} on average"
    )
    mean[[first, second]] = 0.0
    third = int(mean.argmax())
    return text + (f", {names[third]} {mean[third]:.2f}." if mean[third] >= 0.005 else ".")
