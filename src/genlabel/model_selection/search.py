"""The search and the final fit: training on the folds, the choice of the best, and the networks that predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel._validation import warn
from genlabel.labeling import GenLabel, Labeler
from genlabel.metrics import log_loss
from genlabel.model_selection.halving import RungResult, candidates_by_mixing, successive_halving, train
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
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.model_selection.tasks import (
    NETWORK_STREAM,
    FitLabelers,
    ensemble_tasks,
    fold_tasks,
    make_task,
    make_trainer,
)
from genlabel.model_selection.time_budget import (
    Subsets,
    cap_candidates,
    fit_to_time_limit,
    measure_epoch_seconds,
)
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import log_proba_of

EPOCHS_BETWEEN_ATTACKS = 5
"""Epochs from one evaluation under attack to the next, where the best epoch is restored (arXiv Section E.2)."""
MAX_EXCESS_LOSS = 0.1
"""Excess of a final network's training loss over the held-out loss, in units of the log-loss of the class priors."""


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


@dataclass(frozen=True)
class FitResult:
    """The networks that predict, and what they were trained with."""

    search: SearchResult
    networks: list[MLP]
    """For features that all rows have standardized."""
    losses: list[float]
    """Mean training loss of each epoch."""
    epochs: int
    labeler: Labeler
    """The labeler of the chosen density; of the only one, if it is pooled with the network."""
    trainer: Trainer | None = None
    """The training of the networks; None if they are those of the folds."""
    index: int = 0
    """Their index among the candidates of the trainer."""


def search(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    config: TrainerConfig,
    progress: FitProgress,
    subsets: Subsets | None = None,
    stream: int = NETWORK_STREAM,
) -> list[SearchResult]:
    """Return the best configuration of each subset, as if there were no others; by default, of all of them."""
    subsets = [range(len(space.configurations))] if subsets is None else subsets
    n, scoring = len(data.raw.X), config.search.scoring
    epochs = config.max_epochs(n)
    if not needs_folds(space, config, subsets):
        only, weights = [space.configurations[subset[0]] for subset in subsets], space.pooling
        assert not isinstance(weights, str)
        return [
            SearchResult(
                one, space.candidates[one.candidate], 0, {"params": [one.params]}, epochs, epochs, pool_weights=weights
            )
            for one in only
        ]
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
    history = successive_halving(
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
    results = [_select(space, seen, score, validation, rank_by, density, data.log_prior, epochs) for seen in history]
    return results if isinstance(scoring, str) else [replace(result, log_proba=None) for result in results]


def needs_folds(space: SearchSpace, config: TrainerConfig, subsets: Subsets | None = None) -> bool:
    """Tell whether networks of folds are trained: to choose, to fit pooling weights, or to predict."""
    chooses = len(space.configurations) > 1 if subsets is None else any(len(subset) > 1 for subset in subsets)
    return chooses or isinstance(space.pooling, str) or space.calibrate or not config.search.refits


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
    history: Sequence[RungResult],
    score: Callable[[Sequence[NDArray[Any]]], ScoreTable],
    rows: ValidationRows,
    scoring: str,
    density: NDArray[np.float64] | None,
    log_prior: NDArray[np.float64],
    max_epochs: int,
) -> SearchResult:
    """Return the best checkpoint, any rung of a configuration that was not dropped there; this is early stopping."""
    configurations = [space.configurations[each.configuration] for each in history]
    hyperparameters = [space.candidates[configuration.candidate] for configuration in configurations]
    several = len({each.epochs for each in history}) > 1
    params = [
        {**configuration.params, **({"epochs": each.epochs} if several else {})}
        for configuration, each in zip(configurations, history, strict=True)
    ]
    eligible = {i: each.log_proba for i, each in enumerate(history) if each.log_proba is not None}
    table = score(list(eligible.values()))
    now = dict(zip(eligible, map(table.select, range(len(eligible))), strict=True))
    all_scores = ScoreTable.concatenate([now.get(i, each.scores) for i, each in enumerate(history)])
    results = results_table(params, all_scores, scoring, pooled=density is not None)
    indices = list(eligible)
    candidates, ranks = [hyperparameters[i] for i in indices], results["rank_test_score"][indices]
    best = indices[select_best(table, rows.weight, scoring, candidates, ranks)]
    own = np.asarray(eligible[best], dtype=np.float64)
    weights = space.pooling if isinstance(space.pooling, PoolWeights) else None
    if weights is None and (density is not None or space.calibrate):
        weights = fit_pool_weights(own, density, rows.y, log_prior, rows.weight)
    predicted = own if weights is None else pool(own, density, log_prior, weights)
    chosen = history[best]
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


def refit(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    results: Sequence[SearchResult],
    config: TrainerConfig,
    progress: FitProgress,
    stream: int = NETWORK_STREAM,
) -> list[FitResult]:
    """Return the networks that predict, for each result of a search.

    They are those of the folds, or as many as the ensemble has, trained on all rows. If the training loss of one of
    these is far above the log-loss that the folds estimate, they are trained once more, and the better ones are used.
    """
    task = make_task(space, data, fit_labelers, None, stream)
    search = config.search
    if not search.refits:
        count = len(data.folds) if search.predicts_with_folds else search.ensemble
        fits = []
        for result in results:
            fleet = result.fleet
            assert fleet is not None
            networks = [data.to_whole(fleet.network(fold), fold) for fold in range(count)]
            epochs = result.epochs if fleet.best_epochs is None else max(fleet.best_epochs[:count, 0].tolist())
            losses: list[float] = fleet.losses[:, :, 0].mean(1).tolist()
            fits.append(FitResult(result, networks, losses, epochs, _chosen_labeler(result, task)))
        return fits
    fits = _train_on_all_rows(space, results, task, config, progress)
    if not search.is_halving:
        return fits
    return [_retry_if_diverged(space, data, fit, task, config, progress) for fit in fits]


def _train_on_all_rows(
    space: SearchSpace,
    results: Sequence[SearchResult],
    task: TrainingTask,
    config: TrainerConfig,
    progress: FitProgress,
) -> list[FitResult]:
    """Return the networks of an ensemble for each result; those of the same mixing and length are trained together."""
    fits: dict[int, FitResult] = {}
    for mixing, epochs in dict.fromkeys((result.configuration.mixing, result.epochs) for result in results):
        group = [i for i, r in enumerate(results) if (r.configuration.mixing, r.epochs) == (mixing, epochs)]
        chosen = list(dict.fromkeys(results[i].configuration.candidate for i in group))
        tasks = [space.mixing[mixing].apply(each) for each in ensemble_tasks(task, config.search.ensemble)]
        trainer = make_trainer(
            space,
            config,
            tasks,
            mixing,
            results[0].max_epochs,
            [space.candidates[c] for c in chosen],
            epochs_per_pass=config.epochs_per_pass(len(task.X)),
            progress=progress,
        )
        with progress.step(f"{epochs} epochs", work=epochs):
            done = train([(trainer, 1)], epochs, progress)
        if done < epochs:
            progress.truncations.append(f"final networks are trained for {done} of {epochs} epochs")
        fleet = trainer.fleet
        for i in group:
            index = chosen.index(results[i].configuration.candidate)
            networks = [fleet.network(member, index) for member in range(len(fleet.theta))]
            losses = fleet.losses[:, :, index].mean(1).tolist()
            labeler = _chosen_labeler(results[i], task)
            fits[i] = FitResult(results[i], networks, losses, done, labeler, trainer, index)
    return [fits[i] for i in range(len(results))]


def _chosen_labeler(result: SearchResult, task: TrainingTask) -> Labeler:
    weights = result.pool_weights
    if weights is not None and weights.density is not None:
        return task.labelers[-1]
    return task.labelers[max(i for i, share in enumerate(result.hyperparameters.label) if share > 0)]


def _retry_if_diverged(
    space: SearchSpace,
    data: CVData,
    fit: FitResult,
    task: TrainingTask,
    config: TrainerConfig,
    progress: FitProgress,
) -> FitResult:
    """Return the networks, or better ones of a second training if their loss is far above the estimate of the folds."""
    result, prior_loss = fit.search, -float(np.exp(data.log_prior) @ data.log_prior)
    if result.fleet is None:
        return fit
    estimate = float(result.results["mean_test_log_loss"][result.index])
    limit, first = estimate + MAX_EXCESS_LOSS * prior_loss, _max_training_loss(fit, data.whole)
    if first <= limit or progress.truncations:
        return fit
    seed, stream, *rest = task.seed
    again = replace(task, seed=[seed, stream + 2, *rest])  # a random stream of its own
    (retry,) = _train_on_all_rows(space, [result], again, config, progress)
    second = _max_training_loss(retry, data.whole)
    if not second <= limit:
        message = (
            f"trained on all rows, a network has a log-loss of {first:.3g} on them, and {second:.3g} in a second "
            f"training, while cross-validation estimates {estimate:.3g} (class priors: {prior_loss:.3g}); "
            'use ensemble="cv", or a smaller learning rate'
        )
        warn("promise", message, UserWarning)
    return retry if second < first else fit


def _max_training_loss(fit: FitResult, data: LabeledData) -> float:
    """Return the highest log-loss of a network on the rows that it was trained on."""
    log_proba = (log_proba_of(network, data.X) for network in fit.networks)
    return max(float(log_loss(values, data.y, data.score_weight)) for values in log_proba)
