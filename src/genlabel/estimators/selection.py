"""Choosing a candidate from what it did on held-out rows, and pooling a network with its label model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from genlabel.metrics import accuracy, log_loss

__all__ = [
    "POOLED_FLOOR",
    "PULL",
    "SELECTIONS",
    "HeldOut",
    "choose_best",
    "one_standard_error",
    "pool",
    "pooling_weights",
    "results_table",
    "sharpness",
]

SELECTIONS = ("log-loss", "accuracy")
"""Rules of selection: held-out log-loss with the one-standard-error rule, or the paper's held-out accuracy."""
PULL = 2.0
"""Strength of the pull of the pooling weights towards one half each, in rows."""
POOLED_FLOOR = -14.0
"""Log-probabilities are clipped here before they are pooled: one sure mistake must not rule the weights."""


class HeldOut(NamedTuple):
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
    held_out: HeldOut,
    rule: str,
    strength: Sequence[float],
    ranks: NDArray[np.int64],
    steps: Sequence[float] | None = None,
) -> int:
    """Return the candidate that a rule of `SELECTIONS` chooses; `ranks` are those of the results table."""
    if rule == "accuracy":
        return int(ranks.argmin())
    return one_standard_error(held_out.losses, strength, held_out.weight, steps)


def results_table(params: list[dict[str, Any]], held_out: HeldOut, rule: str) -> dict[str, Any]:
    """Held-out accuracy and log-loss of every candidate, in the form of `GridSearchCV.cv_results_`."""
    parts = [(held_out.fold == fold) for fold in np.unique(held_out.fold)]
    pairs = [
        (held_out.log_proba[:, part], held_out.y[part], None if held_out.weight is None else held_out.weight[part])
        for part in parts
    ]
    hits, losses = np.stack([accuracy(*p) for p in pairs]), np.stack([log_loss(*p) for p in pairs])
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


def pool(network: Any, label_model: Any, log_prior: Any, weights: tuple[float, float]) -> NDArray[np.float64]:
    """Return the log-linear pool log pi + a (log p - log pi) + b (log q - log pi), normalised.

    p is the network, q the label model, pi the frequencies of the classes, to which it falls back where both weights
    are small; a = b = 1/2 is the geometric mean.

    >>> np.exp(pool(np.log([[0.9, 0.1]]), np.log([[0.5, 0.5]]), np.log([0.5, 0.5]), (0.5, 0.5))).round(3)
    array([[0.75, 0.25]])
    """
    a, b = weights
    prior = np.asarray(log_prior, dtype=np.float64)
    first, second = (np.maximum(values, POOLED_FLOOR) - prior for values in (network, label_model))
    return np.asarray(log_softmax(prior + a * first + b * second, axis=-1))


def sharpness(network: HeldOut, log_prior: Any) -> float:
    """Return the weight a in [0, 2] of log pi + a (log p - log pi) with the lowest held-out log-loss, near 1 if few.

    Below 1 a network is too sure of itself; 0 is the frequencies of the classes. Of one that diverged it is 1.

    >>> sure = HeldOut(np.log([[0.99, 0.01]] * 4), np.array([0, 0, 0, 1]), None, np.zeros(4, dtype=np.int64))
    >>> sharpness(sure, np.log([0.5, 0.5])) < 0.5
    True
    """
    if not np.isfinite(network.losses).all():
        return 1.0
    weight = np.ones(len(network.y)) if network.weight is None else network.weight

    def loss(a: float) -> float:
        fit = float(log_loss(pool(network.log_proba, log_prior, log_prior, (a, 0.0)), network.y, weight))
        return fit + PULL / len(weight) * (a - 1.0) ** 2

    return float(minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-4}).x)


def pooling_weights(network: HeldOut, label_model: NDArray[np.float64], log_prior: Any) -> tuple[float, float]:
    """Return the weights (a, b) of :func:`pool` with the lowest held-out log-loss, both in [0, 2].

    (a - 1/2)^2 + (b - 1/2)^2, times `PULL` over the number of rows, is added: few rows say little. Of a network that
    diverged they are 1/2 each.
    """
    if not np.isfinite(network.losses).all():
        return 0.5, 0.5
    share = np.ones(len(network.y)) if network.weight is None else network.weight
    share = share / share.sum()
    prior = np.asarray(log_prior, dtype=np.float64)
    parts = np.stack([np.maximum(values, POOLED_FLOOR) - prior for values in (network.log_proba, label_model)])
    of_truth = np.take_along_axis(parts, network.y[None, :, None], -1)[..., 0]

    def loss(ab: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        mixed = log_softmax(prior + np.tensordot(ab, parts, 1), axis=-1)
        slope = (np.einsum("nk,pnk->pn", np.exp(mixed), parts) - of_truth) @ share
        truth = np.take_along_axis(mixed, network.y[:, None], -1)[:, 0]
        pull = PULL / len(share)
        return float(pull * ((ab - 0.5) ** 2).sum() - truth @ share), slope + 2.0 * pull * (ab - 0.5)

    found = minimize(loss, [0.5, 0.5], jac=True, bounds=[(0.0, 2.0)] * 2, method="L-BFGS-B")
    return float(found.x[0]), float(found.x[1])
