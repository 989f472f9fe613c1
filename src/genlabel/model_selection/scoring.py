"""Scores of candidates on the rows that they were not trained on, their pools with a density, and the best one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from genlabel.attacks import Attack
from genlabel.attacks.models import AttackedFleet
from genlabel.metrics import accuracy, log_loss, row_losses
from genlabel.model_selection.splits import MIN_LOG_PROBA, LabeledData
from genlabel.training.fleet import Fleet

Array = NDArray[np.float64]
Scoring = str | Attack
"""Name of a score, or an attack under which held-out accuracy is measured."""
POOL_SHRINKAGE = 2.0
"""Strength of the penalty that draws the pooling weights to 1/2 each, in rows."""
PRIOR_PSEUDO_COUNT = 0.1
"""Rows that only the class priors explain, added to the held-out ones."""


class PoolWeights(NamedTuple):
    """Weights of a network, its density and the class priors in what is predicted."""

    network: float
    density: float | None = None
    """None if no density is pooled."""
    prior: float = 0.0
    """Share of the class priors in the probabilities: it bounds the loss of a confident mistake."""


class Scores(NamedTuple):
    """Scores of candidates on held-out rows; they are compared as networks alone, or pooled with their density."""

    values: Array
    """(2, 2, folds, candidates): of the networks alone, and as candidates are compared; of each, accuracy, log-loss."""
    losses: Array  # loss of each row, as candidates are compared, (candidates, n)
    mean_loss: Array  # mean of these losses with the weights of the rows, (candidates,)
    rank: NDArray[np.int64]  # rank of each candidate in a halving search, from 1


Pooling = PoolWeights | str | None
"""Given weights; "cv" for those of the lowest held-out log-loss; None for the network alone."""
EQUAL_WEIGHTS = PoolWeights(0.5, 0.5)
"""The geometric mean of network and density."""


def pool(network: Any, density: Any, log_prior: Any, weights: PoolWeights) -> Array:
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
    network: Array, density: Array | None, y: NDArray[np.int64], log_prior: Any, sample_weight: Array | None = None
) -> PoolWeights:
    """Return the weights of the lowest penalized log-loss on held-out rows, from log-probabilities (n, k).

    With few rows the weights of network and density stay close to one half each (without a density: to 1), and the
    share of the priors above zero. A diverged network gets the default weights.
    """
    start = [1.0] if density is None else [0.5, 0.5]
    if not np.isfinite(row_losses(network, y)).all():
        return PoolWeights(*start)
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    share, rows = weight / weight.sum(), np.arange(len(y))
    log_priors = np.asarray(log_prior, dtype=np.float64)
    prior = np.exp(log_priors)[y]
    sources = [network] if density is None else [network, density]
    ratios = np.stack([_log_ratio(source, log_priors) for source in sources])
    penalty, pseudo_count = POOL_SHRINKAGE / len(y), PRIOR_PSEUDO_COUNT / len(y)

    def penalized_loss(parameters: Array) -> tuple[float, Array]:
        """Return the loss and its gradient at (weight of each source, share e of the priors)."""
        weights, e = parameters[:-1], parameters[-1]
        proba = np.exp(log_softmax(log_priors + np.tensordot(weights, ratios, 1), axis=-1))
        truth = proba[rows, y]
        mixed = np.maximum((1.0 - e) * truth + e * prior, 1e-300)
        loss = penalty * ((weights - start[0]) ** 2).sum() - np.log(mixed) @ share
        gap = np.einsum("nk,pnk->pn", proba, ratios) - ratios[:, rows, y]
        slope = gap @ (share * (1.0 - e) * truth / mixed) + 2.0 * penalty * (weights - start[0])
        slope_of_e = ((truth - prior) / mixed) @ share - pseudo_count / e
        return float(loss - pseudo_count * np.log(e)), np.append(slope, slope_of_e)

    bounds = [(0.0, 2.0)] * len(sources) + [(1e-5, 0.5)]
    minimum = minimize(penalized_loss, [*start, 0.02], jac=True, bounds=bounds, method="L-BFGS-B")
    *weights, prior_weight = minimum.x.tolist()
    return PoolWeights(weights[0], None if density is None else weights[1], prior_weight)


def _log_ratio(log_proba: Any, log_prior: Array) -> Array:
    """Return log p - log pi, with log p clipped from below."""
    return np.asarray(np.maximum(log_proba, MIN_LOG_PROBA) - log_prior)


def validation_log_proba(
    fleet: Fleet, fold: int, valid: Sequence[LabeledData], scoring: Scoring, seed: int, group: int
) -> Array:
    """Return the log-probabilities (candidates, m, k) of the held-out rows of a fold by a group of a fleet's networks.

    An attack attacks the rows for every network separately.
    """
    rows = valid[fold]
    if isinstance(scoring, str):
        return fleet.log_proba(group, rows.X)
    target = AttackedFleet(fleet, group)
    attacked = scoring(target, torch.from_numpy(rows.X), rows.y, seed=[seed, fold])
    return np.ascontiguousarray(target.log_proba(attacked).cpu().numpy())


def predict_held_out(
    fleet: Fleet, valid: Sequence[LabeledData], scoring: Scoring, seed: int, dtype: type[np.floating[Any]]
) -> list[NDArray[Any]]:
    """Return the log-probabilities (n, k) of the held-out rows of all folds, for each candidate of a fleet."""
    by_fold: list[list[NDArray[Any]]] = []
    for fold in range(len(fleet.theta)):
        log_proba = validation_log_proba(fleet, fold, valid, scoring, seed, group=fold)
        with np.errstate(over="ignore"):  # a network that diverged
            # Each candidate has memory of its own, since some are dropped before others.
            by_fold.append([values.astype(dtype) for values in log_proba])
    return [np.concatenate(parts) for parts in zip(*by_fold, strict=True)]


def epoch_scores(fleet: Fleet, fold: int, valid: Sequence[LabeledData], scoring: Scoring, seed: int) -> Array:
    """Return the scores by which the epochs of a fold's networks are compared, (candidates, 2); larger is better."""
    rows = valid[fold]
    if isinstance(scoring, str):
        scores = fleet.score(0, rows.X, rows.y, rows.score_weight)
        return scores[:, ::-1] if scoring == "log-loss" else scores
    measured = validation_log_proba(fleet, fold, valid, scoring, seed, group=0), rows.y, rows.score_weight
    return np.stack([accuracy(*measured), -log_loss(*measured)], -1)


def score_candidates(
    log_proba: Sequence[NDArray[Any]],
    y: NDArray[np.int64],
    weight: Array | None,
    fold: NDArray[np.int64],
    log_prior: Array,
    density: Array | None = None,
    pooling: Pooling = None,
    fit_weights: bool = False,
    ranked_by: str = "log-loss",
    rank_networks: bool = False,
) -> Scores:
    """Return the scores of candidates from their log-probabilities (n, k) of the held-out rows of all folds.

    `density` (n, k) are log-posteriors to pool the networks with. With pooling "cv", candidates are compared at equal
    weights of network and density; with `fit_weights`, at the weights of the candidate that is best at equal ones,
    which mislead where the density is weak. The rank is by `ranked_by`; with `rank_networks`, that of networks alone.
    """
    weights: PoolWeights | None = None  # None compares the networks alone
    if density is not None and pooling is not None:
        weights = EQUAL_WEIGHTS if isinstance(pooling, str) else pooling
        if isinstance(pooling, str) and fit_weights:
            networks = [np.asarray(values, dtype=np.float64) for values in log_proba]
            pools = (pool(network, density, log_prior, EQUAL_WEIGHTS) for network in networks)
            best = int(np.argmin([np.average(row_losses(pooled, y), weights=weight) for pooled in pools]))
            weights = fit_pool_weights(networks[best], density, y, log_prior, weight)
    masks = [fold == f for f in np.unique(fold)]

    def fold_scores(values: Array) -> Array:
        """Return accuracy and log-loss (2, folds) of log-probabilities (n, k)."""
        parts = [(values[mask], y[mask], None if weight is None else weight[mask]) for mask in masks]
        return np.array([[measure(*part) for part in parts] for measure in (accuracy, log_loss)])

    network_scores, scores, losses = [], [], []
    for log_p in log_proba:
        network = np.asarray(log_p, dtype=np.float64)
        compared = network if weights is None else pool(network, density, log_prior, weights)
        network_scores.append(fold_scores(network))
        scores.append(network_scores[-1] if weights is None else fold_scores(compared))
        losses.append(row_losses(compared, y))
    values = np.stack([np.stack(network_scores, -1), np.stack(scores, -1)])
    with np.errstate(over="ignore", invalid="ignore"):  # networks that diverged
        mean_loss = np.array([np.average(row, weights=weight) for row in losses])
    rank = rank_candidates(values[0 if rank_networks else 1], ranked_by)
    return Scores(values, np.stack(losses), mean_loss, rank)


def rank_candidates(scores: Array, scoring: str) -> NDArray[np.int64]:
    """Return the rank of each candidate, (candidates,), from 1, by accuracy and log-loss (2, folds, candidates)."""
    hits, losses = (values.mean(0) for values in scores)
    keys = (losses, -hits.round(12)) if scoring == "accuracy" else (-hits, losses)  # lexsort: the last one counts first
    return np.lexsort(keys).argsort() + 1


def results_table(params: list[dict[str, Any]], scores: Array, scoring: str, pooled: bool) -> dict[str, Any]:
    """Return scores (2, 2, folds, candidates) in the form of `GridSearchCV.cv_results_`."""
    (hits, losses), compared = scores
    names = dict.fromkeys(name for entry in params for name in entry)
    with np.errstate(invalid="ignore"):  # a candidate that diverged has no spread
        spread = losses.std(0)
    results = {
        "params": params,
        **{f"param_{name}": np.array([p.get(name) for p in params], dtype=object) for name in names},
        **{f"split{fold}_test_score": row for fold, row in enumerate(hits)},
        **{f"split{fold}_test_log_loss": row for fold, row in enumerate(losses)},
        "mean_test_score": hits.mean(0),
        "std_test_score": hits.std(0),
        "mean_test_log_loss": losses.mean(0),
        "std_test_log_loss": spread,
        "rank_test_score": rank_candidates(compared, scoring),
    }
    if pooled:
        results["mean_test_pooled_score"] = compared[0].mean(0)
        results["mean_test_pooled_log_loss"] = compared[1].mean(0)
    return results


def one_standard_error(
    losses: NDArray[Any], strength: Sequence[float], weight: Any = None, steps: Sequence[float] | None = None
) -> int:
    """Return the most strongly regularized candidate whose loss exceeds the lowest by no more than the noise.

    The noise of a candidate is the standard error of its mean difference to the best one, row by row (`losses` is
    (candidates, n)): rows that are hard for all do not count. Among candidates of equal strength (weight decay) the
    lowest loss wins, and among those whose losses agree to the sixth digit, the smallest of the `steps`.

    >>> losses = np.array([[0.10, 0.50, 0.30, 0.20], [0.20, 0.41, 0.30, 0.21], [0.9, 0.9, 0.9, 0.9]])
    >>> one_standard_error(losses, [1e-4, 1e-2, 1e-1])
    1
    """
    row_weight = np.ones(losses.shape[1]) if weight is None else np.asarray(weight, dtype=np.float64)
    share = row_weight / row_weight.sum()
    with np.errstate(invalid="ignore", over="ignore"):
        means = losses @ share
        means = np.where(np.isfinite(means), means, np.inf)
        best = int(means.argmin())
        gaps = losses - losses[best]
        spread = np.sqrt(((gaps - (gaps @ share)[:, None]) ** 2) @ share * (share**2).sum())
        within = means <= means[best] + np.nan_to_num(spread, nan=0.0, posinf=0.0)
    if steps is None:
        steps, level = np.zeros(len(means)).tolist(), means
    else:
        level = means.round(6)
    within |= level == level[best]
    return min(np.flatnonzero(within).tolist(), key=lambda i: (-strength[i], level[i], steps[i], i))
