"""A setting: how the cells that have its name are trained and measured, and what of it a record depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from genlabel_paper.runs.cells import Cell

Variant: TypeAlias = tuple[str, float]
"""A method, a key of `genlabel_paper.runs.methods.TITLES`, and its alpha."""


class Result(NamedTuple):
    """What came of a cell."""

    cell: Cell
    parameters: dict[str, Any]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Setting(ABC):
    """What a runner knows of a setting."""

    about: str
    """What it is, in a sentence."""

    @abstractmethod
    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods that it has for a dataset."""

    @abstractmethod
    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return all that the record of a method depends on, for its fingerprint; KeyError if it has none."""

    def alike(self, dataset: str) -> str:
        """Return a dataset of which a record depends on the same: the first one that comes to mind, or itself."""
        return dataset

    @abstractmethod
    def cost(self, dataset: str) -> float:
        """Return about how long a trial takes, in units that are the same for all settings."""

    @abstractmethod
    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Train and measure the cells of one trial."""
