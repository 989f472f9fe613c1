"""Pooling a network with its stacked density and the frequencies of the classes, as held-out rows say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from genlabel.model_selection.selection import ValidationPredictions

POOL_SHRINKAGE = 2.0
"""Strength of the pull of the pooling weights towards one half each, in rows."""
PRIOR_PSEUDO_COUNT = 0.1
"""Rows that only the frequencies of the classes explain, beside those that are held out."""
LEAST_DOUBT, FIRST_DOUBT, MOST_DOUBT = 1e-5, 0.02, 0.5
TINY = 1e-300
POOLED_FLOOR = -14.0
"""Log-probabilities are clipped here before they are pooled: one sure mistake must not rule the weights."""


class Pooling(NamedTuple):
    """What a network counts for in what is predicted, beside a stacked density and the frequencies of the classes."""

    network: float
    label_model: float | None = None
    """None if there is none."""
    doubt: float = 0.0
    """The share of the frequencies of the classes: it bounds what a sure mistake costs."""

    def as_said(self) -> tuple[float | None, ...]:
        """The weights, and the doubt if there is any: as people write it."""
        return tuple(self) if self.doubt else self[:2]


EQUAL_WEIGHTS = Pooling(0.5, 0.5)
"""The geometric mean of the network and the stacked density."""


def pool(network: Any, label_model: Any, log_prior: Any, pooling: Pooling) -> NDArray[np.float64]:
    """Return log of (1 - e) r + e pi, where log r = log pi + a (log p - log pi) + b (log q - log pi), normalised.

    p is the network, q the stacked density (None if there is none), pi the frequencies of the classes, to which r falls
    back where both weights are small; a = b = 1/2 is the geometric mean.

    >>> np.exp(pool(np.log([[0.9, 0.1]]), np.log([[0.5, 0.5]]), np.log([0.5, 0.5]), EQUAL_WEIGHTS)).round(3)
    array([[0.75, 0.25]])
    """
    prior = np.asarray(log_prior, dtype=np.float64)
    score = prior + pooling.network * _ratio(network, prior)
    if pooling.label_model is not None:
        score = score + pooling.label_model * _ratio(label_model, prior)
    found = np.asarray(log_softmax(score, axis=-1))
    if pooling.doubt == 0.0:
        return found
    return np.asarray(np.logaddexp(found + np.log1p(-pooling.doubt), prior + np.log(pooling.doubt)))


def fit_pooling(network: ValidationPredictions, label_model: NDArray[np.float64] | None, log_prior: Any) -> Pooling:
    """Return the pooling to which held-out log-loss descends: weights in [0, 2], a doubt of at most one half.

    Few rows say little: the squares of the weights' distances from one half each (from 1 without a stacked density),
    times
    `POOL_SHRINKAGE` over the number of rows, are added, and it is as if `PRIOR_PSEUDO_COUNT` of a row more had been
    held out that only the
    frequencies explain. A network that diverged is weighed as if there were no rows.

    >>> sure = ValidationPredictions(np.log([[0.99, 0.01]] * 4), np.array([0, 0, 0, 1]), None, np.zeros(4,
    dtype=np.int64))
    >>> fit_pooling(sure, None, np.log([0.5, 0.5])).doubt > 0.2
    True
    """
    start = [1.0] if label_model is None else [0.5, 0.5]
    if not np.isfinite(network.losses).all():
        return Pooling(*start)
    share = np.ones(len(network.y)) if network.weight is None else network.weight
    prior = np.asarray(log_prior, dtype=np.float64)
    sources = [network.log_proba] if label_model is None else [network.log_proba, label_model]
    loss = _PoolingLoss(
        np.stack([_ratio(source, prior) for source in sources]), network.y, share / share.sum(), prior, start[0]
    )
    bounds = [(0.0, 2.0)] * len(sources) + [(LEAST_DOUBT, MOST_DOUBT)]
    found = minimize(loss, [*start, FIRST_DOUBT], jac=True, bounds=bounds, method="L-BFGS-B").x.tolist()
    return Pooling(found[0], None if label_model is None else found[1], found[-1])


class _PoolingLoss(NamedTuple):
    """The loss that :func:`fit_pooling` lowers, and its slope, at weights and a doubt."""

    ratios: NDArray[np.float64]
    """(p, n, k): log p - log pi of the network, and of the stacked density."""
    y: NDArray[np.int64]
    share: NDArray[np.float64]
    """(n,), of sum 1."""
    log_prior: NDArray[np.float64]
    centre: float

    def __call__(self, at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, doubt, pull, rows = at[:-1], at[-1], POOL_SHRINKAGE / len(self.y), np.arange(len(self.y))
        logs = log_softmax(self.log_prior + np.tensordot(weights, self.ratios, 1), axis=-1)
        proba, prior = np.exp(logs), np.exp(self.log_prior)[self.y]
        truth = proba[rows, self.y]
        mixed = np.maximum((1.0 - doubt) * truth + doubt * prior, TINY)
        loss = pull * ((weights - self.centre) ** 2).sum() - np.log(mixed) @ self.share
        gap = np.einsum("nk,pnk->pn", proba, self.ratios) - self.ratios[:, rows, self.y]
        slope = gap @ (self.share * (1.0 - doubt) * truth / mixed) + 2.0 * pull * (weights - self.centre)
        of_doubt = ((truth - prior) / mixed) @ self.share - PRIOR_PSEUDO_COUNT / len(self.y) / doubt
        return float(loss - PRIOR_PSEUDO_COUNT / len(self.y) * np.log(doubt)), np.append(slope, of_doubt)


def _ratio(log_proba: Any, log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log p - log pi, with p clipped from below."""
    found: NDArray[np.float64] = np.maximum(log_proba, POOLED_FLOOR) - log_prior
    return found
