"""Pooling of a network with its density and the class priors, with weights from held-out rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from genlabel.metrics import row_losses

POOL_SHRINKAGE = 2.0
"""Strength of the penalty that draws the pooling weights to 1/2 each, in rows."""
PRIOR_PSEUDO_COUNT = 0.1
"""Rows that only the class priors explain, added to the held-out ones."""
MIN_LOG_PROBA = -14.0
"""Log-probabilities are clipped here before they are pooled, so that one confident mistake does not set the weights."""


class PoolWeights(NamedTuple):
    """Weights of a network, its density and the class priors in what is predicted."""

    network: float
    density: float | None = None
    """None if no density is pooled."""
    prior: float = 0.0
    """Share of the class priors in the probabilities: it bounds the loss of a confident mistake."""


Pooling = PoolWeights | str | None
"""Given weights; "cv" for those of the lowest held-out log-loss; None for the network alone."""
EQUAL_WEIGHTS = PoolWeights(0.5, 0.5)
"""The geometric mean of network and density."""


def pool(network: Any, density: Any, log_prior: Any, weights: PoolWeights) -> NDArray[np.float64]:
    """Return log of (1 - e) r + e pi, where log r = log pi + a (log p - log pi) + b (log q - log pi), normalized.

    p is the network, q the density (None if there is none), pi the class priors, to which r tends where both weights
    are small; a = b = 1/2 is the geometric mean.

    >>> np.exp(pool(np.log([[0.9, 0.1]]), np.log([[0.5, 0.5]]), np.log([0.5, 0.5]), EQUAL_WEIGHTS)).round(3)
    array([[0.75, 0.25]])
    """
    prior = np.asarray(log_prior, dtype=np.float64)
    score = prior + weights.network * _log_ratio(network, prior)
    if weights.density is not None:
        score = score + weights.density * _log_ratio(density, prior)
    log_proba = np.asarray(log_softmax(score, axis=-1))
    if weights.prior == 0.0:
        return log_proba
    return np.asarray(np.logaddexp(log_proba + np.log1p(-weights.prior), prior + np.log(weights.prior)))


def fit_pool_weights(
    network: NDArray[np.float64],
    density: NDArray[np.float64] | None,
    y: NDArray[np.int64],
    log_prior: Any,
    sample_weight: NDArray[np.float64] | None = None,
) -> PoolWeights:
    """Return the weights of the lowest penalized log-loss on held-out rows.

    The weights of network and density are in [0, 2], the share of the priors in [1e-5, 1/2]. With few rows they stay
    close to one half each (without a density: to 1), by a quadratic penalty of `POOL_SHRINKAGE` over the number of
    rows, and the share of the priors stays above zero, as if `PRIOR_PSEUDO_COUNT` of a row had been held out that only
    the priors explain. A network that diverged has the weights of no rows at all.

    Parameters
    ----------
    network, density : arrays (n, k)
        Log-probabilities of held-out rows.
    y : array (n,)
        Class indices.
    log_prior : array (k,)
    sample_weight : array (n,), optional

    Examples
    --------
    >>> confident = np.log([[0.99, 0.01]] * 4)
    >>> fit_pool_weights(confident, None, np.array([0, 0, 0, 1]), np.log([0.5, 0.5])).prior > 0.2
    True
    """
    start = [1.0] if density is None else [0.5, 0.5]
    if not np.isfinite(row_losses(network, y)).all():
        return PoolWeights(*start)
    share = np.ones(len(y)) if sample_weight is None else sample_weight
    prior = np.asarray(log_prior, dtype=np.float64)
    sources = [network] if density is None else [network, density]
    ratios = np.stack([_log_ratio(source, prior) for source in sources])
    bounds = [(0.0, 2.0)] * len(sources) + [(1e-5, 0.5)]
    args = (ratios, y, share / share.sum(), prior, start[0])
    result = minimize(_penalized_loss, [*start, 0.02], args=args, jac=True, bounds=bounds, method="L-BFGS-B")
    a, *b, e = result.x.tolist()
    return PoolWeights(a, b[0] if b else None, e)


def _penalized_loss(
    parameters: NDArray[np.float64],
    ratios: NDArray[np.float64],
    y: NDArray[np.int64],
    share: NDArray[np.float64],
    log_prior: NDArray[np.float64],
    center: float,
) -> tuple[float, NDArray[np.float64]]:
    """Return the penalized log-loss and its gradient, at weights and a share of the priors.

    `ratios` (p, n, k) are log p - log pi of the network and of the density; `share` (n,) has sum 1.
    """
    weights, e, penalty, rows = parameters[:-1], parameters[-1], POOL_SHRINKAGE / len(y), np.arange(len(y))
    log_proba = log_softmax(log_prior + np.tensordot(weights, ratios, 1), axis=-1)
    proba, prior = np.exp(log_proba), np.exp(log_prior)[y]
    truth = proba[rows, y]
    mixed = np.maximum((1.0 - e) * truth + e * prior, 1e-300)
    loss = penalty * ((weights - center) ** 2).sum() - np.log(mixed) @ share
    gap = np.einsum("nk,pnk->pn", proba, ratios) - ratios[:, rows, y]
    slope = gap @ (share * (1.0 - e) * truth / mixed) + 2.0 * penalty * (weights - center)
    slope_of_e = ((truth - prior) / mixed) @ share - PRIOR_PSEUDO_COUNT / len(y) / e
    return float(loss - PRIOR_PSEUDO_COUNT / len(y) * np.log(e)), np.append(slope, slope_of_e)


def _log_ratio(log_proba: Any, log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p - log pi, with log p clipped from below."""
    result: NDArray[np.float64] = np.maximum(log_proba, MIN_LOG_PROBA) - log_prior
    return result
