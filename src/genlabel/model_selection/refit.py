"""The networks that predict: trained on all rows as the search has chosen, or taken from its folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from genlabel._progress import FitProgress
from genlabel._validation import warn
from genlabel.labeling import Labeler
from genlabel.metrics import log_loss
from genlabel.model_selection.halving import train
from genlabel.model_selection.options import TrainerConfig
from genlabel.model_selection.search import SearchResult
from genlabel.model_selection.search_space import SearchSpace, Trainer
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.model_selection.tasks import NETWORK_STREAM, FitLabelers, ensemble_tasks, make_task, make_trainer
from genlabel.model_selection.time_budget import REFIT, STAGE_DEADLINES
from genlabel.training import TrainingTask
from genlabel.training.networks import MLP
from genlabel.training.networks.ensemble import log_proba_of

MAX_EXCESS_LOSS = 0.1
"""Excess of a final network's training loss over the held-out loss, in units of the log-loss of the class priors."""
RETRY_STREAM_OFFSET = 2
"""Added to the random stream of a training that is repeated."""


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


def refit(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    results: Sequence[SearchResult],
    config: TrainerConfig,
    progress: FitProgress,
) -> list[FitResult]:
    """Return the networks that predict, for each result of a search.

    They are those of the folds, or as many as the ensemble has, trained on all rows. If the training loss of one of
    these is far above the log-loss that the folds estimate, they are trained once more, and the better ones are used.
    """
    with progress.stage(REFIT, until=STAGE_DEADLINES[REFIT]):
        return refit_networks(space, data, fit_labelers, results, config, progress)


def refit_networks(
    space: SearchSpace,
    data: CVData,
    fit_labelers: FitLabelers,
    results: Sequence[SearchResult],
    config: TrainerConfig,
    progress: FitProgress,
    stream: int = NETWORK_STREAM,
) -> list[FitResult]:
    """Return what :func:`refit` does, as a part of the current stage, with a random stream."""
    task = make_task(space, data, fit_labelers, None, stream)
    search = config.search
    if not search.refits:
        count = len(data.folds) if search.predicts_with_folds else search.ensemble
        return [_networks_of_folds(data, result, task, count) for result in results]
    fits = _train_on_all_rows(space, results, task, config, progress)
    if not search.is_halving:
        return fits
    return [_retry_if_diverged(space, data, fit, task, config, progress) for fit in fits]


def _networks_of_folds(data: CVData, result: SearchResult, task: TrainingTask, count: int) -> FitResult:
    """Return the networks of the first folds."""
    fleet = result.fleet
    assert fleet is not None
    networks = [data.to_whole(fleet.network(fold), fold) for fold in range(count)]
    epochs = result.epochs if fleet.best_epochs is None else max(fleet.best_epochs[:count, 0].tolist())
    losses: list[float] = fleet.losses[:, :, 0].mean(1).tolist()
    return FitResult(result, networks, losses, epochs, _chosen_labeler(result, task))


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
    again = replace(task, seed=[seed, stream + RETRY_STREAM_OFFSET, *rest])
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
