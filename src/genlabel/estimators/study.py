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
from genlabel.densities import FoldedDensity, LabelModel, LatentDensity, Support
from genlabel.estimators.methods import Choice, Entry, Final, Method, Recipe, Rule, Settings, Training
from genlabel.estimators.sample import Sample
from genlabel.estimators.selection import POOLED_FLOOR, HeldOut, choose_best, pool, pooling_weights, results_table
from genlabel.folds import Fold, check_folds, deal_like_scikit_learn, make_folds
from genlabel.labeling import GenLabel, Labeler
from genlabel.networks import MLP
from genlabel.progress import Listener
from genlabel.training import Candidate, Fleet, Task

__all__ = ["Study"]

NETWORK, TWIN = 0, 1
"""Stages of a study, each with random streams of its own."""
WHOLE = None
"""The place of the whole sample among the folds."""


class _Part(NamedTuple):
    """A training set and the points held out from it, both standardised by the training set."""

    train: Sample
    valid: Sample


class _Twins(NamedTuple):
    """Networks trained without mixing, in whose features densities live (arXiv Alg. 2): one a fold, one for all."""

    folds: Sequence[MLP]
    whole: MLP

    def of(self, fold: int | None) -> MLP:
        return self.whole if fold is None else self.folds[fold]


class _Sources(NamedTuple):
    """Where the labels of a method's densities come from: what each needed of the folds, and twins if there are any."""

    densities: Sequence[FoldedDensity] = ()
    twins: _Twins | None = None


class Study:
    """Everything that a sample and a seed fix: folds, scalers, random streams; :meth:`run` walks through it once.

    Parameters
    ----------
    sample : Sample
    settings : Settings
    cv : int, splitter or pairs of rows
    standardize : bool
    seed : int
    progress : callable, optional
    """

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
        self.scaler = sample.standardisation(standardize)
        self.label_model: LabelModel | None = None

    def run(self, method: Method, rule: Rule, variants: Sequence[Sequence[int]]) -> list[Final]:
        """Choose one among the entries of each variant, and train those that are chosen on the whole sample."""
        sources = self._sources(method, rule)
        models = [folded.label_model for folded in sources.densities if folded.label_model is not None]
        self.label_model = models[-1] if models else None
        choices = self._choose(method, rule, variants, sources)
        return self._finish(method, choices, sources)

    # What a sample and a seed fix

    @cached_property
    def whole(self) -> Sample:
        """The whole sample, standardised."""
        return self.sample.scaled(self.scaler)

    @cached_property
    def folds(self) -> list[Fold]:
        """Rows of the sample to train on and to hold out; drawn when they are first needed."""
        sample = self.sample
        folds = make_folds(
            self.cv,
            sample.y,
            self.seed,
            deal_like_scikit_learn,
            classes=sample.classes,
            X=sample.X,
            rows=sample.rows,
            n_rows=sample.n_rows,
        )
        check_folds(folds, self.cv, sample.y, sample.classes, sample.score_weight)
        return folds

    @cached_property
    def parts(self) -> list[_Part]:
        """The samples of the folds."""
        return [self._part(fold) for fold in self.folds]

    @cached_property
    def log_prior(self) -> NDArray[np.float64]:
        """Log-frequencies of the classes, (k,), each row counting as it does when a model is judged."""
        mass = np.bincount(self.sample.y, weights=self.sample.score_weight, minlength=len(self.sample.classes))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass / mass.sum()), POOLED_FLOOR)

    @cached_property
    def support(self) -> Support:
        """How typical rows are of the sample, found when it is first asked for."""
        return Support(random_state=self.seed).fit(self.sample.X, self.sample.y, self.sample.weight)

    def _part(self, fold: Fold) -> _Part:
        inside = self.sample.take(fold.train)
        scaler = inside.standardisation(self.standardize, self.scaler)
        return _Part(inside.scaled(scaler), self.sample.take(fold.valid).scaled(scaler))

    # The search

    def _choose(
        self,
        method: Method,
        rule: Rule,
        variants: Sequence[Sequence[int]],
        sources: _Sources,
        stage: int = NETWORK,
    ) -> list[Choice]:
        """Train every entry once on every fold, and choose one among those of each variant, as if there were no others.

        With an average, an entry is judged by its pool with the density: at the given weights, or half and half, until
        those of the one that is chosen are found.
        """
        entries, average = method.entries, method.average
        if not isinstance(average, str) and all(len(places) == 1 for places in variants):
            return [Choice(entries[e], 0, {"params": [entries[e].params]}, average=average) for (e,) in variants]
        tasks = self._tasks(method, sources, stage)
        fleet = self._train(method, tasks).fleet
        held_out = self._held_out(fleet, entries, rule)
        partner = None if average is None else self._density_held_out(tasks[: len(self.parts)])
        strength = [method.candidates[entry.candidate].weight_decay for entry in entries]
        found = []
        for places in variants:
            part = held_out._replace(log_proba=held_out.log_proba[places])
            params, decay = [entries[e].params for e in places], [strength[e] for e in places]
            best, results, weights = self._best(part, params, decay, rule, average, partner)
            found.append(Choice(entries[places[best]], best, results, fleet, weights))
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
            chosen = held_out._replace(log_proba=held_out.log_proba[best])
            return best, results, pooling_weights(chosen, partner, self.log_prior)
        return best, results, average

    def _held_out(self, fleet: Fleet, entries: Sequence[Entry], rule: Rule) -> HeldOut:
        """Log-probabilities (entries, n, k) of the rows of all folds, each by the models that did not see them.

        If the rule is an attack, of the attacked rows: every model meets its own.
        """
        n_folds = len(self.parts)
        log_proba = []
        for fold, part in enumerate(self.parts):
            recipes = range(max(entry.recipe for entry in entries) + 1)
            scores = [self._log_proba(fleet, r * n_folds + fold, part.valid, rule) for r in recipes]
            log_proba.append(np.stack([scores[entry.recipe][entry.candidate] for entry in entries]))
        valid = [part.valid for part in self.parts]
        weighted = valid[0].score_weight is not None
        return HeldOut(
            np.concatenate(log_proba, axis=1),
            np.concatenate([sample.y for sample in valid]),
            np.concatenate([cast(NDArray[Any], sample.score_weight) for sample in valid]) if weighted else None,
            np.repeat(np.arange(n_folds), [len(sample.y) for sample in valid]),
        )

    def _log_proba(self, fleet: Fleet, group: int, sample: Sample, rule: Rule) -> NDArray[np.float64]:
        if isinstance(rule, str):
            return fleet.log_proba(group, sample.X)
        target = FleetTarget(fleet, group)
        attacked = rule(target, torch.from_numpy(sample.X), sample.y, rng=[self.seed, group])
        return np.ascontiguousarray(target.log_proba(attacked).cpu().numpy())

    def _density_held_out(self, tasks: Sequence[Task]) -> NDArray[np.float64]:
        """Log-posterior (n, k) of the rows of all folds, each by the density of its fold."""
        tilt = self.sample.class_weight
        pairs = zip(tasks, self.parts, strict=True)
        return np.concatenate(
            [cast(GenLabel, task.labelers[-1]).log_posterior_of(part.valid.X, tilt) for task, part in pairs]
        )

    # The final fit

    def _finish(
        self, method: Method, choices: Sequence[Choice], sources: _Sources, stage: int = NETWORK
    ) -> list[Final]:
        """Train the entries that were chosen on the whole sample, those of a recipe together."""
        task = self._task(method, method.recipes[0], self.whole, WHOLE, sources, stage)
        trained: dict[int, tuple[Training, Task, list[int]]] = {}
        for r in dict.fromkeys(choice.entry.recipe for choice in choices):
            places = list(dict.fromkeys(choice.entry.candidate for choice in choices if choice.entry.recipe == r))
            under = _under(task, method.recipes[r])
            trained[r] = (self._train(method, [under], [method.candidates[c] for c in places]), under, places)
        finals = []
        for choice in choices:
            training, under, places = trained[choice.entry.recipe]
            candidate = choice.entry.candidate
            finals.append(Final(choice, training, under, places.index(candidate), method.candidates[candidate].label))
        return finals

    # Where labels come from

    def _sources(self, method: Method, rule: Rule) -> _Sources:
        """What the densities need of the folds, and twins where they live in features."""
        sample = self.whole
        folded = [
            density.over_folds(sample.X, sample.labels, sample.weight, lambda: self.folds, self.seed)
            for density in method.densities
        ]
        return _Sources(folded, None if method.twin is None else self._train_twins(method, method.twin, rule))

    def _train_twins(self, method: Method, vanilla: Method, rule: Rule) -> _Twins:
        """Twins at the learning rate and weight decay that suit vanilla training; of the folds if there is a search."""
        (found,) = self._choose(vanilla, rule, [list(range(len(vanilla.entries)))], _Sources(), TWIN)
        (final,) = self._finish(vanilla, [found], _Sources(), TWIN)
        whole = final.training.fleet.network().to(self.settings.device)
        if len(method.entries) == 1 and method.average != "cv":
            return _Twins([], whole)
        fleet = found.fleet or self._train(vanilla, self._tasks(vanilla, _Sources(), TWIN)).fleet
        networks = [fleet.network(fold, found.entry.candidate) for fold in range(len(self.parts))]
        return _Twins([network.to(self.settings.device) for network in networks], whole)

    # Tasks: a sample, its labelers, a recipe

    def _tasks(self, method: Method, sources: _Sources, stage: int) -> list[Task]:
        """The folds under the first recipe, then under the second, and so on."""
        first = [
            self._task(method, method.recipes[0], part.train, fold, sources, stage)
            for fold, part in enumerate(self.parts)
        ]
        more = [_under(task, recipe) for recipe in method.recipes[1:] for task in first]
        return first + more

    def _task(
        self, method: Method, recipe: Recipe, sample: Sample, fold: int | None, sources: _Sources, stage: int
    ) -> Task:
        """A sample with the method's labelers fitted to it, under one of its recipes.

        Seed, stage and fold (from 1; 0 is all rows) are the source of all that is random.
        """
        task = Task(
            X=sample.X,
            y=sample.y,
            n_classes=len(sample.classes),
            labelers=self._labelers(method, sample, fold, sources),
            weight=sample.weight,
            class_weight=sample.class_weight,
            exclude_intrusion=method.exclude_intrusion,
            seed=[self.seed, stage, 0 if fold is None else fold + 1],
        )
        return _under(task, recipe)

    def _labelers(self, method: Method, sample: Sample, fold: int | None, sources: _Sources) -> tuple[Labeler, ...]:
        """The method's labelers, fitted to a sample, and one for each of its densities, as the folds have chosen it."""
        data = (sample.X, sample.labels, sample.weight)
        fitted: list[Labeler] = [clone(labeler).fit(*data) for labeler in method.labelers]
        for folded in sources.densities:
            if sources.twins is None:
                density = folded.fit(fold, *data)
            else:
                encoder, depth = sources.twins.of(fold), len(self.settings.hidden)
                density = LatentDensity(encoder, depth, clone(folded.whole)).fit(*data)
            fitted.append(GenLabel.around(density, priors=method.priors))
        return tuple(fitted)

    def _train(self, method: Method, tasks: Sequence[Task], candidates: Sequence[Candidate] | None = None) -> Training:
        chosen = method.candidates if candidates is None else candidates
        return method.trainer(tasks, chosen, progress=self.progress, **self.settings._asdict())


def _under(task: Task, recipe: Recipe) -> Task:
    """The same task under another recipe: the same rows in the same order, from the same weights."""
    mixer = recipe.mixer if recipe.mixes else None
    return replace(task, mixer=mixer, clean_weight=recipe.clean_weight if mixer is not None else 1.0)
