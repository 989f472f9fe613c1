"""The search: training on the folds, and the choice of the best configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel.labeling import GenLabel
from genlabel.model_selection.halving import Checkpoint, candidates_by_mixing, successive_halving
from genlabel.model_selection.options import TrainerConfig
from genlabel.model_selection.pooling import PoolWeights, fit_pool_weights, pool
from genlabel.model_selection.scoring import (
    ScoreTable,
    ValidationRows,
    epoch_scores,
    rank_candidates,
    results_table,
    score_candidates,
    select_best,
    validation_log_proba,
)
from genlabel.model_selection.search_space import Configuration, SearchSpace, Trainer
from genlabel.model_selection.splits import CVData
from genlabel.model_selection.tasks import NETWORK_STREAM, FitLabelers, fold_tasks, make_trainer
from genlabel.model_selection.time_budget import (
    SEARCH,
    Subsets,
    cap_candidates,
    fit_to_time_limit,
    measure_epoch_seconds,
    search_deadline,
)
from genlabel.training import BestEpoch, Fleet, Hyperparameters, TrainingTask

EPOCHS_BETWEEN_ATTACKS = 5
"""Epochs from one evaluation under attack to the next, where the best epoch is restored (arXiv Section E.2)."""


@dataclass(frozen=True)
class SearchResult:
    """The configuration that was chosen, and the scores of all of them."""

    configuration: Configuration
    hyperparameters: Hyperparameters
    index: int
    """Its row in the results."""
    results: dict[str, Any]
    """In the form of `GridSearchCV.cv_results_`."""
    epochs: int
    """Epochs for which it is trained."""
    max_epochs: int
    """Epochs of the longest training; a schedule of the learning rate ends with them."""
    fleet: Fleet | None = None
    """The networks of the folds, each for features that its fold has standardized; None if there were no folds."""
    pool_weights: PoolWeights | None = None
    """None predicts by the network alone."""
    log_proba: NDArray[np.float32] | None = None
    """Predicted log-probabilities (n, k) of the held-out rows; None if there are none, or if they were attacked."""


def search(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    config: TrainerConfig,
    progress: FitProgress,
    subsets: Subsets | None = None,
) -> list[SearchResult]:
    """Return the best configuration of each subset, as if there were no others; by default, of all of them.

    Parameters
    ----------
    space : SearchSpace
    data : CVData
    fit_labelers : callable
        See :func:`prepare_labelers`.
    config : TrainerConfig
    progress : FitProgress
    subsets : sequence of sequences of int, optional
        Indices of configurations.
    """
    with progress.stage(SEARCH, until=search_deadline(config.search)):
        return search_candidates(space, data, fit_labelers, config, progress, subsets)


def search_candidates(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    config: TrainerConfig,
    progress: FitProgress,
    subsets: Subsets | None = None,
    stream: int = NETWORK_STREAM,
) -> list[SearchResult]:
    """Return what :func:`search` does, as a part of the current stage, with a random stream."""
    subsets = [range(len(space.configurations))] if subsets is None else subsets
    n, scoring = len(data.raw.X), config.search.scoring
    epochs = config.max_epochs(n)
    if not needs_folds(space, config, subsets):
        return [_only_configuration(space, subset[0], epochs) for subset in subsets]
    progress.best_loss = None
    tasks = fold_tasks(space, data, fit_labelers, stream)
    subsets, epochs = _within_limits(space, data, config, progress, subsets, tasks, epochs)
    measure = {"valid": data.valid, "scoring": scoring, "seed": data.seed}
    every = 1 if isinstance(scoring, str) else EPOCHS_BETWEEN_ATTACKS
    restore_best = config.search.restore_best and BestEpoch(partial(epoch_scores, **measure), every)
    trainers = {
        m: make_trainer(
            space,
            config,
            tasks[m],
            m,
            epochs,
            [space.candidates[c] for c in indices],
            epochs_per_pass=config.epochs_per_pass(n),
            restore_best=restore_best,
            progress=progress,
        )
        for m, indices in candidates_by_mixing(space, subsets).items()
    }
    validation, rank_by = ValidationRows.of_folds(data), scoring if isinstance(scoring, str) else "accuracy"
    density = None
    if space.pooling is not None:  # log-posteriors (n, k) of the held-out rows, each by the density of its fold
        labelers = [cast(GenLabel, task.labelers[-1]) for task in tasks[0]]
        pairs = zip(labelers, data.valid, strict=True)
        density = np.concatenate([labeler.log_posterior(rows.X, data.raw.class_weight) for labeler, rows in pairs])
    score = partial(
        score_candidates,
        rows=validation,
        log_prior=data.log_prior,
        density=density,
        pooling=space.pooling,
        fit_weights=config.search.is_halving,
    )
    checkpoints = successive_halving(
        space,
        trainers,
        config.schedule(epochs, n),
        subsets,
        partial(validation_log_proba, **measure),
        score,
        # On large tables, pooling with a strong density would hide which networks learn fastest.
        partial(rank_candidates, scoring=rank_by, by_network=config.epochs_per_pass(n) > 1),
        validation.weight,
        progress,
    )
    results = [
        _select(space, seen, score, validation, rank_by, density, data.log_prior, epochs) for seen in checkpoints
    ]
    return results if isinstance(scoring, str) else [replace(result, log_proba=None) for result in results]


def needs_folds(space: SearchSpace, config: TrainerConfig, subsets: Subsets | None = None) -> bool:
    """Tell whether networks of folds are trained: to choose, to fit pooling weights, or to predict."""
    chooses = len(space.configurations) > 1 if subsets is None else any(len(subset) > 1 for subset in subsets)
    return chooses or isinstance(space.pooling, str) or space.calibrate or not config.search.refits


def _only_configuration(space: SearchSpace, e: int, epochs: int) -> SearchResult:
    configuration, pooling = space.configurations[e], space.pooling
    assert not isinstance(pooling, str)
    hyperparameters, results = space.candidates[configuration.candidate], {"params": [configuration.params]}
    return SearchResult(configuration, hyperparameters, 0, results, epochs, epochs, pool_weights=pooling)


def _within_limits(
    space: SearchSpace,
    data: CVData,
    config: TrainerConfig,
    progress: FitProgress,
    subsets: Subsets,
    tasks: Sequence[Sequence[TrainingTask]],
    epochs: int,
) -> tuple[Subsets, int]:
    """Return as many configurations and epochs as memory and the time limit allow for."""
    rows, (d, k) = len(data.raw.X), (data.whole.X.shape[1], len(data.raw.classes))
    if config.search.is_halving:
        subsets = cap_candidates(space, subsets, config.hidden, d, k, len(data.folds))
    if not progress.has_time_limit:
        return subsets, epochs

    def one_epoch(probe: Sequence[TrainingTask], m: int, candidates: Sequence[Hyperparameters]) -> Trainer:
        return make_trainer(space, config, probe, m, 1, candidates)

    passes = measure_epoch_seconds(space, subsets, tasks, one_epoch)
    seconds = {m: each / config.epochs_per_pass(rows) for m, each in passes.items()}
    return fit_to_time_limit(space, subsets, epochs, partial(config.schedule, rows=rows), seconds, progress)


def _select(
    space: SearchSpace,
    checkpoints: Sequence[Checkpoint],
    score: Callable[[Sequence[NDArray[Any]]], ScoreTable],
    rows: ValidationRows,
    scoring: str,
    density: NDArray[np.float64] | None,
    log_prior: NDArray[np.float64],
    max_epochs: int,
) -> SearchResult:
    """Return the best checkpoint, any rung of a configuration that was not dropped there; this is early stopping."""
    configurations = [space.configurations[each.configuration] for each in checkpoints]
    hyperparameters = [space.candidates[configuration.candidate] for configuration in configurations]
    several = len({each.epochs for each in checkpoints}) > 1
    params = [
        {**configuration.params, **({"epochs": each.epochs} if several else {})}
        for configuration, each in zip(configurations, checkpoints, strict=True)
    ]
    eligible = {i: each.log_proba for i, each in enumerate(checkpoints) if each.log_proba is not None}
    table = score(list(eligible.values()))
    now = dict(zip(eligible, map(table.select, range(len(eligible))), strict=True))
    all_scores = ScoreTable.concatenate([now.get(i, each.scores) for i, each in enumerate(checkpoints)])
    results = results_table(params, all_scores, scoring, pooled=density is not None)
    indices = list(eligible)
    candidates, ranks = [hyperparameters[i] for i in indices], results["rank_test_score"][indices]
    best = indices[select_best(table, rows.weight, scoring, candidates, ranks)]
    own = np.asarray(eligible[best], dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = fit_pool_weights(own, density, rows.y, log_prior, rows.weight)
    predicted = own if weights is None else pool(own, density, log_prior, weights)
    chosen = checkpoints[best]
    return SearchResult(
        configurations[best],
        hyperparameters[best],
        best,
        results,
        chosen.epochs,
        max_epochs,
        chosen.fleet,
        weights,
        predicted.astype(np.float32),
    )
