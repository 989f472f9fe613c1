"""Figure 15: points of GenMix+GAN on Moon that are half way in the L1, L2 and Linf norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from genlabel._validation import check_choice
from genlabel.data.datasets.curves import curve_distances
from genlabel.reporting.figures import DPI
from genlabel_paper.report.experiment import Experiment, measured
from genlabel_paper.report.genmix import AXES, METRICS, draw_added, first_records, genmix_grid, of_genmix
from genlabel_paper.report.pieces import NOTHING, Claim, Picture, Shown
from genlabel_paper.report.selected import extent
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix import NEAR
from genlabel_paper.runs.genmix_sets import GENMIX_SETS
from genlabel_paper.runs.settings import SETTINGS

SET = "moon"
NORMS = {"genmix-gan-l1": "l1", "genmix-gan": "l2", "genmix-gan-linf": "linf"}
SIGNS = {"l1": "$L_1$", "l2": "$L_2$", "linf": "$L_\\infty$"}
TRIALS = {"smoke": 1, "quick": 2, "full": 5}
BRIEF = "points half way in each norm"
NOTES = (
    "Moon: 1,000 points, Laplace noise 0.03; the true curves are two half circles of radius 1. The GAN sees the points "
    "only; distances to the true curves are measured in the norm of the row.",
    "The paper prints no number here. The picture is of the first trial, from what is on record.",
)


def cells(budget: str) -> list[Cell]:
    """Return GenMix+GAN on Moon in the three norms.

    >>> [cell.method for cell in cells("smoke")]
    ['genmix-gan-l1', 'genmix-gan', 'genmix-gan-linf']
    """
    check_choice("budget", budget, BUDGETS)
    return make_trials("genmix", [SET], [(row, 1.0) for row in NORMS], TRIALS[budget])


def render(records: pd.DataFrame) -> Shown:
    """Show how near to half way the points are, and draw those that are on record; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = of_genmix(records, [SET])
    chosen = chosen[chosen["method"].isin(list(NORMS))]
    grids = [genmix_grid(chosen, [SET], list(NORMS), metric) for metric in METRICS if metric.startswith("equi")]
    first = first_records(chosen)
    pictures = [_picture(first)] if all((SET, row) in first for row in NORMS) else []
    notes = [f"{SETTINGS['genmix'].about}.", extent(chosen, [SET], list(NORMS)), *NOTES]
    return Shown(grids, [_claim(chosen)], pictures, notes)


def _claim(records: pd.DataFrame) -> Claim:
    text = (
        "GenMix+GAN finds points that are equally far from both moons in each norm (here: the distances to the true "
        f"curves differ by at most {NEAR:.0%} of the larger one, in the median over the points)."
    )
    said = "successfully finds the points that are equidistant to both manifolds"
    found = {SIGNS[norm]: measured(records, SET, row, "equidistance_median") for row, norm in NORMS.items()}
    known = {sign: value for sign, value in found.items() if value is not None}
    if len(known) < len(NORMS):
        return Claim(text, said, NOTHING, None, full=TRIALS["full"], brief=BRIEF)
    plain = zip(("L1", "L2", "Linf"), known.values(), strict=True)
    words = ", ".join(f"{value.mean:.1%} ({name})" for name, value in plain)
    holds = all(value.mean <= NEAR for value in known.values())
    trials = min(value.seeds for value in known.values())
    return Claim(text, said, words, holds, trials, full=TRIALS["full"], brief=BRIEF)


def _picture(first: dict[tuple[str, str], dict[str, Any]]) -> Picture:
    figure = Figure(figsize=(12.0, 3.4), dpi=DPI, layout="constrained")
    parts = GENMIX_SETS[SET].load(0)
    for ax, (row, norm), letter in zip(figure.subplots(1, 3), NORMS.items(), "abc", strict=True):
        record = first[SET, row]
        draw_added(ax, record, parts.X, parts.y)
        _draw_middle(ax, norm)
        ax.set_title(f"({letter}) {SIGNS[norm]} norm", fontsize=11)
        share, middle = record["equidistance_share"], record["equidistance_median"]
        ax.set_xlabel(f"{share:.0f} % of the points within 5 % of half way; median {middle:.1%}", fontsize=9)
    caption = (
        "Points that GenMix+GAN adds to Moon (red) in three norms. Grey lines: where the true half circles are equally "
        "far in that norm."
    )
    return Picture(caption, figure)


def _draw_middle(ax: Axes, norm: str, steps: int = 80) -> None:
    """The line of equal distance to the true curves."""
    across, up = AXES[SET]
    xs, ys = np.linspace(*across, steps), np.linspace(*up, steps)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    far = curve_distances(grid, SET, norm)
    gap = (far[:, 0] - far[:, 1]).reshape(steps, steps)
    ax.contour(xs, ys, gap, levels=[0.0], colors="#888888", linewidths=0.9, zorder=2)


EXPERIMENT = Experiment(
    "figure15",
    "GenMix + GAN on Moon in three norms",
    "arXiv Figure 15, Section F.5",
    cells,
    render,
    part="genmix",
)
