"""Experiments by id: the reproduced tables and figures of the paper, each in the file of its id."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genlabel_paper.report.experiment import Experiment


IDS = (
    "table1", "table2", "table3", "table4", "table5", "table6", "table7", "table8", "table9", "table15",
    "figure2", "figure3", "figure4", "figure5", "figure6", "figure7", "figure8", "figure9",
    "figure13", "figure14", "figure15", "figure16", "densities", "multiverse", "statistics",
)  # fmt: skip
"""All experiments in the order of the report; their modules are imported by `find`."""
COMPUTED = frozenset({"figure2", "figure4", "figure7", "figure8"})
"""Experiments that are computed without training and records."""
ON_REQUEST = frozenset({"multiverse"})
"""Experiments that take hours and run only if they are named."""


def check_ids(ids: Iterable[str], run: bool = False) -> list[str]:
    """Return the ids without duplicates; "all" is all of them, for a run without those of `ON_REQUEST`.

    >>> check_ids(["Table4", "figure3", "table4"])
    ['table4', 'figure3']
    >>> check_ids(["table16"])
    Traceback (most recent call last):
    ValueError: table or figure 'table16' is unknown; choose all, or from table1, ...
    """
    chosen: list[str] = []
    for name in map(str.lower, ids):
        if name != "all" and name not in IDS:
            raise ValueError(f"table or figure {name!r} is unknown; choose all, or from {', '.join(IDS)}")
        chosen += [one for one in IDS if not run or one not in ON_REQUEST] if name == "all" else [name]
    return list(dict.fromkeys(chosen))


def find(ids: Iterable[str]) -> list[Experiment]:
    """Return the experiments with these ids, without duplicates; "all" is all of them.

    >>> [experiment.id for experiment in find(["table4", "figure3"])]
    ['table4', 'figure3']
    """
    return [import_module(f"genlabel_paper.experiments.{name}").EXPERIMENT for name in check_ids(ids)]
