"""Figure 3: gain of mixup by leaving out intruding points."""

from __future__ import annotations

from functools import partial

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage, describe_dataset
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.figures import plot_gain_lines
from genlabel_paper.report.results import CaptionedFigure, Claim, Printed, Rendering
from genlabel_paper.report.statements import Check, PairedMeans, above
from genlabel_paper.report.win_rates import (
    OUTCOMES,
    describe_win_rates,
    draw_gains,
    paired_gains,
    share_above,
    share_measured,
    win_rate_claim,
    win_rate_grid,
)
from genlabel_paper.runs.cells import make_cells
from genlabel_paper.runs.manifest import low_dimensional_datasets
from genlabel_paper.runs.methods import TITLES

PAPER = {("higher", "datasets"): Printed(24), ("on-par", "datasets"): Printed(14), ("lower", "datasets"): Printed(0)}
"""Printed numbers of datasets; that none is lower follows from 24 and 14 of 38."""
TOTAL = 38
PRINTED_PERCENT = {(outcome, "mixup"): Printed(100 * PAPER[outcome, "datasets"].mean / TOTAL) for outcome in OUTCOMES}
TIE_WIDTH = 1.0
METHODS = ["mixup", "mixup-exclude-mi"]
BRIEFS = ("a gain of over 1 point on most datasets", "no loss of over 1 point")
QUOTE = "24 of 38 datasets gain more than 1 point, 14 of 38 change by at most 1, 0 lose more"


def render(records: pd.DataFrame) -> Rendering:
    """Show the gain on each dataset with more than two classes, and check the statements of Section 3.1.

    >>> len(render(pd.DataFrame()).claims)
    2
    """
    chosen, datasets = select_records(records, "logistic"), low_dimensional_datasets(classes=3)
    gain = paired_gains(chosen, "mixup-exclude-mi", "mixup", datasets)
    grid = win_rate_grid("Mixup without intruding points", {"mixup": gain}, PRINTED_PERCENT, TIE_WIDTH, TITLES)
    notes = [
        coverage(chosen, datasets, METHODS),
        f"Datasets with more than two classes and at most 20 features: {len(datasets)} available, {TOTAL} in the "
        "paper, which does not list them. The paper's percentages are computed from its numbers of datasets.",
    ]
    return Rendering([grid], _claims(chosen, gain, datasets), [_figure(gain)] if len(gain) else [], notes)


def _claims(records: pd.DataFrame, gain: pd.Series[float], datasets: list[str]) -> list[Claim]:
    share = share_measured(gain, datasets)
    draws = draw_gains(records, "mixup-exclude-mi", "mixup", list(gain.index))
    most = "Leaving out the intruding points gains more than 1 point on most datasets."
    none = Check(
        "On no dataset does it lose more than 1 point.",
        QUOTE,
        above("mixup-exclude-mi", "mixup", -TIE_WIDTH - 2e-9),
        gain=("mixup-exclude-mi", "mixup"),
        brief=BRIEFS[1],
    )
    return [
        win_rate_claim(most, QUOTE, gain, draws, share, share_above(50.0), TIE_WIDTH, brief=BRIEFS[0]),
        none.claim(PairedMeans(records, datasets), pd.DataFrame()),
    ]


def _figure(gain: pd.Series[float]) -> CaptionedFigure:
    names = {name: f"{name} {describe_dataset(name).split(',')[0]}" for name in map(str, gain.index)}
    figure = plot_gain_lines(gain, names, "Mixup without intruding points minus mixup", TIE_WIDTH)
    caption = (
        "Gain in test accuracy by leaving out intruding points, mean over splits and seeds; the band: within 1 point."
    )
    return CaptionedFigure(caption, figure, describe_win_rates(gain, TIE_WIDTH))


EXPERIMENT = Experiment(
    "figure3",
    "What intruding points cost mixup",
    "arXiv Figure 3, Section 3.1",
    partial(make_cells, "logistic", low_dimensional_datasets(classes=3), METHODS),
    render,
    PAPER,
)
