"""Base class of the settings: how cells with the same setting are trained and measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from genlabel_paper.runs.cells import Cell

Variant: TypeAlias = tuple[str, float]
"""Method (a key of `genlabel_paper.runs.methods.TITLES`) and its alpha."""


class Result(NamedTuple):
    """Parameters and metrics of a trained cell."""

    cell: Cell
    parameters: dict[str, Any]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Setting(ABC):
    """Base class of the settings."""

    about: str
    """Description in one sentence."""

    @abstractmethod
    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods of the setting for a dataset."""

    @abstractmethod
    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return all values that the record of a method depends on, for its fingerprint.

        Raises KeyError for an unknown dataset or method.
        """

    def representative(self, dataset: str) -> str:
        """Return a dataset with the same description: one that stands for many, or the dataset itself."""
        return dataset

    @abstractmethod
    def cost(self, dataset: str) -> float:
        """Return the approximate time of a trial, in a unit shared by all settings."""

    @abstractmethod
    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Train and measure the cells of one trial; long trainings save their state in the folder `checkpoints`."""
