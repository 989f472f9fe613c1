"""The experiments by id: the tables and figures of the paper that are reproduced here."""

from __future__ import annotations

from collections.abc import Iterable

from genlabel_paper.experiments import (
    figure2,
    figure3,
    figure4,
    figure5,
    figure7,
    figure8,
    figure9,
    statistics,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6,
    table8,
    table9,
)
from genlabel_paper.report.experiment import Experiment

__all__ = ["EXPERIMENTS", "find"]

_MODULES = (
    table1, table2, table3, table4, table5, table6, table8, table9,
    figure2, figure3, figure4, figure5, figure7, figure8, figure9, statistics,
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.id: module.EXPERIMENT for module in _MODULES}
"""All experiments, in the order of the report."""


def find(ids: Iterable[str]) -> list[Experiment]:
    """Return the experiments of these ids, each once; "all" is all of them.

    >>> [experiment.id for experiment in find(["table4", "figure3"])]
    ['table4', 'figure3']
    >>> len(find(["all"])) == len(EXPERIMENTS)
    True
    """
    chosen: dict[str, Experiment] = {}
    for name in map(str.lower, ids):
        if name == "figure6":
            raise ValueError("figure6 is drawn by `make gallery`; it has no table or record here")
        if name != "all" and name not in EXPERIMENTS:
            raise ValueError(f"table or figure {name!r} is not known; choose all, or among {', '.join(EXPERIMENTS)}")
        chosen |= EXPERIMENTS if name == "all" else {name: EXPERIMENTS[name]}
    return list(chosen.values())
