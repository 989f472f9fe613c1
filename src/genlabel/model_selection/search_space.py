"""The space of a search: ways of mixing, labels, hyperparameters; as much of it as time and memory allow for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from numbers import Real
from time import monotonic
from typing import Any, Protocol

from genlabel._progress import FitProgress
from genlabel._text import count_of
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities import ClassDensity
from genlabel.densities.samples import stratified_order
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.options import CandidateSearch, Rung, TrainingOptions
from genlabel.model_selection.scoring import Pooling
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet
from genlabel.training.fleet_trainer import FleetTrainer

Configuration = tuple[int, int]
"""A model of a search, (m, c): the index of its way of mixing, and that of its candidate."""
Subsets = Sequence[Sequence[Configuration]]
"""The configurations of each of several searches that run together."""
Contains = Callable[[dict[str, Any]], bool]
"""Function of the parameters of a candidate; it returns whether a subset contains it."""
FitLabelers = Callable[[LabeledData, int | None], tuple[Labeler, ...]]
"""Function of the training rows of a fold and its index, which is None for all rows; it returns fitted labelers."""
MAX_PARAMETERS = 8_000_000
"""Parameters of all networks of a search, over candidates and folds; training stores six values for each."""
EVALUATION_FACTOR = 1.3
"""Upper bound of the time of a search, in units of the time of its epochs: networks are also evaluated."""


@dataclass(frozen=True)
class MixingConfig:
    """A way of mixing: the mixer, the share of the samples that stay clean, and the network if there are several."""

    mixer: Mixer | None
    clean_fraction: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the estimator in which the mixing configurations of a search differ."""
    hidden: tuple[int, ...] | None = None  # hidden layers of the network; None are those of the space

    @property
    def mixes(self) -> bool:
        """True if any sample is mixed; if not, this is plain training."""
        return self.mixer is not None and self.clean_fraction < 1.0


class Trainer(Protocol):
    """The training of every candidate on every task, such as :class:`genlabel.training.FleetTrainer`."""

    @property
    def fleet(self) -> Fleet:
        """The networks as they are now, and their losses."""

    def advance(self, epochs: int) -> None:
        """Train for `epochs` more epochs."""

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some of the candidates."""


@dataclass(frozen=True)
class SearchSpace:
    """Ways of mixing, the candidates that are trained under each of them, and the options of their search."""

    search: CandidateSearch
    training: TrainingOptions  # checked, with an optimizer and a device in place of their names
    hidden: tuple[int, ...]  # hidden layers of the networks whose mixing configuration states none
    mixing: Sequence[MixingConfig]
    labelers: Sequence[Labeler]  # not fitted; the target of a candidate is a weighted sum of their labels
    candidates: Sequence[Hyperparameters]
    params: Sequence[Mapping[str, Any]]  # the parameters of the estimator in which the candidates differ
    densities: Sequence[ClassDensity] = ()  # each makes a labeler of its own, after `labelers`
    priors: Any = "auto"
    """Class priors of the densities' labels."""
    feature_space: SearchSpace | None = None
    """Training of the networks in whose features the densities live; None is the input space."""
    pooling: Pooling = None
    calibrate: bool = False  # True if a network that is not pooled with a density is pooled with the class priors
    label_params: frozenset[str] = frozenset()
    """Parameters of the candidates that have no effect where nothing is mixed."""
    exclude_intrusion: bool = False
    stream: int = 0
    """Random stream of its networks: 1 for those in whose features densities live, 0 for those that predict."""
    trainer: Callable[..., Trainer] = FleetTrainer
    """Called as `FleetTrainer` is: tasks, candidates, and options by name."""

    @cached_property
    def configurations(self) -> dict[Configuration, dict[str, Any]]:
        """Every way of mixing with every candidate, and the parameters of the estimator that they stand for.

        Without mixing, only the first of the candidates that differ in nothing but their labels is a configuration.
        """
        result: dict[Configuration, dict[str, Any]] = {}
        for m, mixing in enumerate(self.mixing):
            unmixed: list[dict[str, Any]] = []
            for c, candidate_params in enumerate(self.params):
                params = {**candidate_params, **mixing.params}
                if not mixing.mixes:
                    params = {name: value for name, value in params.items() if name not in self.label_params}
                    if params in unmixed:
                        continue
                    unmixed.append(params)
                result[m, c] = params
        return result

    def select(self, subsets: Mapping[str, Contains]) -> list[list[Configuration]]:
        """Return the configurations that each subset contains; raise if there are none."""
        selected = []
        for name, contains in subsets.items():
            selected.append([key for key, params in self.configurations.items() if contains(params)])
            if not selected[-1]:
                raise ValueError(
                    f"subset {name!r} contains none of the {len(self.configurations)} candidates; "
                    f"they are dicts such as {next(iter(self.configurations.values()))}"
                )
        return selected

    def epochs(self, rows: int) -> tuple[int, int]:
        """Return the largest number of epochs of a network, and the number of epochs that make a pass over the rows."""
        if self.training.epochs != "auto":
            return self.training.epochs, 1
        return self.search.auto_epochs(rows, self.training.batch_size)

    def needs_folds(self, subsets: Subsets | None = None) -> bool:
        """Return whether networks of folds are trained: to choose, to fit pooling weights, or to predict."""
        chooses = any(len(subset) > 1 for subset in subsets or [list(self.configurations)])
        return chooses or isinstance(self.pooling, str) or self.calibrate or not self.search.refits

    def stage_shares(self, searches: bool, typicality: bool) -> dict[str, float]:
        """Return the stages of a fit, with the approximate share of its time that each takes."""
        shares = {
            "stacked density": 1.0 if any(density.is_calibrated for density in self.densities) else 0.0,
            "feature networks": 0.0 if self.feature_space is None else 5.0,
            "search": (10.0 if self.hidden else 1.0) if searches else 0.0,
            "final fit": 0.0 if self.search.predicts_with_folds else 3.0,
            "typicality": 0.5 if typicality else 0.0,
        }
        return {name: share for name, share in shares.items() if share}

    def make_task(self, data: CVData, fit_labelers: FitLabelers, fold: int | None) -> TrainingTask:
        """Return the training task of a fold, without mixing; fold None is all rows, 0 in the seed."""
        rows = data.whole if fold is None else data.train[fold]
        return TrainingTask(
            X=rows.X,
            y=rows.y,
            num_classes=len(rows.classes),
            labelers=fit_labelers(rows, fold),
            weight=rows.weight,
            class_weight=rows.class_weight,
            exclude_intrusion=self.exclude_intrusion,
            seed=[data.seed, self.stream, 0 if fold is None else fold + 1],
        )

    def make_trainer(
        self,
        tasks: Sequence[TrainingTask],
        mixing: int,
        candidates: Sequence[int],
        epochs: int,
        *,
        epochs_per_pass: int = 1,
        restore_best: bool | BestEpoch = False,
        progress: FitProgress | None = None,
    ) -> Trainer:
        """Return the training of candidates on tasks without mixing, to which the way of mixing is added."""
        config = self.mixing[mixing]
        mixer, clean_fraction = (config.mixer, config.clean_fraction) if config.mixes else (None, 1.0)
        options: dict[str, Any] = {"restore_best": restore_best} if restore_best else {}
        if self.search.is_halving:
            options |= {"averaged": True, "epochs_per_pass": epochs_per_pass}
        return self.trainer(
            [replace(task, mixer=mixer, clean_fraction=clean_fraction) for task in tasks],
            [self.candidates[c] for c in candidates],
            hidden=self.hidden if config.hidden is None else config.hidden,
            optimizer=self.training.optimizer,
            epochs=epochs,
            batch_size=self.training.batch_size,
            device=self.training.device,
            callback=progress,
            **options,
        )

    def resolved_config(self) -> dict[str, Any]:
        """Return the configurations in plain values, without the options of the search."""
        return {
            "mixing": [[c.mixer, c.clean_fraction, *([] if c.hidden is None else [c.hidden])] for c in self.mixing],
            "candidates": [[c.learning_rate, c.weight_decay, c.label] for c in self.candidates],
            "labels": [*self.labelers, *self.densities],
            "feature_space": None if self.feature_space is None else self.feature_space.resolved_config(),
            "pooling": self.pooling,
        }


def parameter_grid(name: str, value: Any, default: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return the values of a parameter to search: a number itself, a sequence its own grid, "auto" the default grid."""
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
    configs = []
    for clean_fraction in clean_fractions:
        used = mixers if clean_fraction < 1.0 else mixers[:1]
        for mixer in used:
            chosen = {"mixer": mixer} if len(used) > 1 else {}
            configs.append(MixingConfig(mixer, clean_fraction, {"clean_fraction": clean_fraction, **chosen}))
    return configs


def union(subsets: Iterable[Iterable[Configuration]]) -> list[Configuration]:
    """Return the configurations of all subsets, each once, sorted."""
    return sorted({configuration for subset in subsets for configuration in subset})


def candidates_by_mixing(subsets: Subsets) -> dict[int, list[int]]:
    """Return the candidates of all subsets for each way of mixing."""
    result: dict[int, list[int]] = {}
    for m, c in union(subsets):
        result.setdefault(m, []).append(c)
    return result


def count_epochs(schedule: Sequence[Rung], candidates: int, subsets: int = 1, done: int = 0) -> int:
    """Return the largest number of epochs, each of one candidate, that a search takes after `done` epochs."""
    total = 0
    for end, survivors in schedule:
        total += candidates * (end - done)
        done = end
        if survivors is not None:
            candidates = min(candidates, survivors * subsets)
    return total


def progressively_fewer(space: SearchSpace, subsets: Subsets) -> Iterator[Subsets]:
    """Yield the subsets, then those of the middle weight decay; of two learning rates; of one; of one configuration."""
    yield subsets
    decays = sorted({candidate.weight_decay for candidate in space.candidates})
    rates = sorted({candidate.learning_rate for candidate in space.candidates})
    limits = [("weight_decay", decays[len(decays) // 2 :][:1])]
    limits += [("learning_rate", rates[max(0, (len(rates) - count) // 2) :][:count]) for count in (2, 1)]
    for name, allowed in limits:
        subsets = [
            [(m, c) for m, c in subset if getattr(space.candidates[c], name) in allowed] or list(subset)
            for subset in subsets
        ]
        yield subsets
    yield [[subset[len(subset) // 2]] for subset in subsets]


def cap_candidates(space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask]) -> Subsets:
    """Return the subsets of configurations, smaller if their networks together have very many parameters."""
    sizes = []  # parameters of a network with each way of mixing
    for config in space.mixing:
        hidden = space.hidden if config.hidden is None else config.hidden
        layers = pairwise((tasks[0].X.shape[1], *hidden, tasks[0].num_classes))
        sizes.append(sum((before + 1) * after for before, after in layers))
    for result in islice(progressively_fewer(space, subsets), 3):
        if len(tasks) * sum(sizes[m] for m, _ in union(result)) <= MAX_PARAMETERS:
            break
    if (tried := len(union(result))) < (count := len(union(subsets))):
        message = f"a network has {max(sizes):,} parameters: the search tries {tried} of {count} candidates"
        warn("candidates", message, UserWarning)
    return result


def measure_pass_seconds(space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask]) -> dict[int, float]:
    """Return the seconds of a pass of one candidate over all tasks, for each way of mixing."""
    task = tasks[0]
    rows = stratified_order(task.y)[:512]
    weight = None if task.weight is None else task.weight[rows]
    probe = replace(task, X=task.X[rows], y=task.y[rows], weight=weight)
    all_rows = sum(len(each.X) for each in tasks)
    result = {}
    for m, candidates in candidates_by_mixing(subsets).items():
        seconds = []
        for _ in range(2):  # the first time is longer
            trainer = space.make_trainer([probe], m, candidates, epochs=1)
            begin = monotonic()
            trainer.advance(1)
            seconds.append(monotonic() - begin)
        result[m] = min(seconds) * all_rows / len(rows) / len(candidates)
    return result


def fit_to_time_limit(
    space: SearchSpace,
    subsets: Subsets,
    epochs: int,
    schedule: Callable[[int], list[Rung]],
    epoch_seconds: Mapping[int, float],
    progress: FitProgress,
) -> tuple[Subsets, int]:
    """Return subsets and a number of epochs for which there is time; `epoch_seconds` are those of one candidate.

    Epochs become fewer first, down to half of them, then the configurations, to those of middle parameters.
    """
    max_epochs, count = epochs, len(union(subsets))
    for smaller in progressively_fewer(space, subsets):
        tried = union(smaller)
        seconds = max(epoch_seconds[m] for m, _ in tried)
        work = count_epochs(schedule(max_epochs), len(tried), len(smaller))
        epochs = min(max_epochs, int(max_epochs * progress.time_left / (EVALUATION_FACTOR * work * seconds)))
        if epochs >= max_epochs // 2:
            break
    epochs = max(1, epochs)
    if len(tried) < count:
        progress.truncations.append(f"it tries {len(tried)} of {count} candidates")
    if epochs < max_epochs:
        progress.truncations.append(f"networks are trained for at most {epochs} of {count_of(max_epochs, 'epoch')}")
    return smaller, epochs


def within_limits(
    space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask], rows: int, progress: FitProgress
) -> tuple[Subsets, int]:
    """Return the subsets and the number of epochs, as many as memory and the time limit allow for."""
    epochs, per_pass = space.epochs(rows)
    if space.search.is_halving:
        subsets = cap_candidates(space, subsets, tasks)
    if not progress.has_time_limit:
        return subsets, epochs
    epoch_seconds = {m: s / per_pass for m, s in measure_pass_seconds(space, subsets, tasks).items()}
    schedule = partial(space.search.schedule, many_rows=per_pass > 1)
    return fit_to_time_limit(space, subsets, epochs, schedule, epoch_seconds, progress)
