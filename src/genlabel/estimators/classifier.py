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

from genlabel._standardization import Standardization
from genlabel._validation import check_weights, ignore_overflow
from genlabel.estimators.encoding import TabularEncoder
from genlabel.estimators.intervals import Calibration, Intervals
from genlabel.estimators.typicality import Typicality

FARTHEST = 1e140
"""Deviations from the mean: a row that is further away is asked about as if it were there."""


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
        """Log-probability of each class, (m, k), at standardised points, `scaler_(X)`."""

    @final
    def encode(self, X: Any) -> NDArray[np.float64]:
        """The rows of `X` as the numbers (m, d) that `scaler_` takes: missing ones are medians, texts are columns."""
        check_is_fitted(self, "scaler_")
        return self.encoder_(self, X)

    def _standardised(self, X: Any) -> NDArray[np.float64]:
        """The rows of `X` at which the model is asked, (m, number of kept features); none so far that sums overflow."""
        points = self.encode(X)
        with ignore_overflow():
            return self.scaler_(points).clip(-FARTHEST, FARTHEST)

    @final
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k), columns in the order of `classes_`."""
        return self.predict_log_proba_scaled(self._standardised(X))

    @final
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (m, k)."""
        return np.exp(self.predict_log_proba(X))

    @final
    def predict(self, X: Any, return_typicality: bool = False) -> Any:
        """The most probable class of each row, (m,); with `return_typicality`, also the support of each, (m,)."""
        scores = self.predict_log_proba(X)
        classes = self.classes_[scores.argmax(axis=1)]
        return (classes, self.typicality(X)) if return_typicality else classes

    @final
    def typicality(self, X: Any) -> NDArray[np.float64]:
        """How typical each row is of the training rows, (m,), in (0, 1]: the share of them that is less typical.

        A conformal p-value (:class:`Typicality`): of rows like those of the training set, about one in twenty has a
        support of 0.05 or less; of rows like nothing seen in training, most do. `typicality_.columns(X)` tells which
        column to look at. A classifier that fits no densities needs :meth:`fit_typicality` first.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
        >>> (model.typicality([[5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 2.5]]) > 0.05).tolist()
        [True, False]
        """
        points = self.encode(X)
        if not hasattr(self, "typicality_"):
            name = type(self).__name__
            raise NotFittedError(
                f"{name} fits no densities to judge rows by; call fit_typicality(X, y) with its training rows"
            )
        return self.typicality_(points)

    @final
    def fit_typicality(self, X: Any, y: Any, sample_weight: Any = None, *, density: Any = "auto") -> Self:
        """Learn how typical rows are of those of `X` (n, d) with labels `y` (n,); the classifier stays as it is.

        `density` is that of :class:`Typicality`: a stack of its own choice, or the judge that you name.
        """
        points = self.encode(X)
        self.typicality_ = Typicality(density).fit(points, y, sample_weight)
        return self

    @final
    def predict_proba_interval(self, X: Any) -> Intervals:
        """A lower and an upper probability of each class, (m, k) each, by Venn-Abers on rows that were held out.

        Among rows that get such a probability, how often is it this class? Isotonic regression answers, on the rows
        that a fold of the search has held out, which a row of `X` joins once as one of the class and once as one of
        another (Vovk, Petej and Fedorova, 2015, sections 2 and 3); each class is set against all others, and the bounds
        are the means over the folds. Where the networks of the folds predict, each is asked with the rows that it has
        not seen. Wide intervals say that few held-out rows are like this one. What `predict_proba` says may lie
        outside: then the held-out rows correct it.

        An interval is about the frequency among such rows, and no confidence interval of this row: docs/intervals.md.
        A classifier that held no rows out needs :meth:`fit_interval` first.

        Returns
        -------
        Intervals
            lower, upper: ndarrays (m, k), columns in the order of `classes_`.

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
                f"this {type(self).__name__} held no rows out; call fit_interval(X, y) with rows that it was not "
                "trained on"
            )
        return self.venn_abers_(self._log_proba_to_calibrate(self._standardised(X)))

    def _log_proba_to_calibrate(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """What `venn_abers_` ranks among the held-out rows, at standardised points: (m, k), or (folds, m, k)."""
        return self.predict_log_proba_scaled(points)

    @final
    def fit_interval(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make intervals of rows `X` (m, d) with labels `y` (m,) that the classifier was not trained on.

        They stand for the rows that the search has held out. Nothing was chosen or trained on them, so that what
        Venn-Abers promises holds without reserve. What is predicted stays as it is.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GenerativeClassifier().fit(X[::2], y[::2]).fit_interval(X[1::2], y[1::2])
        >>> model.predict_proba_interval(X[:1]).lower.round(2).tolist()
        [[0.95, 0.0, 0.0]]
        """
        said, labels = self.predict_log_proba(X), np.asarray(y)
        if labels.shape != (len(said),):
            raise ValueError(f"y has shape {labels.shape}; expected ({len(said)},), one label a row of X")
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(f"y has {labels[~known].tolist()[0]!r}, which is none of {self.classes_.tolist()[:4]}")
        weight = None if sample_weight is None else check_weights(sample_weight, len(said))
        index = np.searchsorted(self.classes_, labels)
        self.venn_abers_ = Calibration.of(said, index, weight=weight, class_weight=self.class_weight_)
        return self
