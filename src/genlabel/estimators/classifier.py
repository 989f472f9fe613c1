"""What every classifier here predicts: log-probabilities at standardised points, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genlabel.standardisation import Standardisation

__all__ = ["ProbabilityClassifier"]


class ProbabilityClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier with log-probabilities at standardised points; a subclass fits, and gives :meth:`log_proba_of`."""

    classes_: NDArray[Any]
    scaler_: Standardisation

    @abstractmethod
    def log_proba_of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), at standardised points, `scaler_(X)`."""

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), columns in the order of `classes_`."""
        check_is_fitted(self, "scaler_")
        return self.log_proba_of(self.scaler_(validate_data(self, X, dtype=np.float64, reset=False)))

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (m, k)."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, (m,)."""
        scores = self.predict_log_proba(X)
        return self.classes_[scores.argmax(axis=1)]
