"""Table 15: classification errors of GenMix, mixup and manifold mixup on two circles, two spheres and two digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from genlabel._validation import check_choice
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score
from genlabel_paper.report.genmix import select_genmix_records
from genlabel_paper.report.results import (
    Claim,
    Grid,
    Rendering,
    Value,
    columns_of,
    printed_means,
    read_printed,
    rows_of,
)
from genlabel_paper.report.statements import Check, PairedMeans, above
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS
from genlabel_paper.runs.genmix_methods import GENMIX_METHODS
from genlabel_paper.runs.methods import TITLES
from genlabel_paper.runs.settings import SETTINGS

PAPER = read_printed(
    """
    dataset    vanilla    mixup      manifold   genmix-gan
    circle-2d  8.60±4.84  7.98±2.94  7.34±1.43  4.90±0.12
    circle-3d  1.40±0.54  5.22±1.99  0.94±0.75  0.22±0.06
    mnist-79   2.72±0.20  2.32±0.40  3.88±0.53  2.13±0.12
    """
)
"""Printed errors in percent."""
OTHERS = ["genmix-gaussian", "genmix-kernel", "genmix-mixture", "genmix-flow", "genmix-vae"]
"""GenMix with densities that are not in the paper."""
ROWS = [*rows_of(PAPER), *OTHERS]
TRIALS = {"smoke": 1, "quick": 5, "full": 10}
"""Number of trials of each budget, each with new rows and its own seed."""
RIVALS = ("vanilla", "mixup", "manifold")
CHECKS = [
    Check(
        f"GenMix+GAN has a lower error than {TITLES[rival].lower()} on every dataset.",
        "strictly outperforms the other data augmentation schemes",
        above("genmix-gan", rival),
        gain=("genmix-gan", rival),
        brief=f"lower error than {TITLES[rival].lower()} on every dataset",
    )
    for rival in RIVALS
]
NOTES = [
    "Ours: mean ± standard deviation over trials; each has a new draw of the training and test rows, and new weights. "
    "The paper does not say what its ± is over, nor which epoch it keeps; ours is the last one.",
    "Neither size nor noise of the circles are printed. Circle (2D): radii 1 and 0.8, 100 points under Laplace noise "
    "0.04, where no classifier errs on less than 4.2 %. Circle (3D): two spheres of these radii, 200 points, noise "
    "0.02, where none errs on less than 0.2 %. 10,000 test points.",
    "MNIST 7/9: 500 images of each digit to train on, all 2,037 test images of the two.",
    "Rows below GenMix + GAN are GenMix with other densities; they are not in the paper. The flow is not for images.",
]


def cells(budget: str) -> list[Cell]:
    """Return the cells of the datasets of the paper; the smallest budget has no images.

    >>> cells("smoke")[0].id
    'genmix/circle-2d/vanilla/alpha=1/split=0/seed=0'
    """
    check_choice("budget", budget, BUDGETS)
    datasets = [name for name in columns_of(PAPER) if budget != "smoke" or GENMIX_DATASETS[name].image is None]
    return _cells(datasets, budget)


def further_cells(budget: str) -> list[Cell]:
    """Return the cells of digits, which are always available, and not in the paper.

    >>> {cell.dataset for cell in further_cells("smoke")}
    {'digits-79'}
    """
    check_choice("budget", budget, BUDGETS)
    return _cells(["digits-79"], budget)


def _cells(datasets: Sequence[str], budget: str) -> list[Cell]:
    methods = {
        name: [m.variant for m in map(GENMIX_METHODS.get, ROWS) if m and m.supports(GENMIX_DATASETS[name])]
        for name in datasets
    }
    return [cell for name in datasets for cell in make_trials("genmix", [name], methods[name], TRIALS[budget])]


def render(records: pd.DataFrame) -> Rendering:
    """Show the errors next to the printed ones, and the cost of GenMix.

    >>> [row for row, _ in render(pd.DataFrame()).grids[0].rows][:4]
    ['Vanilla', 'Mixup', 'Manifold mixup', 'GenMix + GAN']
    """
    datasets = [*columns_of(PAPER), "digits-79"]
    chosen = select_genmix_records(records, datasets)
    columns = [name for name in datasets if name in PAPER_SETS or (chosen["dataset"] == name).any()]
    grids = [_errors(chosen, columns), *([_seconds(chosen, columns)] if len(chosen) else [])]
    notes = [f"{SETTINGS['genmix'].about}.", coverage(chosen, columns, ROWS), *NOTES]
    return Rendering(grids, _claims(chosen), notes=notes)


PAPER_SETS = columns_of(PAPER)


def _claims(records: pd.DataFrame) -> list[Claim]:
    """Return the statements of the paper, checked on accuracies: 100 minus the error."""
    ours = PairedMeans(records, PAPER_SETS)
    accuracies = 100.0 - printed_means(PAPER)
    return [replace(check.claim(ours, accuracies), full=TRIALS["full"]) for check in CHECKS]


def _errors(records: pd.DataFrame, datasets: Sequence[str]) -> Grid:
    rows = [(TITLES[row], [_value(records, name, row) for name in datasets]) for row in ROWS]
    titles = [GENMIX_DATASETS[name].title for name in datasets]
    return Grid("Classification error (lower is better)", titles, rows, corner="dataset")


def _value(records: pd.DataFrame, name: str, row: str) -> Value:
    return Value(mean_score(records, name, row, "error"), PAPER.get((row, name)), _why(row, name))


def _why(row: str, name: str) -> str:
    return "not run" if GENMIX_METHODS[row].supports(GENMIX_DATASETS[name]) else "not for images"


def _seconds(records: pd.DataFrame, datasets: Sequence[str]) -> Grid:
    """Return the time to fit a density and find the points."""
    rows = [
        (
            TITLES[row],
            [Value(mean_score(records, name, row, "augment_seconds"), None, _why(row, name)) for name in datasets],
        )
        for row in ROWS
        if row not in RIVALS
    ]
    titles = [GENMIX_DATASETS[name].title for name in datasets]
    return Grid("Seconds to fit the density and to find the points, on one thread", titles, rows, "s", corner="dataset")


EXPERIMENT = Experiment(
    "table15",
    "Classification errors of GenMix",
    "arXiv Table 15, Section F.5",
    cells,
    render,
    PAPER,
    further_cells,
    section="genmix",
)
