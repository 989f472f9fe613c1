"""The space of a search: ways of mixing, labels, and the hyperparameters of the candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple, Protocol

from genlabel._validation import check_choice, check_interval
from genlabel.densities import ClassDensity
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.pooling import Pooling
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet import Fleet
from genlabel.training.fleet_trainer import FleetTrainer


@dataclass(frozen=True)
class MixingConfig:
    """A way of mixing: the mixer, the share of the samples that stay clean, and the network if there are several."""

    mixer: Mixer | None
    clean_fraction: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the estimator that tell the mixing configurations of a search apart."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of the network; None are those of the training options."""

    @property
    def mixes(self) -> bool:
        """True if any sample is mixed; if not, this is plain training."""
        return self.mixer is not None and self.clean_fraction < 1.0

    def apply(self, task: TrainingTask) -> TrainingTask:
        """Return the same task, mixed in this way: the same rows in the same order, from the same weights."""
        mixer = self.mixer if self.mixes else None
        return replace(task, mixer=mixer, clean_fraction=self.clean_fraction if mixer is not None else 1.0)


class Trainer(Protocol):
    """The training of every candidate on every task, such as :class:`genlabel.training.FleetTrainer`."""

    @property
    def fleet(self) -> Fleet:
        """The networks as they are now, and their losses."""
        ...

    def advance(self, epochs: int) -> None:
        """Train for some epochs more."""
        ...

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some of the candidates."""
        ...


TrainerFactory = Callable[..., Trainer]
"""Called as `FleetTrainer` is: tasks, candidates, and options by name."""


class Configuration(NamedTuple):
    """A model of a search."""

    mixing: int
    """Index of its mixing configuration."""
    candidate: int
    """Index of its hyperparameters."""
    params: dict[str, Any]
    """Both, by the names of the estimator's parameters."""


@dataclass(frozen=True)
class SearchSpace:
    """All that a search chooses from: ways of mixing, and candidates to train under each of them."""

    mixing: Sequence[MixingConfig]
    labelers: Sequence[Labeler]
    """Not fitted; a candidate states its target as a weighted sum of their labels."""
    candidates: Sequence[Hyperparameters]
    params: Sequence[Mapping[str, Any]]
    """The parameters of the estimator that tell the candidates apart."""
    densities: Sequence[ClassDensity] = ()
    """Each makes a labeler, after the others."""
    priors: Any = "auto"
    """Class priors of the densities' labels."""
    feature_space: SearchSpace | None = None
    """Training of the networks in whose features the densities live; None is the input space."""
    pooling: Pooling = None
    calibrate: bool = False
    """True if a network that is not pooled with a density is pooled with the class priors."""
    label_params: frozenset[str] = frozenset()
    """Parameters of the candidates that have no effect where nothing is mixed."""
    exclude_intrusion: bool = False
    trainer: TrainerFactory = FleetTrainer

    @cached_property
    def configurations(self) -> list[Configuration]:
        """Every mixing with every candidate; without mixing, candidates that differ in their labels only are one."""
        result: list[Configuration] = []
        for m, mixing in enumerate(self.mixing):
            unmixed: list[dict[str, Any]] = []
            for c, names in enumerate(self.params):
                used = names if mixing.mixes else {k: v for k, v in names.items() if k not in self.label_params}
                params = {**used, **mixing.params}
                if mixing.mixes or params not in unmixed:
                    unmixed += [] if mixing.mixes else [params]
                    result.append(Configuration(m, c, params))
        return result

    def resolved_config(self) -> dict[str, Any]:
        """Return what is trained, in plain values: the search itself is not part of it."""
        return {
            "mixing": [
                [way.mixer, way.clean_fraction, *([] if way.hidden is None else [way.hidden])] for way in self.mixing
            ],
            "candidates": [[one.learning_rate, one.weight_decay, one.label] for one in self.candidates],
            "labels": [*self.labelers, *self.densities],
            "feature_space": None if self.feature_space is None else self.feature_space.resolved_config(),
            "pooling": self.pooling,
        }


def parameter_grid(name: str, value: Any, default: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return the values of a parameter to search: a number itself, a sequence its own grid, "auto" the default grid.

    >>> parameter_grid("gamma", "auto", (0.0, 0.5, 1.0), 0.0, 1.0)
    (0.0, 0.5, 1.0)
    """
    hint = f'or "auto" to choose among {", ".join(f"{v:g}" for v in default)}'
    if isinstance(value, str):
        check_choice(name, value, ["auto"], also="a number, or a sequence of numbers to choose among")
        return tuple(default)
    if isinstance(value, Real):
        return (check_interval(name, value, low, high, hint),)
    values = list(value) if isinstance(value, Iterable) else []
    if not values:
        raise ValueError(f"{name}={value!r} must be a number or a non-empty sequence of numbers, {hint}")
    return tuple(check_interval(name, v, low, high, hint) for v in values)


def mixing_configs(mixers: Sequence[Mixer], clean_fractions: Sequence[float]) -> list[MixingConfig]:
    """Return every clean fraction with every mixer; where all samples are clean there is no mixer to choose."""
    return [
        MixingConfig(
            mixer,
            clean_fraction,
            {"clean_fraction": clean_fraction} | ({"mixer": mixer} if len(mixers) > 1 and clean_fraction < 1.0 else {}),
        )
        for clean_fraction in clean_fractions
        for mixer in (mixers if clean_fraction < 1.0 else mixers[:1])
    ]
