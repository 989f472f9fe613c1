"""What the network classifiers share: one fit, one way to predict, and what they report of themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genlabel.arrays import chunks
from genlabel.checks import check_choice, check_count, check_interval, each_warning_once, keep_if_it_fails
from genlabel.estimators.sample import read_sample
from genlabel.estimators.study import Choice, Recipe, Settings, Study
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer
from genlabel.networks import MLP
from genlabel.progress import epoch_listener
from genlabel.training import Candidate, Fleet, resolve_optimizer

__all__ = ["LEARNING_RATES", "NETWORKS", "NetworkClassifier", "grid"]

NETWORKS: dict[str, tuple[int, ...]] = {"logistic": (), "mlp": (128, 128)}
LEARNING_RATES = (0.1, 0.01, 0.001, 0.0001)
"""Among which `learning_rate="cv"` chooses (arXiv Table 11)."""


class NetworkClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that trains a small network on mixed points; a subclass says how they are mixed and labelled."""

    network: Any
    learning_rate: Any
    class_weight: Any
    cv: Any
    epochs: int
    batch_size: int
    weight_decay: float
    optimizer: Any
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
            settings = self._settings()
            recipe = self._recipe(settings)
            sample = read_sample(self, X, y, sample_weight, self.class_weight)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            with epoch_listener(self.verbose, type(self).__name__) as progress:
                study = Study(sample, settings, cv=self.cv, standardize=self.standardize, seed=seed, progress=progress)
                choice, fleet = self._train(study, recipe)
            self._keep(study, recipe, choice, fleet)
        return self

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), columns in the order of `classes_`."""
        check_is_fitted(self, "network_")
        points = self.scaler_(validate_data(self, X, dtype=np.float64, reset=False))
        with torch.no_grad():
            parts = [self.network_(torch.from_numpy(points[rows])) for rows in chunks(len(points), 65536)]
        return torch.log_softmax(torch.cat(parts), dim=1).numpy()

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
    def _recipe(self, settings: Settings) -> Recipe:
        """Check the parameters of the method and return it with its candidates."""

    def _train(self, study: Study, recipe: Recipe) -> tuple[Choice, Fleet]:
        """Choose a candidate and train it on the whole sample."""
        choice = study.choose(recipe)
        return choice, study.train(recipe, choice.best)

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

    def _rates(self) -> tuple[float, ...]:
        check_interval("weight_decay", self.weight_decay, 0.0, np.inf, "1e-4 is the paper's")
        return grid("learning_rate", self.learning_rate, LEARNING_RATES, 1e-12, 1e3)

    def _plain(self, mixer: Mixer | None, labeler: Labeler, exclude_intrusion: bool = False) -> Recipe:
        """One mixer and one labeler, at each of the learning rates; no mixer is vanilla training."""
        rates = self._rates()
        return Recipe(
            mixer,
            lambda _: [labeler],
            [{"learning_rate": rate} for rate in rates],
            [Candidate(rate, float(self.weight_decay)) for rate in rates],
            exclude_intrusion,
        )

    def _keep(self, study: Study, recipe: Recipe, choice: Choice, fleet: Fleet) -> None:
        if not bool(torch.isfinite(fleet.theta).all()):
            raise ValueError(
                f"training diverged at learning rate {recipe.candidates[choice.best].learning_rate:g}; "
                "lower learning_rate, or leave standardize=True"
            )
        self.classes_ = study.sample.classes
        self.scaler_ = study.scaler
        self.network_: MLP = fleet.network()
        self.best_params_ = dict(recipe.params[choice.best])
        self.cv_results_ = choice.results
        if choice.fleet is not None:
            self.best_score_ = float(choice.results["mean_test_score"][choice.best])
        elif hasattr(self, "best_score_"):
            del self.best_score_
        self.history_ = {"loss": fleet.losses[:, 0, 0].tolist()}
        self.n_iter_ = study.settings.epochs  # NOTE[PAPER]: the last epoch's network, not the best on validation data


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
