"""A study: the search for the best candidate over the folds of a sample, and the final fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel._progress import FitProgress
from genlabel._validation import warn
from genlabel.attacks import AttackedFleet
from genlabel.densities import CrossFittedDensity, LatentDensity, StackedDensity, Typicality
from genlabel.estimators.intervals import Calibration
from genlabel.estimators.validation import LabeledData
from genlabel.labeling import GenLabel, Labeler
from genlabel.metrics import accuracy, log_loss
from genlabel.model_selection.candidate_limit import MOST_NUMBERS, cap_candidates
from genlabel.model_selection.epochs import MOST_BATCHES, MOST_EPOCHS, STEPS, default_epochs, epochs_per_pass
from genlabel.model_selection.halving import (
    HALVING_SCHEDULE,
    HALVING_SCHEDULE_LARGE,
    advance,
    candidates_of,
    halving_schedule,
    successive_halving,
)
from genlabel.model_selection.pooling import POOL_SHRINKAGE, POOLED_FLOOR, PRIOR_PSEUDO_COUNT
from genlabel.model_selection.scoring import CandidateScorer
from genlabel.model_selection.search_space import (
    FOLDS,
    FitResult,
    MixingConfig,
    Rule,
    Run,
    SearchResult,
    SearchSpace,
    TrainerConfig,
    members_of,
)
from genlabel.model_selection.splits import CVData
from genlabel.model_selection.stages import FINAL, LABELS, MOST_TIME, SEARCH, SUPPORT, TWINS, search_time, shares_of
from genlabel.model_selection.time_budget import fit_to_time_limit, measure_epoch_seconds
from genlabel.training import AVERAGING_POWER, BestEpoch, Fleet, Hyperparameters, TrainingTask
from genlabel.training.networks import MLP, log_proba_of

NETWORK, TWIN = 0, 1
"""Searches of a study, each with random streams of its own."""
MAX_EXCESS_LOSS = 0.1
"""How much worse than the folds promised a final network may be, in units of the log-loss of the class shares."""
LOOKS_UNDER_ATTACK = 5
"""Epochs from one look at attacked rows to the next, where the best epoch is kept (arXiv Section E.2)."""
RETRY_STREAM_OFFSET = 2
"""Added to a stage that is gone through again, with other random streams."""
WHOLE = None
"""The place of the whole sample among the folds."""


def search_constants() -> dict[str, Any]:
    """The numbers that a search that halves goes by, for fingerprints."""
    return {
        "looks": (HALVING_SCHEDULE, HALVING_SCHEDULE_LARGE),
        "lengths": (MOST_EPOCHS, MOST_BATCHES, STEPS),
        "late": AVERAGING_POWER,
        "pull": (POOL_SHRINKAGE, PRIOR_PSEUDO_COUNT, POOLED_FLOOR),
        "far": MAX_EXCESS_LOSS,
        "numbers": MOST_NUMBERS,
    }


class _FeatureNetworks(NamedTuple):
    """Networks trained without mixing, in whose features densities live (arXiv Alg. 2): one a fold, one for all."""

    folds: Sequence[MLP]
    whole: MLP

    def of(self, fold: int | None) -> MLP:
        return self.whole if fold is None else self.folds[fold]


class _LabelSources(NamedTuple):
    """Where the labels of a method's densities come from: what each needed of the folds, and twins if there are any."""

    densities: Sequence[CrossFittedDensity] = ()
    twins: _FeatureNetworks | None = None


class CandidateSearch:
    """The walk of a fit, from the folds of a sample to the networks that predict: :meth:`run` goes it once.

    Parameters
    ----------
    dealt : Dealt
        The sample and its folds.
    settings : Settings
    seed : int
        Of the random streams.
    course : Course
        Is told what is done.
    supported : bool
        Whether the support will be asked for.
    """

    def __init__(
        self, dealt: CVData, settings: TrainerConfig, *, seed: int, course: FitProgress, supported: bool = False
    ) -> None:
        self.dealt, self.settings, self.seed, self.course, self.supported = dealt, settings, seed, course, supported
        self.epochs_per_pass = epochs_per_pass(len(dealt.sample.X), settings)
        self.epochs = default_epochs(len(dealt.sample.X), settings)
        self.label_model: StackedDensity | None = None

    def run(self, method: SearchSpace, rule: Rule, variants: Sequence[Sequence[int]]) -> list[FitResult]:
        """Choose one among the entries of each variant, and train those that are chosen on the whole sample."""
        searches = self._needs_folds(method, variants)
        self._check_members()
        self.course.plan(shares_of(method, self.settings, searches, self.supported))
        sources = self._sources(method, rule)
        models = [folded.label_model for folded in sources.densities if folded.label_model is not None]
        self.label_model = models[-1] if models else None
        with self.course.stage(SEARCH, until=search_time(self.settings)):
            choices = self._choose(method, rule, variants, sources)
        with self.course.stage(FINAL, until=MOST_TIME[FINAL]):
            return self._finish(method, choices, sources)

    def _check_members(self) -> None:
        """Raise if there are fewer folds than networks that are to be taken from them."""
        members = self.settings.members
        if self.settings.keep == "best" and isinstance(members, int) and members > len(self.dealt.folds):
            raise ValueError(
                f"members={members} networks at their best epochs need as many folds, but there are "
                f"{len(self.dealt.folds)}; use members='folds', or a larger cv"
            )

    @cached_property
    def support(self) -> Typicality:
        """How typical rows are of the sample, found when it is first asked for."""
        with self.course.stage(SUPPORT):
            return Typicality(random_state=self.seed).fit(
                self.dealt.sample.X, self.dealt.sample.y, self.dealt.sample.weight
            )

    def calibration(self, choice: SearchResult) -> Calibration | None:
        """What is said of the held-out rows, as a choice predicts it; None if none were held out."""
        if choice.held_out is None:
            return None
        held, given = self.dealt.held_out_rows(), self.dealt.sample.weight
        weight = None if given is None else np.concatenate([given[fold.valid] for fold in self.dealt.folds])
        about = held.y, held.fold, weight, self.dealt.sample.class_weight
        return Calibration.of(choice.held_out, *about, crossed=self.settings.members == FOLDS)

    # The search

    def _choose(
        self,
        method: SearchSpace,
        rule: Rule,
        variants: Sequence[Sequence[int]],
        sources: _LabelSources,
        stage: int = NETWORK,
    ) -> list[SearchResult]:
        """Train the entries on every fold, and choose one among those of each variant, as if there were no others.

        With an average, an entry is judged by its pool with the density: at the given weights, or half and half, until
        those of the one that is chosen are found.
        """
        if not self._needs_folds(method, variants):
            entries, average = method.entries, method.average
            assert not isinstance(average, str)
            return [
                SearchResult(entries[e], 0, {"params": [entries[e].params]}, self.epochs, pooling=average)
                for (e,) in variants
            ]
        self.course.loss = None
        tasks = self._tasks(method, sources, stage)
        if self.settings.halving:
            d, k = self.dealt.whole.X.shape[1], len(self.dealt.sample.classes)
            variants = cap_candidates(method, variants, self.settings.hidden, d, k, len(self.dealt.parts))
        rungs = partial(halving_schedule, halving=self.settings.halving, many=self.epochs_per_pass > 1)
        if self.course.limited:
            start = partial(self._start, method, told=False)
            passes = measure_epoch_seconds(method, candidates_of(method, variants), tasks, start)
            paces = {r: seconds / self.epochs_per_pass for r, seconds in passes.items()}
            variants, self.epochs = fit_to_time_limit(method, variants, self.epochs, rungs, paces, self.course)
        used = candidates_of(method, variants)
        runs = {
            r: self._start(
                method, tasks[r], r, self.epochs, [method.candidates[c] for c in some], kept=self._kept(rule)
            )
            for r, some in used.items()
        }
        partner = None if method.average is None else self._density_held_out(tasks[0])
        judge = CandidateScorer(
            self.dealt.held_out_rows(),
            rule if isinstance(rule, str) else "accuracy",
            method.average,
            method.calibrated,
            partner,
            self.dealt.log_prior,
            again=self.settings.halving,
            rank_without_pooling=self.epochs_per_pass > 1,
        )
        ask = partial(self._log_proba, rule=rule)
        choices = successive_halving(method, runs, rungs(self.epochs), variants, ask, judge, self.course)
        return choices if isinstance(rule, str) else [choice._replace(held_out=None) for choice in choices]

    def _needs_folds(self, method: SearchSpace, variants: Sequence[Sequence[int]]) -> bool:
        """Whether there is anything to choose, to weigh or to keep of the folds."""
        chooses = any(len(places) > 1 for places in variants)
        kept = self.settings.keep == "best" or self.settings.members == FOLDS
        return chooses or isinstance(method.average, str) or method.calibrated or kept

    def _log_proba(self, fleet: Fleet, fold: int, rule: Rule, group: int | None = None) -> NDArray[np.float64]:
        """Log-probabilities (candidates, m, k) of the rows that a fold holds out, by its networks of a fleet.

        They are those of a group of the fleet, that of the fold if not given. If the rule is an attack, of the attacked
        rows: every model meets its own.
        """
        sample, at = self.dealt.parts[fold].valid, fold if group is None else group
        if isinstance(rule, str):
            return fleet.log_proba(at, sample.X)
        target = AttackedFleet(fleet, at)
        attacked = rule(target, torch.from_numpy(sample.X), sample.y, rng=[self.seed, fold])
        return np.ascontiguousarray(target.log_proba(attacked).cpu().numpy())

    def _kept(self, rule: Rule) -> str | BestEpoch:
        """Which epoch of the networks of the folds is kept: the last, or the best on the rows that they hold out."""
        if self.settings.keep == "last":
            return "last"

        def score(fleet: Fleet, fold: int) -> NDArray[np.float64]:
            sample = self.dealt.parts[fold].valid
            if isinstance(rule, str):
                found = fleet.rate(0, sample.X, sample.y, sample.score_weight)
                return found[:, ::-1] if rule == "log-loss" else found
            rows = self._log_proba(fleet, fold, rule, group=0), sample.y, sample.score_weight
            return np.stack([accuracy(*rows), -log_loss(*rows)], -1)

        return BestEpoch(score, every=1 if isinstance(rule, str) else LOOKS_UNDER_ATTACK)

    def _density_held_out(self, tasks: Sequence[TrainingTask]) -> NDArray[np.float64]:
        """Log-posterior (n, k) of the rows of all folds, each by the density of its fold."""
        tilt = self.dealt.sample.class_weight
        pairs = zip(tasks, self.dealt.parts, strict=True)
        return np.concatenate(
            [cast(GenLabel, task.labelers[-1]).log_posterior_of(part.valid.X, tilt) for task, part in pairs]
        )

    # The final fit

    def _finish(
        self,
        method: SearchSpace,
        choices: Sequence[SearchResult],
        sources: _LabelSources,
        stage: int = NETWORK,
        members: int | str | None = None,
    ) -> list[FitResult]:
        """The networks of the folds, or as many as are asked for, trained on the whole sample as it was chosen."""
        task = self._task(method, method.recipes[0], self.dealt.whole, WHOLE, sources, stage)
        wanted = self.settings.members if members is None else members
        if isinstance(wanted, str) or self.settings.keep == "best":
            count = len(self.dealt.folds) if isinstance(wanted, str) else wanted
            return [self._of_folds(method, choice, task, count) for choice in choices]
        finals = self._train(method, choices, task, wanted)
        return [self._mended(method, final, wanted) for final in finals] if self.settings.halving else finals

    def _train(
        self, method: SearchSpace, choices: Sequence[SearchResult], task: TrainingTask, members: int
    ) -> list[FitResult]:
        """So many networks of the whole sample for each choice; those of one recipe and length together."""
        trained: dict[tuple[int, int], tuple[Run, list[int], int]] = {}
        for key in dict.fromkeys((choice.entry.recipe, choice.epochs) for choice in choices):
            places = [c.entry.candidate for c in choices if (c.entry.recipe, c.epochs) == key]
            places = list(dict.fromkeys(places))
            tasks = [method.recipes[key[0]].under(again) for again in members_of(task, members)]
            run = self._start(method, tasks, key[0], self.epochs, [method.candidates[c] for c in places])
            with self.course.step(f"{key[1]} epochs", work=key[1]):
                reached = advance([(run, 1)], key[1], self.course)
            if reached < key[1]:
                self.course.cut(f"final networks are trained for {reached} of {key[1]} epochs")
            trained[key] = run, places, reached
        return [self._of_run(method, choice, task, *trained[choice.entry.recipe, choice.epochs]) for choice in choices]

    def _of_folds(self, method: SearchSpace, choice: SearchResult, task: TrainingTask, count: int) -> FitResult:
        """The networks of the first folds."""
        assert choice.networks is not None
        networks = [self.dealt.unscaled(network, fold) for fold, network in enumerate(choice.networks()[:count])]
        if choice.best_epochs is not None:
            choice = choice._replace(epochs=max(choice.best_epochs[:count]))
        label = method.candidates[choice.entry.candidate].label
        return FitResult(choice, networks, choice.losses or [], method.recipes[choice.entry.recipe].under(task), label)

    def _of_run(
        self, method: SearchSpace, choice: SearchResult, task: TrainingTask, run: Run, places: list[int], epochs: int
    ) -> FitResult:
        place, fleet = places.index(choice.entry.candidate), run.fleet
        networks = [fleet.network(member, place) for member in range(len(fleet.theta))]
        losses, label = fleet.losses[:, :, place].mean(1).tolist(), method.candidates[choice.entry.candidate].label
        under = method.recipes[choice.entry.recipe].under(task)
        return FitResult(choice._replace(epochs=epochs), networks, losses, under, label, run.trio, place)

    def _mended(self, method: SearchSpace, final: FitResult, members: int) -> FitResult:
        """The networks, or if one of them is far from what the folds promised, the better of them and a second try."""
        choice, shares = final.choice, -float(np.exp(self.dealt.log_prior) @ self.dealt.log_prior)
        if choice.networks is None:
            return final
        promised = float(choice.results["mean_test_log_loss"][choice.place])
        most, first = promised + MAX_EXCESS_LOSS * shares, self._worst_loss(final)
        if first <= most or self.course.cuts:
            return final
        seed, stage, *rest = final.task.seed
        (again,) = self._train(
            method, [choice], replace(final.task, seed=[seed, stage + RETRY_STREAM_OFFSET, *rest]), members
        )
        second = self._worst_loss(again)
        if not second <= most:
            message = (
                f"trained on all rows, a network has a log-loss of {first:.3g} on them, and {second:.3g} in a second "
                f"try, where the folds promised {promised:.3g} (the class shares have {shares:.3g}); "
                "use members='folds', or a smaller learning_rate"
            )
            warn("promise", message, UserWarning)
        return again if second < first else final

    def _worst_loss(self, final: FitResult) -> float:
        """The highest log-loss of a member on the rows it was trained on."""
        sample = self.dealt.whole
        logs = (log_proba_of(network, sample.X) for network in final.networks)
        return max(float(log_loss(said, sample.y, sample.score_weight)) for said in logs)

    # Where labels come from

    def _sources(self, method: SearchSpace, rule: Rule) -> _LabelSources:
        """What the densities need of the folds, and twins where they live in features."""
        sample = self.dealt.whole
        with self.course.stage(LABELS, until=MOST_TIME[LABELS]):
            folded = [
                density.prepare_for_cv(sample.X, sample.labels, sample.weight, lambda: self.dealt.folds, self.seed)
                for density in method.densities
            ]
        if method.twin is None:
            return _LabelSources(folded)
        with self.course.stage(TWINS, until=MOST_TIME[TWINS]):
            return _LabelSources(folded, self._train_twins(method, method.twin, rule))

    def _train_twins(self, method: SearchSpace, vanilla: SearchSpace, rule: Rule) -> _FeatureNetworks:
        """Twins at the learning rate and weight decay that suit vanilla training; of the folds if there is a search."""
        (found,) = self._choose(vanilla, rule, [list(range(len(vanilla.entries)))], _LabelSources(), TWIN)
        (final,) = self._finish(vanilla, [found], _LabelSources(), TWIN, members=1)
        whole = final.networks[0].to(self.settings.device)
        if not self._needs_folds(method, [list(range(len(method.entries)))]):
            return _FeatureNetworks([], whole)
        networks = self._twins_of_folds(vanilla, found) if found.networks is None else found.networks()
        return _FeatureNetworks([network.to(self.settings.device) for network in networks], whole)

    def _twins_of_folds(self, vanilla: SearchSpace, found: SearchResult) -> list[MLP]:
        """The twins of the folds, where there was nothing to choose."""
        tasks = self._tasks(vanilla, _LabelSources(), TWIN)[found.entry.recipe]
        run = self._start(vanilla, tasks, found.entry.recipe, found.epochs)
        run.advance(found.epochs)
        return [run.fleet.network(fold, found.entry.candidate) for fold in range(len(tasks))]

    # Tasks: a sample, its labelers, a recipe

    def _tasks(self, method: SearchSpace, sources: _LabelSources, stage: int) -> list[list[TrainingTask]]:
        """The folds under each recipe."""
        first = [
            self._task(method, method.recipes[0], part.train, fold, sources, stage)
            for fold, part in enumerate(self.dealt.parts)
        ]
        return [[recipe.under(task) for task in first] for recipe in method.recipes]

    def _task(
        self,
        method: SearchSpace,
        recipe: MixingConfig,
        sample: LabeledData,
        fold: int | None,
        sources: _LabelSources,
        stage: int,
    ) -> TrainingTask:
        """A sample with the method's labelers fitted to it, under one of its recipes.

        Seed, stage and fold (from 1; 0 is all rows) are the source of all that is random.
        """
        task = TrainingTask(
            X=sample.X,
            y=sample.y,
            num_classes=len(sample.classes),
            labelers=self._labelers(method, sample, fold, sources),
            weight=sample.weight,
            class_weight=sample.class_weight,
            exclude_intrusion=method.exclude_intrusion,
            seed=[self.seed, stage, 0 if fold is None else fold + 1],
        )
        return recipe.under(task)

    def _labelers(
        self, method: SearchSpace, sample: LabeledData, fold: int | None, sources: _LabelSources
    ) -> tuple[Labeler, ...]:
        """The method's labelers, fitted to a sample, and one for each of its densities, as the folds have chosen it."""
        data = (sample.X, sample.labels, sample.weight)
        fitted: list[Labeler] = [clone(labeler).fit(*data) for labeler in method.labelers]
        for folded in sources.densities:
            if sources.twins is None:
                density = folded.fit(fold, *data)
            else:
                encoder, depth = sources.twins.of(fold), len(self.settings.hidden)
                density = LatentDensity(encoder, depth, clone(folded.whole)).fit(*data)
            fitted.append(GenLabel.from_fitted(density, priors=method.priors))
        return tuple(fitted)

    def _start(
        self,
        method: SearchSpace,
        tasks: Sequence[TrainingTask],
        recipe: int,
        epochs: int,
        candidates: Sequence[Hyperparameters] | None = None,
        told: bool = True,
        kept: str | BestEpoch = "last",
    ) -> Run:
        """The training of candidates on tasks, about to begin; whoever listens is told of it, or not."""
        settings = self.settings.of_training(epochs, method.recipes[recipe].hidden)
        chosen = method.candidates if candidates is None else candidates
        progress = self.course.epochs if told else None
        parts = self.epochs_per_pass if told else 1  # a trial on few rows is of whole passes
        more: dict[str, Any] = {"averaged": True, "parts": parts} if self.settings.halving else {}
        if kept != "last":
            more["keep"] = kept
        return method.start(tasks, chosen, progress=progress, **more, **settings)
