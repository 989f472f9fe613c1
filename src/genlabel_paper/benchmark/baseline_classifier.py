"""Scikit-learn classifier of a baseline; the list of baselines is another module, imported without scikit-learn."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from genlabel._validation import check_choice
from genlabel_paper.benchmark.baselines import BASELINES, HAVE_CATEGORIES, N_CALIBRATION_FOLDS, why_unavailable
from genlabel_paper.benchmark.columns import make_transformer
from genlabel_paper.benchmark.selection import TemperatureScaledClassifier, search_by_log_loss, search_folds


@final
class BaselineClassifier(ClassifierMixin, BaseEstimator):
    """Scikit-learn classifier around a baseline: any labels, rare classes, no output.

    A baseline with native categories takes the columns of a DataFrame as they are; its tags say so.

    Parameters
    ----------
    baseline : str
        Key of `BASELINES`.
    random_state : int, optional
        Seed; None leaves the package's default.
    device : str
        "cpu" or "cuda", for packages with that parameter.

    Attributes
    ----------
    classes_ : array (k,)
    model_ : classifier
        Fitted baseline with its columns, search and temperature, whose classes are 0, ..., k - 1.
    best_params_ : dict
        Parameters that a search chose, the temperature, or what else a record should hold.
    versions_ : dict of str -> str
        Version of the package, for the records.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> BaselineClassifier("forest", random_state=0).fit(X, y).predict_proba(X).shape
    (150, 3)
    """

    def __init__(self, baseline: str = "catboost", *, random_state: Any = None, device: str = "cpu") -> None:
        self.baseline = baseline
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the baseline to X (n, d) and labels y (n,)."""
        reason = why_unavailable(self.baseline)
        if reason is not None:
            raise ImportError(f"baseline={self.baseline!r} cannot run here: {reason}")
        baseline = BASELINES[self.baseline]
        self.classes_, index = np.unique(np.asarray(y), return_inverse=True)
        self.columns_ = make_transformer(baseline.columns, X)
        features = self.columns_.fit_transform(X)
        with _quiet():
            model = baseline.make(self.random_state, self.device, getattr(self.columns_, "category_names_", ()))
            if baseline.space:
                folds = search_folds(index, self.random_state)
                model = search_by_log_loss(model, baseline.space, folds, self.random_state)
            if baseline.calibrated:
                folds = search_folds(index, self.random_state, N_CALIBRATION_FOLDS)
                model = TemperatureScaledClassifier(model, folds)
            self.model_ = model.fit(features, index)
        self.versions_ = {baseline.package: baseline.version()}
        return self

    @property
    def best_params_(self) -> dict[str, Any]:
        """Parameters that a search chose, the temperature, or what else a record should hold."""
        check_is_fitted(self)
        return dict(getattr(self.model_, "best_params_", {}))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities (m, k) of X (m, d), 0 for a class that the baseline did not learn."""
        check_is_fitted(self)
        with _quiet():
            learned = np.asarray(self.model_.predict_proba(self.columns_.transform(X)), dtype=np.float64)
        proba = np.zeros((len(learned), len(self.classes_)))
        proba[:, np.asarray(self.model_.classes_, dtype=np.int64)] = learned
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row of X (m, d)."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(1)])

    def resolved_config(self) -> dict[str, Any]:
        """Return the class and the settings behind the name, for fingerprints."""
        check_choice("baseline", self.baseline, BASELINES)
        return BASELINES[self.baseline].resolved_config(self.device)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags, with whether the columns may be categories."""
        tags: Tags = super().__sklearn_tags__()
        if self.baseline in BASELINES:
            tags.input_tags.categorical = BASELINES[self.baseline].columns in HAVE_CATEGORIES
        return tags

    def __sklearn_clone__(self) -> Self:
        """Clone, and import the package if it is available, so that the fit time excludes the import."""
        if why_unavailable(self.baseline) is None:
            BASELINES[self.baseline].load()
        copy: Self = super().__sklearn_clone__()
        return copy


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop log messages below errors, which Lightning writes, and what is printed, which xRFM does."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)
