"""Figure 4: softmax regression on three points, plain and with linear, logistic and generative labels."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import plot_regions
from genlabel_paper import theory
from genlabel_paper.paired import EXACT
from genlabel_paper.report.experiment import Experiment, no_cells
from genlabel_paper.report.figures import CLASS_STYLES, COLORS, style_axes
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Rendering, computed
from genlabel_paper.theory import make_example2

Floats = NDArray[np.float64]
STEPS, MAX_STEPS, RATE, FAST_RATE = 1000, 10_000, 0.1, 0.5
"""Gradient descent of vanilla training: steps in the figure, most steps, learning rates; none is printed."""
MUCH = 0.1
"""Fraction of the largest margin that counts as much."""
NEAR = 0.01
"""Fraction of the largest margin that labels of the max-margin classifier may lose."""
TITLES = {
    "vanilla": f"vanilla, {STEPS:,} steps",
    "mixup": "mixup, linear labels",
    "logistic": "mixup, logistic labels",
    "genlabel": "GenLabel",
    "svm": "SVM",
}
LAM = np.linspace(0.0, 1.0, 201)
LIMIT = 8.0
"""End of the axes of a panel."""


def render(records: pd.DataFrame) -> Rendering:
    """Compute the margins of Example 2; no records are needed.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [True, True, None, False, True, False]
    """
    notes = [
        f"Vanilla training has no minimizer, as the points are separable, and the paper prints neither steps nor rate: "
        f"here it is gradient descent from 0 at rate {RATE:g}, {STEPS:,} steps where nothing else is said.",
        "The mixing schemes are at the minimum of the expected loss over all nine pairs and lam uniform on [0, 1]. "
        "The logistic labels have the paper's sigma, 1 / (2 sqrt(5)); with 0.5 the margin is "
        f"{_min_margin('logistic', 0.5):.3f}. GenLabel's Gaussians have the width sqrt(5), which gives the paper's SVM "
        "weights; its margins are the same "
        "for every width.",
        "The margin of class 1 is above 5 where those of classes 2 and 3 are below. A scheme's margin is its smallest. "
        "The caption speaks of the purple class; the text does not say which one that is.",
        "More, and the errata: docs/theory.md.",
    ]
    return Rendering([_grid()], [*_order_claims(), *_label_claims()], [_figure()], notes)


def _printed_svm() -> theory.Example2:
    """Return the SVM with the weights of arXiv Section 3.2: our direction, with another norm."""
    return replace(_solution("svm"), W=theory.example2_printed_weights("svm"))


@cache
def _descent() -> Floats:
    """Return the margins of the classes (MAX_STEPS, 3) after each step of vanilla training."""
    return theory.example2_margins(theory.example2_descent(steps=MAX_STEPS, learning_rate=RATE)[1:])


_steps_to_match = cache(partial(theory.example2_steps_to_match, learning_rate=RATE, max_steps=MAX_STEPS))
_solution = cache(partial(theory.example2_solution, steps=STEPS, learning_rate=RATE))


def _min_margin(scheme: str, sigma: float | None = None) -> float:
    return float(_solution(scheme, sigma=sigma).margins.min())


def _grid() -> Grid:
    margins = {
        f"vanilla, {step:,} step{'s' * (step > 1)}": _descent()[step - 1] for step in (1, 10, 100, STEPS, MAX_STEPS)
    }
    margins |= {TITLES[scheme]: _solution(scheme).margins for scheme in TITLES if scheme != "vanilla"}
    classes = ("class 1 at (-5, 5)", "class 2 at (5, 5)", "class 3 at (-5, -5)")
    rows = [(name, [computed(scheme[c]) for scheme in margins.values()]) for c, name in enumerate(classes)]
    rows += [("smallest", [computed(scheme.min()) for scheme in margins.values()])]
    return Grid("Margins: distance to the nearest boundary", list(margins), rows, "", corner="scheme", digits=3)


def _order_claims() -> list[Claim]:
    """Return the three parts of arXiv Eq. (2)."""
    svm, genlabel, vanilla, mixup = (_min_margin(scheme) for scheme in ("svm", "genlabel", "vanilla", "mixup"))
    later, first = _descent()[1:].min(axis=1), _descent()[0].min()
    return [
        Claim(
            "Eq. (2), first part: GenLabel has the margin of the SVM.",
            "margin(SVM) = margin(GenLabel)",
            f"{svm:.3f} and {genlabel:.3f}, equal to within {EXACT:g}; logistic labels reach "
            f"{_min_margin('logistic'):.3f}",
            abs(svm - genlabel) <= EXACT,
            brief="GenLabel has the SVM's margin",
        ),
        Claim(
            "Eq. (2), second part: GenLabel has a larger margin than vanilla training (or both have the largest).",
            "margin(GenLabel) > margin(vanilla)",
            f"{genlabel:.3f} against {vanilla:.3f} at {STEPS:,} steps, and {later.min():.3f} to {later.max():.3f} from "
            f"step 2 to {MAX_STEPS:,}; the first step alone has {first:.3f} too, and no training has more",
            bool(genlabel > later.max()),
            brief="GenLabel's margin above vanilla's",
        ),
        Claim(
            "Eq. (2), third part: vanilla training has a larger margin than mixup.",
            "margin(vanilla) > margin(mixup)",
            f"it depends on rate and steps, which are not printed: at rate {RATE:g} below mixup's {mixup:.3f} from "
            f"step 2 to {_steps_to_match() - 1:,} and above it from {_steps_to_match():,} on, at rate {FAST_RATE:g} "
            f"above it from step {_steps_to_match(learning_rate=FAST_RATE):,} on",
            None,
            brief="vanilla's margin above mixup's",
        ),
    ]


def _label_claims() -> list[Claim]:
    vanilla, linear, logistic, largest = (_min_margin(name) for name in ("vanilla", "mixup", "logistic", "svm"))
    gap = _printed_svm().scores(LAM)[:, 1] - _solution("logistic").labels(LAM)[:, 1]
    middle, worst = float(abs(gap[len(gap) // 2])), int(np.abs(gap).argmax())
    return [
        Claim(
            f"Mixup with linear labels has a much smaller margin than vanilla training (here: by {MUCH:.0%}).",
            "much smaller",
            f"{linear:.3f} against {vanilla:.3f} at {STEPS:,} steps and {_descent()[-1].min():.3f} at {MAX_STEPS:,}; "
            f"no margin is above {largest:g}, so that it is smaller by {1 - linear / largest:.0%} at most",
            linear < (1.0 - MUCH) * largest,
            brief="linear labels: a much smaller margin",
        ),
        Claim(
            f"Logistic labels lead to the max-margin classifier (here: within {NEAR:.0%} of its margin).",
            "the max-margin classifier",
            f"{logistic:.4f} of {largest:g}, {1 - logistic / largest:.2%} short; vanilla has {vanilla:.3f}",
            logistic >= (1.0 - NEAR) * largest,
            brief="logistic labels: the largest margin",
        ),
        Claim(
            "Between x_2 and x_3 the score of the SVM is the logistic label.",
            "p_2 = y_2 and p_3 = y_3, with p_1 = 0",
            f"p_2 is off by {middle:.3f} at lam = 1/2, where all three scores are 1/3, and by {abs(gap[worst]):.3f} at "
            f"lam = {LAM[worst]:.2f}",
            bool((np.abs(gap) <= EXACT).all()),
            brief="the SVM's score is the logistic label",
        ),
    ]


def _figure() -> CaptionedFigure:
    figure = Figure(figsize=(15.5, 6.3), dpi=DPI, layout="constrained")
    top, bottom = figure.subplots(2, len(TITLES) + 1)
    _plot_data(top[0])
    _plot_steps(bottom[0])
    for place, scheme in enumerate(TITLES, start=1):
        _plot_scheme(top[place], _solution(scheme), f"({'abcdef'[place]}) {TITLES[scheme]}")
        _plot_scores(bottom[place], scheme)
    bottom[1].set_ylabel("probability of each class")
    figure.legend(handles=_key(), loc="outside lower center", ncols=5, frameon=False)
    caption = (
        "Example 2. (a) The points. (b)-(f) The regions of each scheme, and the distance of each point to the nearest "
        f"boundary; vanilla training after {STEPS:,} steps at rate {RATE:g}. (g) The smallest margin of vanilla "
        "training against its steps. (h)-(l) On the line from x_3 to x_2: the scores of each solution (broad) and the "
        "labels that it was fitted to (dashed; in (l) the logistic labels, which the SVM's scores are said to equal). "
        "GenLabel's labels are met exactly, the others cannot be: without a bias all scores are 1/3 at lam = 1/2."
    )
    return CaptionedFigure(caption, figure)


def _plot_points(ax: Axes) -> None:
    X, _ = make_example2()
    for (x, y), (color, marker) in zip(X, CLASS_STYLES, strict=True):
        ax.scatter(x, y, s=75, color=color, marker=marker, edgecolors="black", zorder=5)
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect=1.0, xticks=[-5, 0, 5], yticks=[-5, 0, 5])


def _plot_data(ax: Axes) -> None:
    X, _ = make_example2()
    ax.plot(*X[1:].T, color="#444444", linestyle=":")
    ax.text(0.6, -0.6, "(h)-(l) are on\nthis line", va="top")
    for c, (x, y) in enumerate(X, start=1):
        ax.text(x, y + 1.0, f"$x_{c}$", ha="center", fontsize=11)
    _plot_points(ax)
    style_axes(ax)
    ax.set_title("(a) three points", fontsize=11)


def _plot_scheme(ax: Axes, solution: theory.Example2, title: str) -> None:
    """Plot the regions in the colors of the classes, and the distances to the boundaries of class 1."""
    ax.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect=1.0)
    # Rounded, so that ties on a boundary all go to one class.
    plot_regions(ax, lambda X: (X @ solution.W.T).round(9).argmax(axis=1), solution.X, [0, 1, 2], size=0.0)
    ax.images[0].set_cmap(ListedColormap([to_rgba(color, 0.4) for color, _ in CLASS_STYLES]))
    for label, rival in ((0, 1), (1, 0), (0, 2), (2, 0)):
        normal = solution.boundaries()[min(label, rival), max(label, rival)]
        x = solution.X[label]
        foot = x - (normal @ x) * normal
        ax.plot(*np.column_stack([x, foot]), color="black", linewidth=1.0, linestyle="--")
    for (x, y), margin in zip(solution.X, solution.margins, strict=True):
        place, side = ((x, y + 1.4), "center") if y > 0 else ((x + 0.9, y), "left")
        ax.text(*place, f"{margin:.3f}", ha=side, va="center")
    _plot_points(ax)
    ax.set_title(title, fontsize=11)


def _plot_steps(ax: Axes) -> None:
    steps = np.unique(np.geomspace(1, MAX_STEPS, 120).round().astype(int))
    least, match = _descent().min(axis=1)[steps - 1], _steps_to_match()
    ax.plot(steps, least, color=COLORS["vanilla"], linewidth=2.0)
    ax.axhline(_min_margin("mixup"), color=COLORS["mixup"], linewidth=2.0)
    ax.axhline(_min_margin("genlabel"), color=COLORS["genlabel"], linewidth=2.0)
    ax.axhline(_min_margin("svm"), color=COLORS["svm"], linewidth=2.0, linestyle="--")
    ax.plot(match, _min_margin("mixup"), "o", color=COLORS["vanilla"], markersize=6, zorder=5)
    ax.text(1.0, 5.02, "SVM = GenLabel", color=COLORS["genlabel"], va="bottom")
    ax.text(20.0, 4.72, "linear labels", color=COLORS["mixup"], va="bottom")
    ax.text(20.0, 4.37, "vanilla", color=COLORS["vanilla"], va="bottom")
    ax.text(match, 4.76, f"step\n{match:,}", ha="center", va="bottom")
    ax.set(xscale="log", xlabel="steps of vanilla training", ylabel="smallest margin", ylim=(4.3, 5.15))
    ax.set_title("(g) margin against steps", fontsize=10)
    style_axes(ax)


def _plot_scores(ax: Axes, scheme: str) -> None:
    """Plot scores (broad) and labels (dashed) from x_3 to x_2; the SVM has the logistic labels for comparison."""
    place = list(TITLES).index(scheme)
    solution = _printed_svm() if scheme == "svm" else _solution(scheme)
    labelled = _solution("logistic") if scheme == "svm" else solution
    for c, (color, _) in enumerate(CLASS_STYLES):
        ax.plot(LAM, solution.scores(LAM)[:, c], color=color, linewidth=4.0, alpha=0.6)
        if scheme != "vanilla":
            ax.plot(LAM, labelled.labels(LAM)[:, c], color="#333333", linestyle=(0, (3, 2)), linewidth=1.2)
    titles = ("vanilla: scores", "linear: labels, scores", "logistic: labels, scores", "GenLabel: labels = scores")
    ax.set_title(f"({'hijkl'[place]}) {(*titles, 'SVM scores, logistic labels')[place]}", fontsize=10)
    ax.set(xlabel="$\\lambda$", xticks=[0, 0.5, 1], ylim=(-0.05, 1.05))
    style_axes(ax)


def _key() -> list[Line2D]:
    """Return the legend of colors and lines."""
    broad: dict[str, Any] = {"linewidth": 4.0, "alpha": 0.8, "markeredgecolor": "black"}
    key = [
        Line2D([], [], color=c, marker=m, label=f"class {i}", **broad) for i, (c, m) in enumerate(CLASS_STYLES, start=1)
    ]
    key += [Line2D([], [], color="#aaaaaa", linewidth=4.0, label="score p of the class (h-l)")]
    return [*key, Line2D([], [], color="#333333", linestyle=(0, (3, 2)), label="label y of the class (h-l)")]


EXPERIMENT = Experiment(
    "figure4",
    "Linear, logistic and generative labels on three points",
    "arXiv Figure 4, Example 2, Section 3.2, Eq. (2)",
    no_cells,
    render,
    section="toys",
)
