"""Stacking of densities: temperatures and weights that maximize the held-out likelihood of the mixed posterior."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel._arrays import chunks
from genlabel.densities.base import MAX_CHUNK_VALUES, MIN_STACK_WEIGHT
from genlabel.densities.posterior import log_posterior

TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(13))  # grid of temperatures: 1 to 64 in steps of sqrt 2
MIN_LOG_PROBA = math.log(1e-15)  # bound on log-probabilities in a log-loss, so that a single point does not decide
EM_ROUNDS = ((40, 1e-3), (60, 5e-3), (100, 0.0))
"""Steps of EM for the weights, and the share of the largest weight below which a candidate is then left out."""
EM_EXPONENT = 1.8  # exponent of each EM factor (over-relaxation): about half as many steps are needed
MAX_MEMBERS = 6  # members of a stack: more take longer and do not improve held-out log-loss
MAX_LOG_RATIO = 60.0  # bound on log-ratios of densities before exp


class Stacking(NamedTuple):
    """Temperatures (M,) and weights (M,) of M candidates; the weights sum to 1 and are 0 for those left out."""

    temperature: Tensor
    weight: Tensor

    def log_posterior(self, log_prob: Tensor, log_prior: Tensor) -> Tensor:
        """Return the log-posterior (n, k) of the stack from log p_c (M, n, k) of all candidates."""
        members = self.weight.nonzero()[:, 0]
        temperature = self.temperature[members, None, None]
        return mix_posteriors(log_posterior(log_prob[members], log_prior, temperature).log_proba, self.weight[members])


def fit_stacking(
    log_proba: Tensor, weight: Tensor, method: str, min_weight: Tensor | float = MIN_STACK_WEIGHT
) -> Stacking:
    """Choose the temperature of each candidate by log-loss, then the weights of the candidates.

    Parameters
    ----------
    log_proba : Tensor (temperatures, M, n)
        Result of :func:`log_proba_of_true_class`.
    weight : Tensor (n,)
    method : "stack" or "select"
        Weights for several candidates, or the single one with the smallest log-loss.
    min_weight : Tensor (M,) or float
        Candidates with a smaller weight are left out.
    """
    losses, indices = (-(log_proba @ weight) / weight.sum()).min(0)
    best = log_proba[indices, torch.arange(log_proba.shape[1])]
    if method == "stack":
        weights = stacking_weights(best, weight, min_weight)
    else:
        weights = torch.eye(len(losses)).to(best)[losses.argmin()]
    return Stacking(torch.tensor(TEMPERATURES, dtype=best.dtype)[indices], weights)


def stacking_weights(log_proba: Tensor, weight: Tensor, min_weight: Tensor | float = MIN_STACK_WEIGHT) -> Tensor:
    """Return the weights (M,) that maximize the likelihood of the mixed posterior, by EM; at most 6 are not 0.

    Parameters
    ----------
    log_proba : Tensor (M, n)
        Log-posterior of the true class of each point under each candidate.
    weight : Tensor (n,)
    min_weight : Tensor (M,) or float
        Candidates with a smaller weight are left out at the end, unless all weights are small; those that lose nearly
        all of their weight are left out on the way.

    >>> stacking_weights(torch.tensor([[0.9, 0.8], [0.5, 0.5]]).log(), torch.ones(2))
    tensor([1., 0.])
    """
    likelihood, share = log_proba.exp(), weight / weight.sum()
    indices = torch.arange(len(log_proba))
    weights = likelihood.new_full((len(log_proba),), 1.0 / len(log_proba))
    floor = torch.as_tensor(min_weight, dtype=weights.dtype).expand(len(log_proba))
    for steps, min_ratio in EM_ROUNDS:
        weights = _em(weights, likelihood, share, steps)
        mask = weights >= min_ratio * weights.max()
        indices, weights, likelihood = indices[mask], weights[mask], likelihood[mask]
    weights = _drop_small(weights, floor[indices])
    mask = weights > 0
    indices = indices[mask]
    weights = _em(weights[mask], likelihood[mask], share, EM_ROUNDS[0][0])  # redistributes the weight of those dropped
    return torch.zeros_like(log_proba[:, 0]).index_put_((indices,), _drop_small(weights, floor[indices]))


def _em(weights: Tensor, likelihood: Tensor, share: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        weights = weights * (likelihood @ (share / (weights @ likelihood))) ** EM_EXPONENT
        weights = weights / weights.sum()
    return weights


def _drop_small(weights: Tensor, floor: Tensor) -> Tensor:
    """Return weights of sum 1 where those below their floor, and all but the 6 largest, are 0."""
    order = weights.sort(descending=True, stable=True).indices
    large = torch.where(weights < floor.clamp_max(0.2 * float(weights.max())), torch.zeros_like(weights), weights)
    large[order[MAX_MEMBERS:]] = 0.0
    return large / large.sum()


def mix_posteriors(log_posteriors: Tensor, weights: Tensor) -> Tensor:
    """Return log sum_m w_m posterior_m of log-posteriors (M, ..., k)."""
    shape = (-1,) + (1,) * (log_posteriors.dim() - 1)
    return (log_posteriors + weights.log().view(shape)).logsumexp(0)


def is_defined(log_prob: Tensor) -> Tensor:
    """Return the mask (...) of log p_c (..., k) that are numbers or -inf."""
    return log_prob.amax(-1) < torch.inf


def log_proba_of_true_class(log_prob: Tensor, log_prior: Tensor, index: Tensor) -> Tensor:
    """Return the log-posterior of each point's class at each temperature, (temperatures, M, n), from log p_c (M, n, k).

    -log sum_c exp((log p_c - log p_y) / T + log pi_c - log pi_y). Where a density is undefined this is the lower bound;
    where all densities of a candidate vanish it is the prior.
    """
    log_proba = log_prob.new_empty(len(TEMPERATURES), *log_prob.shape[:2])
    for rows in chunks(len(index), max(1, MAX_CHUNK_VALUES // max(1, log_prob[:, 0].numel()))):
        values, true = log_prob[:, rows], index[rows, None].expand(len(log_prob), -1, 1)
        defined, vanishes = is_defined(values), values.amax(-1) == -torch.inf
        ratio = (values - values.gather(-1, true)).movedim(-1, 0).contiguous()
        offset = (log_prior[:, None] - log_prior[index[rows]])[:, None]
        prior = log_prior[index[rows]].expand_as(defined)
        for t, temperature in enumerate(TEMPERATURES):
            total = ratio.div(temperature).add_(offset).clamp_max_(MAX_LOG_RATIO).exp_().sum(0)
            logs = torch.where(vanishes, prior, total.log_().neg_())
            log_proba[t, :, rows] = logs.clamp_min_(MIN_LOG_PROBA).masked_fill_(~defined, MIN_LOG_PROBA)
    return log_proba
