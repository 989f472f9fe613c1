"""Sections of the plane: rows and mixed samples in two dimensions, and decision regions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray
from scipy.linalg import eigh

from genlabel._arrays import Standardization
from genlabel._text import count_of
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats, format_label
from genlabel.evaluation.diagnosis.paired_experiment import NO_MIXING, DecisionRegions
from genlabel.reporting.charts import GRAY, PAGE_WIDTH, PALETTE, finish_axes, new_figure, plain_text, wrap_text
from genlabel.reporting.html import name_of, percent
from genlabel.reporting.report.data import Chart, ReportSection
from genlabel.reporting.svg import DECORATION, set_tips

MAX_LOOKS = 2 * len(PALETTE)
"""Classes that differ by color or shape; further ones share the last look."""
MAX_POINTS, MAX_MIXED = 4500, 160
SHRINKAGE = 0.1
"""Shrinkage of the covariance within the classes towards a multiple of the identity."""
LEGEND_LINE = 0.2
"""Inches of a line of a legend."""
MAX_TITLE = 40
"""Characters of a line of the title of an axis."""
MIN_LOADING = 0.5
"""A feature is named along a direction if its weight is at least this share of the largest one."""
DEFAULT_NAMES = ["first feature", "second feature"]
MINUS = "\N{MINUS SIGN}"

Values = NDArray[np.float64]


def projection_section(diagnosis: Diagnosis, mixed: MixedSampleStats, features: list[str] | None) -> ReportSection:
    """Return the section with rows and mixed samples of at least two features."""
    points, titles, method = _project_rows(mixed, features)
    chosen = _choose_mixed(mixed)
    first, second, lam = (part[chosen] for part in mixed.samples.pairs)
    mixed_points = lam[:, None] * points[first] + (1 - lam[:, None]) * points[second]
    samples = mixed.samples
    linear, generated = (labels[chosen].argmax(1) for labels in (samples.linear_labels, samples.density_labels))
    n_third = int(((generated != mixed.class_index[first]) & (generated != mixed.class_index[second])).sum())
    rows = _subsample(len(points), MAX_POINTS)
    omitted = "" if len(rows) == len(points) else f" {len(rows)} of {len(points)} rows are drawn."
    third_class = f"; on {n_third} GenLabel's class is that of neither parent"
    third_class = third_class if len(diagnosis.classes) > 2 else ""
    caption = (
        "Discs are mixed rows of two classes, as mixup draws them. The labels differ on the large ones: the left "
        "half has the color of the top class of mixup's label, the right half that of GenLabel's. "
        f"They differ on {int((linear != generated).sum())} of {len(chosen)}{third_class}. {method}{omitted}"
    )
    figure, names = new_figure(PAGE_WIDTH, 4.0), diagnosis.classes.tolist()
    ax = figure.subplots()
    draw_classes(ax, points[rows], mixed.class_index[rows], len(names), 4.0, alpha=0.5)
    draw_halves(ax, mixed_points, linear, generated, [_tip(diagnosis, mixed, int(number)) for number in chosen])
    ax.set(xlabel=wrap_text(plain_text(titles[0]), MAX_TITLE), ylabel=wrap_text(plain_text(titles[1]), MAX_TITLE))
    ax.autoscale_view()
    finish_axes(ax, grid="both")
    add_class_legend(figure, names)
    chart = Chart(figure, "Rows and mixed rows", caption)
    return ReportSection("projection", "Rows and mixed rows in the plane", [chart])


def region_section(
    diagnosis: Diagnosis, mixed: MixedSampleStats, decisions: DecisionRegions, features: list[str] | None
) -> ReportSection:
    """Return the section with the decision regions of two features."""
    names, (x, y, regions) = diagnosis.classes.tolist(), decisions
    rows = _subsample(len(mixed.points), MAX_POINTS // 4)
    others = {name: cells for name, cells in regions.items() if name != NO_MIXING}
    shares = {name: float((cells != regions[NO_MIXING]).mean()) for name, cells in others.items()}
    differences = ", ".join(f"{name} differs from {NO_MIXING} on {percent(share)}" for name, share in shares.items())
    caption = f"Predicted class over the plane. Of the plane shown, {differences}."
    x_title, y_title = features or DEFAULT_NAMES
    n_lines = -(-len(regions) // 2)  # two panels a line
    figure = new_figure(PAGE_WIDTH, 0.6 + 2.0 * n_lines)
    axes = figure.subplots(n_lines, 2, sharex=True, sharey=True, squeeze=False)
    for ax, (name, predicted) in zip(axes.flat, regions.items(), strict=False):
        draw_regions(ax, x, y, predicted)
        draw_classes(ax, mixed.points[rows], mixed.class_index[rows], len(names), 2.8)
        finish_axes(ax, name, grid=None)
    for ax in axes[-1]:
        ax.set_xlabel(plain_text(x_title, 24))
    for ax in axes[:, 0]:
        ax.set_ylabel(plain_text(y_title, 24))
    add_class_legend(figure, names)
    return ReportSection("regions", "Decision regions", [Chart(figure, "Decision regions of the models", caption)])


def discriminant_directions(points: Values, index: NDArray[np.intp]) -> tuple[Values, float]:
    """Return the two directions (d, 2) along which the classes differ most, and the share of the difference they show.

    They are Fisher's discriminants with a shrunken covariance; with two classes the second direction is the one of the
    largest variance orthogonal to the scores of the first. The features (n, d) are standardized.
    """
    k, d = int(index.max()) + 1, points.shape[1]
    means = np.stack([points[index == c].mean(0) for c in range(k)])
    offsets, residuals = means - points.mean(0), points - means[index]
    within = residuals.T @ residuals / len(points)
    within = (1 - SHRINKAGE) * within + SHRINKAGE * max(float(np.trace(within)) / d, 1e-9) * np.eye(d)
    between = offsets.T * np.bincount(index) @ offsets / len(points)
    variances, vectors = eigh(between, within)
    variances, directions = variances[::-1], vectors[:, :-3:-1].copy()
    if k == 2:
        scores = points @ directions[:, 0]
        rest = points - np.outer(scores, points.T @ scores) / max(float(scores @ scores), 1e-12)
        directions[:, 1] = np.linalg.svd(rest - rest.mean(0), full_matrices=False)[2][0]
    largest = np.abs(directions).argmax(0)
    share = float(variances[:2].sum() / max(float(variances.sum()), 1e-12))
    return directions * np.sign(directions[largest, [0, 1]]), min(1.0, share)


def _project_rows(mixed: MixedSampleStats, names: list[str] | None) -> tuple[Values, list[str], str]:
    """Return the rows in two dimensions (n, 2), the titles of the axes, and a sentence about the method."""
    if mixed.points.shape[1] == 2:
        return mixed.points, names or DEFAULT_NAMES, ""
    points = Standardization.fit(mixed.points, keep_constant=True)(mixed.points)
    directions, share = discriminant_directions(points, mixed.class_index)
    titles = []
    for number, direction in enumerate(directions.T, 1):
        weight = np.abs(direction)
        largest = [i for i in np.argsort(-weight, kind="stable")[:3] if weight[i] >= MIN_LOADING * weight.max()]
        features = [f"{'' if direction[i] > 0 else MINUS}{name_of(names[i], 24)}" for i in largest] if names else []
        titles.append(f"direction {number}" + (f", mostly {', '.join(features)}" if features else ""))
    k = int(mixed.class_index.max()) + 1
    shown = (
        "The first direction is that along which the two classes differ most, the second that of the largest variance"
        if k == 2
        else f"The two directions show {percent(share, 0)} of the differences of the {k} classes"
    )
    method = f"{shown}; the labels were used to find them, so classes look further apart than they are for a new row."
    return points @ directions, titles, method


def _subsample(n: int, size: int) -> NDArray[np.intp]:
    """Return at most `size` indices of n rows, drawn with a fixed seed."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _choose_mixed(mixed: MixedSampleStats) -> NDArray[np.intp]:
    """Return indices of mixed samples of different classes, drawn as often as mixup draws their pairs."""
    first, second = (mixed.class_index[rows] for rows in mixed.samples.pairs[:2])
    counts = np.bincount(mixed.class_index).astype(np.float64)
    pair = first * len(counts) + second
    of_pair = np.bincount(pair)[pair]
    weight = np.where(first != second, counts[first] * counts[second] / of_pair, 0.0)
    size = min(MAX_MIXED, int((weight > 0).sum()))
    return np.random.default_rng(0).choice(len(weight), size, replace=False, p=weight / weight.sum())


def _tip(diagnosis: Diagnosis, mixed: MixedSampleStats, number: int) -> str:
    """Return the parents and both labels of a mixed sample."""
    samples, names = mixed.samples, [name_of(name) for name in diagnosis.classes]
    *parents, lam = (part[number] for part in samples.pairs)
    first, second = (f"row {mixed.rows[row]} ({names[mixed.class_index[row]]})" for row in parents)
    labels = (samples.linear_labels[number], samples.density_labels[number])
    linear, generated = (format_label(label, names) for label in labels)
    return f"{lam:.2f} of {first}, {1 - lam:.2f} of {second}\nmixup: {linear}\nGenLabel: {generated}"


def draw_classes(ax: Axes, points: Values, index: NDArray[np.intp], k: int, size: float, alpha: float = 1.0) -> None:
    """Draw points (n, 2) as one path for each class: discs of eight colors, then squares of the same colors.

    A point is a line of no length with a round or square end, which is the smallest SVG that draws it.
    """
    span = 1e-6 * (float(np.ptp(points[:, 0])) or 1.0)
    for c in range(k):
        of_class = points[index == c]
        if len(of_class):
            ends = np.stack([of_class, of_class + np.array([span, 0.0])], axis=1).reshape(-1, 2)
            path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(of_class)))
            path.should_simplify = False
            square = len(PALETTE) <= c < MAX_LOOKS
            look = {"edgecolor": class_color(c), "linewidth": size * (0.8 if square else 1.0), "alpha": alpha}
            ax.add_patch(PathPatch(path, fill=False, capstyle="projecting" if square else "round", **look))


def draw_halves(ax: Axes, points: Values, left: NDArray[np.intp], right: NDArray[np.intp], tips: Sequence[str]) -> None:
    """Draw points (m, 2) as discs whose halves have the colors of two classes; small discs where both are the same."""
    (x, y), different = points.T, left != right
    for chosen, size in ((~different, 24.0), (different, 75.0)):
        if chosen.any():
            colors = [class_color(c) for c in right[chosen]]
            discs = ax.scatter(x[chosen], y[chosen], s=size, c=colors, edgecolors="white", linewidths=0.6, zorder=3)
            set_tips(discs, list(compress(tips, chosen)))
    if different.any():
        colors = [class_color(c) for c in left[different]]
        wedge = Path.wedge(90, 270)
        halves = ax.scatter(x[different], y[different], s=75.0, c=colors, marker=wedge, linewidths=0, zorder=3.1)
        halves.set_gid(DECORATION)


def draw_regions(ax: Axes, x: Values, y: Values, regions: NDArray[np.intp]) -> None:
    """Fill the cells (b, a) of the plane, with edges x (a + 1,) and y (b + 1,), in the pale colors of their classes."""
    for c in np.unique(regions):
        vertices = []
        for row, line in enumerate(regions == c):
            runs = np.flatnonzero(np.diff(np.pad(line, 1))).reshape(-1, 2)  # start and end of each run of cells
            for start, end in runs:
                (left, right), (low, high) = (x[start], x[end]), (y[row], y[row + 1])
                vertices += [(left, low), (right, low), (right, high), (left, high), (left, low)]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(vertices) // 5)
        ax.add_patch(PathPatch(Path(vertices, codes), facecolor=class_color(int(c)), alpha=0.28, linewidth=0))
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def add_class_legend(figure: Figure, names: Sequence[str]) -> None:
    """Add a legend of the classes at the top, and room for it; those that share a look are one entry."""
    looks = [("s" if c >= len(PALETTE) else "o", plain_text(name, 16)) for c, name in enumerate(names[:MAX_LOOKS])]
    if len(names) > MAX_LOOKS:
        looks.append(("o", count_of(len(names) - MAX_LOOKS, "other class")))
    handles = [
        Line2D([], [], marker=marker, linewidth=0, color=class_color(c), label=label)
        for c, (marker, label) in enumerate(looks)
    ]
    n_columns = min(4, max(2, 36 // (4 + max(len(name) for _, name in looks[:MAX_LOOKS]))))
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * (-(-len(looks) // n_columns) - 1))
    figure.legend(handles=handles, loc="outside upper left", ncols=n_columns, frameon=False, fontsize=9)


def class_color(c: int) -> str:
    """Return the color of a class by its index."""
    return PALETTE[c % len(PALETTE)] if c < MAX_LOOKS else GRAY
