"""What the network classifiers share: one fit, one way to predict, and what they report of themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import nn

from genlabel._arrays import named_device
from genlabel._progress import FitProgress, track_fit
from genlabel._runtime import one_thread
from genlabel._validation import (
    check_choice,
    check_count,
    check_interval,
    check_positive,
    deduplicate_warnings,
    restore_on_error,
)
from genlabel.attacks import Attack
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.validation import validate_fit_input
from genlabel.labeling import GenLabel, Labeler
from genlabel.mixing import Mixer
from genlabel.model_selection.pooling import Pooling, pool
from genlabel.model_selection.search import CandidateSearch, search_constants
from genlabel.model_selection.search_space import FOLDS, SEARCHES, FitResult, MixingConfig, SearchSpace, TrainerConfig
from genlabel.model_selection.selection import SELECTIONS
from genlabel.model_selection.splits import CVData
from genlabel.model_selection.time_budget import subsample_for_time_limit, warn_about_truncation
from genlabel.training import EPOCH_CHOICES, Hyperparameters, resolve_optimizer
from genlabel.training.networks import Ensemble, log_proba_of

NETWORKS: dict[str, tuple[int, ...]] = {"mlp": (128, 128), "logistic": ()}
"""By name; "auto" is all of them, as candidates of one search."""
LEARNING_RATES = (0.1, 0.01, 0.001, 0.0001)
"""Among which `learning_rate="cv"` chooses in a full search (arXiv Table 11)."""
QUICK_RATES = (0.1, 0.03, 0.01, 0.003)
"""Among which it chooses in a search that halves: few steps, whose average is what counts, want large ones."""
WEIGHT_DECAYS = (1e-4, 1e-3, 1e-2)
"""Among which `weight_decay="cv"` chooses; 1e-4 is the paper's."""
ALPHAS = (0.3, 1.0)
"""Among which `alpha="cv"` chooses."""
OPTIONAL = ("best_score_", "venn_abers_", "density_", "typicality_")
"""What not every fit leaves."""
CLEAN_FRACTIONS = (0.75, 1.0)
"""Among which `clean_fraction="cv"` chooses: a quarter of the points mixed, or none (vanilla training)."""


class NetworkClassifier(ProbabilityClassifier, ABC):
    """A classifier that trains a small network on mixed points; a subclass says how they are mixed and labelled."""

    network: Any
    learning_rate: Any
    class_weight: Any
    fingerprint_defaults: ClassVar[dict[str, Any]] = {
        "search": "full",
        "members": 1,
        "calibrate": False,
        "time_limit": None,
        "keep": "last",
        "alternating": False,
    }
    """Parameters that came later, and the values at which it is what it was without them: for fingerprints."""
    supported: ClassVar[bool] = False
    """Whether a fit also learns how typical rows are."""
    search: str = "full"
    members: Any = 1
    keep: str = "last"
    time_limit: Any = None
    cv: Any
    epochs: Any
    batch_size: int
    weight_decay: Any
    optimizer: Any
    select: Any
    standardize: bool
    device: Any
    random_state: Any
    verbose: int

    network_: nn.Module
    labeler_: Labeler
    average_: tuple[float, float] | None
    pool_weights_: Pooling | None
    log_prior_: NDArray[np.float64]

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose among the candidates by cross-validation, then train the best one on all rows.

        Parameters
        ----------
        X : array or DataFrame (n, d)
            A missing number is its column's median; text and categories of a frame are columns, as in `table_pipeline`.
        y : array (n,)
            Class labels of any kind: strings, numbers.
        sample_weight : array (n,), optional
        groups : array (n,), optional
            Rows of a group (of a person, a place, copies of a row) are held out together, in whatever folds there are.
            A row whose group is missing is one of its own.

        A call that fails leaves the classifier as it was.
        """
        with restore_on_error(self), deduplicate_warnings(), one_thread(), self._followed() as course:
            settings = self._settings()
            method = self._method(settings)
            every = list(range(len(method.entries)))
            study, finals = self._search((X, y, sample_weight, groups), settings, method, [every], course)
            self._keep(study, finals[0])
            warn_about_truncation(course)
        return self

    @final
    def fit_subsets(
        self,
        X: Any,
        y: Any,
        variants: Mapping[str, Callable[[dict[str, Any]], bool]],
        sample_weight: Any = None,
        groups: Any = None,
    ) -> dict[str, Self]:
        """Search once for several methods: for each variant, fit the classifier chosen among its candidates alone.

        What each comes to is what a classifier with only these candidates would have come to, but for rounding; the
        models of the search are trained once, and so are the final ones together.

        Parameters
        ----------
        X, y, sample_weight, groups
            As of `fit`.
        variants : dict of name -> callable (params) -> bool
            Tells which candidates, each a dict as in `cv_results_["params"]`, a variant may choose.

        Returns
        -------
        dict of name -> fitted classifier

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenLabelClassifier
        >>> search = GenLabelClassifier.from_paper(density="gaussian", epochs=5, random_state=0)
        >>> variants = {"mixup": lambda params: params["gamma"] == 0, "GenLabel": lambda params: True}
        >>> search.fit_subsets(*load_iris(return_X_y=True), variants)["mixup"].best_params_["gamma"]
        0.0
        """
        with deduplicate_warnings(), one_thread(), self._followed() as course:
            worker = clone(self)
            settings = worker._settings()
            method = worker._method(settings)
            entries = method.entries
            allowed = {
                name: [e for e, entry in enumerate(entries) if of(entry.params)] for name, of in variants.items()
            }
            for name, places in allowed.items():
                if not places:
                    raise ValueError(
                        f"variant {name!r} allows none of the {len(entries)} candidates; "
                        f"they are dicts such as {entries[0].params}"
                    )
            given = (X, y, sample_weight, groups)
            study, finals = worker._search(given, settings, method, list(allowed.values()), course)
            fitted = {name: copy(worker) for name in allowed}
            for classifier, final_fit in zip(fitted.values(), finals, strict=True):
                classifier._keep(study, final_fit)
            warn_about_truncation(course)
        return fitted

    def _search(
        self,
        given: tuple[Any, Any, Any, Any],
        settings: TrainerConfig,
        method: SearchSpace,
        variants: Sequence[Sequence[int]],
        course: FitProgress,
    ) -> tuple[CandidateSearch, list[FitResult]]:
        """Choose among the entries of each variant, and train those that are chosen on all rows."""
        study = self._open(given, settings, course)
        return study, study.run(method, self.select, variants)

    def _open(self, given: tuple[Any, Any, Any, Any], settings: TrainerConfig, course: FitProgress) -> CandidateSearch:
        """The study of a sample, before anything is trained."""
        X, y, weight, groups = given
        fewest = 1 if settings.halving else 2
        sample = validate_fit_input(self, X, y, weight, self.class_weight, smallest_class=fewest, groups=groups)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.cv, Integral | str):  # folds of our own are dealt of fewer rows as well
            sample = subsample_for_time_limit(sample, course)
        dealt = CVData(sample, cv=self.cv, standardize=self.standardize, seed=seed, rare=settings.halving)
        return CandidateSearch(dealt, settings, seed=seed, course=course, supported=self.supported)

    def _followed(self) -> AbstractContextManager[FitProgress]:
        """What a fit tells of itself, and the time that it has."""
        given = self.time_limit
        limit = None if given is None else check_positive("time_limit", given, "None is no limit")
        return track_fit(self.verbose, type(self).__name__, limit)

    @final
    def log_proba_of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), at standardised points, `scaler_(X)`."""
        logs = log_proba_of(self.network_, points)
        return logs if self.average_ is None else self._pooled([logs], points)[0]

    @final
    def log_proba_to_rank(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """What `venn_abers_` ranks among the held-out rows, at standardised points: (m, k), or (folds, m, k)."""
        if not self.venn_abers_.crossed:
            return self.log_proba_of(points)
        networks = self.network_.networks if isinstance(self.network_, Ensemble) else [self.network_]
        return np.stack(self._pooled([log_proba_of(one, points) for one in networks], points))

    def _pooled(self, logs: list[NDArray[np.float64]], points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """What networks say of points, (m, k) each, pooled as it is predicted."""
        pooling, density = self.pool_weights_, None
        if pooling is None:
            return logs
        if pooling.label_model == 0.0:
            pooling = pooling._replace(label_model=None)
        if pooling.label_model is not None:
            density = cast(GenLabel, self.labeler_).log_posterior_of(points, self.class_weight_)
        return [pool(said, density, self.log_prior_, pooling) for said in logs]

    @abstractmethod
    def _method(self, settings: TrainerConfig) -> SearchSpace:
        """Check the parameters of the method and return it with its candidates."""

    @final
    def resolved_config(self) -> dict[str, Any]:
        """Say what the words among the parameters stand for: the candidates of the search, the densities, the settings.

        >>> from genlabel import MixupClassifier
        >>> len(MixupClassifier().resolved_config()["candidates"])
        12
        """
        settings = self._settings(torch.device("cpu"))
        how = search_constants() if settings.halving else {}
        return {**settings.resolved_config(), **self._method(settings).resolved_config(), **how}

    def _settings(self, device: torch.device | None = None) -> TrainerConfig:
        hidden = _hidden(self.network)
        if not isinstance(self.select, Attack):
            check_choice("select", self.select, SELECTIONS, also="an Attack such as FGSM(0.2)")
        if not isinstance(self.standardize, bool | np.bool_):
            raise ValueError(f"standardize={self.standardize!r} must be True or False")
        check_choice("search", self.search, SEARCHES)
        check_choice("keep", self.keep, EPOCH_CHOICES)
        if self.keep == "best" and self.search == "halving":
            raise ValueError(
                "keep='best' is for search='full'; a search that halves chooses among the epochs at which it looks"
            )
        return TrainerConfig(
            hidden=hidden,
            optimizer=resolve_optimizer(self.optimizer),
            epochs=None if _is(self.epochs, "auto") else check_count("epochs", self.epochs),
            batch_size=check_count("batch_size", self.batch_size),
            device=_device(self.device, hidden) if device is None else device,
            search=self.search,
            members=FOLDS if _is(self.members, FOLDS) else check_count("members", self.members),
            keep=self.keep,
        )

    def _optimisation(self) -> list[dict[str, Any]]:
        """Every learning rate with every weight decay."""
        known = QUICK_RATES if self.search == "halving" else LEARNING_RATES
        rates = grid("learning_rate", self.learning_rate, known, 1e-12, 1e3)
        decays = grid("weight_decay", self.weight_decay, WEIGHT_DECAYS, 0.0, 1e6)
        return [{"learning_rate": rate, "weight_decay": decay} for rate, decay in product(rates, decays)]

    def _plain(self, ways: Sequence[MixingConfig], labeler: Labeler, exclude_intrusion: bool = False) -> SearchSpace:
        """Recipes with one labeler, at each of the learning rates and weight decays."""
        pairs = self._optimisation()
        candidates = [Hyperparameters(**pair) for pair in pairs]
        return SearchSpace(ways, [labeler], candidates, pairs, exclude_intrusion=exclude_intrusion)

    def _attributes(self, study: CandidateSearch, fitted: FitResult) -> dict[str, Any]:
        """What a fit leaves, by name; a subclass adds what is its own."""
        choice, task, average = fitted.choice, fitted.task, fitted.average
        averaged = {} if average is None else {"average": tuple(choice.pooling or ())}
        found = {
            "classes_": study.dealt.sample.classes,
            "class_count_": np.bincount(study.dealt.sample.y, minlength=len(study.dealt.sample.classes)),
            "encoder_": study.dealt.sample.encoder,
            "scaler_": study.dealt.scaler,
            "network_": _network(fitted, study.dealt.log_prior),
            "best_params_": {**choice.entry.params, **averaged},
            "best_index_": choice.place,
            "cv_results_": choice.results,
            "average_": average,
            "pool_weights_": choice.pooling,
            "labeler_": fitted.labeler.to_cpu(),
            "log_prior_": study.dealt.log_prior,
            "class_weight_": task.class_weight,
            "history_": {"loss": fitted.losses},
            "n_iter_": choice.epochs,  # NOTE[PAPER]: keep="last" is our default, keep="best" the paper's words
        }
        if choice.networks is not None:
            score = "mean_test_score" if average is None else "mean_test_pooled_score"
            found["best_score_"] = float(choice.results[score][choice.place])
        calibration = study.calibration(choice)
        if calibration is not None:
            found["venn_abers_"] = calibration
        return found | {"typicality_": study.support} if self.supported else found

    @final
    def _keep(self, study: CandidateSearch, fitted: FitResult) -> None:
        """Set what a fit leaves, and forget what the one before it left."""
        if not all(bool(part.isfinite().all()) for network in fitted.networks for part in network.parameters()):
            raise ValueError(
                f"training diverged at learning rate {fitted.choice.entry.params['learning_rate']:g}; "
                "lower learning_rate, or leave standardize=True"
            )
        for name in OPTIONAL:
            self.__dict__.pop(name, None)
        for name, value in self._attributes(study, fitted).items():
            setattr(self, name, value)


def recipes(mixer: Mixer, alphas: Sequence[float | None], shares: Sequence[float]) -> list[MixingConfig]:
    """Every alpha (None is the mixer's own) with every clean_fraction; where all is clean there is no alpha to
    choose."""
    found = []
    for share in shares:
        for alpha in alphas if share < 1.0 else alphas[:1]:
            way = mixer if alpha is None else clone(mixer).set_params(alpha=alpha)
            said: dict[str, Any] = {"clean_fraction": share}
            if len(alphas) > 1 and share < 1.0:
                said["alpha"] = alpha
            found.append(MixingConfig(way, share, said))
    return found


def grid(name: str, value: Any, default: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return the values to search: "cv" is the default grid, a number itself, a sequence its own grid."""
    hint = f'or "cv" to choose among {", ".join(f"{v:g}" for v in default)}'
    if isinstance(value, str):
        check_choice(name, value, ["cv"], also="a number, or a sequence of numbers to choose among")
        return tuple(default)
    if isinstance(value, Real):
        return (check_interval(name, value, low, high, hint),)
    values = list(value) if isinstance(value, Iterable) else []
    if not values:
        raise ValueError(f"{name}={value!r} must be a number or a non-empty sequence of numbers, {hint}")
    return tuple(check_interval(name, v, low, high, hint) for v in values)


def over_networks(network: Any, ways: Sequence[MixingConfig]) -> list[MixingConfig]:
    """The recipes, with each of the networks that "auto" stands for."""
    if not _is(network, "auto"):
        return list(ways)
    return [
        replace(way, hidden=hidden, params={"network": name, **way.params})
        for name, hidden in NETWORKS.items()
        for way in ways
    ]


def _hidden(network: Any) -> tuple[int, ...]:
    if isinstance(network, str):
        check_choice("network", network, ["auto", *NETWORKS], also="a sequence of hidden layer sizes such as (64, 128)")
        return NETWORKS["mlp" if network == "auto" else network]
    if isinstance(network, Integral) or not isinstance(network, Iterable):
        raise ValueError(f"network={network!r} must be 'auto', one of {list(NETWORKS)} or a sequence of hidden sizes")
    return tuple(check_count("network", size) for size in network)


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _network(fitted: FitResult, log_prior: NDArray[np.float64]) -> nn.Module:
    """What predicts: the one network, or the mean of several; by itself, it is calibrated."""
    pooling = fitted.choice.pooling
    if pooling is None or pooling.label_model is not None:
        return fitted.networks[0] if len(fitted.networks) == 1 else Ensemble(fitted.networks)
    return Ensemble(fitted.networks, pooling.network, torch.from_numpy(log_prior), pooling.doubt)


def _device(device: Any, hidden: tuple[int, ...]) -> torch.device:
    """The device of a name; "auto" is the GPU, but for softmax regression, whose small steps a CPU does faster."""
    softmax = isinstance(device, str) and device == "auto" and not hidden
    return torch.device("cpu") if softmax else named_device(device)
