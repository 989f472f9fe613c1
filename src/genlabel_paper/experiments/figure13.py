"""Figure 13: GenMix+GAN on V, Ket and Y: training points, added points, and the regions of the network."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from genlabel._validation import check_choice
from genlabel.reporting.figures import DPI, plot_points
from genlabel_paper.report.experiment import Experiment, measured
from genlabel_paper.report.genmix import METRICS, draw_added, draw_regions, first_records, genmix_grid, of_genmix
from genlabel_paper.report.pieces import NOTHING, Claim, Picture, Shown
from genlabel_paper.report.selected import extent
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix_sets import GENMIX_SETS
from genlabel_paper.runs.settings import SETTINGS

SETS = ["v", "ket", "y"]
ROWS = ["vanilla", "mixup", "genmix-gan"]
TRIALS = {"smoke": 1, "quick": 2, "full": 5}
BRIEF = "larger margins than vanilla and mixup"
NOTES = (
    "The geometry of V, Ket and Y is not given; ours: two strokes, a bar and an angle, three strokes, 300 points of "
    "each class evenly spaced along its stroke, Laplace noise 0.03.",
    "The paper prints no number here. The picture is of the first trial, from what is on record.",
)


def cells(budget: str) -> list[Cell]:
    """Return vanilla training, mixup and GenMix+GAN on the three sets.

    >>> len(cells("smoke"))
    9
    """
    check_choice("budget", budget, BUDGETS)
    return make_trials("genmix", SETS, [(row, 1.0) for row in ROWS], TRIALS[budget])


def render(records: pd.DataFrame) -> Shown:
    """Show accuracy, margins and how near to half way the added points are; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = of_genmix(records, SETS)
    grids = [genmix_grid(chosen, SETS, ROWS[-1:] if metric.startswith("equi") else ROWS, metric) for metric in METRICS]
    first = first_records(chosen)
    notes = [f"{SETTINGS['genmix'].about}.", extent(chosen, SETS, ROWS), *NOTES]
    pictures = [_picture(first)] if all((name, "genmix-gan") in first for name in SETS) else []
    return Shown(grids, [_claim(chosen)], pictures, notes)


def _claim(records: pd.DataFrame) -> Claim:
    """Whether the smallest margin of GenMix+GAN is larger than those of the others, on all sets."""
    text = (
        "GenMix+GAN has a larger smallest margin than vanilla training and mixup on V, Ket and Y (here: in the mean "
        "over trials; the paper shows its own boundaries only)."
    )
    said = "equiprobable points help the trained model to enjoy large margins in all datasets"
    found = {name: [measured(records, name, row, "smallest_margin") for row in ROWS] for name in SETS}
    if any(value is None for values in found.values() for value in values):
        return Claim(text, said, NOTHING, None, full=TRIALS["full"], brief=BRIEF)
    means = {name: [value.mean for value in values if value] for name, values in found.items()}
    words = [
        f"{GENMIX_SETS[name].title}: {ours:.3g} against {vanilla:.3g} (vanilla) and {mixup:.3g} (mixup)"
        for name, (vanilla, mixup, ours) in means.items()
    ]
    holds = all(ours > max(vanilla, mixup) for vanilla, mixup, ours in means.values())
    trials = min(value.seeds for values in found.values() for value in values if value)
    return Claim(text, said, "; ".join(words), holds, trials, full=TRIALS["full"], brief=BRIEF)


def _picture(first: dict[tuple[str, str], dict[str, Any]]) -> Picture:
    """A line for each set: training points, added points, regions."""
    figure = Figure(figsize=(9.6, 9.6), dpi=DPI, layout="constrained")
    for axes, name in zip(figure.subplots(3, 3), SETS, strict=True):
        record = first[name, "genmix-gan"]
        parts = GENMIX_SETS[name].load(0)
        draw_added(axes[1], record, parts.X, parts.y)
        draw_regions(axes[2], record, parts.X, parts.y)
        plot_points(axes[0], parts.X, parts.y, size=3.0)
        axes[0].set(xlim=axes[1].get_xlim(), ylim=axes[1].get_ylim(), aspect=1.0, ylabel=GENMIX_SETS[name].title)
        axes[0].tick_params(labelsize=8)
        axes[1].legend(fontsize=7, loc="upper center", markerscale=2, frameon=True, handletextpad=0.1)
        axes[2].set_xlabel(f"smallest margin {record['smallest_margin']:.2g}", fontsize=9)
    for ax, title in zip(figure.axes[:3], ("training points", "added points", "decision regions"), strict=True):
        ax.set_title(f"({'abc'[figure.axes.index(ax)]}) {title}", fontsize=11)
    caption = (
        "GenMix+GAN on V, Ket and Y. (a) Training points, coloured by class. (b) With the added points, coloured by "
        "their pair of classes. (c) Decision regions of the network that was trained on both."
    )
    return Picture(caption, figure)


EXPERIMENT = Experiment(
    "figure13",
    "GenMix + GAN on V, Ket and Y",
    "arXiv Figure 13, Section F.5",
    cells,
    render,
    part="genmix",
)
