"""Figure 9: gain of GenLabel over mixup, with lam ~ Beta(alpha, alpha) for alpha 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.figures import plot_gain_histograms
from genlabel_paper.report.results import CaptionedFigure, Claim, Printed, Rendering
from genlabel_paper.report.win_rates import (
    FILTERED,
    STUDY_NOTES,
    UNFILTERED,
    describe_win_rates,
    draw_gains,
    lead,
    paired_gains,
    share_above,
    share_measured,
    well_fitted_datasets,
    win_rate_claim,
    win_rate_grid,
)
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.manifest import low_dimensional_datasets
from genlabel_paper.runs.methods import keys_of

PAPER = {("higher", "alpha = 1"): Printed(59.6), ("lower", "alpha = 1"): Printed(23.0)}
"""Percent of 109 datasets; for alpha = 2 no number is printed."""
ALPHAS = {"alpha = 1": 1.0, "alpha = 2": 2.0}
METHODS = ["mixup", "genlabel-cv"]


def render(records: pd.DataFrame) -> Rendering:
    """Show the gains of GenLabel over mixup for both alphas, and check the statements of Section 6.1.

    >>> len(render(pd.DataFrame()).claims)
    4
    """
    datasets, names = low_dimensional_datasets(), well_fitted_datasets(records)
    data = {name: select_records(records, "logistic", alpha) for name, alpha in ALPHAS.items()}
    every = {name: paired_gains(part, "genlabel-cv", "mixup", datasets) for name, part in data.items()}
    fitted = {name: gain[gain.index.isin(names)] for name, gain in every.items()}
    grids = [
        win_rate_grid(f"Mixup + GenLabel (CV) against mixup, {FILTERED}", fitted, PAPER, corner="mixing"),
        win_rate_grid(f"Mixup + GenLabel (CV) against mixup, {UNFILTERED}", every, {}, corner="mixing"),
    ]
    figures = [_figure(gain, words) for gain, words in ((fitted, FILTERED), (every, UNFILTERED)) if _any(gain)]
    notes = [f"{name}: {coverage(part, datasets, METHODS)}" for name, part in data.items()]
    return Rendering(grids, _claims(data, fitted, every), figures, [*notes, *STUDY_NOTES])


def _claims(
    data: Mapping[str, pd.DataFrame],
    fitted: Mapping[str, pd.Series[float]],
    every: Mapping[str, pd.Series[float]],
) -> list[Claim]:
    claims = []
    for name in ALPHAS:
        quote = "59.6 % by over 0.5 points" if name == "alpha = 1" else "more than 50 %; no number is printed"
        share, gain = share_measured(every[name], low_dimensional_datasets()), fitted[name]
        draws = draw_gains(data[name], "genlabel-cv", "mixup", list(gain.index))
        half = f"With {name} GenLabel (CV) has higher accuracy than mixup on more than 50 % of the datasets."
        more = f"With {name} GenLabel (CV) is higher than mixup by over 0.5 points on more datasets than it is lower."
        shares = "higher on 59.6 %, lower on 23.0 %" if name == "alpha = 1" else "a large portion improves"
        briefs = (f"higher on more than half, {name}", f"more often higher than lower, {name}")
        claims.append(win_rate_claim(half, quote, gain, draws, share, share_above(50.0), 0.0, brief=briefs[0]))
        claims.append(win_rate_claim(more, shares, gain, draws, share, lead, brief=briefs[1]))
    return claims


def _any(gain: Mapping[str, pd.Series[float]]) -> bool:
    return any(len(values) for values in gain.values())


def _figure(gain: Mapping[str, pd.Series[float]], words: str) -> CaptionedFigure:
    figure = plot_gain_histograms(gain, f"Mixup + GenLabel (CV) minus mixup, {words}", 0.5)
    caption = f"How many datasets gain how much test accuracy by GenLabel, mean over splits and seeds: {words}."
    alt = "; ".join(f"{name}: {describe_win_rates(values)}" for name, values in gain.items())
    return CaptionedFigure(caption, figure, alt)


def _cells(budget: str) -> list[Cell]:
    ours = make_cells("logistic", low_dimensional_datasets(), METHODS, budget, list(ALPHAS.values()))
    return ours + make_cells("logistic", low_dimensional_datasets(), keys_of("generative"), budget)


EXPERIMENT = Experiment(
    "figure9",
    "Gains of GenLabel over mixup for two kinds of mixing",
    "arXiv Figure 9, Section 6.1",
    _cells,
    render,
    PAPER,
)
