"""Labelers of a search: fitted to the training rows of each fold, with densities of the input or of features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from sklearn.base import clone

from genlabel._progress import FitProgress
from genlabel.densities import LatentDensity, StackedDensity
from genlabel.densities.base import CrossFittedDensity
from genlabel.labeling import GenLabel, Labeler
from genlabel.model_selection.options import TrainerConfig
from genlabel.model_selection.refit import refit_networks
from genlabel.model_selection.search import needs_folds, search_candidates
from genlabel.model_selection.search_space import SearchSpace
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.model_selection.tasks import FEATURE_STREAM, fold_tasks, make_trainer
from genlabel.model_selection.time_budget import DENSITIES, FEATURES, STAGE_DEADLINES
from genlabel.training.networks import MLP


@dataclass(frozen=True)
class LabelerFactory:
    """Fits the labelers of a search space, one for each of its densities included."""

    space: SearchSpace
    densities: Sequence[CrossFittedDensity] = ()
    depth: int = 0
    """Hidden layers of the feature networks."""
    whole: MLP | None = None
    """Feature network of all rows (arXiv Alg. 2); None if the densities live in the input."""
    folds: Sequence[MLP] = ()
    """Feature networks of the folds."""

    @property
    def stacked_density(self) -> StackedDensity | None:
        """The last stacked density, fitted to all rows."""
        return next((one.stacked for one in reversed(self.densities) if one.stacked is not None), None)

    def __call__(self, rows: LabeledData, fold: int | None) -> tuple[Labeler, ...]:
        """Return the labelers, fitted to the training rows of a fold; None is all rows."""
        training = rows.X, rows.labels, rows.weight
        fitted: list[Labeler] = [clone(labeler).fit(*training) for labeler in self.space.labelers]
        for density in self.densities:
            if self.whole is None:
                own = density.fit(fold, *training)
            else:
                network = self.whole if fold is None else self.folds[fold]
                own = LatentDensity(network, self.depth, clone(density.full)).fit(*training)
            fitted.append(GenLabel.from_fitted(own, priors=self.space.priors))
        return tuple(fitted)


def prepare_labelers(space: SearchSpace, data: CVData, config: TrainerConfig, progress: FitProgress) -> LabelerFactory:
    """Choose stacked densities over the folds, and train the networks in whose features densities live."""
    whole = data.whole
    with progress.stage(DENSITIES, until=STAGE_DEADLINES[DENSITIES]):
        densities = [
            density.prepare_for_cv(whole.X, whole.labels, whole.weight, lambda: data.folds, data.seed)
            for density in space.densities
        ]
    if space.feature_space is None:
        return LabelerFactory(space, densities)
    with progress.stage(FEATURES, until=STAGE_DEADLINES[FEATURES]):
        needs = needs_folds(space, config)
        networks = _train_feature_networks(space.feature_space, data, config, progress, needs)
    return LabelerFactory(space, densities, len(config.hidden), *networks)


def _train_feature_networks(
    space: SearchSpace, data: CVData, config: TrainerConfig, progress: FitProgress, needs_folds: bool
) -> tuple[MLP, list[MLP]]:
    """Return the network of all rows and those of the folds, at the hyperparameters that suit plain training."""
    labelers = LabelerFactory(space)
    (result,) = search_candidates(space, data, labelers, config, progress, stream=FEATURE_STREAM)
    single = copy(config.search)
    single.ensemble = 1
    single_config = config._replace(search=single)
    (fit,) = refit_networks(space, data, labelers, [result], single_config, progress, FEATURE_STREAM)
    whole = fit.networks[0].to(config.device)
    if not needs_folds:
        return whole, []
    fleet = result.fleet
    if fleet is None:  # there was nothing to choose
        tasks, passes = fold_tasks(space, data, labelers, FEATURE_STREAM)[0], config.epochs_per_pass(len(data.raw.X))
        trainer = make_trainer(
            space, config, tasks, 0, result.max_epochs, space.candidates, epochs_per_pass=passes, progress=progress
        )
        trainer.advance(result.epochs)
        fleet = trainer.fleet
    return whole, [fleet.network(fold).to(config.device) for fold in range(len(data.folds))]
