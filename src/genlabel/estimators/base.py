"""Base class of the network classifiers: one fit, one way to predict, and the attributes that a fit sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Self, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from torch import nn

from genlabel._progress import FitProgress, track_fit
from genlabel._runtime import one_thread
from genlabel._validation import check_choice, check_count, deduplicate_warnings, restore_on_error
from genlabel.densities import StackedDensity
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.intervals import Calibration
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.validation import validate_fit_input
from genlabel.labeling import GenLabel, Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.halving import HALVING_SCHEDULE, HALVING_SCHEDULE_LARGE
from genlabel.model_selection.labelers import prepare_labelers
from genlabel.model_selection.options import (
    HALVING_STEPS,
    MAX_BATCHES,
    MAX_HALVING_EPOCHS,
    SEARCHES,
    TrainerConfig,
    TrainingOptions,
    resolve_search,
    resolve_training,
)
from genlabel.model_selection.pooling import MIN_LOG_PROBA, POOL_SHRINKAGE, PRIOR_PSEUDO_COUNT, PoolWeights, pool
from genlabel.model_selection.scoring import ValidationRows
from genlabel.model_selection.search import MAX_EXCESS_LOSS, FitResult, needs_folds, refit, search
from genlabel.model_selection.search_space import MixingConfig, SearchSpace, parameter_grid
from genlabel.model_selection.splits import CVData
from genlabel.model_selection.time_budget import (
    MAX_PARAMETERS,
    REFIT,
    SEARCH,
    STAGE_DEADLINES,
    TYPICALITY,
    Subsets,
    search_deadline,
    stage_shares,
    subsample_for_time_limit,
    warn_about_truncation,
)
from genlabel.training.batching import Hyperparameters
from genlabel.training.fleet_trainer import AVERAGING_POWER
from genlabel.training.networks.staged import Ensemble, log_proba_of

NETWORKS: dict[str, tuple[int, ...]] = {"mlp": (128, 128), "logistic": ()}
"""Hidden layers by name; "auto" makes all of them candidates."""
WEIGHT_DECAYS = (1e-4, 1e-3, 1e-2)
"""Candidates for `weight_decay="auto"`; 1e-4 is the paper's."""
CLEAN_FRACTIONS = (0.75, 1.0)
"""Candidates for `clean_fraction="auto"`: a quarter of the samples mixed, or none (plain training)."""


class NetworkClassifier(ProbabilityClassifier, ABC):
    """Base class of the classifiers that train a network on mixed samples; a subclass defines mixing and labels."""

    network: Any
    class_weight: Any
    search: Any
    training: Any
    random_state: Any
    fits_typicality: ClassVar[bool] = False

    network_: nn.Module
    labeler_: Labeler
    pool_weights_: PoolWeights | None
    log_prior_: NDArray[np.float64]

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the best candidate by cross-validation, and make the networks that predict.

        These are the networks of the folds, or networks that are trained on all rows: `ensemble` of the search.
        A call that fails leaves the classifier unchanged.

        Parameters
        ----------
        X : array or DataFrame (n, d)
            Missing values are replaced by the median of their column; columns of strings and categories of a DataFrame
            are encoded as by `table_pipeline`.
        y : array (n,)
            Class labels of any type.
        sample_weight : array (n,), optional
        groups : array (n,), optional
            Rows of the same group (of one person, one site, copies of a row) are held out together in all folds. A row
            whose group is missing is a group of its own.
        """
        with restore_on_error(self), deduplicate_warnings(), one_thread(), self._track_progress() as progress:
            config = self._trainer_config()
            space = self._search_space(config)
            data = self._training_data(X, y, sample_weight, groups, config, progress)
            (fitted,), density, typicality = self._train(space, data, config, progress)
            self._set_fitted_attributes(data, fitted, density, typicality)
            warn_about_truncation(progress)
        return self

    @final
    def fit_subsets(
        self,
        X: Any,
        y: Any,
        subsets: Mapping[str, Callable[[dict[str, Any]], bool]],
        sample_weight: Any = None,
        groups: Any = None,
    ) -> dict[str, Self]:
        """Search once for several methods: for each subset of the candidates, fit the classifier that it contains.

        Each result is that of a classifier with these candidates only, but for rounding; the networks of the search are
        trained once, and so are the final ones together.

        Parameters
        ----------
        X, y, sample_weight, groups
            See :meth:`fit`.
        subsets : dict of name -> callable (params) -> bool
            Tells which candidates, each a dict as in `cv_results_["params"]`, belong to a subset.

        Returns
        -------
        dict of name -> fitted classifier

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenLabelClassifier
        >>> model = GenLabelClassifier.from_paper(density="gaussian", training__epochs=5, random_state=0)
        >>> subsets = {"mixup": lambda params: params["gamma"] == 0, "GenLabel": lambda params: True}
        >>> model.fit_subsets(*load_iris(return_X_y=True), subsets)["mixup"].best_params_["gamma"]
        0.0
        """
        with deduplicate_warnings(), one_thread(), self._track_progress() as progress:
            base = clone(self)
            config = base._trainer_config()
            space = base._search_space(config)
            chosen = []
            for name, contains in subsets.items():
                chosen.append([e for e, each in enumerate(space.configurations) if contains(each.params)])
                if not chosen[-1]:
                    raise ValueError(
                        f"subset {name!r} contains none of the {len(space.configurations)} candidates; "
                        f"they are dicts such as {space.configurations[0].params}"
                    )
            data = base._training_data(X, y, sample_weight, groups, config, progress)
            fits, density, typicality = base._train(space, data, config, progress, chosen)
            fitted = {name: copy(base) for name in subsets}
            for classifier, fit in zip(fitted.values(), fits, strict=True):
                classifier._set_fitted_attributes(data, fit, density, typicality)
            warn_about_truncation(progress)
        return fitted

    @final
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of the search and of the training."""
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, part in self._named_parts().items():
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    @final
    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the search and of the training as `search__cv` or `training__epochs`."""
        for name in ("search", "training"):
            if name in params:
                setattr(self, name, params.pop(name))
        for name, part in self._named_parts().items():
            if any(key.startswith(f"{name}__") for key in params):
                setattr(self, name, part)
        return cast(Self, super().set_params(**params))

    def _named_parts(self) -> dict[str, BaseEstimator]:
        """Return the search and the training for which a name or None stands."""
        parts: dict[str, BaseEstimator] = {}
        if isinstance(self.search, str) and self.search in SEARCHES:
            parts["search"] = SEARCHES[self.search]()
        if self.training is None:
            parts["training"] = TrainingOptions()
        return parts

    def _track_progress(self) -> AbstractContextManager[FitProgress]:
        options = resolve_search(self.search)
        return track_fit(options.verbose, type(self).__name__, options.time_limit)

    def _trainer_config(self, device: torch.device | None = None) -> TrainerConfig:
        """Return the checked options of search and training; on another device, if one is given."""
        options, training = resolve_search(self.search), resolve_training(self.training)
        if device is not None:
            training = clone(training).set_params(device=device)
        return training.resolve(options, hidden_layers(self.network))

    @abstractmethod
    def _search_space(self, config: TrainerConfig) -> SearchSpace:
        """Check the parameters of the method and return its candidates."""

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, config: TrainerConfig, progress: FitProgress
    ) -> CVData:
        """Check the input, and return it with its folds."""
        options, halving = config.search, config.search.is_halving
        data, self.encoder_ = validate_fit_input(
            self, X, y, sample_weight, self.class_weight, smallest_class=1 if halving else 2, groups=groups
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(options.cv, Integral | str):  # a splitter or pairs of rows mean all rows
            data = subsample_for_time_limit(data, progress)
        standardize = resolve_training(self.training).standardize
        folds = CVData(data, cv=options.cv, standardize=standardize, seed=seed, keep_rare=halving)
        if options.restore_best and not options.predicts_with_folds and options.ensemble > len(folds.folds):
            raise ValueError(
                f"ensemble={options.ensemble} networks of their best epochs need as many folds, but there are "
                f'{len(folds.folds)}; use ensemble="cv", or a larger cv'
            )
        return folds

    def _train(
        self,
        space: SearchSpace,
        data: CVData,
        config: TrainerConfig,
        progress: FitProgress,
        subsets: Subsets | None = None,
    ) -> tuple[list[FitResult], StackedDensity | None, Typicality | None]:
        """Return the networks that predict, for each subset of the candidates; the stacked density and typicality."""
        progress.plan(stage_shares(space, config, needs_folds(space, config, subsets), self.fits_typicality))
        labelers = prepare_labelers(space, data, config, progress)
        with progress.stage(SEARCH, until=search_deadline(config.search)):
            results = search(space, data, labelers, config, progress, subsets)
        with progress.stage(REFIT, until=STAGE_DEADLINES[REFIT]):
            fits = refit(space, data, labelers, results, config, progress)
        if not self.fits_typicality:
            return fits, labelers.stacked_density, None
        with progress.stage(TYPICALITY):
            typicality = Typicality(random_state=data.seed).fit(data.raw.X, data.raw.y, data.raw.weight)
        return fits, labelers.stacked_density, typicality

    def _set_fitted_attributes(
        self, data: CVData, fit: FitResult, density: StackedDensity | None, typicality: Typicality | None
    ) -> None:
        """Set what a fit has learned; attributes of an earlier fit are dropped."""
        result, raw, weights = fit.search, data.raw, fit.search.pool_weights
        chosen, pooled = result.configuration.params, weights is not None and weights.density is not None
        if not all(bool(values.isfinite().all()) for network in fit.networks for values in network.parameters()):
            raise ValueError(
                f"training diverged at learning rate {chosen['learning_rate']:g}; "
                "lower learning_rate, or leave standardize=True"
            )
        for name in ("best_score_", "venn_abers_", "density_", "typicality_"):  # not every fit sets them
            self.__dict__.pop(name, None)
        self.classes_, self.class_count_ = raw.classes, np.bincount(raw.y, minlength=len(raw.classes))
        self.class_weight_, self.log_prior_, self.scaler_ = raw.class_weight, data.log_prior, data.scaler
        if weights is not None and weights.density is None:  # calibrated with the class priors
            self.network_ = Ensemble(fit.networks, weights.network, torch.from_numpy(data.log_prior), weights.prior)
        else:
            self.network_ = fit.networks[0] if len(fit.networks) == 1 else Ensemble(fit.networks)
        self.labeler_ = fit.labeler.to_cpu()
        self.best_params_ = {**chosen, **({"pool_weights": tuple(weights or ())} if pooled else {})}
        self.best_index_, self.cv_results_, self.pool_weights_ = result.index, result.results, weights
        self.history_ = {"loss": fit.losses}
        self.n_iter_ = fit.epochs  # NOTE[PAPER]: the last epoch is our default, restore_best=True the paper's words
        if result.fleet is not None:
            score = "mean_test_pooled_score" if pooled else "mean_test_score"
            self.best_score_ = float(result.results[score][result.index])
        if result.log_proba is not None:
            rows, given = ValidationRows.of_folds(data), raw.weight
            weight = None if given is None else np.concatenate([given[fold.valid] for fold in data.folds])
            crossed = resolve_search(self.search).predicts_with_folds
            self.venn_abers_ = Calibration.of(result.log_proba, rows.y, rows.fold, weight, raw.class_weight, crossed)
        if density is not None:
            self.density_ = density
        if typicality is not None:
            self.typicality_ = typicality

    @property
    def predicts_by_network(self) -> bool:
        """True if `network_` alone predicts, without a density."""
        return self.pool_weights_ is None or self.pool_weights_.density is None

    @final
    def predict_log_proba_scaled(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), at standardized points, `scaler_(X)`."""
        log_proba = log_proba_of(self.network_, points)
        return log_proba if self.predicts_by_network else self._pool([log_proba], points)[0]

    @final
    def _log_proba_to_calibrate(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.venn_abers_.crossed:
            return self.predict_log_proba_scaled(points)
        networks = self.network_.networks if isinstance(self.network_, Ensemble) else [self.network_]
        return np.stack(self._pool([log_proba_of(network, points) for network in networks], points))

    def _pool(self, networks: list[NDArray[np.float64]], points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the log-probabilities (m, k) of networks, pooled as they predict."""
        weights, density = self.pool_weights_, None
        if weights is None:
            return networks
        if weights.density == 0.0:
            weights = weights._replace(density=None)
        if weights.density is not None:
            density = cast(GenLabel, self.labeler_).log_posterior(points, self.class_weight_)
        return [pool(log_proba, density, self.log_prior_, weights) for log_proba in networks]

    @final
    def resolved_config(self) -> dict[str, Any]:
        """Return what the names among the parameters stand for: candidates, densities, options.

        >>> from genlabel import MixupClassifier
        >>> len(MixupClassifier().resolved_config()["candidates"])
        12
        """
        config = self._trainer_config(torch.device("cpu"))
        constants = halving_constants() if config.search.is_halving else {}
        return {**config.resolved_config(), **self._search_space(config).resolved_config(), **constants}

    def _hyperparameters(self, config: TrainerConfig) -> list[dict[str, Any]]:
        """Return every learning rate with every weight decay."""
        training = resolve_training(self.training)
        rates = parameter_grid("learning_rate", training.learning_rate, config.search.learning_rates, 1e-12, 1e3)
        decays = parameter_grid("weight_decay", training.weight_decay, WEIGHT_DECAYS, 0.0, 1e6)
        return [{"learning_rate": rate, "weight_decay": decay} for rate, decay in product(rates, decays)]

    def _single_label_space(
        self, config: TrainerConfig, mixing: Sequence[MixingConfig], labeler: Labeler, exclude_intrusion: bool = False
    ) -> SearchSpace:
        """Return the search space of ways of mixing with one labeler."""
        params = self._hyperparameters(config)
        candidates = [Hyperparameters(**each) for each in params]
        return SearchSpace(mixing, [labeler], candidates, params, exclude_intrusion=exclude_intrusion)


def halving_constants() -> dict[str, Any]:
    """Return the constants of a halving search, for fingerprints."""
    return {
        "schedule": (HALVING_SCHEDULE, HALVING_SCHEDULE_LARGE),
        "lengths": (MAX_HALVING_EPOCHS, MAX_BATCHES, HALVING_STEPS),
        "averaging_power": AVERAGING_POWER,
        "pooling": (POOL_SHRINKAGE, PRIOR_PSEUDO_COUNT, MIN_LOG_PROBA),
        "max_excess_loss": MAX_EXCESS_LOSS,
        "max_parameters": MAX_PARAMETERS,
    }


def hidden_layers(network: Any) -> tuple[int, ...]:
    """Return the hidden layers of a network; "auto" has those of the multilayer perceptron.

    >>> hidden_layers("logistic"), hidden_layers([64, 32])
    ((), (64, 32))
    """
    if isinstance(network, str):
        check_choice("network", network, ["auto", *NETWORKS], also="a sequence of hidden layer sizes such as (64, 128)")
        return NETWORKS["mlp" if network == "auto" else network]
    if isinstance(network, Integral) or not isinstance(network, Iterable):
        raise ValueError(f"network={network!r} must be 'auto', one of {list(NETWORKS)} or a sequence of hidden sizes")
    return tuple(check_count("network", size) for size in network)


def resolve_mixers(mixer: Any, known: Mapping[str, Mixer]) -> list[Mixer]:
    """Return the mixers among which a search chooses: a name, a mixer, or several of them."""
    several = isinstance(mixer, Sequence) and not isinstance(mixer, str)
    if several and not mixer:
        raise ValueError("mixer is an empty sequence; give at least one, such as Mixup(alpha=0.3)")
    result = []
    for each in mixer if several else [mixer]:
        if not isinstance(each, Mixer):
            check_choice("mixer", each, known, also="a Mixer such as Mixup(alpha=0.5)")
        result.append(each if isinstance(each, Mixer) else known[each])
    return result


def with_networks(network: Any, mixing: Sequence[MixingConfig]) -> list[MixingConfig]:
    """Return the ways of mixing, with each of the networks for which "auto" stands."""
    if not (isinstance(network, str) and network == "auto"):
        return list(mixing)
    return [
        replace(config, hidden=hidden, params={"network": name, **config.params})
        for name, hidden in NETWORKS.items()
        for config in mixing
    ]
