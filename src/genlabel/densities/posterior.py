"""Bayes' rule in log space: posteriors from log-densities and priors, and the priors that a parameter names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from genlabel._arrays import to_device
from genlabel._validation import check_choice, check_count

MAX_EXACT_TOTAL = 1e6  # total log-density above which its rounding errors show in probabilities


class Posterior(NamedTuple):
    """Log-probabilities of the classes, and the rows for which the densities are undefined."""

    log_proba: Tensor  # (..., k)
    undefined: Tensor
    """Mask (..., 1), True where every density vanishes or one is not a number; log_proba is the prior there."""


def log_posterior(
    log_prob: Tensor, log_prior: ArrayLike | Tensor, temperature: float | Tensor | None = None, top_k: int | None = None
) -> Posterior:
    """Return log softmax_c(log p_c / T + log pi_c) over the last dimension (arXiv Eq. (1): uniform priors, no T).

    `top_k` keeps the most likely classes (arXiv Alg. 3; NOTE[PAPER]: the algorithm prints argmin, the text above it
    says the most likely). On a GPU nothing waits for a result.

    NOTE: with a temperature, even 1, the largest score is subtracted before the total; without one, it is not. The
    last digits differ, and published numbers depend on both: stacked densities use a temperature, labels do not.

    >>> log_prob = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])
    >>> log_posterior(log_prob, np.log([0.5, 0.5]))
    Posterior(log_proba=tensor([[ 0.0000,    -inf], [-0.6931, -0.6931]]), undefined=tensor([[False], [ True]]))
    """
    prior = to_device(log_prior, log_prob, log_prob.dtype)
    scores = (log_prob if temperature is None else log_prob / temperature) + prior
    k = scores.shape[-1]
    if top_k is not None and check_count("top_k", top_k) < k:
        worst = scores.topk(k - top_k, dim=-1, largest=False).indices
        scores = scores.scatter(-1, worst, -torch.inf)
    if temperature is None:
        total = scores.logsumexp(-1, keepdim=True)
        inexact = total.abs() > MAX_EXACT_TOTAL
        if _is_known_false(inexact):
            log_proba = scores - total if scores.requires_grad else scores.sub_(total)
        else:
            log_proba = torch.where(inexact, torch.log_softmax(scores, -1), scores - total)
    else:
        total = scores.amax(-1, keepdim=True)
        log_proba = torch.log_softmax(scores, -1)
    undefined = ~torch.isfinite(total)
    if _is_known_false(undefined):
        return Posterior(log_proba, undefined)
    return Posterior(torch.where(undefined, torch.log_softmax(prior, -1), log_proba), undefined)


def _is_known_false(mask: Tensor) -> bool:
    """Return True if a mask is False everywhere; never on a GPU or in compiled code, where reading it would wait."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(mask.any())


def log_priors(
    priors: Any,
    class_prior: NDArray[np.float64],
    default: str = "uniform",
    class_weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return normalized log pi_c, shape (k,), from "uniform", "empirical", "auto" or an array (k,).

    "empirical" is `class_prior`, the class frequencies of the training points, "auto" is `default`; `class_weight` (k,)
    are factors of the priors.

    >>> np.exp(log_priors("empirical", np.array([0.25, 0.75]), class_weight=np.array([3.0, 1.0])))
    array([0.5, 0.5])
    """
    k = len(class_prior)
    if isinstance(priors, str):
        check_choice("priors", priors, ["auto", "uniform", "empirical"], also=f"an array of {k} numbers")
        name = default if priors == "auto" else priors
        values = np.full(k, 1.0 / k) if name == "uniform" else class_prior
    else:
        values = np.asarray(priors, dtype=np.float64) if np.ndim(priors) == 1 else np.empty(0)
        if values.shape != (k,) or not (values >= 0).all() or not np.isfinite(values).all() or values.sum() <= 0:
            raise ValueError(f"priors={priors!r} must be {k} non-negative numbers, one per class, not all zero")
    if class_weight is not None:
        values = values * class_weight
        if values.sum() <= 0:
            raise ValueError(f"class_weight is 0 for every class with a prior in priors={priors!r}; raise one of them")
    with np.errstate(divide="ignore"):
        return np.log(values / values.sum())
