"""Figure 5: what mixup gains by logistic labels in place of linear ones, intruding points left out in both."""

from __future__ import annotations

from functools import partial

import pandas as pd

from genlabel_paper.report.experiment import Experiment, of_cells
from genlabel_paper.report.gain_pictures import plot_gain_histograms
from genlabel_paper.report.pieces import Claim, Picture, Printed, Shown
from genlabel_paper.report.selected import extent
from genlabel_paper.report.shares import (
    SHARES,
    are_enough,
    gains,
    low_dimensional,
    share_claim,
    share_grid,
    tell_shares,
)
from genlabel_paper.runs.cells import make_cells

PAPER = {("higher", "sets"): Printed(87), ("on-par", "sets"): Printed(23), ("lower", "sets"): Printed(50)}
"""Numbers of datasets."""
TOTAL = 160
SHOWN = {(share, "linear"): Printed(100 * PAPER[share, "sets"].mean / TOTAL) for share in SHARES}
METHODS = ["mixup-exclude-mi", "logistic-exclude-mi"]
BRIEF = ("better on more than half of the sets", "better more often than worse")
SAID = "positive on 87, zero on 23, negative on 50 of 160 sets"


def render(records: pd.DataFrame) -> Shown:
    """Show the gains of logistic labels, and check the statements of Section 3.2.

    >>> len(render(pd.DataFrame()).claims)
    2
    """
    chosen, sets = of_cells(records, "logistic"), low_dimensional()
    gain = gains(chosen, "logistic-exclude-mi", "mixup-exclude-mi", sets)
    titles = {"linear": "Mixup with linear labels"}
    grid = share_grid("Mixup with logistic labels", {"linear": gain}, SHOWN, 0.0, titles)
    notes = [
        extent(chosen, sets, METHODS),
        f"Sets with at most 20 features: {len(sets)} at hand, {TOTAL} in the paper, which does not list them. The "
        "paper's "
        "shares are worked out from its numbers of sets.",
        f"With half a point as the limit: {tell_shares(gain)}.",
    ]
    return Shown([grid], _claims(gain, sets), [_picture(gain)] if len(gain) else [], notes)


def _claims(gain: pd.Series[float], sets: list[str]) -> list[Claim]:
    enough = are_enough(gain, sets)
    half = "Logistic labels are better than linear ones on more than half of the sets."
    more = "They are better on more sets than they are worse."
    return [
        share_claim(half, SAID, gain, enough, lambda found: found.percent[0] > 50.0, 0.0, brief=BRIEF[0]),
        share_claim(more, SAID, gain, enough, lambda found: found.better > found.worse, 0.0, brief=BRIEF[1]),
    ]


def _picture(gain: pd.Series[float]) -> Picture:
    title = "Logistic labels minus linear labels, intruding points left out"
    figure = plot_gain_histograms({"softmax regression, alpha 1": gain}, title, 0.0)
    caption = "How many sets gain how much test accuracy by logistic labels, mean over splits and seeds."
    return Picture(caption, figure, tell_shares(gain, 0.0))


EXPERIMENT = Experiment(
    "figure5",
    "Logistic labels against linear ones",
    "arXiv Figure 5, Section 3.2",
    partial(make_cells, "logistic", low_dimensional(), METHODS),
    render,
    PAPER,
)
