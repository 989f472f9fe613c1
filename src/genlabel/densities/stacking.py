"""How candidates are weighed by what they say of points they have not seen: temperatures, weights, measures."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel.arrays import chunks
from genlabel.posterior import log_posterior

__all__ = [
    "TEMPERATURES",
    "WORST",
    "Choice",
    "log_posterior_of_truth",
    "log_posterior_where_known",
    "mixed_log_posterior",
    "stacked",
    "stacking_weights",
    "weigh",
]

TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(13))
"""The temperatures that are tried: 1 to 64 in steps of sqrt 2."""
WORST = math.log(1e-15)
"""A log-loss counts no probability below this one, so that a single point does not decide."""
STEPS = 100
SMALLEST = 0.02
"""A member of less weight is left out, unless all weights are small."""
AT_ONCE = 1 << 22
"""Numbers that are worked on at once."""
MOST = 12
"""So many members are kept: more cost time, and gain nothing on held-out rows."""


class Choice(NamedTuple):
    """What was chosen for each of M candidates."""

    temperature: Tensor
    """(M,)"""
    weight: Tensor
    """(M,), of sum 1; 0 for those that are left out."""


def mixed_log_posterior(log_posteriors: Tensor, weights: Tensor) -> Tensor:
    """Return log sum_m w_m posterior_m of posteriors (M, ..., k) in log space."""
    shape = (-1,) + (1,) * (log_posteriors.dim() - 1)
    return (log_posteriors + weights.log().view(shape)).logsumexp(0)


def log_posterior_where_known(log_prob: Tensor, log_prior: Tensor, temperature: float) -> Tensor:
    """Log posterior of a candidate's log p_c (..., k), NaN where it gives no number: it is not judged by the prior."""
    known = log_prob.amax(-1, keepdim=True) < torch.inf
    logs = log_posterior(log_prob, log_prior, temperature).log_proba
    return logs if bool(known.all()) else torch.where(known, logs, torch.nan)


def log_posterior_of_truth(log_prob: Tensor, log_prior: Tensor, index: Tensor) -> Tensor:
    """Log posterior of each point's class at each temperature, (temperatures, M, n), from log p_c (M, n, k).

    Where a candidate gives no number, it is the worst that counts.
    """
    rows = torch.arange(len(index))
    parts = []
    for some in chunks(len(log_prob), AT_ONCE // max(1, log_prob[0].numel())):
        each = [log_posterior_where_known(log_prob[some], log_prior, heat)[:, rows, index] for heat in TEMPERATURES]
        parts.append(torch.stack(each))
    return torch.cat(parts, 1).nan_to_num(nan=WORST).clamp_min(WORST)


def weigh(truth: Tensor, weight: Tensor, method: str) -> Choice:
    """Choose each candidate's temperature by its log-loss, and then the candidates' weights, on n points.

    `truth` (temperatures, M, n) is that of :func:`log_posterior_of_truth`; `method` is "stack" or "select".
    """
    losses = -(truth @ weight) / weight.sum()
    least, places = losses.min(0)
    own = truth[places, torch.arange(truth.shape[1])]
    shares = stacking_weights(own, weight) if method == "stack" else torch.eye(len(least)).to(own)[least.argmin()]
    return Choice(torch.tensor(TEMPERATURES, dtype=own.dtype)[places], shares)


def stacked(log_prob: Tensor, log_prior: Tensor, choice: Choice) -> Tensor:
    """Log posterior (n, k) of the stack of a choice, from log p_c (M, n, k)."""
    kept = choice.weight.nonzero()[:, 0]
    each = log_posterior(log_prob[kept], log_prior, choice.temperature[kept, None, None]).log_proba
    return mixed_log_posterior(each, choice.weight[kept])


def stacking_weights(truth: Tensor, weight: Tensor) -> Tensor:
    """Return the weights (M,) under which the mixed posterior is most likely, by EM; all but the `MOST` largest are 0.

    `truth` (M, n) is the log posterior of each point's own class under each candidate.

    >>> stacking_weights(torch.tensor([[0.9, 0.8], [0.5, 0.5]]).log(), torch.ones(2))
    tensor([1., 0.])
    """
    own = truth.exp()
    share = weight / weight.sum()
    found = torch.full((len(own),), 1.0 / len(own), dtype=own.dtype)
    for _ in range(STEPS):
        found = found * (own @ (share / (found @ own)))
    found = _largest(found)
    for _ in range(STEPS // 3):  # those that are left share what was taken from the others
        found = found * (own @ (share / (found @ own)))
    return _largest(found)


def _largest(weights: Tensor) -> Tensor:
    """The weights with small ones, and all but the `MOST` largest, set to 0; they sum to 1."""
    order = weights.sort(descending=True, stable=True).indices
    kept = torch.where(weights < min(SMALLEST, 0.2 * float(weights.max())), torch.zeros_like(weights), weights)
    kept[order[MOST:]] = 0.0
    return kept / kept.sum()
