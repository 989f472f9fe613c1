"""Figure 2: three points on a line, and the margin that mixup loses by intrusion on the middle one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from genlabel.reporting.charts import DPI
from genlabel_paper.paired import EXACT
from genlabel_paper.report.experiment import Experiment, no_cells
from genlabel_paper.report.figures import CLASS_STYLES, COLORS, style_axes
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Printed, Rendering, computed
from genlabel_paper.theory import example1_loss, example1_margin, example1_prediction, example1_theta, make_example1

PAPER = {
    ("mixup", "margin"): Printed(7 / 16, min_difference=1e-6),
    ("mixup-without-mi", "margin"): Printed(1 / 2, min_difference=1e-6),
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mixup": ("mixup", {}),
    "mixup, L_3 as printed": ("mixup", {"as_printed": True}),
    "mixup without MI": ("mixup-without-mi", {}),
    "GenLabel": ("genlabel", {}),
    "GenLabel, -1 and +1 keep label 1": ("genlabel", {"same_class": "keep"}),
}
"""Schemes with options; GenLabel has the labels of narrow densities, the class of the nearest point."""
DRAWN = ("mixup", "mixup, L_3 as printed", "mixup without MI", "GenLabel")
FRACTIONS = {"mixup": "3/8", "mixup, L_3 as printed": "7/16", "mixup without MI": "1/2", "GenLabel": "√3/4"}


def render(records: pd.DataFrame) -> Rendering:
    """Compute the margins of Example 1; no records are needed.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [False, True, True]
    """
    notes = [
        "The margin is min(theta, 1 - theta) at the theta* of the least squared error, lam uniform on [0, 1]. "
        "All of it is in closed form.",
        "The paper's 7/16 is of a loss whose third term L_3, that of the pair of -1 and +1, counts one coordinate of "
        "the label where L_1 and L_2 count both. With the loss as it is defined, theta* is 3/8.",
        "GenLabel is not in this example of the paper. Its labels in the limit of narrow densities are a step that "
        "f_theta cannot follow, so that it wins back most of the margin but not all.",
        "More, and the errata: docs/theory.md.",
    ]
    return Rendering([_grid()], _claims(), [_figure()], notes)


def _grid() -> Grid:
    """Minimiser, margin and least loss of each scheme."""
    cases = list(CASES.values())
    printed = [PAPER.get((scheme, "margin")) for scheme, _ in cases]
    margins = [
        computed(example1_margin(name, **options), paper) for (name, options), paper in zip(cases, printed, strict=True)
    ]
    rows = [
        ("theta*", [computed(example1_theta(scheme, **options)) for scheme, options in cases]),
        ("margin", margins),
        (
            "least loss",
            [computed(example1_loss(name, example1_theta(name, **options), **options)) for name, options in cases],
        ),
    ]
    return Grid("Where the loss is least", list(CASES), rows, "", corner="scheme", digits=4)


def _claims() -> list[Claim]:
    mixup, printed, without = (_margin(name) for name in DRAWN[:3])
    return [
        Claim(
            "The margin of mixup is 7/16.",
            "7/16 = 0.4375",
            f"{mixup:.4f} (3/8) with the loss as defined, {printed:.4f} with L_3 as printed",
            abs(mixup - PAPER["mixup", "margin"].mean) <= EXACT,
            brief="mixup's margin is 7/16",
        ),
        Claim(
            "The margin of mixup without manifold intrusion is 1/2, the largest there is.",
            "1/2",
            f"{without:.4f}; without the pair of -1 and +1 the loss is 0 there",
            abs(without - PAPER["mixup-without-mi", "margin"].mean) <= EXACT,
            brief="1/2 without intrusion",
        ),
        Claim(
            "Manifold intrusion reduces the margin of mixup.",
            "from 1/2 to 7/16",
            f"from {without:.4f} to {mixup:.4f}, twice as much as printed",
            mixup < without,
            brief="intrusion reduces the margin",
        ),
    ]


def _margin(name: str) -> float:
    scheme, options = CASES[name]
    return example1_margin(scheme, **options)


def _style(name: str) -> dict[str, Any]:
    """Return the line style of a case; dashed if as printed."""
    return {"color": COLORS[CASES[name][0]], "linestyle": "--" if "printed" in name else "-", "linewidth": 2.0}


def _figure() -> CaptionedFigure:
    figure = Figure(figsize=(11.0, 7.2), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, 2, height_ratios=[0.8, 1.0]).ravel()
    for ax, draw in zip(axes, (_plot_data, _plot_classifier, _plot_labels, _plot_losses), strict=True):
        draw(ax)
        style_axes(ax)
    axes[0].spines["left"].set_visible(False)
    axes[0].grid(visible=False)
    caption = (
        "Example 1. (a) The points, and the pairs that mixup mixes. (b) The classifier at three theta*; it says 1/2 at "
        "|x| = theta*. (c) The labels of the mixed points: the pair of -1 and +1 puts class 1 on the point of class 2. "
        "(d) The loss against theta and its minima; the margin of each is its theta*."
    )
    return CaptionedFigure(caption, figure)


def _plot_points(ax: Axes, heights: Sequence[float]) -> None:
    """Plot the three points at these heights, in the colors of their classes."""
    X, y = make_example1()
    for label, (color, marker) in enumerate(CLASS_STYLES[:2]):
        inside = y == label
        ax.scatter(
            X[inside, 0], np.asarray(heights)[inside], s=110, color=color, marker=marker, zorder=5, edgecolors="black"
        )


def _plot_data(ax: Axes) -> None:
    ax.axhline(0.0, color="#444444", linewidth=1.0, zorder=0)
    _plot_points(ax, [0.0, 0.0, 0.0])
    for x, words in ((-1, "$x_1 = -1$\nclass 1"), (0, "$x_2 = 0$\nclass 2"), (1, "$x_3 = +1$\nclass 1")):
        ax.text(x, -0.17, words, ha="center", va="top")
    t = np.linspace(-1.0, 1.0, 101)
    ax.plot(t, 0.1 + 0.95 * (1 - t**2), color=COLORS["mixup"], linewidth=1.5)
    ax.text(0.0, 1.1, "the pair that intrudes", ha="center", color=COLORS["mixup"])
    for centre in (-0.5, 0.5):
        ax.plot(centre + t / 2, 0.1 + 0.4 * (1 - t**2), color="#444444", linewidth=1.5)
        ax.text(centre, 0.42, "pair", ha="center", va="top")
    ax.set(xlim=(-1.35, 1.35), ylim=(-0.65, 1.35), yticks=[], xticks=[-1, -0.5, 0, 0.5, 1], xlabel="x")
    ax.set_title("(a) three points, two classes, three pairs")


def _plot_classifier(ax: Axes) -> None:
    x = np.linspace(-1.0, 1.0, 401)
    for name in DRAWN[:3]:
        theta = example1_theta(CASES[name][0], **CASES[name][1])
        label = f"$\\theta$ = {FRACTIONS[name]}: {name.replace('L_3', '$L_3$')}"
        ax.plot(x, example1_prediction(x, theta), label=label, **_style(name))
        ax.plot([-theta, theta], [0.5, 0.5], "o", color=_style(name)["color"], markersize=5)
    ax.axhline(0.5, color="#444444", linewidth=0.9, linestyle=":")
    _plot_points(ax, [1.0, 0.0, 1.0])
    ax.set(xlabel="x", ylabel="predicted share of class 1", ylim=(-0.08, 1.62), yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set_title("(b) classifier $f_\\theta(x) = \\min(|x| / 2\\theta, 1)$")
    ax.legend(loc="upper center", fontsize=9, frameon=False)


def _plot_labels(ax: Axes) -> None:
    x = np.linspace(0.0, 1.0, 11)
    nearest = [-1, -0.5, -0.5, 0.5, 0.5, 1], [1, 1, 0, 0, 1, 1]
    ax.plot(*nearest, label="GenLabel, all pairs (limit)", **_style("GenLabel"))
    for sign in (-1.0, 1.0):
        label = "mixup, pairs of two classes" if sign > 0 else None
        ax.plot(sign * x, x, "o", color="#444444", markersize=5, label=label)
    ax.plot(2.0 * x - 1.0, np.ones(11), "o", color=COLORS["mixup"], markersize=6, label="mixup, pair of $-1$ and $+1$")
    _plot_points(ax, [1.0, 0.0, 1.0])
    ax.annotate("", (0.0, 0.07), (0.0, 0.95), arrowprops={"arrowstyle": "<->", "color": "black", "linewidth": 1.3})
    ax.text(0.04, 0.8, "label conflict\nat x = 0", va="center")
    ax.set(xlabel="mixed point x", ylabel="label: share of class 1", ylim=(-0.08, 1.4), yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set_title("(c) labels of the mixed points")
    ax.legend(loc="upper center", fontsize=9, ncols=2, frameon=False)


def _plot_losses(ax: Axes) -> None:
    theta = np.linspace(0.2, 0.7, 101)
    for name in DRAWN:
        scheme, options = CASES[name]
        best = example1_theta(scheme, **options)
        least = example1_loss(scheme, best, **options)
        ax.plot(theta, [example1_loss(scheme, one, **options) for one in theta], label=name, **_style(name))
        ax.plot(best, least, "o", color=_style(name)["color"], markersize=8, markeredgecolor="black", zorder=5)
        ax.annotate(FRACTIONS[name], (best, least), (0, 8), textcoords="offset points", ha="center")
    ax.set(xlabel="$\\theta$", ylabel="squared error, summed over the pairs", ylim=(-0.05, 1.15), xlim=(0.2, 0.7))
    ax.set_title("(d) loss; at its minimum, $\\theta$* is the margin")
    names = [name.replace("L_3", "$L_3$") for name in DRAWN]
    ax.legend(ax.get_lines()[::2], names, loc="upper center", fontsize=9, ncols=2, frameon=False)


EXPERIMENT = Experiment(
    "figure2",
    "Manifold intrusion and the margin of mixup on three points",
    "arXiv Figure 2, Example 1, Section 3.1",
    no_cells,
    render,
    PAPER,
    section="toys",
)
