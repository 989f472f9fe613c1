"""Choosing a candidate from what it did on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel.metrics import accuracy, log_loss

SELECTIONS = ("log-loss", "accuracy")
"""Rules of selection: held-out log-loss with the one-standard-error rule, or the paper's held-out accuracy."""


class ValidationPredictions(NamedTuple):
    """Log-probabilities of held-out rows, fold after fold."""

    log_proba: NDArray[np.float64]
    """(..., n, k)"""
    y: NDArray[np.int64]
    """(n,)"""
    weight: NDArray[np.float64] | None
    """How much each row counts, (n,); None is all alike."""
    fold: NDArray[np.int64]
    """(n,)"""

    @property
    def losses(self) -> NDArray[np.float64]:
        """The negative log-probability of each row's class, (..., n)."""
        index = np.broadcast_to(self.y[:, None], (*self.log_proba.shape[:-1], 1))
        losses = -np.take_along_axis(self.log_proba, index, -1)[..., 0]
        return np.where(np.isnan(losses), np.inf, losses)


class Scores(NamedTuple):
    """How models did on the held-out rows of each fold."""

    hits: NDArray[np.float64]
    """Accuracy, (folds, ...)"""
    losses: NDArray[np.float64]
    """Log-loss, (folds, ...)"""


def one_standard_error(
    losses: NDArray[Any], strength: Sequence[float], weight: Any = None, steps: Sequence[float] | None = None
) -> int:
    """Return the most strongly regularised candidate that is no worse than the best by more than the noise.

    The noise of a candidate is the standard error of its mean difference to the best one, row by row: paired, so that
    rows that are hard for all count for none. Among candidates of equal strength the lowest loss wins, and among those
    whose losses are the same to the sixth digit, the smallest step.

    Parameters
    ----------
    losses : array (candidates, n)
        Loss of each held-out row.
    strength : sequence of float
        How strongly each candidate is regularised.
    weight : array (n,), optional
    steps : sequence of float, optional
        The learning rate of each.

    Examples
    --------
    >>> losses = np.array([[0.10, 0.50, 0.30, 0.20], [0.20, 0.41, 0.30, 0.21], [0.9, 0.9, 0.9, 0.9]])
    >>> one_standard_error(losses, [1e-4, 1e-2, 1e-1])
    1
    """
    share = np.full(losses.shape[1], 1.0) if weight is None else np.asarray(weight, dtype=np.float64)
    share = share / share.sum()
    with np.errstate(invalid="ignore", over="ignore"):
        means = losses @ share
        means = np.where(np.isfinite(means), means, np.inf)
        best = int(means.argmin())
        gaps = losses - losses[best]
        spread = np.sqrt(((gaps - (gaps @ share)[:, None]) ** 2) @ share * (share**2).sum())
        within = means <= means[best] + np.nan_to_num(spread, nan=0.0, posinf=0.0)
    size = np.zeros(len(means)) if steps is None else np.asarray(steps)
    level = means if steps is None else means.round(6)
    within |= level == level[best]
    return min(np.flatnonzero(within).tolist(), key=lambda i: (-strength[i], level[i], size[i], i))


def choose_best(
    losses: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    rule: str,
    strength: Sequence[float],
    ranks: NDArray[np.int64],
    steps: Sequence[float] | None = None,
) -> int:
    """Return the candidate that a rule of `SELECTIONS` chooses, from its losses (candidates, n) of rows of some weight.

    `ranks` are those of the results table.
    """
    if rule == "accuracy":
        return int(ranks.argmin())
    return one_standard_error(losses, strength, weight, steps)


def fold_scores(held_out: ValidationPredictions) -> Scores:
    """Return accuracy and log-loss of what is said of the rows of each fold."""
    parts = [(held_out.fold == fold) for fold in np.unique(held_out.fold)]
    pairs = [
        (
            held_out.log_proba[..., part, :],
            held_out.y[part],
            None if held_out.weight is None else held_out.weight[part],
        )
        for part in parts
    ]
    return Scores(np.stack([accuracy(*p) for p in pairs]), np.stack([log_loss(*p) for p in pairs]))


def results_table(params: list[dict[str, Any]], scores: Scores, rule: str) -> dict[str, Any]:
    """Held-out accuracy and log-loss of every candidate, in the form of `GridSearchCV.cv_results_`."""
    hits, losses = scores
    keys = (losses.mean(0), -hits.mean(0).round(12)) if rule == "accuracy" else (-hits.mean(0), losses.mean(0))
    ranks = np.empty(len(params), dtype=np.int64)
    ranks[np.lexsort(keys)] = np.arange(1, len(params) + 1)
    names = dict.fromkeys(name for entry in params for name in entry)
    with np.errstate(invalid="ignore"):  # a candidate that diverged has no spread
        spread = losses.std(0)
    return {
        "params": params,
        **{f"param_{name}": np.array([p.get(name) for p in params], dtype=object) for name in names},
        **{f"split{fold}_test_score": row for fold, row in enumerate(hits)},
        **{f"split{fold}_test_log_loss": row for fold, row in enumerate(losses)},
        "mean_test_score": hits.mean(0),
        "std_test_score": hits.std(0),
        "mean_test_log_loss": losses.mean(0),
        "std_test_log_loss": spread,
        "rank_test_score": ranks,
    }
