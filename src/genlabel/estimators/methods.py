"""What a search is over: recipes for mixing, the candidates of a method, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch

from genlabel.attacks import Attack
from genlabel.densities import ClassDensity
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.training import Candidate, Fleet, Optimizer, Task, Trio, train_fleet

__all__ = ["Average", "Choice", "Entry", "Final", "Method", "Recipe", "Rule", "Settings", "Training"]

Rule = str | Attack
"""How a candidate is chosen: a name of `SELECTIONS`, or by held-out accuracy under an attack."""
Average = tuple[float, float] | str | None
"""Weights of the network and of its density in what is predicted; "cv" is those of the lowest held-out log-loss."""


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


class Training(NamedTuple):
    """What a trainer returns: the classifiers of every task and candidate, and what it trained beside them."""

    fleet: Fleet
    trio: Trio | None = None


Trainer = Callable[..., Training]
"""Called as `train_fleet` is: tasks, candidates, and the settings by name."""


def _train_fleet(*args: Any, **settings: Any) -> Training:
    return Training(train_fleet(*args, **settings))


@dataclass(frozen=True)
class Method:
    """A method: recipes for mixing, labels for what was mixed, and the candidates to train under each recipe."""

    recipes: Sequence[Recipe]
    labelers: Sequence[Labeler]
    """Not yet fitted; their matrices are the basis in which a candidate states its target."""
    candidates: Sequence[Candidate]
    params: Sequence[Mapping[str, Any]]
    """What tells the candidates apart, in the words of the estimator's parameters."""
    densities: Sequence[ClassDensity] = ()
    """Each one labeler more, behind the others."""
    priors: Any = "auto"
    """Of the densities' labels."""
    twin: Method | None = None
    """How the twin networks are trained in whose features the densities live; None is the input space."""
    average: Average = None
    about_labels: frozenset[str] = frozenset()
    """Those of the candidates' parameters that say nothing where no point is mixed."""
    exclude_intrusion: bool = False
    trainer: Trainer = _train_fleet
    """What trains every candidate on every task."""

    def in_full(self) -> dict[str, Any]:
        """What is trained, in plain words and numbers: it names nothing of how a search is written."""
        return {
            "mixing": [[recipe.mixer, recipe.clean_weight] for recipe in self.recipes],
            "candidates": [[one.learning_rate, one.weight_decay, one.label] for one in self.candidates],
            "labels": [*self.labelers, *self.densities],
            "twin": None if self.twin is None else self.twin.in_full(),
            "average": self.average,
        }

    @cached_property
    def entries(self) -> list[Entry]:
        """Every recipe with every candidate; without mixing, candidates that differ in their labels alone are one."""
        found: list[Entry] = []
        for r, recipe in enumerate(self.recipes):
            plain: list[dict[str, Any]] = []
            for c, names in enumerate(self.params):
                said = names if recipe.mixes else {k: v for k, v in names.items() if k not in self.about_labels}
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


class Final(NamedTuple):
    """What a fit comes to: the choice, the models trained on the whole sample, and the task they were trained on."""

    choice: Choice
    training: Training
    task: Task
    place: int
    """Which model of the training it is."""
    label: tuple[float, ...]
    """Share of each labeler of the task in the target of the model."""

    @property
    def labeler(self) -> Labeler:
        """The labeler of the chosen density; of the only one, if it is averaged with."""
        shares = [place for place, share in enumerate(self.label) if share > 0]
        return self.task.labelers[-1 if self.choice.average is not None else shares[-1]]
