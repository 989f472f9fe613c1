"""The search: all candidates train on all folds for a few epochs, the better ones for longer; the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel._text import count_of
from genlabel.labeling import GenLabel
from genlabel.model_selection import scoring
from genlabel.model_selection.options import Rung
from genlabel.model_selection.scoring import PoolWeights, Scores
from genlabel.model_selection.search_space import (
    Configuration,
    FitLabelers,
    SearchSpace,
    Subsets,
    Trainer,
    candidates_by_mixing,
    count_epochs,
    union,
    within_limits,
)
from genlabel.model_selection.splits import CVData
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet

EPOCHS_BETWEEN_ATTACKS = 5
"""Epochs from one evaluation under attack to the next, where the best epoch is restored (arXiv Section E.2)."""
Predict = Callable[[Fleet], list[NDArray[Any]]]
"""Function of a fleet; it returns the log-probabilities (n, k) of the held-out rows for each candidate."""
Score = Callable[[Sequence[NDArray[Any]]], Scores]
"""Function of these arrays of several candidates; it returns their scores."""
History = list[tuple[Configuration, int, NDArray[np.float64], NDArray[Any] | None, Fleet | None]]
"""Configurations at each rung: the epochs for which one was trained and its scores (2, 2, folds); the log-probabilities
(n, k) of the held-out rows and the networks of the folds, None if it was dropped at this rung."""


@dataclass(frozen=True)
class SearchResult:
    """The configuration that a search chose, and the scores of all of them."""

    configuration: Configuration
    params: dict[str, Any]  # its parameters, by the names of the estimator's
    index: int  # its row in the results
    results: dict[str, Any]  # in the form of `GridSearchCV.cv_results_`
    epochs: int  # epochs for which it is trained
    max_epochs: int  # epochs of the longest training; a schedule of the learning rate ends with them
    pool_weights: PoolWeights | None  # None predicts by the network alone
    fleet: Fleet | None = None
    """The networks of the folds, each for features that its fold has standardized; None if there were no folds."""
    log_proba: NDArray[np.float32] | None = None
    """Predicted log-probabilities (n, k) of the held-out rows; None if there are none, or if they were attacked."""


def search(
    space: SearchSpace, data: CVData, fit_labelers: FitLabelers, progress: FitProgress, subsets: Subsets
) -> list[SearchResult]:
    """Return the best configuration of each subset, as if there were no others.

    Where no networks of folds are needed, each subset has one configuration, which needs no choice.
    """
    rows, rule = len(data.raw.X), space.search.scoring
    max_epochs, per_pass = space.epochs(rows)
    if not space.needs_folds(subsets):
        assert not isinstance(space.pooling, str)  # "cv" needs folds
        chosen = [(subset[0], space.configurations[subset[0]]) for subset in subsets]
        return [SearchResult(c, p, 0, {"params": [p]}, max_epochs, max_epochs, space.pooling) for c, p in chosen]
    tasks = [space.make_task(data, fit_labelers, fold) for fold in range(len(data.folds))]
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
    density: NDArray[np.float64] | None = None
    if space.pooling is not None:  # log-posteriors (n, k) of the held-out rows, each by the density of its fold
        pairs = zip((cast(GenLabel, task.labelers[-1]) for task in tasks), data.valid, strict=True)
        density = np.concatenate([g.log_posterior(valid.X, data.raw.class_weight) for g, valid in pairs])
    schedule = space.search.schedule(max_epochs, many_rows=per_pass > 1)
    # With several rungs there is a result for each candidate at each of them: these are in single precision.
    dtype = np.float64 if len(schedule) == 1 else np.float32
    predict = partial(scoring.predict_held_out, valid=data.valid, scoring=rule, seed=data.seed, dtype=dtype)
    score = partial(
        scoring.score_candidates,
        y=data.held_out.y,
        weight=data.held_out.score_weight,
        fold=data.held_out_fold,
        log_prior=data.log_prior,
        density=density,
        pooling=space.pooling,
        fit_weights=space.search.is_halving,
        ranked_by=space.search.ranked_by,
        rank_networks=per_pass > 1,  # on large tables, a strong density would hide which networks learn fastest
    )
    histories = successive_halving(trainers, subsets, schedule, predict, score, progress)
    return [choose_best(space, data, history, score, density, max_epochs) for history in histories]


def successive_halving(
    trainers: Mapping[int, Trainer],
    subsets: Subsets,
    schedule: Sequence[Rung],
    predict: Predict,
    score: Score,
    progress: FitProgress,
) -> list[History]:
    """Train each way of mixing from rung to rung, once for all subsets; each is halved as if there were no others."""
    running, candidates, done = dict(trainers), candidates_by_mixing(subsets), 0
    alive = [list(subset) for subset in subsets]
    histories: list[History] = [[] for _ in subsets]
    for number, (end, survivors) in enumerate(schedule):
        if number and progress.time_left <= 0.0:
            progress.truncations.append(f"the search ends after {done} of {count_of(schedule[-1][0], 'epoch')}")
            break
        trained = len(union(alive))
        work = count_epochs(schedule[number:], trained, len(subsets), done)
        position = f"rung {number + 1} of {len(schedule)}, " if len(schedule) > 1 else ""
        all_scores, continuing = [], []
        with progress.step(f"{position}{trained} candidates", work):
            done += train([(trainer, len(candidates[m])) for m, trainer in running.items()], end - done, progress)
            log_proba: dict[Configuration, NDArray[Any]] = {}
            for m, trainer in running.items():
                log_proba |= zip(((m, c) for c in candidates[m]), predict(trainer.fleet), strict=True)
            for subset in alive:
                scores = score([log_proba[configuration] for configuration in subset])
                best_first = scores.rank.argsort(kind="stable")[:survivors].tolist()
                all_scores.append(scores.values)
                continuing.append([subset[index] for index in sorted(best_first)])
                progress.record_loss(float(scores.mean_loss[best_first[0]]))
        fleets = {(m, c): running[m].fleet.candidate(candidates[m].index(c)) for m, c in union(continuing)}
        for history, subset, selected, values in zip(histories, alive, continuing, all_scores, strict=True):
            for index, key in enumerate(subset):
                state = (log_proba[key], fleets[key]) if key in selected else (None, None)
                history.append((key, done, values[..., index], *state))
        for m in list(running):
            remaining = [index for index, c in enumerate(candidates[m]) if (m, c) in fleets]
            if not remaining:
                del running[m]
            elif len(remaining) < len(candidates[m]):
                running[m].select(remaining)
            candidates[m] = [candidates[m][index] for index in remaining]
        alive = continuing
    return histories


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


def choose_best(
    space: SearchSpace,
    data: CVData,
    history: History,
    score: Score,
    density: NDArray[np.float64] | None,
    max_epochs: int,
) -> SearchResult:
    """Return the best configuration, at any rung at which it was not dropped, which is early stopping."""
    configurations, epochs, rung_scores, log_proba, fleets = zip(*history, strict=True)
    params = [dict(space.configurations[configuration]) for configuration in configurations]
    if len(set(epochs)) > 1:
        params = [{**entry, "epochs": end} for entry, end in zip(params, epochs, strict=True)]
    eligible = [i for i, values in enumerate(log_proba) if values is not None]
    values, scores = np.stack(rung_scores, -1), score([log_proba[i] for i in eligible])
    values[..., eligible] = scores.values
    results = scoring.results_table(params, values, space.search.ranked_by, pooled=density is not None)
    y, weight = data.held_out.y, data.held_out.score_weight
    if space.search.ranked_by == "accuracy":
        chosen = results["rank_test_score"][eligible].argmin()
    else:
        candidates = [space.candidates[configurations[i][1]] for i in eligible]
        decays, rates = [c.weight_decay for c in candidates], [c.learning_rate for c in candidates]
        chosen = scoring.one_standard_error(scores.losses, decays, weight, rates)
    index = eligible[chosen]
    configuration, network = configurations[index], np.asarray(log_proba[index], dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = scoring.fit_pool_weights(network, density, y, data.log_prior, weight)
    predicted = network if weights is None else scoring.pool(network, density, data.log_prior, weights)
    return SearchResult(
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
