"""The classifier behind which every peer stands: any labels, rare classes, no output."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from genlabel._validation import check_choice
from genlabel_paper.benchmark.baselines import BASELINES, Baseline, why_not


@final
class BaselineClassifier(ClassifierMixin, BaseEstimator):
    """A peer behind one door: any labels, any number of rows of a class, no output.

    Parameters
    ----------
    peer : str
        A name of `BASELINES`.
    random_state : int, optional
        Without it, what the package does without a seed.
    device : str
        Where a peer trains that knows of devices: "cpu" or "cuda".

    Attributes
    ----------
    classes_ : array (k,)
    model_ : classifier
        The fitted peer, which knows the classes as 0, ..., k - 1.
    versions_ : dict
        The version of its package, for the records.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> BaselineClassifier("forest", random_state=0).fit(X, y).predict_proba(X).shape
    (150, 3)
    """

    fingerprint_defaults: ClassVar[dict[str, Any]] = {"device": "cpu"}

    def __init__(self, peer: str = "catboost", *, random_state: Any = None, device: str = "cpu") -> None:
        self.peer = peer
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the peer on rows X (n, d) of numbers with labels y (n,)."""
        peer = self._peer()
        self.classes_, index = np.unique(np.asarray(y), return_inverse=True)
        with _quiet():
            self.model_ = peer.make(self.random_state, self.device).fit(np.asarray(X), index)
        self.versions_ = {peer.package: peer.version()}
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return what the peer says of rows X (m, d): (m, k), 0 for a class that it did not learn."""
        check_is_fitted(self)
        with _quiet():
            found = np.asarray(self.model_.predict_proba(np.asarray(X)), dtype=np.float64)
        proba = np.zeros((len(found), len(self.classes_)))
        proba[:, np.asarray(self.model_.classes_, dtype=np.int64)] = found
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row of X (m, d)."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(1)])

    def resolved_config(self) -> dict[str, Any]:
        """Return the class and the settings behind the name, for fingerprints."""
        check_choice("peer", self.peer, BASELINES)
        peer = BASELINES[self.peer]
        return {"source": peer.source, "settings": peer.settings_on(self.device), "seed": peer.seed}

    def __sklearn_clone__(self) -> Self:
        """Copy it, and import its package if it is there, so that the time of a fit is that of the fit."""
        if why_not(self.peer) is None:
            BASELINES[self.peer].load()
        copy: Self = super().__sklearn_clone__()
        return copy

    def _peer(self) -> Baseline:
        """The peer, or an error that says what is missing."""
        reason = why_not(self.peer)
        if reason is not None:
            raise ImportError(f"peer={self.peer!r} cannot run here: {reason}")
        return BASELINES[self.peer]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let nothing below an error be logged inside; Lightning tells of each fit."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)
