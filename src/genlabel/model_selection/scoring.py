"""Scores of candidates on the rows that they were not trained on, and the choice of the best one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.attacks import Attack
from genlabel.attacks.models import AttackedFleet
from genlabel.metrics import accuracy, log_loss, row_losses
from genlabel.model_selection.pooling import EQUAL_WEIGHTS, Pooling, PoolWeights, fit_pool_weights, pool
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.training.batching import Hyperparameters
from genlabel.training.fleet import Fleet

Scoring = str | Attack
"""Name of a score, or an attack under which held-out accuracy is measured."""


class ValidationRows(NamedTuple):
    """The held-out rows of all folds, fold after fold."""

    y: NDArray[np.int64]
    """Class indices (n,)."""
    weight: NDArray[np.float64] | None
    """(n,); None if all are 1."""
    fold: NDArray[np.int64]
    """(n,)"""

    @classmethod
    def of_folds(cls, data: CVData) -> ValidationRows:
        """Return the held-out rows of some data."""
        weights = [valid.score_weight for valid in data.valid if valid.score_weight is not None]
        return cls(
            np.concatenate([valid.y for valid in data.valid]),
            np.concatenate(weights) if weights else None,
            np.repeat(np.arange(len(data.valid)), [len(valid.y) for valid in data.valid]),
        )


class ScoreTable(NamedTuple):
    """Scores of candidates on the held-out rows."""

    network: NDArray[np.float64]
    """Accuracy and log-loss of the networks, (2, folds, candidates)."""
    compared: NDArray[np.float64]
    """Accuracy and log-loss of what is compared: the networks, or their pools with the density; of the same shape."""
    losses: NDArray[np.float64]
    """Loss of each row, (candidates, n), of what is compared."""

    def select(self, candidate: int) -> ScoreTable:
        """Return the scores of one candidate."""
        index = slice(candidate, candidate + 1)
        return ScoreTable(self.network[..., index], self.compared[..., index], self.losses[index])

    @classmethod
    def concatenate(cls, tables: Sequence[ScoreTable]) -> ScoreTable:
        """Return the scores of the candidates of several tables."""
        network, compared = (np.concatenate([table[i] for table in tables], -1) for i in (0, 1))
        return cls(network, compared, np.concatenate([table.losses for table in tables]))


def validation_log_proba(
    fleet: Fleet, fold: int, valid: Sequence[LabeledData], scoring: Scoring, seed: int, group: int | None = None
) -> NDArray[np.float64]:
    """Return the log-probabilities (candidates, m, k) of the held-out rows of a fold, by its networks of a fleet.

    They are those of a `group` of the fleet, the one of the fold if not given. With an attack, the rows are attacked,
    for every network separately.
    """
    rows, index = valid[fold], fold if group is None else group
    if isinstance(scoring, str):
        return fleet.log_proba(index, rows.X)
    target = AttackedFleet(fleet, index)
    attacked = scoring(target, torch.from_numpy(rows.X), rows.y, seed=[seed, fold])
    return np.ascontiguousarray(target.log_proba(attacked).cpu().numpy())


def epoch_scores(
    fleet: Fleet, fold: int, valid: Sequence[LabeledData], scoring: Scoring, seed: int
) -> NDArray[np.float64]:
    """Return what the epochs of the networks of a fold are compared by, (candidates, 2): the larger, the better."""
    rows = valid[fold]
    if isinstance(scoring, str):
        scores = fleet.score(0, rows.X, rows.y, rows.score_weight)
        return scores[:, ::-1] if scoring == "log-loss" else scores
    log_proba = validation_log_proba(fleet, fold, valid, scoring, seed, group=0)
    measured = log_proba, rows.y, rows.score_weight
    return np.stack([accuracy(*measured), -log_loss(*measured)], -1)


def score_candidates(
    log_proba: Sequence[NDArray[Any]],
    rows: ValidationRows,
    log_prior: NDArray[np.float64],
    density: NDArray[np.float64] | None = None,
    pooling: Pooling = None,
    fit_weights: bool = False,
) -> ScoreTable:
    """Return the scores of candidates, one after the other, from their log-probabilities (n, k) of the held-out rows.

    `density` (n, k) are log-posteriors to pool the networks with. With pooling "cv", `fit_weights` compares all
    candidates at the weights of the one that is best at equal weights: these mislead where the density is weak.
    """
    weights: PoolWeights | None = None  # compares the networks alone
    if density is not None and pooling is not None:
        weights = EQUAL_WEIGHTS if isinstance(pooling, str) else pooling
        if isinstance(pooling, str) and fit_weights:
            networks = [np.asarray(values, dtype=np.float64) for values in log_proba]
            pools = (pool(each, density, log_prior, EQUAL_WEIGHTS) for each in networks)
            best = int(np.argmin([np.average(row_losses(values, rows.y), weights=rows.weight) for values in pools]))
            weights = fit_pool_weights(networks[best], density, rows.y, log_prior, rows.weight)
    network, compared, losses = [], [], []
    for values in log_proba:
        own = pooled = np.asarray(values, dtype=np.float64)
        network.append(_fold_scores(own, rows))
        if weights is not None:
            pooled = pool(own, density, log_prior, weights)
        compared.append(network[-1] if weights is None else _fold_scores(pooled, rows))
        losses.append(row_losses(pooled, rows.y))
    return ScoreTable(np.stack(network, -1), np.stack(compared, -1), np.stack(losses))


def _fold_scores(log_proba: NDArray[np.float64], rows: ValidationRows) -> NDArray[np.float64]:
    """Return accuracy and log-loss (2, folds) of log-probabilities (n, k)."""
    masks = [rows.fold == fold for fold in np.unique(rows.fold)]
    parts = [(log_proba[mask], rows.y[mask], None if rows.weight is None else rows.weight[mask]) for mask in masks]
    return np.array([[measure(*part) for part in parts] for measure in (accuracy, log_loss)])


def rank_candidates(table: ScoreTable, scoring: str, by_network: bool = False) -> NDArray[np.int64]:
    """Return the rank of each candidate, (candidates,), from 1; by the networks alone, or by what is compared."""
    hits, losses = (values.mean(0) for values in (table.network if by_network else table.compared))
    keys = (losses, -hits.round(12)) if scoring == "accuracy" else (-hits, losses)
    ranks = np.empty(len(hits), dtype=np.int64)
    ranks[np.lexsort(keys)] = np.arange(1, len(hits) + 1)
    return ranks


def results_table(params: list[dict[str, Any]], table: ScoreTable, scoring: str, pooled: bool) -> dict[str, Any]:
    """Return the scores of all candidates in the form of `GridSearchCV.cv_results_`."""
    hits, losses = table.network
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
        "rank_test_score": rank_candidates(table, scoring),
    }
    if pooled:
        results["mean_test_pooled_score"] = table.compared[0].mean(0)
        results["mean_test_pooled_log_loss"] = table.compared[1].mean(0)
    return results


def select_best(
    table: ScoreTable,
    weight: NDArray[np.float64] | None,
    scoring: str,
    candidates: Sequence[Hyperparameters],
    ranks: NDArray[np.int64],
) -> int:
    """Return the candidate that a scoring chooses, from the scores and the ranks in the results table."""
    if scoring == "accuracy":
        return int(ranks.argmin())
    decays, rates = [one.weight_decay for one in candidates], [one.learning_rate for one in candidates]
    return one_standard_error(table.losses, decays, weight, rates)


def one_standard_error(
    losses: NDArray[Any], strength: Sequence[float], weight: Any = None, steps: Sequence[float] | None = None
) -> int:
    """Return the most strongly regularized candidate that is no worse than the best by more than the noise.

    The noise of a candidate is the standard error of its mean difference to the best one, row by row: paired, so that
    rows that are hard for all do not count. Among candidates of equal strength the lowest loss wins, and among those
    whose losses agree to the sixth digit, the smallest step. `losses` (candidates, n) are those of the rows, `strength`
    is the weight decay and `steps` the learning rate of each candidate.

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
