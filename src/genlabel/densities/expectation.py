"""Expectation maximisation (EM) for the mixtures of many groups and many sizes, by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import to_device
from genlabel.densities.covariance import LOG_2_PI, Gaussians, Groups, to_gaussians

__all__ = ["Mixtures", "fit_mixtures", "mixture_log_prob"]

TOLERANCE = 1e-3
"""Gain of the mean log-likelihood below which a mixture is done."""
POINTS_A_COMPONENT = 8
"""A group has at most one component for so many points."""
KMEANS_STEPS = 5


class Mixtures(NamedTuple):
    """Gaussian mixtures in any number of leading dimensions, padded with components of weight 0."""

    log_weight: Tensor
    """(..., q)"""
    mean: Tensor
    """(..., q, d)"""
    covariance: Tensor
    """(..., d, d) if tied, else the variances (..., q, d)."""
    tied: bool
    """Whether the components of a mixture share one full covariance; else each has a diagonal one."""

    def pick(self, *place: int | slice) -> Mixtures:
        """The mixtures at a place of the leading dimensions."""
        return Mixtures(self.log_weight[place], self.mean[place], self.covariance[place], self.tied)

    def keep(self, done: Tensor, old: Mixtures) -> Mixtures:
        """These mixtures, and the old ones where `done` (...)."""
        weight = torch.where(done[..., None], old.log_weight, self.log_weight)
        mean = torch.where(done[..., None, None], old.mean, self.mean)
        return Mixtures(weight, mean, torch.where(done[..., None, None], old.covariance, self.covariance), self.tied)


class _Terms(NamedTuple):
    """What makes log pi_j N(x; mu_j, Sigma_j): linear_j x + square_j x^2 + constant_j, and what all j share."""

    linear: Tensor
    """(..., q, d)"""
    constant: Tensor
    """(..., q)"""
    square: Tensor | None
    """(..., q, d); None if tied, when the square is shared."""
    shared: Gaussians | None
    """Centred Gaussians (...) of the shared covariance, if tied."""


class _Data(NamedTuple):
    """The points of the classes, and what does not change from step to step."""

    points: Tensor
    """(k, n, d)"""
    squares: Tensor
    """(k, n, d): the points, each feature squared."""
    share: Tensor
    """(k, g, n): weights that sum to 1 in each group."""
    second: Tensor
    """(k, g, 1, d, d): second moments about zero."""
    reg: Tensor
    """(d,): what is added to the variances."""


def fit_mixtures(
    groups: Groups,
    sizes: Sequence[int],
    tied: bool,
    reg: Tensor,
    max_iter: int,
    draws: NDArray[np.float64],
    trace: list[Tensor] | None = None,
) -> Mixtures:
    """Fit a mixture of each size to each group; the leading dimensions are (k, g, number of sizes).

    `reg` (d,) is added to the variances, `draws` are as many numbers in [0, 1) as the largest size; `trace` receives
    the mean log-likelihoods of every step, (k, g, number of sizes).
    """
    data = _prepare(groups, reg)
    fitted = _maximise(data, _seeded(data, groups.size, sizes, draws), tied)
    last = torch.full(fitted.log_weight.shape[:-1], -torch.inf, dtype=reg.dtype)
    for _ in range(max_iter):
        likelihood, responsibility = _expect(data, fitted)
        if trace is not None:
            trace.append(likelihood)
        done = likelihood - last < TOLERANCE
        if bool(done.all()):
            break
        fitted = _maximise(data, responsibility, tied).keep(done, fitted)
        last = likelihood
    return fitted


def mixture_log_prob(X: Tensor, mixtures: Mixtures) -> Tensor:
    """Log-density of the rows of `X` (m, d) under r mixtures, (m, r)."""
    weight, mean, covariance = (to_device(part, X) for part in mixtures[:3])
    terms = _terms(Mixtures(weight, mean, covariance, mixtures.tied), X.new_zeros(X.shape[1]))
    r, q, d = terms.linear.shape
    logits = terms.linear.view(r * q, d) @ X.T
    if terms.square is not None:
        logits = logits.addmm_(terms.square.view(r * q, d), (X * X).T)
    values = (logits.view(r, q, -1) + terms.constant[..., None]).logsumexp(1)
    if terms.shared is not None:
        white = X @ terms.shared.matrix
        values = values - 0.5 * (white * white).sum(-1)
    return values.T


def _prepare(groups: Groups, reg: Tensor) -> _Data:
    points, share = groups.points, groups.weight / groups.weight.sum(-1, keepdim=True)
    second = torch.stack([(part[:, :, None] * points).mT @ points for part in share.unbind(1)], 1)
    return _Data(points, points**2, share, second[:, :, None], reg)


def _seeded(data: _Data, points_of: Tensor, sizes: Sequence[int], draws: NDArray[np.float64]) -> Tensor:
    """Responsibilities (k, g, s, q, n) after a few steps of k-means, from the first seeds that a mixture may have."""
    variance = (data.share @ data.squares - (data.share @ data.points) ** 2).clamp_min(0) + data.reg
    cap = (points_of / POINTS_A_COMPONENT + 1e-9).long().clamp_min(1)
    allowed = torch.arange(len(draws)) < torch.minimum(cap[..., None], torch.tensor(sizes))[..., None]
    mean = _seeds(data, variance, draws)[:, :, None].expand(-1, -1, len(sizes), -1, -1)
    for _ in range(KMEANS_STEPS):
        nearest = _nearest(data, variance, mean, allowed)
        weighted = (nearest * data.share[:, :, None, None]).flatten(1, 3)
        weight = weighted.sum(-1, keepdim=True)
        moved = weighted @ data.points / weight.clamp_min(torch.finfo(weight.dtype).tiny)
        mean = torch.where(weight > 0, moved, mean.flatten(1, 3)).view(mean.shape)
    return _nearest(data, variance, mean, allowed)


def _seeds(data: _Data, variance: Tensor, draws: NDArray[np.float64]) -> Tensor:
    """Seeds (k, g, q, d) drawn as in k-means++, with distances in units of the deviations of the group.

    A seed is drawn with probability in proportion to the squared distance from the seeds before it. The draws are
    the same for every group, so a group's seeds do not depend on its company.
    """
    scaled = data.points[:, None] / variance.sqrt()[:, :, None]
    nearest = torch.full_like(data.share, torch.inf)
    chance, places = data.share, []
    for draw in draws:
        total = chance.cumsum(-1)
        place = torch.searchsorted(total, float(draw) * total[..., -1:], right=True).clamp_max(total.shape[-1] - 1)
        seed = scaled.gather(2, place[..., None].expand(-1, -1, 1, scaled.shape[-1]))
        nearest = torch.minimum(nearest, (scaled - seed).square_().sum(-1))
        chance = data.share * nearest
        places.append(place)
    where = torch.cat(places, -1)[..., None].expand(-1, -1, -1, scaled.shape[-1])
    return data.points[:, None].expand_as(scaled).gather(2, where)


def _nearest(data: _Data, variance: Tensor, mean: Tensor, allowed: Tensor) -> Tensor:
    """1 for the nearest of the allowed means (k, g, s, q, d) of each point, 0 for others, (k, g, s, q, n)."""
    k, g, s, q, d = mean.shape
    scaled = mean / variance[:, :, None, None]
    logits = (scaled.reshape(k, g * s * q, d) @ data.points.mT).view(k, g, s, q, -1)
    constant = (-0.5 * (scaled * mean).sum(-1)).masked_fill(~allowed, -torch.inf)
    best = (logits + constant[..., None]).argmax(-2, keepdim=True)
    return torch.zeros_like(logits).scatter_(-2, best, 1.0)


def _maximise(data: _Data, responsibility: Tensor, tied: bool) -> Mixtures:
    """The M-step; with one covariance for all components it needs no products of features."""
    k, g, s, q, n = responsibility.shape
    weighted = (responsibility * data.share[:, :, None, None]).view(k, g * s * q, n)
    weight = weighted.sum(-1).view(k, g, s, q)
    divisor = weight.clamp_min(torch.finfo(weight.dtype).tiny)[..., None]
    mean = (weighted @ data.points).view(k, g, s, q, -1) / divisor
    if tied:
        between = (weight[..., None] * mean).mT @ mean
        covariance = data.second - between + torch.diag(data.reg)
    else:
        covariance = ((weighted @ data.squares).view(k, g, s, q, -1) / divisor - mean**2).clamp_min(0) + data.reg
    return Mixtures(weight.log(), mean, covariance, tied)


def _expect(data: _Data, mixtures: Mixtures) -> tuple[Tensor, Tensor]:
    """The E-step: the mean log-likelihood of each mixture (k, g, s), and the responsibilities (k, g, s, q, n)."""
    k, g, s, q, d = mixtures.mean.shape
    terms = _terms(mixtures, data.reg)
    logits = terms.linear.view(k, g * s * q, d) @ data.points.mT
    if terms.square is not None:
        logits = logits.baddbmm_(terms.square.view(k, g * s * q, d), data.squares.mT)
    logits = logits.view(k, g, s, q, -1).add_(terms.constant[..., None])
    total = logits.logsumexp(-2, keepdim=True)
    likelihood = (total[..., 0, :] @ data.share[..., None])[..., 0]
    if terms.shared is not None:
        precision = terms.shared.matrix @ terms.shared.matrix.mT
        likelihood = likelihood - 0.5 * (precision * data.second).sum((-1, -2))
    return likelihood, logits.sub_(total).exp_()


def _terms(mixtures: Mixtures, reg: Tensor) -> _Terms:
    """Coefficients of the components, each multiplied by exp(-reg/2 tr Sigma^-1), under which EM is exact."""
    log_weight, mean, covariance, tied = mixtures
    d = mean.shape[-1]
    if not tied:
        inverse = 1.0 / covariance
        norm = covariance.log().sum(-1) + (inverse * (mean**2 + reg)).sum(-1) + d * LOG_2_PI
        return _Terms(mean * inverse, log_weight - 0.5 * norm, -0.5 * inverse, None)
    shared, _ = to_gaussians(torch.zeros_like(mean[..., 0, :]), covariance)
    white = mean @ shared.matrix
    penalty = ((shared.matrix**2).sum(-1) @ reg)[..., None]
    norm = shared.log_det[..., None] + (white**2).sum(-1) + penalty + d * LOG_2_PI
    return _Terms(white @ shared.matrix.mT, log_weight - 0.5 * norm, None, shared)
