"""How models of a search are judged on the rows that they have not seen: alone, or pooled with a density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel.model_selection.pooling import EQUAL_WEIGHTS, Pooling, fit_pooling, pool
from genlabel.model_selection.search_space import Average
from genlabel.model_selection.selection import Scores, ValidationPredictions, choose_best, fold_scores, results_table
from genlabel.training import Hyperparameters


class ScoreTable(NamedTuple):
    """How models did on held-out rows: what is kept of what they said."""

    alone: Scores
    """Of the models themselves, (folds, e)."""
    judged: Scores
    """Of what is compared, (folds, e): themselves, or their pools with the density."""
    losses: NDArray[np.float64]
    """The loss of each row, (e, n), of what is compared."""

    def at(self, place: int) -> ScoreTable:
        """The sheet of one model."""
        some = slice(place, place + 1)
        alone, judged = (Scores(*(part[:, some] for part in scores)) for scores in (self.alone, self.judged))
        return ScoreTable(alone, judged, self.losses[some])

    @classmethod
    def joined(cls, sheets: Sequence[ScoreTable]) -> ScoreTable:
        """The sheet of the models of several."""
        alone, judged = (
            Scores(*(np.concatenate(parts, 1) for parts in zip(*scores, strict=True)))
            for scores in ([one.alone for one in sheets], [one.judged for one in sheets])
        )
        return cls(alone, judged, np.concatenate([one.losses for one in sheets]))


class Selection(NamedTuple):
    """The best of some models, the table of all of them, and how it is pooled in what is predicted."""

    best: int
    results: dict[str, Any]
    pooling: Pooling | None
    held_out: NDArray[np.float32]
    """Log-probabilities (n, k) of the rows by the best, as they are predicted: pooled so."""


class CandidateScorer(NamedTuple):
    """The held-out rows of all folds, and by which rule a model is chosen."""

    rows: ValidationPredictions
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
    rank_without_pooling: bool = False
    """Whether models go on by what they do alone: a strong density would hide which of them learn fastest."""

    def sheet(self, said: Sequence[NDArray[Any]]) -> ScoreTable:
        """How models that said so of the rows, log-probabilities (n, k) each, did: one after the other."""
        pooling = self._common_pooling(said)
        alone, judged = [], []
        for values in said:
            own = self._of(values)
            alone.append(fold_scores(own))
            pooled = own if pooling is None else self._pooled(own, pooling)
            judged.append((alone[-1] if pooling is None else fold_scores(pooled), pooled.losses))
        scores, losses = zip(*judged, strict=True)
        return ScoreTable(_side_by_side(alone), _side_by_side(scores), np.stack(losses))

    def _common_pooling(self, said: Sequence[NDArray[Any]]) -> Pooling | None:
        """The pooling at which models are compared; None is each by itself."""
        if self.partner is None or self.average is None:
            return None
        if not isinstance(self.average, str):
            return self.average
        if not self.again:
            return EQUAL_WEIGHTS
        halves = (self._pooled(self._of(values), EQUAL_WEIGHTS).losses for values in said)
        best = int(np.argmin([np.average(losses, weights=self.rows.weight) for losses in halves]))
        return fit_pooling(self._of(said[best]), self.partner, self.log_prior)

    def _of(self, log_proba: NDArray[Any]) -> ValidationPredictions:
        """What one model says (n, k), with the rows it is said of."""
        return self.rows._replace(log_proba=np.asarray(log_proba, dtype=np.float64))

    def _pooled(self, alone: ValidationPredictions, pooling: Pooling) -> ValidationPredictions:
        return alone._replace(log_proba=pool(alone.log_proba, self.partner, self.log_prior, pooling))

    def ranks(self, sheet: ScoreTable) -> NDArray[np.int64]:
        """The rank of each model on its way, (e,), from 1."""
        scores = sheet.alone if self.rank_without_pooling else sheet.judged
        found: NDArray[np.int64] = results_table([{}] * len(sheet.losses), scores, self.by)["rank_test_score"]
        return found

    def table(self, params: list[dict[str, Any]], sheet: ScoreTable) -> dict[str, Any]:
        """How models did, in the form of `GridSearchCV.cv_results_`."""
        results = results_table(params, sheet.alone, self.by)
        if self.partner is not None:
            pooled = results_table(params, sheet.judged, self.by)
            results["mean_test_pooled_score"] = pooled["mean_test_score"]
            results["mean_test_pooled_log_loss"] = pooled["mean_test_log_loss"]
            results["rank_test_score"] = pooled["rank_test_score"]
        return results

    def decide(
        self,
        candidates: Sequence[Hyperparameters],
        params: list[dict[str, Any]],
        said: Mapping[int, NDArray[Any]],
        behind: Mapping[int, ScoreTable],
    ) -> Selection:
        """The best of the models at the places that `said` something (n, k); all models are in the table.

        Those that were left `behind` have there what they had then.
        """
        places = list(said)
        sheet = self.sheet([said[place] for place in places])
        sheets = {**behind, **{place: sheet.at(row) for row, place in enumerate(places)}}
        results = self.table(params, ScoreTable.joined([sheets[place] for place in range(len(params))]))
        decays, rates = [one.weight_decay for one in candidates], [one.learning_rate for one in candidates]
        chosen = choose_best(
            sheet.losses,
            self.rows.weight,
            self.by,
            [decays[place] for place in places],
            results["rank_test_score"][places],
            [rates[place] for place in places],
        )
        best = places[chosen]
        pooling = self._pooling(said[best])
        own = self._of(said[best])
        predicted = own if pooling is None else self._pooled(own, pooling)
        return Selection(best, results, pooling, predicted.log_proba.astype(np.float32))

    def _pooling(self, log_proba: NDArray[Any]) -> Pooling | None:
        """What a network counts for, from what it said (n, k) of the held-out rows."""
        if self.partner is not None and not isinstance(self.average, str):
            return self.average
        if self.partner is None and not self.calibrated:
            return None
        return fit_pooling(self._of(log_proba), self.partner, self.log_prior)


def _side_by_side(scores: Sequence[Scores]) -> Scores:
    """Scores (folds,) of single models as (folds, e)."""
    hits, losses = (np.stack(parts, 1) for parts in zip(*scores, strict=True))
    return Scores(hits, losses)
