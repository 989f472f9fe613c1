"""GenLabel with every density on the paper's synthetic sets: which one repairs mixup where, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from genlabel_paper.report.experiment import Experiment, measured, of_cells
from genlabel_paper.report.pieces import NOTHING, Claim, Grid, Shown, Value
from genlabel_paper.report.selected import extent
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.settings import DENSITIES, SETTINGS

SETS = {
    "circle": "Circle",
    "moon": "Moon",
    "two-circle": "Two-circle",
    "cube-2d": "2D cube",
    "cube-3d": "3D cube",
    "nine-gaussians": "9-class Gaussian",
}
ROWS = ["vanilla", "mixup", *DENSITIES]
NAMES = {"vanilla": "vanilla", "mixup": "mixup"} | {
    row: {"gaussian": "GM", "kernel": "kernels", "mixture": "mixture", "vae": "VAE", "gan": "GAN"}.get(density, density)
    for row, density in DENSITIES.items()
}
"""Of the rows, short: GenLabel with this density where it is none of the first two."""
METRICS = {
    "accuracy": ("Test accuracy", "%", 2),
    "median_margin": ("Median margin of the training points that are right", "", 3),
    "smallest_margin": ("Smallest margin of the training points that are right", "", 3),
    "seconds": ("Seconds of a trial: fitting the density, training, and measuring, on one thread", "s", 1),
}
NOTES = (
    "Not a table of the paper. Networks, points and schedule are those of tables 1 and 10; nothing of a density is "
    "told what the sets are.",
    "A density repairs mixup on a set where GenLabel with it is better than mixup by more than half a point of "
    "accuracy, and no more than half a point below vanilla training.",
)
WIDTH = 0.5


def render(records: pd.DataFrame) -> Shown:
    """Show accuracy, margins and seconds, and say which density repairs mixup where.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = of_cells(records, "densities")
    grids = [_grid(chosen, metric) for metric in METRICS]
    notes = [f"{SETTINGS['densities'].about}.", extent(chosen, list(SETS), ROWS), *NOTES, *_repairs(chosen)]
    return Shown(grids, [_claim(chosen)], notes=notes)


def _grid(records: pd.DataFrame, metric: str) -> Grid:
    title, unit, digits = METRICS[metric]
    rows = [(NAMES[row], [_value(records, name, row, metric) for name in SETS]) for row in ROWS]
    best = [] if metric == "seconds" else [NAMES[row] for row in ROWS]
    return Grid(title, list(SETS.values()), rows, unit, best, "dataset", digits)


def _value(records: pd.DataFrame, name: str, row: str, metric: str) -> Value:
    return Value(measured(records, name, row, metric), None, "not run")


def _means(records: pd.DataFrame, name: str, rows: Sequence[str]) -> list[float] | None:
    """The accuracies of some methods on a set, if all of them are there."""
    found = [measured(records, name, row) for row in rows]
    return [value.mean for value in found if value] if all(found) else None


def _repaired(records: pd.DataFrame, row: str) -> tuple[list[str], list[str]]:
    """The sets on which a density repairs mixup, and those on which there is something to repair."""
    repaired, broken = [], []
    for name, title in SETS.items():
        means = _means(records, name, ["vanilla", "mixup", row])
        if means is not None and means[0] - means[1] > WIDTH:
            broken.append(title)
            repaired += [title] if means[2] - means[1] > WIDTH and means[0] - means[2] <= WIDTH else []
    return repaired, broken


def _repairs(records: pd.DataFrame) -> list[str]:
    """A sentence for each density that has records."""
    found = []
    for row in DENSITIES:
        repaired, broken = _repaired(records, row)
        if broken:
            words = f"on {', '.join(repaired)}" if repaired else "nowhere"
            count = f"{len(repaired)} of {len(broken)} sets where it is worse"
            found.append(f"{NAMES[row]}: GenLabel repairs mixup {words} ({count}).")
    return found


BRIEF = "some density repairs mixup on each set"


def _claim(records: pd.DataFrame) -> Claim:
    """Whether there is a density that repairs mixup on each set where it is worse than vanilla training."""
    text = "On each set where mixup is worse than vanilla training, GenLabel with some density repairs it."
    said = "GenLabel fixes the manifold intrusion of mixup (Section 5.1; two sets)"
    broken = dict.fromkeys(title for row in DENSITIES for title in _repaired(records, row)[1])
    if not broken:
        return Claim(text, said, NOTHING, None, brief=BRIEF)
    repaired = {title for row in DENSITIES for title in _repaired(records, row)[0]}
    left = [title for title in broken if title not in repaired]
    words = f"on {len(broken) - len(left)} of {len(broken)} sets" + (f"; not on {', '.join(left)}" if left else "")
    trials = min(len(records[(records["dataset"] == name) & (records["method"] == "mixup")]) for name in SETS)
    return Claim(text, said, words, not left, trials, brief=BRIEF)


def _cells(budget: str) -> list[Cell]:
    return make_cells("densities", list(SETS), ROWS, budget)


EXPERIMENT = Experiment(
    "densities",
    "GenLabel with every density on the synthetic sets",
    "not in the paper",
    _cells,
    render,
    part="ours",
)
