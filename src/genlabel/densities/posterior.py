"""Bayes' rule, once for all: the posterior from log-densities and log-priors, and the priors that a parameter names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from genlabel._arrays import to_device
from genlabel._validation import check_choice, check_count

FAR = 1e6
"""Of a total log-density: the rounding of a larger one shows in probabilities."""


class Posterior(NamedTuple):
    """Log-probabilities of the classes, and where the densities say nothing of them."""

    log_proba: Tensor
    """(..., k)"""
    lost: Tensor
    """(..., 1): True where every density vanishes, or some are no number: the prior stands in."""


def log_posterior(
    log_prob: Tensor, log_prior: ArrayLike | Tensor, temperature: float | Tensor | None = None, top_k: int | None = None
) -> Posterior:
    """Return log softmax_c(log p_c / T + log pi_c) over the last dimension (arXiv Eq. (1): uniform priors, no T).

    `top_k` keeps the most likely classes (arXiv Alg. 3; NOTE[PAPER]: it prints argmin, the text above it says the most
    likely). A row whose total is no finite number is lost, and has the prior. On a GPU nothing waits for the answer.

    NOTE: with a temperature, 1 too, the largest score is taken off before the total, without one after it. That moves
    the last digit, and published numbers rest on either: labels on the one, stacks of densities on the other.

    >>> log_prob = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])
    >>> log_posterior(log_prob, np.log([0.5, 0.5]))
    Posterior(log_proba=tensor([[ 0.0000,    -inf], [-0.6931, -0.6931]]), lost=tensor([[False], [ True]]))
    """
    prior = to_device(log_prior, log_prob, log_prob.dtype)
    scores = (log_prob if temperature is None else log_prob / temperature) + prior
    k = scores.shape[-1]
    if top_k is not None and check_count("top_k", top_k) < k:
        worst = scores.topk(k - top_k, dim=-1, largest=False).indices
        scores = scores.scatter(-1, worst, -torch.inf)
    if temperature is None:
        total = scores.logsumexp(-1, keepdim=True)
        logs = _normalised(scores, total)
    else:
        total = scores.amax(-1, keepdim=True)
        logs = torch.log_softmax(scores, -1)
    lost = ~torch.isfinite(total)
    if lost.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(lost.any()):
        return Posterior(logs, lost)
    return Posterior(torch.where(lost, torch.log_softmax(prior, -1), logs), lost)


def _normalised(scores: Tensor, total: Tensor) -> Tensor:
    """Scores less their total; of a point so far away that the total swallows them, less their largest first."""
    far = total.abs() > FAR
    if far.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(far.any()):
        return scores - total if scores.requires_grad else scores.sub_(total)
    return torch.where(far, torch.log_softmax(scores, -1), scores - total)


def log_priors(
    priors: Any,
    class_prior: NDArray[np.float64],
    default: str = "uniform",
    class_weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return log pi_c, shape (k,), of sum 1: "uniform", "empirical" (`class_prior`), "auto" (`default`) or numbers.

    Weights of the classes, (k,), multiply them.

    >>> np.exp(log_priors("empirical", np.array([0.25, 0.75]), class_weight=np.array([3.0, 1.0])))
    array([0.5, 0.5])
    """
    k = len(class_prior)
    if isinstance(priors, str):
        check_choice("priors", priors, ["auto", "uniform", "empirical"], also=f"an array of {k} numbers")
        named = default if priors == "auto" else priors
        share = np.full(k, 1.0 / k) if named == "uniform" else class_prior
    else:
        share = np.asarray(priors, dtype=np.float64) if np.ndim(priors) == 1 else np.empty(0)
        if share.shape != (k,) or not (share >= 0).all() or not np.isfinite(share).all() or share.sum() <= 0:
            raise ValueError(f"priors={priors!r} must be {k} non-negative numbers, one a class, not all zero")
    if class_weight is not None:
        share = share * class_weight
        if share.sum() <= 0:
            raise ValueError(f"class_weight is 0 for every class that priors={priors!r} allow; give one of them weight")
    with np.errstate(divide="ignore"):
        return np.log(share / share.sum())
