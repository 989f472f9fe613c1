"""A study: folds of one sample, the search for the best candidate over them, and the final fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel.attacks import FleetTarget
from genlabel.densities.latent import Encoder
from genlabel.estimators.folds import split
from genlabel.estimators.methods import Choice, Entry, Method, Recipe, Rule, Settings
from genlabel.estimators.sample import Sample, Scaler
from genlabel.estimators.selection import SMALLEST, HeldOut, choose_best, pool, pooling_weights, results_table
from genlabel.labeling import GenLabel, Labeler, log_posterior, log_priors
from genlabel.networks import MLP
from genlabel.progress import Listener
from genlabel.training import Candidate, Fleet, Task

__all__ = ["Study", "log_posteriors"]


NETWORK, TWIN = 0, 1
"""Stages of a study, each with random streams of its own."""


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
        rule: Rule,
        twins: Sequence[Encoder] | None = None,
        stage: int = NETWORK,
        average: Any = None,
    ) -> Choice:
        """Train every entry on every fold, and choose one by what it did on the rows held out.

        With `average`, a pair of weights or "cv", an entry is judged by its pool with the label model: at these
        weights, or half and half, until those of the one that is chosen are found.
        """
        return self.choose_each(method, rule, [list(range(len(method.entries)))], twins, stage, average)[0]

    def choose_each(
        self,
        method: Method,
        rule: Rule,
        variants: Sequence[Sequence[int]],
        twins: Sequence[Encoder] | None = None,
        stage: int = NETWORK,
        average: Any = None,
    ) -> list[Choice]:
        """Train every entry once, and choose one among those of each variant, as if there were no others."""
        entries = method.entries
        if average != "cv" and all(len(own) == 1 for own in variants):
            return [Choice(entries[e], 0, {"params": [entries[e].params]}, average=average) for (e,) in variants]
        tasks = self._tasks(method, twins, stage)
        fleet = self._train(method, tasks)
        held_out = self._held_out(fleet, entries, rule)
        partner = None if average is None else self._label_model(tasks[: len(self.folds)])
        strength = [method.candidates[entry.candidate].weight_decay for entry in entries]
        found = []
        for own in variants:
            part = held_out._replace(log_proba=held_out.log_proba[own])
            params, decay = [entries[e].params for e in own], [strength[e] for e in own]
            best, results, weights = self._best(part, params, decay, rule, average, partner)
            found.append(Choice(entries[own[best]], best, results, fleet, weights))
        return found

    def _best(
        self,
        held_out: HeldOut,
        params: list[dict[str, Any]],
        strength: Sequence[float],
        rule: Rule,
        average: Any,
        partner: NDArray[np.float64] | None,
    ) -> tuple[int, dict[str, Any], Any]:
        """The best of some entries, the table of all of them, and the weights of its average."""
        by = rule if isinstance(rule, str) else "accuracy"
        results = results_table(params, held_out, by)
        judged = held_out
        if partner is not None:
            weights = (0.5, 0.5) if average == "cv" else average
            judged = held_out._replace(log_proba=pool(held_out.log_proba, partner, self.log_prior, weights))
            pooled = results_table(params, judged, by)
            results["mean_test_pooled_score"] = pooled["mean_test_score"]
            results["mean_test_pooled_log_loss"] = pooled["mean_test_log_loss"]
            results["rank_test_score"] = pooled["rank_test_score"]
        best = choose_best(judged, by, strength, results["rank_test_score"])
        if average == "cv" and partner is not None:
            own = held_out._replace(log_proba=held_out.log_proba[best])
            return best, results, pooling_weights(own, partner, self.log_prior)
        return best, results, average

    def train(
        self, method: Method, entry: Entry, twin: Encoder | None = None, stage: int = NETWORK
    ) -> tuple[Fleet, Task]:
        """Train one entry on the whole sample; also return the task, with its fitted labelers."""
        return self.train_each(method, [entry], twin, stage)[0][:2]

    def train_each(
        self, method: Method, entries: Sequence[Entry], twin: Encoder | None = None, stage: int = NETWORK
    ) -> list[tuple[Fleet, Task, int]]:
        """Train entries on the whole sample, those of a recipe together: fleet, task and place in the fleet of each."""
        sample, first = self.scaler.sample(self.sample), None
        fleets: dict[int, tuple[Fleet, Task, list[int]]] = {}
        for r in dict.fromkeys(entry.recipe for entry in entries):
            first = first or _task(sample, method, method.recipes[r], twin, (self.seed, stage, 0))
            task = _under(first, method.recipes[r])
            places = list(dict.fromkeys(entry.candidate for entry in entries if entry.recipe == r))
            fleets[r] = (self._train(method, [task], [method.candidates[c] for c in places]), task, places)
        own = ((fleets[entry.recipe], entry.candidate) for entry in entries)
        return [(fleet, task, places.index(candidate)) for (fleet, task, places), candidate in own]

    def twins(self, vanilla: Method, rule: Rule, of_folds: bool) -> tuple[list[MLP], MLP]:
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

    def _held_out(self, fleet: Fleet, entries: Sequence[Entry], rule: Rule) -> HeldOut:
        """Log-probabilities (entries, n, k) of the rows of all folds, each by the models that did not see them.

        If the rule is an attack, of the attacked rows: every model meets its own.
        """
        n_folds = len(self.folds)
        parts = []
        for fold, part in enumerate(self.folds):
            recipes = range(max(entry.recipe for entry in entries) + 1)
            scores = [self._log_proba(fleet, r * n_folds + fold, part.valid, rule) for r in recipes]
            parts.append(np.stack([scores[entry.recipe][entry.candidate] for entry in entries]))
        rows = [part.valid for part in self.folds]
        weighted = rows[0].score_weight is not None
        return HeldOut(
            np.concatenate(parts, axis=1),
            np.concatenate([part.y for part in rows]),
            np.concatenate([cast(NDArray[Any], part.score_weight) for part in rows]) if weighted else None,
            np.repeat(np.arange(n_folds), [len(part.y) for part in rows]),
        )

    def _log_proba(self, fleet: Fleet, group: int, rows: Sample, rule: Rule) -> NDArray[np.float64]:
        if isinstance(rule, str):
            return fleet.log_proba(group, rows.X)
        target = FleetTarget(fleet, group)
        attacked = rule(target, torch.from_numpy(rows.X), rows.y, rng=[self.seed, group])
        return np.ascontiguousarray(target.log_proba(attacked).cpu().numpy())

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
