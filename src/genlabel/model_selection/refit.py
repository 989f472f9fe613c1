"""Training before and after the search: labelers of each fold with their densities, and the networks that predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import clone

from genlabel._progress import FitProgress
from genlabel._text import count_of
from genlabel._validation import warn
from genlabel.densities import StackedDensity
from genlabel.densities.base import CrossFittedDensity
from genlabel.densities.transformed import LatentDensity
from genlabel.labeling import GenLabel, Labeler
from genlabel.metrics import log_loss
from genlabel.model_selection.options import STAGE_DEADLINES
from genlabel.model_selection.search import SearchResult, search, train
from genlabel.model_selection.search_space import FitLabelers, SearchSpace, Trainer
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.training.batching import TrainingTask
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import log_proba_of

MAX_EXCESS_LOSS = 0.1
"""Excess of a final network's training loss over the held-out loss, in units of the log-loss of the class priors."""


@dataclass(frozen=True)
class FitResult:
    """The networks that predict, and their training."""

    networks: Sequence[MLP]  # for features that all rows have standardized
    labeler: Labeler  # the labeler of the chosen density; of the only one, if it is pooled with the network
    losses: Sequence[float]  # mean training loss of each epoch
    epochs: int  # epochs for which they were trained; with restored best epochs, the largest of these
    trainer: Trainer | None = None  # their training; None if they are those of the folds
    trainer_index: int = 0  # their index among the candidates of the trainer


def prepare_labelers(
    space: SearchSpace, data: CVData, progress: FitProgress
) -> tuple[FitLabelers, StackedDensity | None]:
    """Return a function that fits the labelers of a fold, and the last stacked density, fitted to all rows."""
    whole = data.whole
    with progress.stage("stacked density", until=STAGE_DEADLINES["stacked density"]):
        densities = [
            density.prepare_for_cv(whole.X, whole.labels, whole.weight, lambda: data.folds, data.seed)
            for density in space.densities
        ]
    networks: dict[int | None, MLP] = {}
    if space.feature_space is not None:
        with progress.stage("feature networks", until=STAGE_DEADLINES["feature networks"]):
            networks = train_feature_networks(space.feature_space, data, progress, space.needs_folds())
    stacked = [density.stacked for density in densities if density.stacked is not None]
    return partial(fit_fold_labelers, space, densities, networks), stacked[-1] if stacked else None


def train_feature_networks(
    space: SearchSpace, data: CVData, progress: FitProgress, for_folds: bool
) -> dict[int | None, MLP]:
    """Return the network of all rows, None, and with `for_folds` those of the folds, trained without mixing."""
    fit_labelers = partial(fit_fold_labelers, space, (), {})
    (result,) = search(space, data, fit_labelers, progress, [list(space.configurations)])
    single = copy(space.search)
    single.ensemble = 1
    (fit,) = refit(replace(space, search=single), data, fit_labelers, [result], progress)
    networks: dict[int | None, MLP] = {None: fit.networks[0].to(space.training.device)}
    if for_folds:
        fleet = result.fleet
        if fleet is None:  # there was nothing to choose
            tasks = [space.make_task(data, fit_labelers, fold) for fold in range(len(data.folds))]
            per_pass = space.epochs(len(data.raw.X))[1]
            trainer = space.make_trainer(tasks, 0, [0], result.max_epochs, epochs_per_pass=per_pass, progress=progress)
            trainer.advance(result.epochs)
            fleet = trainer.fleet
        networks |= {fold: fleet.network(fold).to(space.training.device) for fold in range(len(data.folds))}
    return networks


def fit_fold_labelers(
    space: SearchSpace,
    densities: Sequence[CrossFittedDensity],
    networks: Mapping[int | None, MLP],
    rows: LabeledData,
    fold: int | None,
) -> tuple[Labeler, ...]:
    """Return the labelers, fitted to the training rows of a fold; with `networks`, in their features (arXiv Alg. 2)."""
    training = rows.X, rows.labels, rows.weight
    fitted: list[Labeler] = [clone(labeler).fit(*training) for labeler in space.labelers]
    for density in densities:
        if networks:
            fold_density = LatentDensity(networks[fold], len(space.hidden), clone(density.full)).fit(*training)
        else:
            fold_density = density.fit(fold, *training)
        fitted.append(GenLabel.from_fitted(fold_density, priors=space.priors))
    return tuple(fitted)


def refit(
    space: SearchSpace, data: CVData, fit_labelers: FitLabelers, results: Sequence[SearchResult], progress: FitProgress
) -> list[FitResult]:
    """Return the networks that predict, for each result of a search.

    They are those of the folds, or as many as the ensemble has, trained on all rows. If the training loss of one of
    these is far above the log-loss that the folds estimate, they are trained once more, and the better ones are used.
    """
    task = space.make_task(data, fit_labelers, None)
    if space.search.refits:
        fits = train_on_all_rows(space, results, task, progress)
        if space.search.is_halving:
            pairs = zip(results, fits, strict=True)
            fits = [_retry_if_diverged(space, data, result, fit, task, progress) for result, fit in pairs]
        return fits
    count = len(data.folds) if space.search.predicts_with_folds else space.search.ensemble
    fits = []
    for result in results:
        fleet = result.fleet
        assert fleet is not None
        networks = [data.to_whole(fleet.network(fold), fold) for fold in range(count)]
        epochs = result.epochs if fleet.best_epochs is None else max(fleet.best_epochs[:count, 0].tolist())
        losses = fleet.losses[:, :, 0].mean(1).tolist()
        fits.append(FitResult(networks, _chosen_labeler(space, result, task), losses, epochs))
    return fits


def train_on_all_rows(
    space: SearchSpace, results: Sequence[SearchResult], task: TrainingTask, progress: FitProgress
) -> list[FitResult]:
    """Return the networks of an ensemble for each result; those of the same mixing and length are trained together."""
    # The same task several times, each with random streams of its own.
    tasks = [task, *(replace(task, seed=[*task.seed, member]) for member in range(1, space.search.ensemble))]
    per_pass = space.epochs(len(task.X))[1]
    groups: dict[tuple[int, int], list[int]] = {}
    for i, result in enumerate(results):
        groups.setdefault((result.configuration[0], result.epochs), []).append(i)
    fits: dict[int, FitResult] = {}
    for (mixing, epochs), members in groups.items():
        candidates = list(dict.fromkeys(results[i].configuration[1] for i in members))
        trainer = space.make_trainer(
            tasks, mixing, candidates, results[0].max_epochs, epochs_per_pass=per_pass, progress=progress
        )
        with progress.step(count_of(epochs, "epoch"), work=epochs):
            done = train([(trainer, 1)], epochs, progress)
        if done < epochs:
            progress.truncations.append(f"final networks are trained for {done} of {count_of(epochs, 'epoch')}")
        fleet = trainer.fleet
        for i in members:
            index = candidates.index(results[i].configuration[1])
            fits[i] = FitResult(
                networks=[fleet.network(member, index) for member in range(len(fleet.theta))],
                labeler=_chosen_labeler(space, results[i], task),
                losses=fleet.losses[:, :, index].mean(1).tolist(),
                epochs=done,
                trainer=trainer,
                trainer_index=index,
            )
    return [fits[i] for i in range(len(results))]


def _chosen_labeler(space: SearchSpace, result: SearchResult, task: TrainingTask) -> Labeler:
    weights = result.pool_weights
    if weights is not None and weights.density is not None:
        return task.labelers[-1]
    shares = space.candidates[result.configuration[1]].label
    return task.labelers[max(i for i, share in enumerate(shares) if share > 0)]


def _retry_if_diverged(
    space: SearchSpace, data: CVData, result: SearchResult, fit: FitResult, task: TrainingTask, progress: FitProgress
) -> FitResult:
    """Return the fit, or a better second one if its training loss is far above the estimate of the folds."""
    if result.fleet is None:
        return fit
    prior_loss = -float(np.exp(data.log_prior) @ data.log_prior)
    estimate = float(result.results["mean_test_log_loss"][result.index])
    limit = estimate + MAX_EXCESS_LOSS * prior_loss
    first = _max_training_loss(fit, data.whole)
    if first <= limit or progress.truncations:
        return fit
    seed, stream, *rest = task.seed
    retry_task = replace(task, seed=[seed, stream + 2, *rest])  # a random stream of its own
    (retry,) = train_on_all_rows(space, [result], retry_task, progress)
    second = _max_training_loss(retry, data.whole)
    if not second <= limit:
        message = (
            f"the final network has a training log-loss of {first:.3g}, and of {second:.3g} after a second training; "
            f"cross-validation estimates {estimate:.3g}, and the class priors have {prior_loss:.3g}; "
            'use ensemble="cv", or a smaller learning rate'
        )
        warn("promise", message, UserWarning)
    return retry if second < first else fit


def _max_training_loss(fit: FitResult, data: LabeledData) -> float:
    """Return the highest log-loss of a network on the rows that it was trained on."""
    log_proba = (log_proba_of(network, data.X) for network in fit.networks)
    return max(float(log_loss(values, data.y, data.score_weight)) for values in log_proba)
