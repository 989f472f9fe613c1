"""GenLabel with every density on the paper's synthetic datasets: where each one repairs mixup, and its cost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score, select_records
from genlabel_paper.report.results import NOTHING_MEASURED, Claim, Grid, Rendering, Value
from genlabel_paper.report.verdicts import MIN_TRIALS
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.table_settings import DENSITIES

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
"""Short titles of the rows; all but the first two are GenLabel with this density."""
METRICS = {
    "accuracy": ("Test accuracy", "%", 2),
    "median_margin": ("Median margin of the correctly classified training points", "", 3),
    "smallest_margin": ("Smallest margin of the correctly classified training points", "", 3),
    "seconds": ("Seconds of a trial: fitting the density, training, and measuring, on one thread", "s", 1),
}
NOTES = (
    "Not a table of the paper. Networks, points and schedule are those of tables 1 and 10; no density is adapted "
    "to a dataset.",
    "A density repairs mixup on a dataset where GenLabel with it is better than mixup by more than half a point of "
    "accuracy, and no more than half a point below vanilla training.",
)
TIE_WIDTH = 0.5


def render(records: pd.DataFrame) -> Rendering:
    """Show accuracy, margins and time, and where each density repairs mixup.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = select_records(records, "densities")
    grids = [_grid(chosen, metric) for metric in METRICS]
    notes = [f"{SETTINGS['densities'].about}.", coverage(chosen, list(SETS), ROWS), *NOTES, *_repairs(chosen)]
    return Rendering(grids, [_claim(chosen)], notes=notes)


def _grid(records: pd.DataFrame, metric: str) -> Grid:
    title, unit, digits = METRICS[metric]
    rows = [(NAMES[row], [_value(records, name, row, metric) for name in SETS]) for row in ROWS]
    best = [] if metric == "seconds" else [NAMES[row] for row in ROWS]
    return Grid(title, list(SETS.values()), rows, unit, best, "dataset", digits)


def _value(records: pd.DataFrame, name: str, row: str, metric: str) -> Value:
    return Value(mean_score(records, name, row, metric), None, "not run")


def _means(records: pd.DataFrame, name: str, rows: Sequence[str]) -> list[float] | None:
    """Return the accuracies of some methods on a dataset, None if one is missing."""
    scores = [mean_score(records, name, row) for row in rows]
    return [value.mean for value in scores if value] if all(scores) else None


def _repaired(records: pd.DataFrame, row: str) -> tuple[list[str], list[str]]:
    """Return the datasets on which a density repairs mixup, and those on which mixup needs it."""
    repaired, broken = [], []
    for name, title in SETS.items():
        means = _means(records, name, ["vanilla", "mixup", row])
        if means is not None and means[0] - means[1] > TIE_WIDTH:
            broken.append(title)
            repaired += [title] if means[2] - means[1] > TIE_WIDTH and means[0] - means[2] <= TIE_WIDTH else []
    return repaired, broken


def _repairs(records: pd.DataFrame) -> list[str]:
    """Return a sentence for each density with records."""
    sentences = []
    for row in DENSITIES:
        repaired, broken = _repaired(records, row)
        if broken:
            words = f"on {', '.join(repaired)}" if repaired else "nowhere"
            count = f"{len(repaired)} of {len(broken)} datasets where it is worse"
            sentences.append(f"{NAMES[row]}: GenLabel repairs mixup {words} ({count}).")
    return sentences


BRIEF = "some density repairs mixup on each dataset"


def _claim(records: pd.DataFrame) -> Claim:
    """Return the claim that some density repairs mixup on each dataset where it is worse than vanilla training."""
    text = "On each dataset where mixup is worse than vanilla training, GenLabel with some density repairs it."
    quote = "GenLabel fixes the manifold intrusion of mixup (Section 5.1; two datasets)"
    broken = dict.fromkeys(title for row in DENSITIES for title in _repaired(records, row)[1])
    if not broken:
        return Claim(text, quote, NOTHING_MEASURED, None, brief=BRIEF, of_paper=False)
    repaired = {title for row in DENSITIES for title in _repaired(records, row)[0]}
    left = [title for title in broken if title not in repaired]
    words = f"on {len(broken) - len(left)} of {len(broken)} datasets" + (f"; not on {', '.join(left)}" if left else "")
    trials = min(len(records[(records["dataset"] == name) & (records["method"] == "mixup")]) for name in SETS)
    return Claim(text, quote, words, not left if trials >= MIN_TRIALS else None, trials, brief=BRIEF, of_paper=False)


def _cells(budget: str) -> list[Cell]:
    return make_cells("densities", list(SETS), ROWS, budget)


EXPERIMENT = Experiment(
    "densities",
    "GenLabel with every density on the synthetic datasets",
    "not in the paper",
    _cells,
    render,
    section="ours",
)
