"""Figure 3: what mixup gains by leaving out the points that intrude on another class."""

from __future__ import annotations

from functools import partial

import pandas as pd

from genlabel_paper.report.experiment import Experiment, of_cells
from genlabel_paper.report.gain_pictures import plot_gain_lines
from genlabel_paper.report.pieces import Claim, Picture, Printed, Shown
from genlabel_paper.report.selected import about_set, extent
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
from genlabel_paper.runs.methods import TITLES

PAPER = {("higher", "sets"): Printed(24), ("on-par", "sets"): Printed(14), ("lower", "sets"): Printed(0)}
"""Numbers of datasets; that none is lower follows from 24 and 14 of 38."""
TOTAL = 38
SHOWN = {(share, "mixup"): Printed(100 * PAPER[share, "sets"].mean / TOTAL) for share in SHARES}
WIDTH = 1.0
METHODS = ["mixup", "mixup-exclude-mi"]
BRIEF = ("a gain of over 1 point on most sets", "no loss of over 1 point")
SAID = "24 of 38 sets gain more than 1 point, 14 of 38 change by at most 1, 0 lose more"


def render(records: pd.DataFrame) -> Shown:
    """Show the gain on each dataset with more than two classes, and check the statements of Section 3.1.

    >>> len(render(pd.DataFrame()).claims)
    2
    """
    chosen, sets = of_cells(records, "logistic"), low_dimensional(classes=3)
    gain = gains(chosen, "mixup-exclude-mi", "mixup", sets)
    grid = share_grid("Mixup without intruding points", {"mixup": gain}, SHOWN, WIDTH, TITLES)
    notes = [
        extent(chosen, sets, METHODS),
        f"Sets with more than two classes and at most 20 features: {len(sets)} at hand, {TOTAL} in the paper, "
        "which does not "
        "list them. The paper's shares are worked out from its numbers of sets.",
    ]
    return Shown([grid], _claims(gain, sets), [_picture(gain)] if len(gain) else [], notes)


def _claims(gain: pd.Series[float], sets: list[str]) -> list[Claim]:
    enough = are_enough(gain, sets)
    most = "Leaving out the intruding points gains more than 1 point on most sets."
    none = "On no set does it lose more than 1 point."
    return [
        share_claim(most, SAID, gain, enough, lambda found: found.percent[0] > 50.0, WIDTH, brief=BRIEF[0]),
        share_claim(none, SAID, gain, enough, lambda found: found.worse == 0, WIDTH, brief=BRIEF[1]),
    ]


def _picture(gain: pd.Series[float]) -> Picture:
    names = {name: f"{name} {about_set(name).split(',')[0]}" for name in map(str, gain.index)}
    figure = plot_gain_lines(gain, names, "Mixup without intruding points minus mixup", WIDTH)
    caption = (
        "Gain in test accuracy by leaving out intruding points, mean over splits and seeds; the band: within 1 point."
    )
    return Picture(caption, figure, tell_shares(gain, WIDTH))


EXPERIMENT = Experiment(
    "figure3",
    "What intruding points cost mixup",
    "arXiv Figure 3, Section 3.1",
    partial(make_cells, "logistic", low_dimensional(classes=3), METHODS),
    render,
    PAPER,
)
