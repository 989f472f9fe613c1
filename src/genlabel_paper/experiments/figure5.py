"""Figure 5: gain of mixup by logistic instead of linear labels, without intruding points in both."""

from __future__ import annotations

from functools import partial

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.figures import plot_gain_histograms
from genlabel_paper.report.results import CaptionedFigure, Claim, Printed, Rendering
from genlabel_paper.report.win_rates import (
    OUTCOMES,
    describe_win_rates,
    draw_gains,
    lead,
    paired_gains,
    share_above,
    share_measured,
    win_rate_claim,
    win_rate_grid,
)
from genlabel_paper.runs.cells import make_cells
from genlabel_paper.runs.manifest import low_dimensional_datasets

PAPER = {("higher", "datasets"): Printed(87), ("on-par", "datasets"): Printed(23), ("lower", "datasets"): Printed(50)}
"""Printed numbers of datasets."""
TOTAL = 160
PRINTED_PERCENT = {(outcome, "linear"): Printed(100 * PAPER[outcome, "datasets"].mean / TOTAL) for outcome in OUTCOMES}
METHODS = ["mixup-exclude-mi", "logistic-exclude-mi"]
BRIEFS = ("better on more than half of the datasets", "better more often than worse")
QUOTE = "positive on 87, zero on 23, negative on 50 of 160 datasets"


def render(records: pd.DataFrame) -> Rendering:
    """Show the gains of logistic labels, and check the statements of Section 3.2.

    >>> len(render(pd.DataFrame()).claims)
    2
    """
    chosen, datasets = select_records(records, "logistic"), low_dimensional_datasets()
    gain = paired_gains(chosen, "logistic-exclude-mi", "mixup-exclude-mi", datasets)
    titles = {"linear": "Mixup with linear labels"}
    grid = win_rate_grid("Mixup with logistic labels", {"linear": gain}, PRINTED_PERCENT, 0.0, titles)
    notes = [
        coverage(chosen, datasets, METHODS),
        f"Datasets with at most 20 features: {len(datasets)} available, {TOTAL} in the paper, which does not list "
        "them. The paper's percentages are computed from its numbers of datasets.",
        f"With half a point as the limit: {describe_win_rates(gain)}.",
    ]
    return Rendering([grid], _claims(chosen, gain, datasets), [_figure(gain)] if len(gain) else [], notes)


def _claims(records: pd.DataFrame, gain: pd.Series[float], datasets: list[str]) -> list[Claim]:
    share = share_measured(gain, datasets)
    draws = draw_gains(records, "logistic-exclude-mi", "mixup-exclude-mi", list(gain.index))
    half = "Logistic labels are better than linear ones on more than half of the datasets."
    more = "They are better on more datasets than they are worse."
    return [
        win_rate_claim(half, QUOTE, gain, draws, share, share_above(50.0), 0.0, brief=BRIEFS[0]),
        win_rate_claim(more, QUOTE, gain, draws, share, lead, 0.0, brief=BRIEFS[1]),
    ]


def _figure(gain: pd.Series[float]) -> CaptionedFigure:
    title = "Logistic labels minus linear labels, intruding points left out"
    figure = plot_gain_histograms({"softmax regression, alpha 1": gain}, title, 0.0)
    caption = "How many datasets gain how much test accuracy by logistic labels, mean over splits and seeds."
    return CaptionedFigure(caption, figure, describe_win_rates(gain, 0.0))


EXPERIMENT = Experiment(
    "figure5",
    "Logistic labels against linear ones",
    "arXiv Figure 5, Section 3.2",
    partial(make_cells, "logistic", low_dimensional_datasets(), METHODS),
    render,
    PAPER,
)
