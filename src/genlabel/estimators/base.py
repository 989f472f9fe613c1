"""Base class of the network classifiers: one fit, one way to predict, and the attributes that a fit sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import nn

from genlabel._progress import FitProgress, track_fit
from genlabel._runtime import one_thread
from genlabel._validation import check_choice, check_count, deduplicate_warnings, restore_on_error, warn
from genlabel.densities import StackedDensity
from genlabel.estimators.classifier import Calibration, ProbabilityClassifier
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.validation import validate_fit_input
from genlabel.labeling import GenLabel, Labeler, LinearLabel
from genlabel.mixing import Mixer, Mixup
from genlabel.model_selection import options, scoring
from genlabel.model_selection.options import STAGE_DEADLINES, default_options, resolve_search, resolve_training
from genlabel.model_selection.refit import MAX_EXCESS_LOSS, FitResult, prepare_labelers, refit
from genlabel.model_selection.scoring import PoolWeights, pool
from genlabel.model_selection.search import SearchResult, search
from genlabel.model_selection.search_space import MAX_PARAMETERS, Contains, MixingConfig, SearchSpace, parameter_grid
from genlabel.model_selection.splits import MIN_LOG_PROBA, CVData, subsample_for_time_limit
from genlabel.registry import MIXERS
from genlabel.training.batching import Hyperparameters
from genlabel.training.fleet_trainer import AVERAGING_POWER
from genlabel.training.networks.staged import Ensemble, log_proba_of

T = TypeVar("T")
NETWORKS: dict[str, tuple[int, ...]] = {"mlp": (128, 128), "logistic": ()}
"""Hidden layers by name; "auto" makes all of them candidates."""
WEIGHT_DECAYS = (1e-4, 1e-3, 1e-2)
"""Candidates for `weight_decay="auto"`; 1e-4 is the paper's."""
CLEAN_FRACTIONS = (0.75, 1.0)
"""Candidates for `clean_fraction="auto"`: a quarter of the samples mixed, or none (plain training)."""


class NetworkClassifier(ProbabilityClassifier, ABC):
    """Base class of the classifiers that train a network on mixed samples; a subclass defines mixing and labels."""

    fits_typicality: ClassVar[bool] = False

    network_: nn.Module
    labeler_: Labeler
    pool_weights_: PoolWeights | None
    log_prior_: NDArray[np.float64]

    def __init__(self, network: Any, class_weight: Any, search: Any, training: Any, random_state: Any) -> None:
        self.network = network
        self.class_weight = class_weight
        self.search = search
        self.training = training
        self.random_state = random_state

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the best candidate by cross-validation, and train the networks that predict.

        These are the networks of the folds, or networks that are trained on all rows: see `ensemble` of the search.
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
        with restore_on_error(self), deduplicate_warnings():
            (fitted,) = self._fit_subsets(X, y, sample_weight, groups, {"all": lambda params: True}).values()
            self.__dict__ = fitted.__dict__
        return self

    @final
    def fit_subsets(
        self, X: Any, y: Any, subsets: Mapping[str, Contains], sample_weight: Any = None, groups: Any = None
    ) -> dict[str, Self]:
        """Search once for several methods: for each subset of the candidates, fit the classifier that it contains.

        `subsets` maps names to functions, which return True for a candidate of the subset, a dict as in
        `cv_results_["params"]`; the result maps the names to fitted classifiers. The other parameters are those of
        :meth:`fit`. Except for rounding, each classifier equals one that is fitted with its candidates only; the
        networks of the search are trained once for all subsets, and the final networks are trained together.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenLabelClassifier
        >>> model = GenLabelClassifier.from_paper(density="gaussian", training__epochs=5, random_state=0)
        >>> subsets = {"mixup": lambda params: params["gamma"] == 0, "GenLabel": lambda params: True}
        >>> model.fit_subsets(*load_iris(return_X_y=True), subsets)["mixup"].best_params_["gamma"]
        0.0
        """
        with deduplicate_warnings():
            return clone(self)._fit_subsets(X, y, sample_weight, groups, subsets)

    def _fit_subsets(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, subsets: Mapping[str, Contains]
    ) -> dict[str, Self]:
        """Return a fitted copy for each subset of the candidates."""
        with self._track_progress() as progress:
            space = self.search_space(self.plain_space())
            configurations = space.select(subsets)
            data = self._validated_folds(X, y, sample_weight, groups, space, progress)
            progress.plan(space.stage_shares(space.needs_folds(configurations), self.fits_typicality))
            fit_labelers, density = prepare_labelers(space, data, progress)
            with progress.stage("search", until=space.search.deadline):
                results = search(space, data, fit_labelers, progress, configurations)
            with progress.stage("final fit", until=STAGE_DEADLINES["final fit"]):
                fits = refit(space, data, fit_labelers, results, progress)
            typicality = None
            if self.fits_typicality:
                with progress.stage("typicality"):
                    typicality = Typicality(random_state=data.seed).fit(data.raw.X, data.raw.y, data.raw.weight)
            fitted = {name: copy(self) for name in subsets}
            for classifier, result, fit in zip(fitted.values(), results, fits, strict=True):
                classifier._set_fitted_attributes(data, result, fit, density, typicality)
        return fitted

    @final
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of the search and of the training."""
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, default in default_options(self.search, self.training).items():
                params |= {f"{name}__{key}": value for key, value in default.get_params().items()}
        return params

    @final
    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the search and of the training as `search__cv` or `training__epochs`."""
        for name in ("search", "training"):
            if name in params:
                setattr(self, name, params.pop(name))
        for name, default in default_options(self.search, self.training).items():
            if any(key.startswith(f"{name}__") for key in params):
                setattr(self, name, default)
        return cast(Self, super().set_params(**params))

    @contextmanager
    def _track_progress(self) -> Iterator[FitProgress]:
        """Give the progress of a fit on one thread; warn at its end if the time limit shortened the fit."""
        search_options = resolve_search(self.search)
        verbose, time_limit = search_options.verbose, search_options.time_limit
        with one_thread(), track_fit(verbose, type(self).__name__, time_limit) as progress:
            yield progress
            if progress.truncations:
                cuts = ", ".join(progress.truncations)
                message = f"the fit was shortened to time_limit={time_limit:g} s: {cuts}; raise time_limit"
                warn("time", message, UserWarning)

    def plain_space(self, device: torch.device | None = None) -> SearchSpace:
        """Check the options of search and training, and return the candidates of plain training on a device."""
        search_options, network = resolve_search(self.search), self.network
        if isinstance(network, str):
            also = "a sequence of hidden layer sizes such as (64, 128)"
            check_choice("network", network, ["auto", *NETWORKS], also)
            hidden = NETWORKS["mlp" if network == "auto" else network]
        elif isinstance(network, Integral) or not isinstance(network, Iterable):
            raise ValueError(f"network={network!r} must be one of {['auto', *NETWORKS]} or a sequence of layer sizes")
        else:
            hidden = tuple(check_count("network", size) for size in network)
        training = resolve_training(self.training, hidden, device)
        rates = parameter_grid("learning_rate", training.learning_rate, search_options.learning_rates, 1e-12, 1e3)
        decays = parameter_grid("weight_decay", training.weight_decay, WEIGHT_DECAYS, 0.0, 1e6)
        candidates = [Hyperparameters(rate, decay) for rate, decay in product(rates, decays)]
        params = [{"learning_rate": c.learning_rate, "weight_decay": c.weight_decay} for c in candidates]
        return SearchSpace(search_options, training, hidden, [MixingConfig(None)], [LinearLabel()], candidates, params)

    @abstractmethod
    def search_space(self, plain: SearchSpace) -> SearchSpace:
        """Check the parameters of the method and return its candidates, made from those of plain training."""

    def _validated_folds(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, space: SearchSpace, progress: FitProgress
    ) -> CVData:
        """Check the input, learn `encoder_`, and return the encoded rows with their folds."""
        cv, ensemble, keep_rare = space.search.cv, space.search.ensemble, space.search.is_halving
        rows, self.encoder_ = validate_fit_input(
            self, X, y, sample_weight, self.class_weight, smallest_class=1 if keep_rare else 2, groups=groups
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(cv, Integral | str):  # a splitter or pairs of rows refer to all rows
            rows = subsample_for_time_limit(rows, progress)
        data = CVData(rows, cv=cv, standardize=space.training.standardize, seed=seed, keep_rare=keep_rare)
        if space.search.restore_best and not space.search.predicts_with_folds and ensemble > len(data.folds):
            raise ValueError(
                f"ensemble={ensemble} with restore_best=True needs as many folds, but there are "
                f'{len(data.folds)}; use ensemble="cv", or a larger cv'
            )
        return data

    def _set_fitted_attributes(
        self,
        data: CVData,
        result: SearchResult,
        fit: FitResult,
        density: StackedDensity | None,
        typicality: Typicality | None,
    ) -> None:
        """Set the fitted attributes; those of an earlier fit are dropped."""
        raw, weights = data.raw, result.pool_weights
        if not all(bool(values.isfinite().all()) for network in fit.networks for values in network.parameters()):
            raise ValueError(
                f"training diverged at learning rate {result.params['learning_rate']:g}; "
                "lower learning_rate, or leave standardize=True"
            )
        self.classes_, self.class_count_ = raw.classes, np.bincount(raw.y, minlength=len(raw.classes))
        self.class_weight_, self.log_prior_, self.scaler_ = raw.class_weight, data.log_prior, data.scaler
        if weights is not None and weights.density is None:  # calibrated with the class priors
            self.network_ = Ensemble(fit.networks, weights.network, torch.from_numpy(data.log_prior), weights.prior)
        else:
            self.network_ = fit.networks[0] if len(fit.networks) == 1 else Ensemble(fit.networks)
        self.labeler_, self.pool_weights_ = fit.labeler.to_cpu(), weights
        self.best_index_, self.cv_results_, self.best_params_ = result.index, result.results, {**result.params}
        score = "mean_test_score"
        if not self.predicts_by_network:
            score = "mean_test_pooled_score"
            self.best_params_["pool_weights"] = tuple(weights or ())
        self.history_ = {"loss": fit.losses}
        self.n_iter_ = fit.epochs  # NOTE[PAPER]: the last epoch is our default, restore_best=True the paper's words
        optional: dict[str, Any] = {"density_": density, "typicality_": typicality}
        if result.fleet is not None:
            optional["best_score_"] = float(result.results[score][result.index])
        if result.log_proba is not None:
            y, fold, weight = data.held_out.y, data.held_out_fold, data.held_out.weight
            crossed = resolve_search(self.search).predicts_with_folds
            optional["venn_abers_"] = Calibration.of(result.log_proba, y, fold, weight, raw.class_weight, crossed)
        for name in ("best_score_", "venn_abers_", "density_", "typicality_", "costs_"):
            self.__dict__.pop(name, None)
            if optional.get(name) is not None:
                setattr(self, name, optional[name])

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
        """Return the log-probabilities (m, k) of networks, pooled with the density and the class priors."""
        weights, density = self.pool_weights_, None
        if weights is None:
            return networks
        if weights.density == 0.0:  # the density need not be evaluated
            weights = weights._replace(density=None)
        if weights.density is not None:
            density = cast(GenLabel, self.labeler_).log_posterior(points, self.class_weight_)
        return [pool(log_proba, density, self.log_prior_, weights) for log_proba in networks]

    @final
    def resolved_config(self) -> dict[str, Any]:
        """Return the candidates, densities and options that the parameters stand for."""
        space = self.search_space(self.plain_space(torch.device("cpu")))
        epochs = None if space.training.epochs == "auto" else space.training.epochs
        halving: dict[str, Any] = {}
        if space.search.is_halving:
            halving = {
                "schedule": (options.HALVING_SCHEDULE, options.HALVING_SCHEDULE_LARGE),
                "lengths": (options.MAX_HALVING_EPOCHS, options.MAX_BATCHES, options.HALVING_STEPS),
                "averaging_power": AVERAGING_POWER,
                "pooling": (scoring.POOL_SHRINKAGE, scoring.PRIOR_PSEUDO_COUNT, MIN_LOG_PROBA),
                "max_excess_loss": MAX_EXCESS_LOSS,
                "max_parameters": MAX_PARAMETERS,
            }
        return {
            "search": space.search,
            "hidden": space.hidden,
            "optimizer": space.training.optimizer,
            "epochs": epochs,
            "batch_size": space.training.batch_size,
            **space.resolved_config(),
            **halving,
        }


def resolve_parts(name: str, value: Any, kind: type[Any], known: Mapping[str, Callable[[], T]], also: str) -> list[T]:
    """Return the mixers or labelers among which a search chooses: a name, an object, or a sequence of them.

    `known` maps names to functions that create an object.
    """
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not parts:
        raise ValueError(f"{name} is an empty sequence; give at least one, such as {also}")
    result: list[T] = []
    for part in parts:
        if not isinstance(part, kind):
            check_choice(name, part, known, also=f"a {kind.__name__} such as {also}")
        result.append(part if isinstance(part, kind) else known[part]())
    return result


def table_mixers() -> dict[str, Callable[[], Mixer]]:
    """Return, for each name of a mixer of the rows of a table, a function that creates it; "mixup" has alpha 0.3."""
    factories = MIXERS.factories()
    tables = {name: factories[name] for name, mixer_class in MIXERS.classes().items() if mixer_class.supports_tables}
    return {**tables, "mixup": partial(Mixup, 0.3)}


def with_networks(network: Any, mixing: Sequence[MixingConfig]) -> list[MixingConfig]:
    """Return the ways of mixing; where `network` is "auto", with each of its networks."""
    if not (isinstance(network, str) and network == "auto"):
        return list(mixing)
    return [
        replace(config, hidden=hidden, params={"network": name, **config.params})
        for name, hidden in NETWORKS.items()
        for config in mixing
    ]
