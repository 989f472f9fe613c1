"""Table 15: classification errors of GenMix, mixup and manifold mixup on two circles, two spheres and two digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from genlabel._validation import check_choice
from genlabel_paper.report.claims import Check, Trials, above
from genlabel_paper.report.experiment import Experiment, measured
from genlabel_paper.report.genmix import of_genmix
from genlabel_paper.report.pieces import Claim, Grid, Shown, Value
from genlabel_paper.report.printed import columns_of, printed_means, read_printed, rows_of
from genlabel_paper.report.selected import extent
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix_methods import GENMIX_METHODS
from genlabel_paper.runs.genmix_sets import GENMIX_SETS
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
"""Errors in percent."""
OTHERS = ["genmix-gaussian", "genmix-kernel", "genmix-mixture", "genmix-flow", "genmix-vae"]
"""GenMix with densities that are not in the paper's table."""
ROWS = [*rows_of(PAPER), *OTHERS]
TRIALS = {"smoke": 1, "quick": 5, "full": 10}
"""Of each budget: each is a new draw of the rows, and a seed of its own."""
RIVALS = ("vanilla", "mixup", "manifold")
CHECKS = [
    Check(
        f"GenMix+GAN has a lower error than {TITLES[rival].lower()} on every set.",
        "strictly outperforms the other data augmentation schemes",
        above("genmix-gan", rival),
        gain=("genmix-gan", rival),
        brief=f"lower error than {TITLES[rival].lower()} on every set",
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
    """Return the cells of the sets of the paper; the smallest budget has no images.

    >>> cells("smoke")[0].id
    'genmix/circle-2d/vanilla/alpha=1/split=0/seed=0'
    """
    check_choice("budget", budget, BUDGETS)
    sets = [name for name in columns_of(PAPER) if budget != "smoke" or GENMIX_SETS[name].image is None]
    return _cells(sets, budget)


def further_cells(budget: str) -> list[Cell]:
    """Return the cells of digits, which are always at hand, and not in the paper.

    >>> {cell.dataset for cell in further_cells("smoke")}
    {'digits-79'}
    """
    check_choice("budget", budget, BUDGETS)
    return _cells(["digits-79"], budget)


def _cells(sets: Sequence[str], budget: str) -> list[Cell]:
    methods = {
        name: [m.variant for m in map(GENMIX_METHODS.get, ROWS) if m and m.suits(GENMIX_SETS[name])] for name in sets
    }
    return [cell for name in sets for cell in make_trials("genmix", [name], methods[name], TRIALS[budget])]


def render(records: pd.DataFrame) -> Shown:
    """Show the errors beside the printed ones, and what GenMix costs.

    >>> [row for row, _ in render(pd.DataFrame()).grids[0].rows][:4]
    ['Vanilla', 'Mixup', 'Manifold mixup', 'GenMix + GAN']
    """
    sets = [*columns_of(PAPER), "digits-79"]
    chosen = of_genmix(records, sets)
    columns = [name for name in sets if name in PAPER_SETS or (chosen["dataset"] == name).any()]
    grids = [_errors(chosen, columns), *([_seconds(chosen, columns)] if len(chosen) else [])]
    notes = [f"{SETTINGS['genmix'].about}.", extent(chosen, columns, ROWS), *NOTES]
    return Shown(grids, _claims(chosen), notes=notes)


PAPER_SETS = columns_of(PAPER)


def _claims(records: pd.DataFrame) -> list[Claim]:
    """The paper's statements, of accuracies: 100 minus the error."""
    ours = Trials(records, PAPER_SETS)
    accuracies = 100.0 - printed_means(PAPER)
    return [replace(check.claim(ours, accuracies), full=TRIALS["full"]) for check in CHECKS]


def _errors(records: pd.DataFrame, sets: Sequence[str]) -> Grid:
    rows = [(TITLES[row], [_value(records, name, row) for name in sets]) for row in ROWS]
    titles = [GENMIX_SETS[name].title for name in sets]
    return Grid("Classification error (lower is better)", titles, rows, corner="dataset")


def _value(records: pd.DataFrame, name: str, row: str) -> Value:
    return Value(measured(records, name, row, "error"), PAPER.get((row, name)), _why(row, name))


def _why(row: str, name: str) -> str:
    return "not run" if GENMIX_METHODS[row].suits(GENMIX_SETS[name]) else "not for images"


def _seconds(records: pd.DataFrame, sets: Sequence[str]) -> Grid:
    """What it takes to fit a density and to find the points."""
    rows = [
        (TITLES[row], [Value(measured(records, name, row, "augment_seconds"), None, _why(row, name)) for name in sets])
        for row in ROWS
        if row not in RIVALS
    ]
    titles = [GENMIX_SETS[name].title for name in sets]
    return Grid("Seconds to fit the density and to find the points, on one thread", titles, rows, "s", corner="dataset")


EXPERIMENT = Experiment(
    "table15",
    "Classification errors of GenMix",
    "arXiv Table 15, Section F.5",
    cells,
    render,
    PAPER,
    further_cells,
    part="genmix",
)
