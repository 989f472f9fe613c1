"""What every classifier here tells of rows: log-probabilities, what follows from them, and how typical they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from genlabel.densities import Support
from genlabel.estimators.encoding import Encoder
from genlabel.standardisation import Standardisation

__all__ = ["ProbabilityClassifier"]


class ProbabilityClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier with log-probabilities at standardised points; a subclass fits, and gives :meth:`log_proba_of`."""

    classes_: NDArray[Any]
    class_count_: NDArray[np.int64]
    encoder_: Encoder
    scaler_: Standardisation
    support_: Support

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def log_proba_of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), at standardised points, `scaler_(X)`."""

    @final
    def numbers_of(self, X: Any) -> NDArray[np.float64]:
        """The rows of `X` as the numbers (m, d) that `scaler_` takes: missing ones are medians, texts are columns."""
        check_is_fitted(self, "scaler_")
        return self.encoder_(self, X)

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), columns in the order of `classes_`."""
        points = self.numbers_of(X)
        return self.log_proba_of(self.scaler_(points))

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (m, k)."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any, return_support: bool = False) -> Any:
        """The most probable class of each row, (m,); with `return_support`, also the support of each, (m,)."""
        scores = self.predict_log_proba(X)
        classes = self.classes_[scores.argmax(axis=1)]
        return (classes, self.support(X)) if return_support else classes

    @final
    def support(self, X: Any) -> NDArray[np.float64]:
        """How typical each row is of the training rows, (m,), in (0, 1]: the share of them that is less typical.

        A conformal p-value (:class:`Support`): of rows like those of the training set, about one in twenty has a
        support of 0.05 or less; of rows like nothing seen in training, most do. `support_.columns(X)` tells which
        column to look at. A classifier that fits no densities needs :meth:`fit_support` first.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
        >>> (model.support([[5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 2.5]]) > 0.05).tolist()
        [True, False]
        """
        points = self.numbers_of(X)
        if not hasattr(self, "support_"):
            name = type(self).__name__
            raise NotFittedError(
                f"{name} fits no densities to judge rows by; call fit_support(X, y) with its training rows"
            )
        return self.support_(points)

    @final
    def fit_support(self, X: Any, y: Any, sample_weight: Any = None, *, density: Any = "auto") -> Self:
        """Learn how typical rows are of those of `X` (n, d) with labels `y` (n,); the classifier stays as it is.

        `density` is that of :class:`Support`: a stack of its own choice, or the judge that you name.
        """
        points = self.numbers_of(X)
        self.support_ = Support(density).fit(points, y, sample_weight)
        return self
