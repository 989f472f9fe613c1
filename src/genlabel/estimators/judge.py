"""How models of a search are judged on the rows that they have not seen: alone, or pooled with a density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel.estimators.methods import Average, Method
from genlabel.estimators.pooling import HALVES, Pooling, fit_pooling, pool
from genlabel.estimators.selection import HeldOut, choose_best, results_table

__all__ = ["Judge", "Verdict"]


class Verdict(NamedTuple):
    """The best of some models, the table of all of them, and how it is pooled in what is predicted."""

    best: int
    results: dict[str, Any]
    pooling: Pooling | None


class Judge(NamedTuple):
    """The held-out rows of all folds, and by which rule a model is chosen."""

    rows: HeldOut
    """Without log-probabilities: the classes, weights and folds of the rows."""
    by: str
    """A name of `SELECTIONS`."""
    average: Average
    calibrated: bool
    partner: NDArray[np.float64] | None
    """Log-posterior (n, k) of the rows by the density that models are averaged with."""
    log_prior: NDArray[np.float64]
    again: bool = False
    """Whether models are compared at the weights of the one that is best half and half: a weak density misleads."""

    def judged(self, log_proba: NDArray[Any]) -> HeldOut:
        """What is compared of models with log-probabilities (..., n, k): themselves, or their pool with the density."""
        alone = self.rows._replace(log_proba=np.asarray(log_proba, dtype=np.float64))
        if self.partner is None or self.average is None:
            return alone
        if not isinstance(self.average, str):
            return self._pooled(alone, self.average)
        halves = self._pooled(alone, HALVES)
        if not self.again:
            return halves
        best = int(np.average(halves.losses, axis=-1, weights=self.rows.weight).argmin())
        found = fit_pooling(alone._replace(log_proba=log_proba[best]), self.partner, self.log_prior)
        return self._pooled(alone, found)

    def _pooled(self, alone: HeldOut, pooling: Pooling) -> HeldOut:
        return alone._replace(log_proba=pool(alone.log_proba, self.partner, self.log_prior, pooling))

    def ranks(self, log_proba: NDArray[Any]) -> NDArray[np.int64]:
        """The rank of each model, (e,), from 1."""
        found: NDArray[np.int64] = results_table([{}] * len(log_proba), self.judged(log_proba), self.by)[
            "rank_test_score"
        ]
        return found

    def table(self, params: list[dict[str, Any]], log_proba: NDArray[Any]) -> dict[str, Any]:
        """How models with log-probabilities (e, n, k) did, in the form of `GridSearchCV.cv_results_`."""
        results = results_table(params, self.rows._replace(log_proba=log_proba), self.by)
        if self.partner is not None:
            pooled = results_table(params, self.judged(log_proba), self.by)
            results["mean_test_pooled_score"] = pooled["mean_test_score"]
            results["mean_test_pooled_log_loss"] = pooled["mean_test_log_loss"]
            results["rank_test_score"] = pooled["rank_test_score"]
        return results

    def decide(
        self,
        method: Method,
        candidates: Sequence[int],
        params: list[dict[str, Any]],
        log_proba: NDArray[Any],
        places: Sequence[int],
    ) -> Verdict:
        """The best of the models at some places, each of a candidate of the method; all models are in the table."""
        results = self.table(params, log_proba)
        chosen = [method.candidates[candidates[place]] for place in places]
        decays, rates = [one.weight_decay for one in chosen], [one.learning_rate for one in chosen]
        judged = self.judged(log_proba[places])
        best = places[choose_best(judged, self.by, decays, results["rank_test_score"][places], rates)]
        return Verdict(best, results, self._pooling(log_proba[best]))

    def _pooling(self, log_proba: NDArray[Any]) -> Pooling | None:
        """What a network counts for, from what it said (n, k) of the held-out rows."""
        if self.partner is not None and not isinstance(self.average, str):
            return self.average
        if self.partner is None and not self.calibrated:
            return None
        own = self.rows._replace(log_proba=np.asarray(log_proba, dtype=np.float64))
        return fit_pooling(own, self.partner, self.log_prior)
