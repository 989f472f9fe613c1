"""What a search is over: recipes for mixing, the candidates of a method, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.attacks import Attack
from genlabel.densities import ClassDensity
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.pooling import Pooling
from genlabel.training import AdaMixupNetworks, Fleet, FleetTrainer, Hyperparameters, Optimizer, TrainingTask
from genlabel.training.networks import MLP

Rule = str | Attack
"""How a candidate is chosen: a name of `SELECTIONS`, or by held-out accuracy under an attack."""
Average = Pooling | str | None
"""Weights of the network and of its density in what is predicted; "cv" is those of the lowest held-out log-loss."""


SEARCHES = ("halving", "full")
"""How a search spends its time: few epochs for all candidates and many for the best, or all epochs for all."""
FOLDS = "folds"
"""The members that the search has trained anyway: the networks of the folds."""


class TrainerConfig(NamedTuple):
    """How networks are built, trained and sought, the same for every candidate."""

    hidden: tuple[int, ...]
    optimizer: Optimizer
    epochs: int | None
    """None is as many as suit the size of the sample."""
    batch_size: int
    device: torch.device
    search: str = "full"
    members: int | str = 1
    """How many networks are trained on all rows and averaged; or `FOLDS`."""
    keep: str = "last"
    """Which epoch of a network is kept, of `genlabel.training.EPOCH_CHOICES`; if it is the best on the rows that a
    fold holds
    out, the networks that predict are those of the first folds."""

    @property
    def halving(self) -> bool:
        """Whether the search halves its candidates as it goes on."""
        return self.search == "halving"

    def of_training(self, epochs: int, hidden: tuple[int, ...] | None = None) -> dict[str, Any]:
        """What a training needs, by name."""
        return {
            "hidden": self.hidden if hidden is None else hidden,
            "optimizer": self.optimizer,
            "epochs": epochs,
            "batch_size": self.batch_size,
            "device": self.device,
        }

    def resolved_config(self) -> dict[str, Any]:
        """The settings by name, but for the machine; what came later only where it is not what it was before."""
        later = {"search": ("full", self.search), "members": (1, self.members)}
        found = {name: value for name, value in self._asdict().items() if name not in ("device", "keep", *later)}
        if any(first != now for first, now in later.values()):
            found |= {name: now for name, (_, now) in later.items()}
        return found if self.keep == "last" else found | {"keep": self.keep}


@dataclass(frozen=True)
class MixingConfig:
    """One way of mixing: the mixer, and the share of the points that stay clean."""

    mixer: Mixer | None
    clean_fraction: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    """What tells the recipes apart, in the words of the estimator's parameters."""
    hidden: tuple[int, ...] | None = None
    """The hidden layers of the network, where they are not those of the settings."""

    @property
    def mixes(self) -> bool:
        """Whether any point is mixed; if not, this is vanilla training."""
        return self.mixer is not None and self.clean_fraction < 1.0

    def under(self, task: TrainingTask) -> TrainingTask:
        """The same task under this recipe: the same rows in the same order, from the same weights."""
        mixer = self.mixer if self.mixes else None
        return replace(task, mixer=mixer, clean_fraction=self.clean_fraction if mixer is not None else 1.0)


def members_of(task: TrainingTask, members: int) -> list[TrainingTask]:
    """Return the same task as often as there are members, each with random streams of its own."""
    return [task, *(replace(task, seed=[*task.seed, member]) for member in range(1, members))]


class Run(Protocol):
    """The training of every candidate on every task, as :class:`genlabel.training.FleetTrainer` is."""

    @property
    def fleet(self) -> Fleet:
        """The networks as they are now, and their losses."""
        ...

    @property
    def trio(self) -> AdaMixupNetworks | None:
        """What was trained beside them, if anything was."""
        ...

    def advance(self, epochs: int) -> None:
        """Train for some epochs more."""
        ...

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of the candidates alone."""
        ...


Start = Callable[..., Run]
"""Called as `FleetTrainer` is: tasks, candidates, and the settings by name."""


@dataclass(frozen=True)
class SearchSpace:
    """A method: recipes for mixing, labels for what was mixed, and the candidates to train under each recipe."""

    recipes: Sequence[MixingConfig]
    labelers: Sequence[Labeler]
    """Not yet fitted; their matrices are the basis in which a candidate states its target."""
    candidates: Sequence[Hyperparameters]
    params: Sequence[Mapping[str, Any]]
    """What tells the candidates apart, in the words of the estimator's parameters."""
    densities: Sequence[ClassDensity] = ()
    """Each one labeler more, behind the others."""
    priors: Any = "auto"
    """Of the densities' labels."""
    twin: SearchSpace | None = None
    """How the twin networks are trained in whose features the densities live; None is the input space."""
    average: Average = None
    calibrated: bool = False
    """Whether a network that is not averaged with a density is drawn towards the frequencies of the classes, as far as
    held-out rows say."""
    about_labels: frozenset[str] = frozenset()
    """Those of the candidates' parameters that say nothing where no point is mixed."""
    exclude_intrusion: bool = False
    start: Start = FleetTrainer
    """What trains every candidate on every task."""

    def resolved_config(self) -> dict[str, Any]:
        """What is trained, in plain words and numbers: it names nothing of how a search is written."""
        return {
            "mixing": [_said(recipe) for recipe in self.recipes],
            "candidates": [[one.learning_rate, one.weight_decay, one.label] for one in self.candidates],
            "labels": [*self.labelers, *self.densities],
            "twin": None if self.twin is None else self.twin.resolved_config(),
            "average": self.average[:2]
            if isinstance(self.average, Pooling) and not self.average.doubt
            else self.average,
        }

    @cached_property
    def entries(self) -> list[Configuration]:
        """Every recipe with every candidate; without mixing, candidates that differ in their labels alone are one."""
        found: list[Configuration] = []
        for r, recipe in enumerate(self.recipes):
            plain: list[dict[str, Any]] = []
            for c, names in enumerate(self.params):
                said = names if recipe.mixes else {k: v for k, v in names.items() if k not in self.about_labels}
                params = {**said, **recipe.params}
                if recipe.mixes or params not in plain:
                    plain += [] if recipe.mixes else [params]
                    found.append(Configuration(r, c, params))
        return found


class Configuration(NamedTuple):
    """One model of a search: a recipe, a candidate, and what to call the two."""

    recipe: int
    candidate: int
    params: dict[str, Any]


def _said(recipe: MixingConfig) -> list[Any]:
    """A recipe in plain words; the network too, where there are several."""
    return [recipe.mixer, recipe.clean_fraction, *([] if recipe.hidden is None else [recipe.hidden])]


class SearchResult(NamedTuple):
    """The entry that was chosen, and how all of them did on the folds."""

    entry: Configuration
    place: int
    """Its row in the results."""
    results: dict[str, Any]
    epochs: int
    """How long it is trained."""
    networks: Callable[[], list[MLP]] | None = None
    """Makes the networks of the folds, each of points that its fold has standardised; None if there are none."""
    losses: list[float] | None = None
    """Their mean training loss, epoch by epoch."""
    best_epochs: list[int] | None = None
    """Which epoch each of them is of, where the best one was kept."""
    pooling: Pooling | None = None
    """What the network counts for in what is predicted, beside the stacked density and the frequencies of the
    classes; None
    is the network alone."""
    held_out: NDArray[np.float32] | None = None
    """Log-probabilities (n, k) of the held-out rows of all folds, as they are predicted; None if there are none, or if
    the rows were attacked."""


class FitResult(NamedTuple):
    """What a fit comes to: the choice, the networks that predict, and the task of the whole sample."""

    choice: SearchResult
    networks: list[MLP]
    """Of points that the whole sample has standardised."""
    losses: list[float]
    task: TrainingTask
    label: tuple[float, ...]
    """Share of each labeler of the task in the target of the model."""
    trio: AdaMixupNetworks | None = None
    place: int = 0
    """Which model of the trio it is."""

    @property
    def average(self) -> tuple[float, float] | None:
        """Weights of the network and the density, if there are two."""
        pooling = self.choice.pooling
        return None if pooling is None or pooling.label_model is None else (pooling.network, pooling.label_model)

    @property
    def labeler(self) -> Labeler:
        """The labeler of the chosen density; of the only one, if it is averaged with."""
        shares = [place for place, share in enumerate(self.label) if share > 0]
        return self.task.labelers[-1 if self.average is not None else shares[-1]]
