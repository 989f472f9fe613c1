"""Table 2: win rates of GenLabel with Gaussians against the generative classifier with the same Gaussians."""

from __future__ import annotations

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.results import Claim, Rendering, read_printed
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
from genlabel_paper.runs.methods import TITLES, keys_of

PAPER = read_printed(
    """
    rival          higher  on-par  lower
    generative-gm  62.4    3.7     33.9
    """
)
QUOTE = "higher on 62.4 %, equal on 3.7 %, lower on 33.9 % of 109 datasets"


def render(records: pd.DataFrame) -> Rendering:
    """Show the shares of datasets, filtered and all, and check the statements of Section 6.1.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None, None]
    """
    chosen, datasets = select_records(records, "logistic"), low_dimensional_datasets()
    gain = paired_gains(chosen, "genlabel-gm", "generative-gm", datasets)
    fitted = gain[gain.index.isin(well_fitted_datasets(records))]
    grids = [
        win_rate_grid(f"Mixup + GenLabel (GM), {FILTERED}", {"generative-gm": fitted}, PAPER, 0.0, TITLES),
        win_rate_grid(f"Mixup + GenLabel (GM), {UNFILTERED}", {"generative-gm": gain}, {}, 0.0, TITLES),
    ]
    half = f"With half a point as the limit: {describe_win_rates(fitted)} (filtered); {describe_win_rates(gain)} (all)."
    notes = [coverage(chosen, datasets, ["genlabel-gm"]), *STUDY_NOTES, half]
    return Rendering(grids, _claims(fitted, chosen, share_measured(gain, datasets)), notes=notes)


def _claims(fitted: pd.Series[float], records: pd.DataFrame, share: float) -> list[Claim]:
    draws = draw_gains(records, "genlabel-gm", "generative-gm", list(fitted.index))
    more = "GenLabel (GM) is higher than the generative classifier (GM) on more datasets than it is lower."
    most = "GenLabel (GM) is higher on more than 62 % of the datasets."
    return [
        win_rate_claim(
            more, QUOTE, fitted, draws, share, lead, 0.0, brief="more often above the generative classifier"
        ),
        win_rate_claim(
            most,
            "more than 62 %",
            fitted,
            draws,
            share,
            share_above(62.0),
            0.0,
            brief="above the generative classifier on 62 %",
        ),
    ]


def _cells(budget: str) -> list[Cell]:
    return make_cells("logistic", low_dimensional_datasets(), ["genlabel-gm", *keys_of("generative")], budget)


EXPERIMENT = Experiment(
    "table2",
    "GenLabel (GM) against the generative classifier (GM) over the low-dimensional datasets",
    "arXiv Table 2, Section 6.1",
    _cells,
    render,
    PAPER,
)
