"""Base class of the classifiers: log-probabilities, and the methods that follow from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from genlabel._arrays import Standardization
from genlabel._validation import check_weights, ignore_overflow
from genlabel.estimators.intervals import Calibration, Intervals
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.validation import TabularEncoder

MAX_DEVIATION = 1e140
"""Standardized values are clipped here, so that sums of their squares do not overflow."""


class ProbabilityClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class of the classifiers: a subclass fits, and defines :meth:`predict_log_proba_scaled`."""

    classes_: NDArray[Any]
    class_count_: NDArray[np.int64]
    class_weight_: NDArray[np.float64] | None
    venn_abers_: Calibration
    encoder_: TabularEncoder
    scaler_: Standardization
    typicality_: Typicality

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def predict_log_proba_scaled(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), at standardized points, `scaler_(X)`."""

    @final
    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return the rows of `X` as the values (m, d) that `scaler_` takes: missing ones imputed, strings encoded."""
        check_is_fitted(self, "scaler_")
        return self.encoder_(self, X)

    def _scale(self, X: Any) -> NDArray[np.float64]:
        points = self.encode(X)
        with ignore_overflow():
            return self.scaler_(points).clip(-MAX_DEVIATION, MAX_DEVIATION)

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), columns in the order of `classes_`."""
        return self.predict_log_proba_scaled(self._scale(X))

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (m, k), columns in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any, return_typicality: bool = False) -> Any:
        """Return the most probable class of each row, (m,); with `return_typicality`, also its typicality, (m,)."""
        log_proba = self.predict_log_proba(X)
        labels = self.classes_[log_proba.argmax(axis=1)]
        return (labels, self.typicality(X)) if return_typicality else labels

    @final
    def typicality(self, X: Any) -> NDArray[np.float64]:
        """Return the typicality of each row with respect to the training rows, (m,), in (0, 1].

        It is a conformal p-value (:class:`Typicality`): about one in twenty rows like those of the training set has a
        typicality of 0.05 or less; most rows unlike them do. `typicality_.columns(X)` names the column to check first.
        A classifier without densities needs :meth:`fit_typicality` first.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
        >>> (model.typicality([[5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 2.5]]) > 0.05).tolist()
        [True, False]
        """
        points = self.encode(X)
        if not hasattr(self, "typicality_"):
            name = type(self).__name__
            raise NotFittedError(f"{name} has no typicality; call fit_typicality(X, y) with its training rows")
        return self.typicality_(points)

    @final
    def fit_typicality(self, X: Any, y: Any, sample_weight: Any = None, *, density: Any = "auto") -> Self:
        """Learn the typicality of rows from those of `X` (n, d) with labels `y` (n,); predictions do not change.

        `density` is the parameter of :class:`Typicality`: a weighted set of densities, or one of your own.
        """
        points = self.encode(X)
        self.typicality_ = Typicality(density).fit(points, y, sample_weight)
        return self

    @final
    def predict_proba_interval(self, X: Any) -> Intervals:
        """Return a lower and an upper probability of each class, (m, k) each, by Venn-Abers on held-out rows.

        Isotonic regression on the rows that a fold of the search held out estimates how often rows with such a
        probability are of a class; the new row joins them once as one of the class and once as one of another (Vovk,
        Petej and Fedorova, 2015, sections 2 and 3). Each class is compared with all others, and the bounds are the
        means over the folds. If the networks of the folds predict, each is evaluated with its own held-out rows. A wide
        interval states that few held-out rows are like this one. `predict_proba` may lie outside: the held-out rows
        then correct it.

        An interval is about the frequency among such rows; it is not a confidence interval of this row:
        docs/intervals.md. A classifier without held-out rows needs :meth:`fit_interval` first.

        Returns
        -------
        Intervals
            lower, upper: ndarrays (m, k), columns in the order of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import MixupClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> lower, upper = MixupClassifier(random_state=0).fit(X, y).predict_proba_interval(X[:1])
        >>> bool(lower[0, 0] > 0.8), bool(upper[0, 1] < 0.2)
        (True, True)
        """
        check_is_fitted(self, "scaler_")
        if not hasattr(self, "venn_abers_"):
            raise NotFittedError(
                f"{type(self).__name__} has no held-out rows; call fit_interval(X, y) with rows that it was not "
                "trained on"
            )
        return self.venn_abers_(self._log_proba_to_calibrate(self._scale(X)))

    def _log_proba_to_calibrate(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probabilities that `venn_abers_` takes: (m, k), or (folds, m, k)."""
        return self.predict_log_proba_scaled(points)

    @final
    def fit_interval(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn intervals from rows `X` (m, d) with labels `y` (m,) that the classifier was not trained on.

        They replace the rows that the search held out. Nothing was chosen or trained on them, so the guarantee of
        Venn-Abers holds exactly. Predictions do not change.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GenerativeClassifier().fit(X[::2], y[::2]).fit_interval(X[1::2], y[1::2])
        >>> model.predict_proba_interval(X[:1]).lower.round(2).tolist()
        [[0.95, 0.0, 0.0]]
        """
        log_proba, labels = self.predict_log_proba(X), np.asarray(y)
        if labels.shape != (len(log_proba),):
            raise ValueError(f"y has shape {labels.shape}; expected ({len(log_proba)},), one label for each row of X")
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(f"y has {labels[~known].tolist()[0]!r}, which is none of {self.classes_.tolist()[:4]}")
        weight = None if sample_weight is None else check_weights(sample_weight, len(log_proba))
        index = np.searchsorted(self.classes_, labels)
        self.venn_abers_ = Calibration.of(log_proba, index, weight=weight, class_weight=self.class_weight_)
        return self
