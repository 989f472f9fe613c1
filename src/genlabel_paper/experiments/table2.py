"""Table 2: on how many datasets GenLabel with Gaussians beats the generative classifier with the same Gaussians."""

from __future__ import annotations

import pandas as pd

from genlabel_paper.paired import WinTieLoss
from genlabel_paper.report.experiment import Experiment, of_cells
from genlabel_paper.report.pieces import Claim, Shown
from genlabel_paper.report.printed import read_printed
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
from genlabel_paper.runs.methods import TITLES, keys_of

PAPER = read_printed(
    """
    rival          higher  on-par  lower
    generative-gm  62.4    3.7     33.9
    """
)
SAID = "higher on 62.4 %, equal on 3.7 %, lower on 33.9 % of 109 sets"


def render(records: pd.DataFrame) -> Shown:
    """Show the shares of datasets, filtered and all, and check the statements of Section 6.1.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None, None]
    """
    chosen, sets = of_cells(records, "logistic"), study_sets()
    gain = gains(chosen, "genlabel-gm", "generative-gm", sets)
    fitted = gain[gain.index.isin(fitted_sets(records))]
    grids = [
        share_grid(f"Mixup + GenLabel (GM), {FILTERED}", {"generative-gm": fitted}, PAPER, 0.0, TITLES),
        share_grid(f"Mixup + GenLabel (GM), {UNFILTERED}", {"generative-gm": gain}, {}, 0.0, TITLES),
    ]
    half = f"With half a point as the limit: {tell_shares(fitted)} (filtered); {tell_shares(gain)} (all)."
    notes = [extent(chosen, sets, ["genlabel-gm"]), *STUDY_NOTES, half]
    return Shown(grids, _claims(fitted, are_enough(gain, sets)), notes=notes)


def _claims(fitted: pd.Series[float], enough: bool) -> list[Claim]:
    more = "GenLabel (GM) is higher than the generative classifier (GM) on more sets than it is lower."
    most = "GenLabel (GM) is higher on more than 62 % of the sets."
    return [
        share_claim(more, SAID, fitted, enough, _more, 0.0, brief="more often above the generative classifier"),
        share_claim(
            most, "more than 62 %", fitted, enough, _most, 0.0, brief="above the generative classifier on 62 %"
        ),
    ]


def _more(found: WinTieLoss) -> bool:
    return found.better > found.worse


def _most(found: WinTieLoss) -> bool:
    return found.percent[0] > 62.0


def _cells(budget: str) -> list[Cell]:
    return make_cells("logistic", study_sets(), ["genlabel-gm", *keys_of("generative")], budget)


EXPERIMENT = Experiment(
    "table2",
    "GenLabel (GM) against the generative classifier (GM) over the study's sets",
    "arXiv Table 2, Section 6.1",
    _cells,
    render,
    PAPER,
)
