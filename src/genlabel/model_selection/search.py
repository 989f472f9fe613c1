"""The search: all candidates train on all folds for a few epochs, the better ones for longer; the choice among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel.labeling import GenLabel, Labeler
from genlabel.model_selection import scoring
from genlabel.model_selection.options import Rung
from genlabel.model_selection.search_space import (
    Configuration,
    SearchSpace,
    Subsets,
    Trainer,
    candidates_by_mixing,
    count_epochs,
    union,
    within_limits,
)
from genlabel.model_selection.splits import CVData
from genlabel.training.batching import TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet
from genlabel.training.networks import MLP

EPOCHS_BETWEEN_ATTACKS = 5
"""Epochs from one evaluation under attack to the next, where the best epoch is restored (arXiv Section E.2)."""
History = list[tuple[Configuration, int, NDArray[np.float64], NDArray[Any] | None, Fleet | None]]
"""Configurations at each rung: the epochs for which one was trained and its scores (2, 2, folds); the log-probabilities
(n, k) of the held-out rows and the networks of the folds, None if it was dropped at this rung."""


@dataclass(frozen=True)
class FitResult:
    """The configuration that a search chose, the scores of all of them, and the networks that predict."""

    configuration: Configuration
    params: dict[str, Any]
    """Its parameters, by the names of the estimator's."""
    index: int
    """Its row in the results."""
    results: dict[str, Any]
    """In the form of `GridSearchCV.cv_results_`."""
    epochs: int
    """Epochs for which it is trained."""
    max_epochs: int
    """Epochs of the longest training; a schedule of the learning rate ends with them."""
    pool_weights: scoring.PoolWeights | None
    """None predicts by the network alone."""
    fleet: Fleet | None = None
    """The networks of the folds, each for features that its fold has standardized; None if there were no folds."""
    log_proba: NDArray[np.float32] | None = None
    """Predicted log-probabilities (n, k) of the held-out rows; None if there are none, or if they were attacked."""
    labeler: Labeler | None = None
    """The labeler of the chosen density; of the only one, if it is pooled with the network."""
    networks: Sequence[MLP] = ()
    """The networks that predict, for features that all rows have standardized."""
    losses: Sequence[float] = ()
    """Their mean training loss of each epoch."""
    trainer: Trainer | None = None
    """Their training; None if they are those of the folds."""
    trainer_index: int = 0
    """Their index among the candidates of the trainer."""


def search(
    space: SearchSpace, data: CVData, tasks: Sequence[TrainingTask], progress: FitProgress, subsets: Subsets
) -> list[FitResult]:
    """Return the best configuration of each subset, as if there were no others.

    `tasks` are those of the folds; without any, each subset has one configuration, which needs no choice.
    """
    rows, rule = len(data.raw.X), space.search.scoring
    max_epochs, per_pass = space.epochs(rows)
    if not tasks:
        assert not isinstance(space.pooling, str)  # "cv" needs folds
        chosen = [(subset[0], space.configurations[subset[0]]) for subset in subsets]
        return [FitResult(c, p, 0, {"params": [p]}, max_epochs, max_epochs, space.pooling) for c, p in chosen]
    progress.best_loss = None
    subsets, max_epochs = within_limits(space, subsets, tasks, rows, progress)
    restore_best: bool | BestEpoch = False
    if space.search.restore_best:
        every = 1 if isinstance(rule, str) else EPOCHS_BETWEEN_ATTACKS
        restore_best = BestEpoch(partial(scoring.epoch_scores, valid=data.valid, scoring=rule, seed=data.seed), every)
    trainers = {
        m: space.make_trainer(
            tasks, m, indices, max_epochs, epochs_per_pass=per_pass, restore_best=restore_best, progress=progress
        )
        for m, indices in candidates_by_mixing(subsets).items()
    }
    schedule = space.search.schedule(max_epochs, many_rows=per_pass > 1)
    scorer = CandidateScorer(space, data, tasks, many_rows=per_pass > 1)
    histories = successive_halving(trainers, subsets, schedule, scorer, progress)
    return [best_of_history(scorer, history, max_epochs) for history in histories]


@final
class CandidateScorer:
    """scoring.Scores of candidates on the held-out rows of all folds, as networks or as pools with their density."""

    def __init__(self, space: SearchSpace, data: CVData, tasks: Sequence[TrainingTask], many_rows: bool) -> None:
        self.space, self.data, self.many_rows = space, data, many_rows
        self.weight = data.held_out.score_weight
        self.density: NDArray[np.float64] | None = None
        if space.pooling is not None:  # log-posteriors (n, k) of the held-out rows, each by the density of its fold
            pairs = zip((cast(GenLabel, task.labelers[-1]) for task in tasks), data.valid, strict=True)
            self.density = np.concatenate([g.log_posterior(valid.X, data.raw.class_weight) for g, valid in pairs])

    def predict(self, fleet: Fleet, dtype: type[np.floating[Any]]) -> list[NDArray[Any]]:
        """Return the log-probabilities (n, k) of the held-out rows of all folds, for each candidate of a fleet."""
        data, rule = self.data, self.space.search.scoring
        by_fold: list[list[NDArray[Any]]] = []
        for fold in range(len(fleet.theta)):
            log_proba = scoring.validation_log_proba(fleet, fold, data.valid, rule, data.seed, group=fold)
            with np.errstate(over="ignore"):  # a network that diverged
                # Each candidate has memory of its own, since some are dropped before others.
                by_fold.append([values.astype(dtype) for values in log_proba])
        return [np.concatenate(parts) for parts in zip(*by_fold, strict=True)]

    def score(self, log_proba: Sequence[NDArray[Any]]) -> scoring.Scores:
        """Return the scores of candidates from the log-probabilities (n, k) of each."""
        data, pooling, fit_weights = self.data, self.space.pooling, self.space.search.is_halving
        fold, density = data.held_out_fold, self.density
        return scoring.score_candidates(
            log_proba, data.held_out.y, self.weight, fold, data.log_prior, density, pooling, fit_weights
        )

    def rank(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the rank of each candidate, from 1."""
        # On large tables, pooling with a strong density would hide which networks learn fastest.
        return scoring.rank_candidates(scores[0 if self.many_rows else 1], self.space.search.ranked_by)


def successive_halving(
    trainers: Mapping[int, Trainer],
    subsets: Subsets,
    schedule: Sequence[Rung],
    scorer: CandidateScorer,
    progress: FitProgress,
) -> list[History]:
    """Train each way of mixing from rung to rung, once for all subsets; each is halved as if there were no others."""
    running, candidates, done = dict(trainers), candidates_by_mixing(subsets), 0
    alive = [list(subset) for subset in subsets]
    histories: list[History] = [[] for _ in subsets]
    # With several rungs there is a result for each candidate at each of them: these are in single precision.
    dtype = np.float64 if len(schedule) == 1 else np.float32
    for number, (end, survivors) in enumerate(schedule):
        if number and progress.time_left <= 0.0:
            progress.truncations.append(f"the search ends after {done} of {schedule[-1][0]} epochs")
            break
        trained = len(union(alive))
        work = count_epochs(schedule[number:], trained, len(subsets), done)
        position = f"rung {number + 1} of {len(schedule)}, " if len(schedule) > 1 else ""
        all_scores, continuing = [], []
        with progress.step(f"{position}{trained} candidates", work):
            done += train([(trainer, len(candidates[m])) for m, trainer in running.items()], end - done, progress)
            log_proba: dict[Configuration, NDArray[Any]] = {}
            for m, trainer in running.items():
                log_proba |= zip(((m, c) for c in candidates[m]), scorer.predict(trainer.fleet, dtype), strict=True)
            for subset in alive:
                scores, losses = scorer.score([log_proba[configuration] for configuration in subset])
                best_first = scorer.rank(scores).argsort(kind="stable")[:survivors].tolist()
                all_scores.append(scores)
                continuing.append([subset[index] for index in sorted(best_first)])
                if progress.callback is not None:
                    progress.record_loss(float(np.average(losses[best_first[0]], weights=scorer.weight)))
        fleets = {(m, c): candidate_fleet(running[m].fleet, candidates[m].index(c)) for m, c in union(continuing)}
        for history, subset, selected, scores in zip(histories, alive, continuing, all_scores, strict=True):
            for index, key in enumerate(subset):
                state = (log_proba[key], fleets[key]) if key in selected else (None, None)
                history.append((key, done, scores[..., index], *state))
        for m in list(running):
            remaining = [index for index, c in enumerate(candidates[m]) if (m, c) in fleets]
            if not remaining:
                del running[m]
            elif len(remaining) < len(candidates[m]):
                running[m].select(remaining)
            candidates[m] = [candidates[m][index] for index in remaining]
        alive = continuing
    return histories


def candidate_fleet(fleet: Fleet, candidate: int) -> Fleet:
    """Return the networks of a candidate as they are now, with their losses and best epochs."""
    single = fleet.with_theta(fleet.theta[:, [candidate]].clone())
    single.losses = fleet.losses[:, :, [candidate]]
    single.best_epochs = None if fleet.best_epochs is None else fleet.best_epochs[:, [candidate]]
    return single


def train(trainers: Sequence[tuple[Trainer, int]], epochs: int, progress: FitProgress) -> int:
    """Train for `epochs` epochs, or for as many as there is time, at least one; return their number.

    `trainers` are pairs of a trainer and its number of candidates. Without a time limit each trainer takes all epochs
    at once; with a limit, all take them together, a few at a time.
    """
    done = 0
    step = 1 if progress.has_time_limit else epochs
    while True:
        begin = progress.elapsed
        for trainer, candidates in trainers:
            progress.epoch_weight = candidates
            trainer.advance(step)
        done += step
        seconds = max(progress.elapsed - begin, 1e-9) / step
        if done == epochs or progress.time_left < seconds:
            return done
        # The clock is checked again when a tenth of the time left has passed.
        step = min(epochs - done, max(1, int(0.1 * progress.time_left / seconds)))


def best_of_history(scorer: CandidateScorer, history: History, max_epochs: int) -> FitResult:
    """Return the best configuration, at any rung at which it was not dropped, which is early stopping."""
    space, data, weight, density = scorer.space, scorer.data, scorer.weight, scorer.density
    configurations, epochs, rung_scores, log_proba, fleets = zip(*history, strict=True)
    params = [dict(space.configurations[configuration]) for configuration in configurations]
    if len(set(epochs)) > 1:
        params = [{**entry, "epochs": end} for entry, end in zip(params, epochs, strict=True)]
    eligible = [i for i, values in enumerate(log_proba) if values is not None]
    scores = np.stack(rung_scores, -1)
    scores[..., eligible], losses = scorer.score([log_proba[i] for i in eligible])
    results = scoring.results_table(params, scores, space.search.ranked_by, pooled=density is not None)
    if space.search.ranked_by == "accuracy":
        chosen = results["rank_test_score"][eligible].argmin()
    else:
        candidates = [space.candidates[configurations[i][1]] for i in eligible]
        decays, rates = [c.weight_decay for c in candidates], [c.learning_rate for c in candidates]
        chosen = scoring.one_standard_error(losses, decays, weight, rates)
    index = eligible[chosen]
    configuration, network = configurations[index], np.asarray(log_proba[index], dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, scoring.PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = scoring.fit_pool_weights(network, density, data.held_out.y, data.log_prior, weight)
    predicted = network if weights is None else scoring.pool(network, density, data.log_prior, weights)
    return FitResult(
        configuration,
        space.configurations[configuration],
        index,
        results,
        epochs[index],
        max_epochs,
        weights,
        fleets[index],
        predicted.astype(np.float32) if isinstance(space.search.scoring, str) else None,
    )
