"""Search and calibration of the baselines: by log-loss on held-out rows, over the folds of the default's own search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, ParameterSampler
from sklearn.utils import _safe_indexing, check_random_state

from genlabel.data.folds import Fold, folds_by_size, make_folds
from genlabel.metrics import MIN_PROBABILITY, index_labels, log_loss, predict_log_proba, score_log_proba
from genlabel_paper.benchmark.baselines import N_CANDIDATES

MAX_LOG_TEMPERATURE = 5.0


def search_folds(y: NDArray[np.intp], random_state: Any, count: int | None = None) -> list[Fold]:
    """Return the folds that `GenLabelClassifier` with this `random_state` searches over, or `count` such folds.

    Parameters
    ----------
    y : array (n,)
        Class indices.
    """
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    folds, used = folds_by_size(len(y)) if count is None else (count, None)
    return make_folds(folds, y, seed, "rare")[:used]


def search_by_log_loss(model: Any, space: Mapping[str, Sequence[Any]], folds: Sequence[Fold], seed: Any) -> Any:
    """Return a search over the model's own settings and over random ones from lists of values; it trains the best."""
    draws = ParameterSampler(dict(space), N_CANDIDATES - 1, random_state=seed)
    grid = [{}, *({name: [value] for name, value in candidate.items()} for candidate in draws)]
    return GridSearchCV(model, grid, scoring=_negative_log_loss, cv=folds, error_score="raise")


def _negative_log_loss(model: Any, X: Any, y: Any) -> float:
    """Return the score of a fold, in which a class may have no row; scikit-learn's scorer needs a row of each."""
    return -score_log_proba(predict_log_proba(model, X), index_labels(y, model.classes_))["log_loss"]


@final
class TemperatureScaledClassifier(ClassifierMixin, BaseEstimator):
    """Classifier whose probabilities are sharpened or flattened by one number, fitted to rows that the folds held out.

    `CalibratedClassifierCV(method="temperature", ensemble=False)` computes the same, but needs scikit-learn 1.8 and a
    row of each class in each fold.

    Parameters
    ----------
    estimator : classifier
    folds : sequence of (train, valid)
        Row indices; each fold trains on every class.

    Attributes
    ----------
    temperature_ : float
        Above 1 if the classifier is too sure of itself; also in `best_params_`.
    model_ : classifier
        `estimator`, fitted to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(TemperatureScaledClassifier(GaussianNB(), search_folds(y, 0, 4)).fit(X, y).temperature_ > 1)
    True
    """

    def __init__(self, estimator: Any, folds: Sequence[Fold]) -> None:
        self.estimator = estimator
        self.folds = folds

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier on each fold and on all rows of X (n, d), y (n,), and the temperature between."""
        self.classes_, index = np.unique(np.asarray(y), return_inverse=True)
        held_out = [
            predict_log_proba(clone(self.estimator).fit(_safe_indexing(X, train), y[train]), _safe_indexing(X, valid))
            for train, valid in self.folds
        ]
        rows = np.concatenate([valid for _, valid in self.folds])
        self.temperature_ = fit_temperature(np.concatenate(held_out), index[rows])
        self.best_params_ = {"temperature": self.temperature_}
        self.model_ = clone(self.estimator).fit(X, y)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities (m, k) of X (m, d)."""
        return np.exp(scale_by_temperature(predict_log_proba(self.model_, X), self.temperature_))


def fit_temperature(log_proba: NDArray[np.float64], y: NDArray[np.intp]) -> float:
    """Return the temperature with the lowest log-loss for log-probabilities (m, k) and class indices (m,).

    >>> sure = np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    >>> round(fit_temperature(sure, np.array([0, 0, 0, 1])), 3)
    2.0
    """
    result = minimize_scalar(
        lambda log_t: float(log_loss(scale_by_temperature(log_proba, np.exp(log_t)), y)),
        bounds=(-MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE),
    )
    return float(np.exp(result.x))


def scale_by_temperature(log_proba: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the normalized log-probabilities (m, k), divided by a temperature; probabilities of 0 count as 1e-15."""
    scaled = np.maximum(log_proba, np.log(MIN_PROBABILITY)) / temperature
    return np.asarray(log_softmax(scaled, axis=1), dtype=np.float64)
