"""The search: all candidates train on all folds for a few epochs, the better ones for longer; the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

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


class RungResult(NamedTuple):
    """The result of a configuration at a rung of the schedule."""

    configuration: Configuration
    epochs: int
    """Epochs for which it was trained."""
    scores: NDArray[np.float64]
    """Its scores when it was compared at this rung, (2, 2, folds): see `Scores`."""
    log_proba: NDArray[Any] | None
    """Predicted log-probabilities (n, k) of the held-out rows; None if the configuration was dropped at this rung."""
    fleet: Fleet | None
    """The networks of the folds; None if the configuration was dropped at this rung."""


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
    options, rows = space.search, len(data.raw.X)
    max_epochs, per_pass = space.epochs(rows)
    if not tasks:
        weights = space.pooling
        assert not isinstance(weights, str)  # "cv" needs folds
        results = []
        for configuration, *_ in subsets:
            params = space.configurations[configuration]
            table = {"params": [params]}
            results.append(SearchResult(configuration, params, 0, table, max_epochs, max_epochs, weights))
        return results
    progress.best_loss = None
    subsets, max_epochs = within_limits(space, subsets, tasks, rows, progress)
    evaluation = {"valid": data.valid, "scoring": options.scoring, "seed": data.seed}
    restore_best: bool | BestEpoch = False
    if options.restore_best:
        every = 1 if isinstance(options.scoring, str) else EPOCHS_BETWEEN_ATTACKS
        restore_best = BestEpoch(partial(epoch_scores, **evaluation), every)
    trainers = {
        m: space.make_trainer(
            tasks, m, indices, max_epochs, epochs_per_pass=per_pass, restore_best=restore_best, progress=progress
        )
        for m, indices in candidates_by_mixing(subsets).items()
    }
    density = None
    if space.pooling is not None:  # log-posteriors (n, k) of the held-out rows, each by the density of its fold
        labelers = [cast(GenLabel, task.labelers[-1]) for task in tasks]
        pairs = zip(labelers, data.valid, strict=True)
        density = np.concatenate([labeler.log_posterior(valid.X, data.raw.class_weight) for labeler, valid in pairs])
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

    def rank(scores: NDArray[np.float64]) -> NDArray[np.int64]:
        network, compared = scores
        # On large tables, pooling with a strong density would hide which networks learn fastest.
        return rank_candidates(network if per_pass > 1 else compared, options.ranked_by)

    histories = successive_halving(
        trainers,
        subsets,
        options.schedule(max_epochs, many_rows=per_pass > 1),
        partial(validation_log_proba, **evaluation),
        score,
        rank,
        held_out.score_weight,
        progress,
    )
    return [best_rung_result(space, data, history, score, density, max_epochs) for history in histories]


def successive_halving(
    trainers: Mapping[int, Trainer],
    subsets: Subsets,
    schedule: Sequence[Rung],
    predict: Callable[[Fleet, int], NDArray[np.float64]],
    score: Callable[[Sequence[NDArray[Any]]], Scores],
    rank: Callable[[NDArray[np.float64]], NDArray[np.int64]],
    row_weight: NDArray[np.float64] | None,
    progress: FitProgress,
) -> list[list[RungResult]]:
    """Train from rung to rung; return the results at each rung for each subset of the configurations.

    Each subset is halved as if there were no others; networks are trained once, on all folds. `trainers` are those of
    the ways of mixing. `predict` returns the log-probabilities (candidates, m, k) of the rows that a fold holds out,
    `score` the scores of candidates by those of all folds, `rank` their ranks from 1. `row_weight` (n,) holds the
    weights of the held-out rows in the log-loss that is reported.
    """
    running, candidates, done = dict(trainers), candidates_by_mixing(subsets), 0
    alive = [list(subset) for subset in subsets]
    histories: list[list[RungResult]] = [[] for _ in subsets]
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
                predictions = predict_folds(trainer.fleet, predict, dtype)
                log_proba |= {(m, c): values for c, values in zip(candidates[m], predictions, strict=True)}
            for subset in alive:
                scores, losses = score([log_proba[configuration] for configuration in subset])
                best_first = rank(scores).argsort(kind="stable")[:survivors].tolist()
                all_scores.append(scores)
                continuing.append([subset[index] for index in sorted(best_first)])
                if progress.callback is not None:
                    progress.record_loss(float(np.average(losses[best_first[0]], weights=row_weight)))
        fleets = {(m, c): candidate_fleet(running[m].fleet, candidates[m].index(c)) for m, c in union(continuing)}
        for history, subset, selected, scores in zip(histories, alive, continuing, all_scores, strict=True):
            for index, configuration in enumerate(subset):
                state = (log_proba[configuration], fleets[configuration]) if configuration in selected else (None, None)
                history.append(RungResult(configuration, done, scores[..., index], *state))
        for m in list(running):
            remaining = [index for index, c in enumerate(candidates[m]) if (m, c) in fleets]
            if not remaining:
                del running[m]
            elif len(remaining) < len(candidates[m]):
                running[m].select(remaining)
            candidates[m] = [candidates[m][index] for index in remaining]
        alive = continuing
    return histories


def predict_folds(
    fleet: Fleet, predict: Callable[[Fleet, int], NDArray[np.float64]], dtype: type[np.floating[Any]]
) -> list[NDArray[Any]]:
    """Return the log-probabilities (n, k) of the held-out rows of all folds, for each candidate of a fleet."""
    by_fold: list[list[NDArray[Any]]] = []
    for fold in range(len(fleet.theta)):
        with np.errstate(over="ignore"):  # a network that diverged
            # Each candidate has memory of its own, since some are dropped before others.
            by_fold.append([values.astype(dtype) for values in predict(fleet, fold)])
    return [np.concatenate(parts) for parts in zip(*by_fold, strict=True)]


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


def best_rung_result(
    space: SearchSpace,
    data: CVData,
    history: Sequence[RungResult],
    score: Callable[[Sequence[NDArray[Any]]], Scores],
    density: NDArray[np.float64] | None,
    max_epochs: int,
) -> SearchResult:
    """Return the best result of a configuration at a rung as the result of the search.

    A configuration competes with all rungs at which it was not dropped, which is early stopping.
    """
    has_rungs = len({rung.epochs for rung in history}) > 1
    params = []
    for rung in history:
        epochs = {"epochs": rung.epochs} if has_rungs else {}
        params.append({**space.configurations[rung.configuration], **epochs})
    eligible = {i: rung.log_proba for i, rung in enumerate(history) if rung.log_proba is not None}
    indices = list(eligible)
    scores = np.stack([rung.scores for rung in history], -1)
    scores[..., indices], losses = score(list(eligible.values()))
    row_weight, scoring = data.held_out.score_weight, space.search.ranked_by
    results = results_table(params, scores, scoring, pooled=density is not None)
    if scoring == "accuracy":
        chosen = results["rank_test_score"][indices].argmin()
    else:
        candidates = [space.candidates[history[i].configuration[1]] for i in indices]
        decays = [candidate.weight_decay for candidate in candidates]
        rates = [candidate.learning_rate for candidate in candidates]
        chosen = one_standard_error(losses, decays, row_weight, rates)
    index = indices[chosen]
    best = history[index]
    log_proba = np.asarray(best.log_proba, dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = fit_pool_weights(log_proba, density, data.held_out.y, data.log_prior, row_weight)
    predicted = log_proba if weights is None else pool(log_proba, density, data.log_prior, weights)
    return SearchResult(
        best.configuration,
        space.configurations[best.configuration],
        index,
        results,
        best.epochs,
        max_epochs,
        weights,
        best.fleet,
        predicted.astype(np.float32) if isinstance(space.search.scoring, str) else None,
    )
