"""The search: all candidates train on all folds for a few epochs, the better ones for longer; the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel.labeling import GenLabel
from genlabel.model_selection.options import Rung
from genlabel.model_selection.scoring import (
    PoolWeights,
    Scores,
    epoch_scores,
    fit_pool_weights,
    one_standard_error,
    pool,
    rank_candidates,
    results_table,
    score_candidates,
    validation_log_proba,
)
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

EPOCHS_BETWEEN_ATTACKS = 5
"""Epochs from one evaluation under attack to the next, where the best epoch is restored (arXiv Section E.2)."""
Checkpoint = tuple[Configuration, int, NDArray[np.float64], NDArray[Any] | None, Fleet | None]
"""A configuration after some epochs, with its scores as it was compared then; log-probabilities (n, k) of the held-out
rows and the networks of the folds, None for a configuration that was dropped there."""


@dataclass(frozen=True)
class SearchResult:
    """The configuration that was chosen, and the scores of all of them."""

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
    pool_weights: PoolWeights | None
    """None predicts by the network alone."""
    fleet: Fleet | None = None
    """The networks of the folds, each for features that its fold has standardized; None if there were no folds."""
    log_proba: NDArray[np.float32] | None = None
    """Predicted log-probabilities (n, k) of the held-out rows; None if there are none, or if they were attacked."""


def search(
    space: SearchSpace,
    data: CVData,
    tasks: Sequence[TrainingTask],
    progress: FitProgress,
    subsets: Subsets | None = None,
) -> list[SearchResult]:
    """Return the best configuration of each subset, as if there were no others; by default, of all of them.

    `tasks` are those of the folds; without any, each subset has one configuration, which needs no choice.
    """
    subsets = [list(space.configurations)] if subsets is None else subsets
    n, options = len(data.raw.X), space.search
    if not tasks:
        epochs, weights = space.epochs(n)[0], space.pooling
        assert not isinstance(weights, str)
        only, params = [subset[0] for subset in subsets], space.configurations
        return [SearchResult(one, params[one], 0, {"params": [params[one]]}, epochs, epochs, weights) for one in only]
    progress.best_loss = None
    subsets, epochs = within_limits(space, subsets, tasks, n, progress)
    per_pass = space.epochs(n)[1]
    measure = {"valid": data.valid, "scoring": options.scoring, "seed": data.seed}
    every = 1 if isinstance(options.scoring, str) else EPOCHS_BETWEEN_ATTACKS
    restore_best = options.restore_best and BestEpoch(partial(epoch_scores, **measure), every)
    trainers = {
        m: space.make_trainer(
            tasks, m, indices, epochs, epochs_per_pass=per_pass, restore_best=restore_best, progress=progress
        )
        for m, indices in candidates_by_mixing(subsets).items()
    }
    density = None
    if space.pooling is not None:  # log-posteriors (n, k) of the held-out rows, each by the density of its fold
        pairs = zip([cast(GenLabel, task.labelers[-1]) for task in tasks], data.valid, strict=True)
        density = np.concatenate([labeler.log_posterior(rows.X, data.raw.class_weight) for labeler, rows in pairs])
    held_out = data.held_out
    score = partial(
        score_candidates,
        y=held_out.y,
        weight=held_out.score_weight,
        fold=data.held_out_fold,
        log_prior=data.log_prior,
        density=density,
        pooling=space.pooling,
        fit_weights=options.is_halving,
    )
    history = successive_halving(
        trainers,
        subsets,
        options.schedule(epochs, many_rows=per_pass > 1),
        partial(validation_log_proba, **measure),
        score,
        # On large tables, pooling with a strong density would hide which networks learn fastest.
        lambda scores: rank_candidates(scores[0 if per_pass > 1 else 1], options.ranked_by),
        held_out.score_weight,
        progress,
    )
    return [best_checkpoint(space, data, seen, score, density, epochs) for seen in history]


def successive_halving(
    trainers: Mapping[int, Trainer],
    subsets: Subsets,
    schedule: Sequence[Rung],
    predict: Callable[[Fleet, int], NDArray[np.float64]],
    score: Callable[[Sequence[NDArray[Any]]], Scores],
    rank: Callable[[NDArray[np.float64]], NDArray[np.int64]],
    row_weight: NDArray[np.float64] | None,
    progress: FitProgress,
) -> list[list[Checkpoint]]:
    """Train from rung to rung; return, for each subset of the configurations, those it contained at each rung.

    Each subset is halved as if there were no others; networks are trained once, on all folds. `trainers` are those of
    the ways of mixing. `predict` returns the log-probabilities (candidates, m, k) of the rows that a fold holds out,
    `score` the scores of candidates by those of all folds, `rank` their ranks from 1. `row_weight` (n,) holds the
    weights of the held-out rows in the log-loss that is reported.
    """
    running, candidates, done = dict(trainers), candidates_by_mixing(subsets), 0
    alive = [list(subset) for subset in subsets]
    history: list[list[Checkpoint]] = [[] for _ in subsets]
    for number, (end, survivors) in enumerate(schedule):
        if number and progress.time_left <= 0.0:
            progress.truncations.append(f"the search ends after {done} of {schedule[-1][0]} epochs")
            break
        trained = len(union(alive))
        work = count_epochs(schedule[number:], trained, len(subsets), done)
        position = f"rung {number + 1} of {len(schedule)}, " if len(schedule) > 1 else ""
        tables, continuing = [], []
        with progress.step(f"{position}{trained} candidates", work):
            done += train([(trainer, len(candidates[m])) for m, trainer in running.items()], end - done, progress)
            # Checkpoints of several rungs are stored in single precision: there is one for each candidate at each rung.
            dtype = np.float64 if len(schedule) == 1 else np.float32
            log_proba = {
                (m, c): values
                for m, trainer in running.items()
                for c, values in zip(candidates[m], predict_folds(trainer.fleet, predict, dtype), strict=True)
            }
            for subset in alive:
                scores, losses = score([log_proba[one] for one in subset])
                order = rank(scores).argsort(kind="stable")[:survivors]
                tables.append(scores)
                continuing.append([subset[index] for index in sorted(order.tolist())])
                if progress.callback is not None:
                    progress.record_loss(float(np.average(losses[order[0]], weights=row_weight)))
        fleets = {(m, c): candidate_fleet(running[m].fleet, candidates[m].index(c)) for m, c in union(continuing)}
        for seen, before, after, scores in zip(history, alive, continuing, tables, strict=True):
            for index, one in enumerate(before):
                networks = (log_proba[one], fleets[one]) if one in after else (None, None)
                seen.append((one, done, scores[..., index], *networks))
        for m in list(running):
            remaining = [index for index, c in enumerate(candidates[m]) if (m, c) in fleets]
            if not remaining:
                del running[m]
            elif len(remaining) < len(candidates[m]):
                running[m].select(remaining)
            candidates[m] = [candidates[m][index] for index in remaining]
        alive = continuing
    return history


def predict_folds(
    fleet: Fleet, predict: Callable[[Fleet, int], NDArray[np.float64]], dtype: type[np.floating[Any]]
) -> list[NDArray[Any]]:
    """Return the log-probabilities (n, k) of the held-out rows of all folds, for each candidate of a fleet."""
    folds = list[list[NDArray[Any]]]()
    for fold in range(len(fleet.theta)):
        with np.errstate(over="ignore"):  # of a network that diverges
            # Each candidate in memory of its own, since some are dropped before others.
            folds.append([values.astype(dtype) for values in predict(fleet, fold)])
    return [np.concatenate(parts) for parts in zip(*folds, strict=True)]


def candidate_fleet(fleet: Fleet, candidate: int) -> Fleet:
    """Return the networks of a candidate as they are now, with their losses and best epochs."""
    single = fleet.with_theta(fleet.theta[:, [candidate]].clone())
    single.losses = fleet.losses[:, :, [candidate]]
    single.best_epochs = None if fleet.best_epochs is None else fleet.best_epochs[:, [candidate]]
    return single


def train(trainers: Sequence[tuple[Trainer, int]], epochs: int, progress: FitProgress) -> int:
    """Train for some epochs, or for as many as there is time, one at least; return their number.

    Without a time limit each trainer, with its number of candidates, takes all epochs at once; with a limit, all take
    them together, a few at a time.
    """
    done, step = 0, 1 if progress.has_time_limit else epochs
    while True:
        begin = progress.elapsed
        for trainer, candidates in trainers:
            progress.epoch_weight = candidates
            trainer.advance(step)
        done, seconds = done + step, max(progress.elapsed - begin, 1e-9) / step
        if done == epochs or progress.time_left < seconds:
            return done
        # The clock is checked again when a tenth of the time left has passed.
        step = min(epochs - done, max(1, int(0.1 * progress.time_left / seconds)))


def best_checkpoint(
    space: SearchSpace,
    data: CVData,
    history: Sequence[Checkpoint],
    score: Callable[[Sequence[NDArray[Any]]], Scores],
    density: NDArray[np.float64] | None,
    max_epochs: int,
) -> SearchResult:
    """Return the best checkpoint, any rung of a configuration that was not dropped there; this is early stopping."""
    configurations, epochs, old_scores, log_proba, fleets = zip(*history, strict=True)
    several = len(set(epochs)) > 1
    params = [
        {**space.configurations[one], **({"epochs": count} if several else {})}
        for one, count in zip(configurations, epochs, strict=True)
    ]
    eligible = [i for i, values in enumerate(log_proba) if values is not None]
    scores = np.stack(old_scores, -1)
    scores[..., eligible], losses = score([log_proba[i] for i in eligible])
    weight, scoring = data.held_out.score_weight, space.search.ranked_by
    results = results_table(params, scores, scoring, pooled=density is not None)
    if scoring == "accuracy":
        chosen = results["rank_test_score"][eligible].argmin()
    else:
        candidates = [space.candidates[configurations[i][1]] for i in eligible]
        decays, rates = [one.weight_decay for one in candidates], [one.learning_rate for one in candidates]
        chosen = one_standard_error(losses, decays, weight, rates)
    best = eligible[chosen]
    own = np.asarray(log_proba[best], dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = fit_pool_weights(own, density, data.held_out.y, data.log_prior, weight)
    predicted = own if weights is None else pool(own, density, data.log_prior, weights)
    return SearchResult(
        configurations[best],
        space.configurations[configurations[best]],
        best,
        results,
        epochs[best],
        max_epochs,
        weights,
        fleets[best],
        predicted.astype(np.float32) if isinstance(space.search.scoring, str) else None,
    )
