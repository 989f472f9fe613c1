"""Figure 9: how much GenLabel gains over mixup, with lam ~ Beta(alpha, alpha) for alpha 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from genlabel_paper.paired import WinTieLoss
from genlabel_paper.report.experiment import Experiment, of_cells
from genlabel_paper.report.gain_pictures import plot_gain_histograms
from genlabel_paper.report.pieces import Claim, Picture, Printed, Shown
from genlabel_paper.report.selected import extent
from genlabel_paper.report.shares import (
    FILTERED,
    STUDY_NOTES,
    UNFILTERED,
    are_enough,
    fitted_sets,
    gains,
    share_claim,
    share_grid,
    tell_shares,
)
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.manifest import study_sets
from genlabel_paper.runs.methods import keys_of

PAPER = {("higher", "alpha = 1"): Printed(59.6), ("lower", "alpha = 1"): Printed(23.0)}
"""Percent of 109 datasets; for alpha = 2 no number is printed."""
ALPHAS = {"alpha = 1": 1.0, "alpha = 2": 2.0}
METHODS = ["mixup", "genlabel-cv"]


def render(records: pd.DataFrame) -> Shown:
    """Show the gains of GenLabel over mixup for both alphas, and check the statements of Section 6.1.

    >>> len(render(pd.DataFrame()).claims)
    4
    """
    sets, names = study_sets(), fitted_sets(records)
    parts = {name: of_cells(records, "logistic", alpha) for name, alpha in ALPHAS.items()}
    every = {name: gains(part, "genlabel-cv", "mixup", sets) for name, part in parts.items()}
    fitted = {name: gain[gain.index.isin(names)] for name, gain in every.items()}
    grids = [
        share_grid(f"Mixup + GenLabel (CV) against mixup, {FILTERED}", fitted, PAPER, corner="mixing"),
        share_grid(f"Mixup + GenLabel (CV) against mixup, {UNFILTERED}", every, {}, corner="mixing"),
    ]
    pictures = [_picture(gain, words) for gain, words in ((fitted, FILTERED), (every, UNFILTERED)) if _any(gain)]
    notes = [f"{name}: {extent(part, sets, METHODS)}" for name, part in parts.items()]
    return Shown(grids, _claims(fitted, every), pictures, [*notes, *STUDY_NOTES])


def _claims(fitted: Mapping[str, pd.Series[float]], every: Mapping[str, pd.Series[float]]) -> list[Claim]:
    claims = []
    for name in ALPHAS:
        said = "59.6 % by over 0.5 points" if name == "alpha = 1" else "more than 50 %; no number is printed"
        enough, gain = are_enough(every[name], study_sets()), fitted[name]
        half = f"With {name} GenLabel (CV) has higher accuracy than mixup on more than 50 % of the sets."
        more = f"With {name} GenLabel (CV) is higher than mixup by over 0.5 points on more sets than it is lower."
        shares = "higher on 59.6 %, lower on 23.0 %" if name == "alpha = 1" else "a large portion improves"
        briefs = (f"higher on more than half, {name}", f"more often higher than lower, {name}")
        claims.append(share_claim(half, said, gain, enough, _on_half, 0.0, brief=briefs[0]))
        claims.append(share_claim(more, shares, gain, enough, _more, brief=briefs[1]))
    return claims


def _on_half(found: WinTieLoss) -> bool:
    return found.percent[0] > 50.0


def _more(found: WinTieLoss) -> bool:
    return found.better > found.worse


def _any(gain: Mapping[str, pd.Series[float]]) -> bool:
    return any(len(values) for values in gain.values())


def _picture(gain: Mapping[str, pd.Series[float]], words: str) -> Picture:
    figure = plot_gain_histograms(gain, f"Mixup + GenLabel (CV) minus mixup, {words}", 0.5)
    caption = f"How many sets gain how much test accuracy by GenLabel, mean over splits and seeds: {words}."
    alt = "; ".join(f"{name}: {tell_shares(values)}" for name, values in gain.items())
    return Picture(caption, figure, alt)


def _cells(budget: str) -> list[Cell]:
    ours = make_cells("logistic", study_sets(), METHODS, budget, list(ALPHAS.values()))
    return ours + make_cells("logistic", study_sets(), keys_of("generative"), budget)


EXPERIMENT = Experiment(
    "figure9",
    "Gains of GenLabel over mixup for two kinds of mixing",
    "arXiv Figure 9, Section 6.1",
    _cells,
    render,
    PAPER,
)
