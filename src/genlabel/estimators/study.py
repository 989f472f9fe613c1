"""A study: folds of one sample, the search for the best candidate over them, and the final fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel.densities.latent import Encoder
from genlabel.estimators.folds import split
from genlabel.estimators.sample import Sample, Scaler
from genlabel.estimators.selection import SMALLEST, HeldOut, choose_best, pool, pooling_weights, results_table
from genlabel.labeling import GenLabel, Labeler, log_posterior, log_priors
from genlabel.mixing import Mixer
from genlabel.networks import MLP
from genlabel.progress import Listener
from genlabel.training import Candidate, Fleet, Optimizer, Task, train_fleet

__all__ = ["Choice", "Entry", "Method", "Recipe", "Settings", "Study", "log_posteriors"]


Trainer = Callable[..., Fleet]
"""Called as `train_fleet` is: tasks, candidates, and the settings by name."""
NETWORK, TWIN = 0, 1
"""Stages of a study, each with random streams of its own."""


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


class _Part(NamedTuple):
    """A training set and the points held out from it, both standardised by the training set."""

    train: Sample
    valid: Sample


class Study:
    """Everything that a sample and a seed fix: folds, scalers, random streams."""

    def __init__(
        self,
        sample: Sample,
        settings: Settings,
        *,
        cv: Any,
        standardize: bool,
        seed: int,
        progress: Listener | None = None,
    ) -> None:
        self.sample, self.settings, self.standardize = sample, settings, standardize
        self.cv, self.seed, self.progress = cv, seed, progress
        self.scaler = Scaler.fit(sample, standardize)

    @cached_property
    def rows(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Rows of the sample to train on and to hold out, for each fold; drawn when they are first needed."""
        return split(self.sample, self.cv, self.seed)

    @cached_property
    def folds(self) -> list[_Part]:
        """The folds."""
        return [self._part(train, valid) for train, valid in self.rows]

    def choose(
        self,
        method: Method,
        rule: str,
        twins: Sequence[Encoder] | None = None,
        stage: int = NETWORK,
        average: Any = None,
    ) -> Choice:
        """Train every entry on every fold, and choose one by what it did on the rows held out.

        With `average`, a pair of weights or "cv", an entry is judged by its pool with the label model: at these
        weights, or half and half, until those of the one that is chosen are found.
        """
        entries = method.entries
        if len(entries) == 1 and average != "cv":
            return Choice(entries[0], 0, {"params": [entries[0].params]}, average=average)
        tasks = self._tasks(method, twins, stage)
        fleet = self._train(method, tasks)
        held_out = self._held_out(fleet, entries)
        params = [entry.params for entry in entries]
        results = results_table(params, held_out, rule)
        judged, partner = held_out, None
        if average is not None:
            partner = self._label_model(tasks[: len(self.folds)])
            weights = (0.5, 0.5) if average == "cv" else average
            judged = held_out._replace(log_proba=pool(held_out.log_proba, partner, self.log_prior, weights))
            pooled = results_table(params, judged, rule)
            results["mean_test_pooled_score"] = pooled["mean_test_score"]
            results["mean_test_pooled_log_loss"] = pooled["mean_test_log_loss"]
            results["rank_test_score"] = pooled["rank_test_score"]
        strength = [method.candidates[entry.candidate].weight_decay for entry in entries]
        best = choose_best(judged, rule, strength, results["rank_test_score"])
        if average == "cv" and partner is not None:
            own = held_out._replace(log_proba=held_out.log_proba[best])
            average = pooling_weights(own, partner, self.log_prior)
        return Choice(entries[best], best, results, fleet, average)

    def train(
        self, method: Method, entry: Entry, twin: Encoder | None = None, stage: int = NETWORK
    ) -> tuple[Fleet, Task]:
        """Train one entry on the whole sample; also return the task, with its fitted labelers."""
        recipe = method.recipes[entry.recipe]
        task = _task(self.scaler.sample(self.sample), method, recipe, twin, (self.seed, stage, 0))
        return self._train(method, [task], [method.candidates[entry.candidate]]), task

    def twins(self, vanilla: Method, rule: str, of_folds: bool) -> tuple[list[MLP], MLP]:
        """Networks trained without mixing, one for each fold if asked for, and one on the whole sample.

        arXiv Alg. 2, line 2; at the learning rate and weight decay that suit vanilla training.
        """
        device = self.settings.device
        found = self.choose(vanilla, rule, stage=TWIN)
        whole = self.train(vanilla, found.entry, stage=TWIN)[0].network().to(device)
        if not of_folds:
            return [], whole
        fleet = found.fleet or self._train(vanilla, self._tasks(vanilla, None, stage=TWIN))
        best = found.entry.candidate
        return [fleet.network(fold, best).to(device) for fold in range(len(self.folds))], whole

    @cached_property
    def log_prior(self) -> NDArray[np.float64]:
        """Log-frequencies of the classes, (k,), each row counting as it does when a model is judged."""
        mass = np.bincount(self.sample.y, weights=self.sample.score_weight, minlength=len(self.sample.classes))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass / mass.sum()), SMALLEST)

    def _tasks(self, method: Method, twins: Sequence[Encoder] | None, stage: int) -> list[Task]:
        """The folds under the first recipe, then under the second, and so on."""
        encoders: Sequence[Encoder | None] = twins or [None] * len(self.folds)
        first = [
            _task(part.train, method, method.recipes[0], twin, (self.seed, stage, fold))
            for fold, (part, twin) in enumerate(zip(self.folds, encoders, strict=True), 1)
        ]
        more = [_under(task, recipe) for recipe in method.recipes[1:] for task in first]
        return first + more

    def _held_out(self, fleet: Fleet, entries: Sequence[Entry]) -> HeldOut:
        """Log-probabilities (entries, n, k) of the rows of all folds, each by the models that did not see them."""
        n_folds = len(self.folds)
        parts = []
        for fold, part in enumerate(self.folds):
            recipes = range(max(entry.recipe for entry in entries) + 1)
            scores = [fleet.log_proba(r * n_folds + fold, part.valid.X) for r in recipes]
            parts.append(np.stack([scores[entry.recipe][entry.candidate] for entry in entries]))
        rows = [part.valid for part in self.folds]
        weighted = rows[0].score_weight is not None
        return HeldOut(
            np.concatenate(parts, axis=1),
            np.concatenate([part.y for part in rows]),
            np.concatenate([cast(NDArray[Any], part.score_weight) for part in rows]) if weighted else None,
            np.repeat(np.arange(n_folds), [len(part.y) for part in rows]),
        )

    def _label_model(self, tasks: Sequence[Task]) -> NDArray[np.float64]:
        """Log-posterior (n, k) of the same rows, each by the density of its fold."""
        tilt = self.sample.class_weight
        pairs = zip(tasks, self.folds, strict=True)
        return np.concatenate([log_posteriors(task.labelers[-1], part.valid.X, tilt) for task, part in pairs])

    def _part(self, train: NDArray[Any], valid: NDArray[Any]) -> _Part:
        inside = self.sample.take(train)
        scaler = Scaler.fit(inside, self.standardize, self.scaler)
        return _Part(scaler.sample(inside), scaler.sample(self.sample.take(valid)))

    def _train(self, method: Method, tasks: Sequence[Task], candidates: Sequence[Candidate] | None = None) -> Fleet:
        chosen = method.candidates if candidates is None else candidates
        return method.trainer(tasks, chosen, progress=self.progress, **self.settings._asdict())


def log_posteriors(
    labeler: Labeler, X: NDArray[np.float64], class_weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Log-posterior (m, k) of points under the density of a fitted :class:`GenLabel`; weights tilt the priors."""
    assert isinstance(labeler, GenLabel)
    density = labeler.density_
    prior = log_priors(labeler.priors, density)
    if class_weight is not None:
        with np.errstate(divide="ignore"):
            prior = prior + np.log(class_weight)
    logs, _ = log_posterior(density.log_prob(torch.from_numpy(X)), prior)
    return np.ascontiguousarray(logs.numpy())


def _task(
    sample: Sample, method: Method, recipe: Recipe, encoder: Encoder | None, stream: tuple[int, int, int]
) -> Task:
    """The sample with the method's labelers fitted to it, under one of its recipes.

    `stream` is seed, stage and fold (from 1; 0 is all rows): the source of all that is random.
    """
    labelers = method.labelers(encoder, stream[2] - 1 if stream[2] else None)
    fitted = (clone(own).fit(sample.X, sample.labels, sample.weight) for own in labelers)
    task = Task(
        X=sample.X,
        y=sample.y,
        n_classes=len(sample.classes),
        labelers=tuple(fitted),
        weight=sample.weight,
        class_weight=sample.class_weight,
        exclude_intrusion=method.exclude_intrusion,
        seed=list(stream),
    )
    return _under(task, recipe)


def _under(task: Task, recipe: Recipe) -> Task:
    """The same task under another recipe: the same rows in the same order, from the same weights."""
    mixer = recipe.mixer if recipe.mixes else None
    return replace(task, mixer=mixer, clean_weight=recipe.clean_weight if mixer is not None else 1.0)
