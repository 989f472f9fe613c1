"""What a search is over: recipes for mixing, the candidates of a method, and the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch

from genlabel.attacks import Attack
from genlabel.densities.latent import Encoder
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.training import Candidate, Fleet, Optimizer, train_fleet

__all__ = ["Choice", "Entry", "Method", "Recipe", "Rule", "Settings", "Trainer"]

Rule = str | Attack
"""How a candidate is chosen: a name of `SELECTIONS`, or by held-out accuracy under an attack."""
Trainer = Callable[..., Fleet]
"""Called as `train_fleet` is: tasks, candidates, and the settings by name."""


class Settings(NamedTuple):
    """How networks are built and trained, the same for every candidate."""

    hidden: tuple[int, ...]
    optimizer: Optimizer
    epochs: int
    batch_size: int
    device: torch.device


@dataclass(frozen=True)
class Recipe:
    """One way of mixing: the mixer, and the share of the points that stay clean."""

    mixer: Mixer | None
    clean_weight: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    """What tells the recipes apart, in the words of the estimator's parameters."""

    @property
    def mixes(self) -> bool:
        """Whether any point is mixed; if not, this is vanilla training."""
        return self.mixer is not None and self.clean_weight < 1.0


@dataclass(frozen=True)
class Method:
    """A method: recipes for mixing, labels for what was mixed, and the candidates to train under each recipe."""

    recipes: Sequence[Recipe]
    labelers: Callable[[Encoder | None, int | None], Sequence[Labeler]]
    """The labelers, not yet fitted, for a fold (None is all rows); in latent space they look through a twin network."""
    candidates: Sequence[Candidate]
    params: Sequence[Mapping[str, Any]]
    """What tells the candidates apart, in the words of the estimator's parameters."""
    about_labels: frozenset[str] = frozenset()
    """Those of the candidates' parameters that say nothing where no point is mixed."""
    exclude_intrusion: bool = False
    trainer: Trainer = train_fleet
    """What trains every candidate on every task."""

    @cached_property
    def entries(self) -> list[Entry]:
        """Every recipe with every candidate; without mixing, candidates that differ in their labels alone are one."""
        found: list[Entry] = []
        for r, recipe in enumerate(self.recipes):
            plain: list[dict[str, Any]] = []
            for c, own in enumerate(self.params):
                said = own if recipe.mixes else {k: v for k, v in own.items() if k not in self.about_labels}
                params = {**said, **recipe.params}
                if recipe.mixes or params not in plain:
                    plain += [] if recipe.mixes else [params]
                    found.append(Entry(r, c, params))
        return found


class Entry(NamedTuple):
    """One model of a search: a recipe, a candidate, and what to call the two."""

    recipe: int
    candidate: int
    params: dict[str, Any]


class Choice(NamedTuple):
    """The entry that was chosen, and how all of them did on the folds."""

    entry: Entry
    place: int
    """Its row in the results."""
    results: dict[str, Any]
    fleet: Fleet | None = None
    """The models of the folds, recipe by recipe; None if there was nothing to choose."""
    average: tuple[float, float] | None = None
    """Weights of the network and the label model in what is predicted; None is the network alone."""
