"""What the network classifiers share: one fit, one way to predict, and what they report of themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from itertools import product
from numbers import Integral, Real
from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genlabel.arrays import chunks
from genlabel.attacks import Attack
from genlabel.checks import check_choice, check_count, check_interval, each_warning_once, keep_if_it_fails
from genlabel.densities.latent import Encoder
from genlabel.estimators.methods import Choice, Method, Recipe, Settings
from genlabel.estimators.sample import read_sample
from genlabel.estimators.selection import SELECTIONS, pool
from genlabel.estimators.study import Study, log_posteriors
from genlabel.labeling import GenLabel, Labeler
from genlabel.mixing import Mixer
from genlabel.networks import MLP
from genlabel.progress import epoch_listener
from genlabel.training import Candidate, Fleet, Task, resolve_optimizer

__all__ = [
    "ALPHAS",
    "CLEAN_WEIGHTS",
    "LEARNING_RATES",
    "NETWORKS",
    "WEIGHT_DECAYS",
    "NetworkClassifier",
    "Trained",
    "grid",
    "recipes",
]

NETWORKS: dict[str, tuple[int, ...]] = {"logistic": (), "mlp": (128, 128)}
LEARNING_RATES = (0.1, 0.01, 0.001, 0.0001)
"""Among which `learning_rate="cv"` chooses (arXiv Table 11)."""
WEIGHT_DECAYS = (1e-4, 1e-3, 1e-2)
"""Among which `weight_decay="cv"` chooses; 1e-4 is the paper's."""
ALPHAS = (0.3, 1.0)
"""Among which `alpha="cv"` chooses."""
CLEAN_WEIGHTS = (0.75, 1.0)
"""Among which `clean_weight="cv"` chooses: a quarter of the points mixed, or none (vanilla training)."""


class Trained(NamedTuple):
    """What a fit leaves: the choice, the final model, and the task that it was trained on."""

    choice: Choice
    fleet: Fleet
    task: Task
    place: int
    """Which model of the fleet it is."""
    label: tuple[float, ...]
    """Share of each labeler of the task in the target of the model."""

    @property
    def labeler(self) -> Labeler:
        """The labeler of the chosen density; of the only one, if it is averaged with."""
        shares = [place for place, share in enumerate(self.label) if share > 0]
        return self.task.labelers[-1 if self.choice.average is not None else shares[-1]]


class NetworkClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that trains a small network on mixed points; a subclass says how they are mixed and labelled."""

    network: Any
    learning_rate: Any
    class_weight: Any
    cv: Any
    epochs: int
    batch_size: int
    weight_decay: Any
    optimizer: Any
    select: Any
    standardize: bool
    device: Any
    random_state: Any
    verbose: int

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose among the candidates by cross-validation, then train the best one on all rows.

        Parameters
        ----------
        X : array or DataFrame (n, d)
        y : array (n,)
            Class labels of any kind: strings, numbers.
        sample_weight : array (n,), optional

        A call that fails leaves the classifier as it was.
        """
        with keep_if_it_fails(self), each_warning_once():
            method = self._checked_method()
            study, trained = self._search(X, y, sample_weight, method, [list(range(len(method.entries)))])
            self._keep(study, trained[0])
        return self

    @final
    def fit_variants(
        self, X: Any, y: Any, variants: Mapping[str, Callable[[dict[str, Any]], bool]], sample_weight: Any = None
    ) -> dict[str, Self]:
        """Search once for several methods: for each variant, fit the classifier chosen among its candidates alone.

        What each comes to is what a classifier with only these candidates would have come to, but for rounding; the
        models of the search are trained once, and so are the final ones together.

        Parameters
        ----------
        X, y, sample_weight
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
        >>> search.fit_variants(*load_iris(return_X_y=True), variants)["mixup"].best_params_["gamma"]
        0.0
        """
        with each_warning_once():
            worker = clone(self)
            method = worker._checked_method()
            own = {name: [e for e, one in enumerate(method.entries) if of(one.params)] for name, of in variants.items()}
            for name, places in own.items():
                if not places:
                    raise ValueError(
                        f"variant {name!r} allows none of the {len(method.entries)} candidates; "
                        f"they are dicts such as {method.entries[0].params}"
                    )
            study, trained = worker._search(X, y, sample_weight, method, list(own.values()))
            fitted = {name: copy(worker) for name in own}
            for classifier, one in zip(fitted.values(), trained, strict=True):
                classifier._keep(study, one)
        return fitted

    def _checked_method(self) -> Method:
        if not isinstance(self.select, Attack):
            check_choice("select", self.select, SELECTIONS, also="an Attack such as FGSM(0.2)")
        return self._method(self._settings())

    def _search(
        self, X: Any, y: Any, sample_weight: Any, method: Method, variants: Sequence[Sequence[int]]
    ) -> tuple[Study, list[Trained]]:
        """Choose among the entries of each variant, and train those that are chosen on all rows."""
        sample = read_sample(self, X, y, sample_weight, self.class_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with epoch_listener(self.verbose, type(self).__name__) as progress:
            study = Study(
                sample, self._settings(), cv=self.cv, standardize=self.standardize, seed=seed, progress=progress
            )
            return study, self._train(study, method, variants)

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), columns in the order of `classes_`."""
        check_is_fitted(self, "network_")
        return self.log_proba_of(self.scaler_(validate_data(self, X, dtype=np.float64, reset=False)))

    @final
    def log_proba_of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), at standardised points, `scaler_(X)`."""
        with torch.no_grad():
            parts = [self.network_(torch.from_numpy(points[rows])) for rows in chunks(len(points), 65536)]
        logs = torch.log_softmax(torch.cat(parts), dim=1).numpy()
        if self.average_ is None:
            return logs
        return pool(logs, log_posteriors(self.labeler_, points, self.class_weight_), self.log_prior_, self.average_)

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (m, k)."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, (m,)."""
        scores = self.predict_log_proba(X)
        return self.classes_[scores.argmax(axis=1)]

    @abstractmethod
    def _method(self, settings: Settings) -> Method:
        """Check the parameters of the method and return it with its candidates."""

    def _train(self, study: Study, method: Method, variants: Sequence[Sequence[int]]) -> list[Trained]:
        """Choose an entry of each variant and train it on the whole sample."""
        return self._finish(study, method, study.choose_each(method, self.select, variants))

    def _finish(
        self, study: Study, method: Method, choices: Sequence[Choice], twin: Encoder | None = None
    ) -> list[Trained]:
        """Train the entries that were chosen on the whole sample, together where they can be."""
        parts = study.train_each(method, [choice.entry for choice in choices], twin)
        labels = [method.candidates[choice.entry.candidate].label for choice in choices]
        return [Trained(choice, *part, label) for choice, part, label in zip(choices, parts, labels, strict=True)]

    def _settings(self) -> Settings:
        hidden = _hidden(self.network)
        if not isinstance(self.standardize, bool | np.bool_):
            raise ValueError(f"standardize={self.standardize!r} must be True or False")
        return Settings(
            hidden=hidden,
            optimizer=resolve_optimizer(self.optimizer),
            epochs=check_count("epochs", self.epochs),
            batch_size=check_count("batch_size", self.batch_size),
            device=_device(self.device, hidden),
        )

    def _optimisation(self) -> list[dict[str, Any]]:
        """Every learning rate with every weight decay."""
        rates = grid("learning_rate", self.learning_rate, LEARNING_RATES, 1e-12, 1e3)
        decays = grid("weight_decay", self.weight_decay, WEIGHT_DECAYS, 0.0, 1e6)
        return [{"learning_rate": rate, "weight_decay": decay} for rate, decay in product(rates, decays)]

    def _plain(self, ways: Sequence[Recipe], labeler: Labeler, exclude_intrusion: bool = False) -> Method:
        """Recipes with one labeler, at each of the learning rates and weight decays."""
        pairs = self._optimisation()
        candidates = [Candidate(**pair) for pair in pairs]
        return Method(ways, lambda *_: [labeler], candidates, pairs, exclude_intrusion=exclude_intrusion)

    def _keep(self, study: Study, trained: Trained) -> None:
        choice, fleet = trained.choice, trained.fleet
        if not bool(torch.isfinite(fleet.theta[0, trained.place]).all()):
            raise ValueError(
                f"training diverged at learning rate {choice.entry.params['learning_rate']:g}; "
                "lower learning_rate, or leave standardize=True"
            )
        self.classes_ = study.sample.classes
        self.scaler_ = study.scaler
        self.network_: MLP = fleet.network(0, trained.place)
        self.best_params_ = dict(choice.entry.params)
        self.best_index_ = choice.place
        self.cv_results_ = choice.results
        if choice.fleet is not None:
            score = "mean_test_score" if choice.average is None else "mean_test_pooled_score"
            self.best_score_ = float(choice.results[score][choice.place])
        elif hasattr(self, "best_score_"):
            del self.best_score_
        self.average_ = choice.average
        self.labeler_ = trained.labeler.to_cpu() if isinstance(trained.labeler, GenLabel) else trained.labeler
        self.log_prior_ = study.log_prior
        self.class_weight_ = study.sample.class_weight
        if choice.average is not None:
            self.best_params_["average"] = choice.average
        self.history_ = {"loss": fleet.losses[:, 0, trained.place].tolist()}
        self.n_iter_ = study.settings.epochs  # NOTE[PAPER]: the last epoch's network, not the best on validation data


def recipes(mixer: Mixer, alphas: Sequence[float | None], shares: Sequence[float]) -> list[Recipe]:
    """Every alpha (None is the mixer's own) with every clean_weight; where all is clean there is no alpha to choose."""
    found = []
    for share in shares:
        for alpha in alphas if share < 1.0 else alphas[:1]:
            own = mixer if alpha is None else clone(mixer).set_params(alpha=alpha)
            said: dict[str, Any] = {"clean_weight": share}
            if len(alphas) > 1 and share < 1.0:
                said["alpha"] = alpha
            found.append(Recipe(own, share, said))
    return found


def grid(name: str, value: Any, default: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return the values to search: "cv" is the default grid, a number itself, a sequence its own grid."""
    way_out = f'or "cv" to choose among {", ".join(f"{v:g}" for v in default)}'
    if isinstance(value, str):
        check_choice(name, value, ["cv"], also="a number, or a sequence of numbers to choose among")
        return tuple(default)
    if isinstance(value, Real):
        return (check_interval(name, value, low, high, way_out),)
    values = list(value) if isinstance(value, Iterable) else []
    if not values:
        raise ValueError(f"{name}={value!r} must be a number or a non-empty sequence of numbers, {way_out}")
    return tuple(check_interval(name, v, low, high, way_out) for v in values)


def _hidden(network: Any) -> tuple[int, ...]:
    if isinstance(network, str):
        check_choice("network", network, NETWORKS, also="a sequence of hidden layer sizes such as (64, 128)")
        return NETWORKS[network]
    if isinstance(network, Integral) or not isinstance(network, Iterable):
        raise ValueError(f"network={network!r} must be one of {list(NETWORKS)} or a sequence of hidden sizes")
    return tuple(check_count("network", size) for size in network)


def _device(device: Any, hidden: tuple[int, ...]) -> torch.device:
    """The device of a name; "auto" is the GPU, but for softmax regression, whose small steps a CPU does faster."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if hidden and torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is not known; use 'auto', 'cpu' or 'cuda'") from error
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is not supported; use 'auto', 'cpu' or 'cuda'")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but PyTorch finds no GPU here; use 'auto' or 'cpu'")
    return found
