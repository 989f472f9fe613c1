"""The multiverse: tables 1, 4, 5, 6, 8 and 9 under every reading of the paper's text, and which one agrees with print."""

from __future__ import annotations

from genlabel_paper.registry import find
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.study.cells import BUDGETS, Cell
from genlabel_paper.study.multiverse import name_of
from genlabel_paper.study.readings import READINGS

__all__ = ["EXPERIMENT", "TABLES"]

TABLES = ("table1", "table4", "table5", "table6", "table8", "table9")
SEEDS = 3
"""Of each split, at most."""


def _cells(budget: str) -> list[Cell]:
    """Every method and dataset of the tables, under every reading that changes it."""
    from genlabel_paper.study.settings import SETTINGS

    places = {
        (cell.setting, cell.dataset, cell.method): None for table in find(TABLES) for cell in table.cells(budget)
    }
    _, _, splits, seeds = BUDGETS[budget]
    return [
        Cell(name_of(setting, reading.name), dataset, method, split, seed)
        for reading in READINGS.values()
        for setting, dataset, method in places
        if name_of(setting, reading.name) in SETTINGS and reading.touches(dataset, method)
        for split in range(splits)
        for seed in range(min(seeds, SEEDS))
    ]


EXPERIMENT = None
