"""Figure 15: points of GenMix+GAN on Moon that are halfway in the L1, L2 and Linf norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from genlabel._validation import check_choice
from genlabel.reporting.charts import DPI
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score
from genlabel_paper.report.genmix import (
    AXES,
    METRICS,
    first_records,
    genmix_grid,
    plot_added_points,
    select_genmix_records,
)
from genlabel_paper.report.results import NOTHING_MEASURED, CaptionedFigure, Claim, Rendering
from genlabel_paper.report.statements import PairedMeans
from genlabel_paper.report.verdicts import CREDIT, central_interval, decide
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.curves import curve_distances
from genlabel_paper.runs.genmix import HALFWAY_TOLERANCE
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS
from genlabel_paper.runs.settings import SETTINGS

DATASET = "moon"
NORMS = {"genmix-gan-l1": "l1", "genmix-gan": "l2", "genmix-gan-linf": "linf"}
SIGNS = {"l1": "$L_1$", "l2": "$L_2$", "linf": "$L_\\infty$"}
TRIALS = {"smoke": 1, "quick": 2, "full": 5}
BRIEF = "points halfway in each norm"
NOTES = (
    "Moon: 1,000 points, Laplace noise 0.03; the true curves are two half circles of radius 1. The GAN sees the points "
    "only; distances to the true curves are measured in the norm of the row.",
    "The paper prints no number here. The figure shows the first trial.",
)


def cells(budget: str) -> list[Cell]:
    """Return GenMix+GAN on Moon in the three norms.

    >>> [cell.method for cell in cells("smoke")]
    ['genmix-gan-l1', 'genmix-gan', 'genmix-gan-linf']
    """
    check_choice("budget", budget, BUDGETS)
    return make_trials("genmix", [DATASET], [(row, 1.0) for row in NORMS], TRIALS[budget])


def render(records: pd.DataFrame) -> Rendering:
    """Show how near to halfway the points are, and plot the recorded ones; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = select_genmix_records(records, [DATASET])
    chosen = chosen[chosen["method"].isin(list(NORMS))]
    grids = [genmix_grid(chosen, [DATASET], list(NORMS), metric) for metric in METRICS if metric.startswith("equi")]
    first = first_records(chosen)
    figures = [_figure(first)] if all((DATASET, row) in first for row in NORMS) else []
    notes = [f"{SETTINGS['genmix'].about}.", coverage(chosen, [DATASET], list(NORMS)), *NOTES]
    return Rendering(grids, [_claim(chosen)], figures, notes)


def _claim(records: pd.DataFrame) -> Claim:
    text = (
        "GenMix+GAN finds points that are equally far from both moons in each norm (here: the distances to the true "
        f"curves differ by at most {HALFWAY_TOLERANCE:.0%} of the larger one, in the median over the points)."
    )
    quote = "successfully finds the points that are equidistant to both manifolds"
    scores = {SIGNS[norm]: mean_score(records, DATASET, row, "equidistance_median") for row, norm in NORMS.items()}
    known = {sign: value for sign, value in scores.items() if value is not None}
    if len(known) < len(NORMS):
        return Claim(text, quote, NOTHING_MEASURED, None, full=TRIALS["full"], brief=BRIEF)
    plain = zip(("L1", "L2", "Linf"), known.values(), strict=True)
    words = ", ".join(f"{value.mean:.1%} ({name})" for name, value in plain)
    trials = min(value.seeds for value in known.values())
    near = records.assign(near=HALFWAY_TOLERANCE - records["equidistance_median"])
    low, high = central_interval(
        np.sum([PairedMeans(near, [DATASET], "near").draws([row])[row] >= 0.0 for row in NORMS], axis=0)
    )
    words += f"; {CREDIT}: within it in {low:.0f} to {high:.0f} of {len(NORMS)} norms"
    holds = decide((low, high), len(NORMS), trials)
    return Claim(text, quote, words, holds, trials, full=TRIALS["full"], brief=BRIEF)


def _figure(first: dict[tuple[str, str], dict[str, Any]]) -> CaptionedFigure:
    figure = Figure(figsize=(12.0, 3.4), dpi=DPI, layout="constrained")
    data = GENMIX_DATASETS[DATASET].load(0)
    for ax, (row, norm), letter in zip(figure.subplots(1, 3), NORMS.items(), "abc", strict=True):
        record = first[DATASET, row]
        plot_added_points(ax, record, data.X, data.y)
        _plot_middle(ax, norm)
        ax.set_title(f"({letter}) {SIGNS[norm]} norm", fontsize=11)
        share, middle = record["equidistance_share"], record["equidistance_median"]
        ax.set_xlabel(f"{share:.0f} % of the points within 5 % of halfway; median {middle:.1%}", fontsize=9)
    caption = (
        "Points that GenMix+GAN adds to Moon (red) in three norms. Gray lines: where the true half circles are equally "
        "far in that norm."
    )
    return CaptionedFigure(caption, figure)


def _plot_middle(ax: Axes, norm: str, steps: int = 80) -> None:
    """Plot the line of equal distance to the true curves."""
    xlim, ylim = AXES[DATASET]
    xs, ys = np.linspace(*xlim, steps), np.linspace(*ylim, steps)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    distances = curve_distances(grid, DATASET, norm)
    difference = (distances[:, 0] - distances[:, 1]).reshape(steps, steps)
    ax.contour(xs, ys, difference, levels=[0.0], colors="#888888", linewidths=0.9, zorder=2)


EXPERIMENT = Experiment(
    "figure15",
    "GenMix + GAN on Moon in three norms",
    "arXiv Figure 15, Section F.5",
    cells,
    render,
    section="genmix",
)
