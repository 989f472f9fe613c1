"""Figure 13: GenMix+GAN on V, Ket and Y: training points, added points, and the regions of the network."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from genlabel._validation import check_choice
from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import plot_points
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score
from genlabel_paper.report.genmix import (
    METRICS,
    first_records,
    genmix_grid,
    plot_added_points,
    plot_recorded_regions,
    select_genmix_records,
)
from genlabel_paper.report.results import NOTHING_MEASURED, CaptionedFigure, Claim, Rendering
from genlabel_paper.report.statements import PairedMeans, above, judge
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS
from genlabel_paper.runs.settings import SETTINGS

SETS = ["v", "ket", "y"]
ROWS = ["vanilla", "mixup", "genmix-gan"]
TRIALS = {"smoke": 1, "quick": 2, "full": 5}
BRIEF = "larger margins than vanilla and mixup"
NOTES = (
    "The geometry of V, Ket and Y is not given; ours: two strokes, a bar and an angle, three strokes, 300 points of "
    "each class evenly spaced along its stroke, Laplace noise 0.03.",
    "The paper prints no number here. The figure shows the first trial.",
)


def cells(budget: str) -> list[Cell]:
    """Return vanilla training, mixup and GenMix+GAN on the three datasets.

    >>> len(cells("smoke"))
    9
    """
    check_choice("budget", budget, BUDGETS)
    return make_trials("genmix", SETS, [(row, 1.0) for row in ROWS], TRIALS[budget])


def render(records: pd.DataFrame) -> Rendering:
    """Show accuracy, margins and how near to halfway the added points are; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = select_genmix_records(records, SETS)
    grids = [genmix_grid(chosen, SETS, ROWS[-1:] if metric.startswith("equi") else ROWS, metric) for metric in METRICS]
    first = first_records(chosen)
    notes = [f"{SETTINGS['genmix'].about}.", coverage(chosen, SETS, ROWS), *NOTES]
    figures = [_figure(first)] if all((name, "genmix-gan") in first for name in SETS) else []
    return Rendering(grids, [_claim(chosen)], figures, notes)


def _claim(records: pd.DataFrame) -> Claim:
    """Return the claim that the smallest margin of GenMix+GAN is the largest, on all datasets."""
    text = (
        "GenMix+GAN has a larger smallest margin than vanilla training and mixup on V, Ket and Y (here: in the mean "
        "over trials; the paper shows its own boundaries only)."
    )
    quote = "equiprobable points help the trained model to enjoy large margins in all datasets"
    scores = {name: [mean_score(records, name, row, "smallest_margin") for row in ROWS] for name in SETS}
    if any(value is None for values in scores.values() for value in values):
        return Claim(text, quote, NOTHING_MEASURED, None, full=TRIALS["full"], brief=BRIEF)
    means = {name: [value.mean for value in values if value] for name, values in scores.items()}
    words = [
        f"{GENMIX_DATASETS[name].title}: {ours:.3g} against {vanilla:.3g} (vanilla) and {mixup:.3g} (mixup)"
        for name, (vanilla, mixup, ours) in means.items()
    ]
    holds, interval = judge(
        above("genmix-gan", ("vanilla", "mixup")), PairedMeans(records, SETS, "smallest_margin"), SETS
    )
    trials = min(value.seeds for values in scores.values() for value in values if value)
    return Claim(text, quote, "; ".join([*words, interval]), holds, trials, full=TRIALS["full"], brief=BRIEF)


def _figure(first: dict[tuple[str, str], dict[str, Any]]) -> CaptionedFigure:
    """Plot a row for each dataset: training points, added points, regions."""
    figure = Figure(figsize=(9.6, 9.6), dpi=DPI, layout="constrained")
    for axes, name in zip(figure.subplots(3, 3), SETS, strict=True):
        record = first[name, "genmix-gan"]
        data = GENMIX_DATASETS[name].load(0)
        plot_added_points(axes[1], record, data.X, data.y)
        plot_recorded_regions(axes[2], record, data.X, data.y)
        plot_points(axes[0], data.X, data.y, size=3.0)
        axes[0].set(xlim=axes[1].get_xlim(), ylim=axes[1].get_ylim(), aspect=1.0, ylabel=GENMIX_DATASETS[name].title)
        axes[0].tick_params(labelsize=8)
        axes[1].legend(fontsize=7, loc="upper center", markerscale=2, frameon=True, handletextpad=0.1)
        axes[2].set_xlabel(f"smallest margin {record['smallest_margin']:.2g}", fontsize=9)
    for ax, title in zip(figure.axes[:3], ("training points", "added points", "decision regions"), strict=True):
        ax.set_title(f"({'abc'[figure.axes.index(ax)]}) {title}", fontsize=11)
    caption = (
        "GenMix+GAN on V, Ket and Y. (a) Training points, colored by class. (b) With the added points, colored by "
        "their pair of classes. (c) Decision regions of the network that was trained on both."
    )
    return CaptionedFigure(caption, figure)


EXPERIMENT = Experiment(
    "figure13",
    "GenMix + GAN on V, Ket and Y",
    "arXiv Figure 13, Section F.5",
    cells,
    render,
    section="genmix",
)
