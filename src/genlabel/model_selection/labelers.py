"""Labelers of each fold with their densities, in the input space or in the features of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

from sklearn.base import clone

from genlabel._progress import FitProgress
from genlabel.densities import StackedDensity
from genlabel.densities.base import CrossFittedDensity
from genlabel.densities.transformed import LatentDensity
from genlabel.labeling import GenLabel, Labeler
from genlabel.model_selection.options import STAGE_DEADLINES
from genlabel.model_selection.refit import refit
from genlabel.model_selection.search import search
from genlabel.model_selection.search_space import FitLabelers, SearchSpace
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.training.networks import MLP


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
            tasks, per_pass = space.fold_tasks(data, fit_labelers), space.epochs(len(data.raw.X))[1]
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
