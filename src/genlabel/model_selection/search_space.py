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
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities import ClassDensity
from genlabel.densities.samples import stratified_order
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.options import CandidateSearch, Rung, TrainingOptions
from genlabel.model_selection.scoring import Pooling
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet
from genlabel.training.fleet_trainer import FleetTrainer

Configuration = tuple[int, int]
"""A model of a search: the index of its way of mixing, and that of its candidate."""
Subsets = Sequence[Sequence[Configuration]]
"""The configurations that each of several searches may choose."""
MAX_PARAMETERS = 8_000_000
"""Parameters of all networks of a search, over candidates and folds; training stores six values for each."""
EVALUATION_FACTOR = 1.3
"""Upper bound of the time of a search over that of its epochs: networks are also evaluated on held-out rows."""


@dataclass(frozen=True)
class MixingConfig:
    """A way of mixing: the mixer, the share of the samples that stay clean, and the network if there are several."""

    mixer: Mixer | None
    clean_fraction: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the estimator that tell the mixing configurations of a search apart."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of the network; None are those of the space."""

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
        """Train for some epochs more."""

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some of the candidates."""


@dataclass(frozen=True)
class SearchSpace:
    """All that a search chooses from, ways of mixing and candidates to train under each of them; and its options."""

    search: CandidateSearch
    training: TrainingOptions
    """Checked; its optimizer and its device are no names."""
    hidden: tuple[int, ...]
    """Hidden layers of the networks whose mixing configuration states none."""
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
    stream: int = 0
    """Random stream of its networks: 1 for those in whose features densities live, 0 for those that predict."""
    trainer: Callable[..., Trainer] = FleetTrainer
    """Called as `FleetTrainer` is: tasks, candidates, and options by name."""

    @cached_property
    def configurations(self) -> dict[Configuration, dict[str, Any]]:
        """Every mixing with every candidate, and both by the names of the estimator's parameters.

        Without mixing, candidates that differ in their labels only are one.
        """
        result: dict[Configuration, dict[str, Any]] = {}
        for m, mixing in enumerate(self.mixing):
            unmixed: list[dict[str, Any]] = []
            for c, names in enumerate(self.params):
                used = names if mixing.mixes else {k: v for k, v in names.items() if k not in self.label_params}
                params = {**used, **mixing.params}
                if mixing.mixes or params not in unmixed:
                    unmixed += [] if mixing.mixes else [params]
                    result[m, c] = params
        return result

    def epochs(self, rows: int) -> tuple[int, int]:
        """Return for how many epochs a network is trained at most, and how many epochs make a pass over the rows."""
        if self.training.epochs != "auto":
            return self.training.epochs, 1
        return self.search.auto_epochs(rows, self.training.batch_size)

    def needs_folds(self, subsets: Subsets | None = None) -> bool:
        """Tell whether networks of folds are trained: to choose, to fit pooling weights, or to predict."""
        chooses = any(len(subset) > 1 for subset in ([self.configurations] if subsets is None else subsets))
        return chooses or isinstance(self.pooling, str) or self.calibrate or not self.search.refits

    def stage_shares(self, searches: bool, typicality: bool) -> dict[str, float]:
        """Return the stages of a fit, with about how much of its time each takes."""
        shares = {
            "stacked density": 1.0 if any(density.is_calibrated for density in self.densities) else 0.0,
            "feature networks": 0.0 if self.feature_space is None else 5.0,
            "search": (10.0 if self.hidden else 1.0) if searches else 0.0,
            "final fit": 0.0 if self.search.predicts_with_folds else 3.0,
            "typicality": 0.5 if typicality else 0.0,
        }
        return {name: share for name, share in shares.items() if share}

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
        """Return the training of candidates on tasks with a way of mixing, before its first epoch.

        The tasks have no mixing yet; every way of mixing has the same rows in the same order, from the same weights.
        """
        way = self.mixing[mixing]
        mixer, clean_fraction = (way.mixer, way.clean_fraction) if way.mixes else (None, 1.0)
        options: dict[str, Any] = {"restore_best": restore_best} if restore_best else {}
        if self.search.is_halving:
            options |= {"averaged": True, "epochs_per_pass": epochs_per_pass}
        return self.trainer(
            [replace(task, mixer=mixer, clean_fraction=clean_fraction) for task in tasks],
            [self.candidates[c] for c in candidates],
            hidden=self.hidden if way.hidden is None else way.hidden,
            optimizer=self.training.optimizer,
            epochs=epochs,
            batch_size=self.training.batch_size,
            device=self.training.device,
            callback=progress,
            **options,
        )

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
    return [
        MixingConfig(
            mixer,
            clean_fraction,
            {"clean_fraction": clean_fraction} | ({"mixer": mixer} if len(mixers) > 1 and clean_fraction < 1.0 else {}),
        )
        for clean_fraction in clean_fractions
        for mixer in (mixers if clean_fraction < 1.0 else mixers[:1])
    ]


def union(subsets: Iterable[Iterable[Configuration]]) -> list[Configuration]:
    """Return the members of any subset, in order."""
    return sorted({configuration for subset in subsets for configuration in subset})


def candidates_by_mixing(subsets: Subsets) -> dict[int, list[int]]:
    """Return the candidates of the configurations of any subset, for each way of mixing."""
    result: dict[int, list[int]] = {}
    for m, c in union(subsets):
        result.setdefault(m, []).append(c)
    return result


def count_epochs(schedule: Sequence[Rung], candidates: int, subsets: int = 1, done: int = 0) -> int:
    """Return how many epochs of one candidate a search takes at most, after so many epochs are done."""
    total = 0
    for epochs, survivors in schedule:
        total, done = total + candidates * (epochs - done), epochs
        candidates = min(candidates, candidates if survivors is None else survivors * subsets)
    return total


def progressively_fewer(space: SearchSpace, subsets: Subsets) -> Iterator[Subsets]:
    """Yield the subsets, then smaller ones: of the middle weight decay, two learning rates, one; one configuration."""
    yield subsets
    decays, rates = (
        sorted({getattr(candidate, name) for candidate in space.candidates})
        for name in ("weight_decay", "learning_rate")
    )
    limits = [("weight_decay", [decays[len(decays) // 2]])]
    for count in (2, 1):
        first = max(0, (len(rates) - count) // 2)
        limits.append(("learning_rate", rates[first : first + count]))
    for name, values in limits:
        subsets = [
            [(m, c) for m, c in subset if getattr(space.candidates[c], name) in values] or list(subset)
            for subset in subsets
        ]
        yield subsets
    yield [[subset[len(subset) // 2]] for subset in subsets]


def cap_candidates(space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask]) -> Subsets:
    """Return the subsets of configurations, smaller if their networks together have very many parameters.

    Weight decays go first, then the smallest and the largest learning rates; no subset becomes empty.
    """
    n_in, n_out = tasks[0].X.shape[1], tasks[0].num_classes
    layers = [(n_in, *(space.hidden if way.hidden is None else way.hidden), n_out) for way in space.mixing]
    sizes = [sum((before + 1) * after for before, after in pairwise(each)) for each in layers]
    result, count = subsets, len(union(subsets))
    for result in islice(progressively_fewer(space, subsets), 3):
        if len(tasks) * sum(sizes[m] for m, _ in union(result)) <= MAX_PARAMETERS:
            break
    tried = len(union(result))
    if tried < count:
        message = f"a network of {max(sizes):,} parameters: the search tries {tried} of {count} candidates"
        warn("candidates", message, UserWarning)
    return result


def measure_epoch_seconds(space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask]) -> dict[int, float]:
    """Return the seconds of a pass of one candidate over all tasks, for each way of mixing."""
    task, result = tasks[0], {}
    rows = stratified_order(task.y)[:512]
    weight = None if task.weight is None else task.weight[rows]
    probe = replace(task, X=task.X[rows], y=task.y[rows], weight=weight)
    for m, candidates in candidates_by_mixing(subsets).items():
        seconds = []
        for _ in range(2):  # the first time is longer
            trainer, begin = space.make_trainer([probe], m, candidates, epochs=1), monotonic()
            trainer.advance(1)
            seconds.append(monotonic() - begin)
        result[m] = min(seconds) * sum(len(each.X) for each in tasks) / len(rows) / len(candidates)
    return result


def fit_to_time_limit(
    space: SearchSpace,
    subsets: Subsets,
    epochs: int,
    schedule: Callable[[int], list[Rung]],
    epoch_seconds: Mapping[int, float],
    progress: FitProgress,
) -> tuple[Subsets, int]:
    """Return subsets of configurations and a number of epochs for which there is time.

    Epochs become fewer first, down to half of them, then the configurations, to those of middle parameters.
    `epoch_seconds` are those of one candidate, for each way of mixing.
    """
    before, all_epochs = len(union(subsets)), epochs
    for smaller in progressively_fewer(space, subsets):
        tried = union(smaller)
        seconds = max(epoch_seconds[m] for m, _ in tried)
        work = count_epochs(schedule(all_epochs), len(tried), len(smaller))
        epochs = min(all_epochs, int(all_epochs * progress.time_left / (EVALUATION_FACTOR * work * seconds)))
        if epochs >= all_epochs // 2:
            break
    if len(tried) < before:
        progress.truncations.append(f"it tries {len(tried)} of {before} candidates")
    if epochs < all_epochs:
        progress.truncations.append(f"networks are trained for at most {max(1, epochs)} of {all_epochs} epochs")
    return smaller, max(1, epochs)


def within_limits(
    space: SearchSpace, subsets: Subsets, tasks: Sequence[TrainingTask], rows: int, progress: FitProgress
) -> tuple[Subsets, int]:
    """Return as many configurations and epochs as memory and the time limit allow for."""
    epochs, per_pass = space.epochs(rows)
    if space.search.is_halving:
        subsets = cap_candidates(space, subsets, tasks)
    if not progress.has_time_limit:
        return subsets, epochs
    seconds = {m: each / per_pass for m, each in measure_epoch_seconds(space, subsets, tasks).items()}
    schedule = partial(space.search.schedule, many_rows=per_pass > 1)
    return fit_to_time_limit(space, subsets, epochs, schedule, seconds, progress)
