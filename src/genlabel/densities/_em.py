"""Expectation maximisation (EM) for the mixtures of many groups and many sizes, by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from genlabel._arrays import chunks, to_device
from genlabel.densities.covariance import LOG_2_PI, Groups, to_gaussians

TOLERANCE = 3e-3
"""Gain of the mean log-likelihood below which a mixture is done."""
POINTS_A_COMPONENT = 8
"""A group has at most one component for so many points."""
KMEANS_STEPS = 5
BLOCK = 1 << 16
"""Responsibilities that are worked on at once: they stay in the cache."""


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


class Terms(NamedTuple):
    """What makes log pi_j N(x; mu_j, Sigma_j): linear_j x + square_j x^2 + constant_j, and what all j share."""

    linear: Tensor
    """(..., q, d)"""
    constant: Tensor
    """(..., q)"""
    square: Tensor | None
    """(..., q, d); None if tied, when the square is shared."""
    precision: Tensor | None
    """(..., d, d): the inverse of the shared covariance, if tied."""

    def log_prob(self, X: Tensor) -> Tensor:
        """Log-density of the rows of `X` (m, d) under r mixtures, (m, r), in the precision of `X`."""
        linear, constant = to_device(self.linear, X, X.dtype), to_device(self.constant, X, X.dtype)
        r, q, d = linear.shape
        logits = linear.view(r * q, d) @ X.T
        if self.square is not None:
            logits = logits.addmm_(to_device(self.square, X, X.dtype).view(r * q, d), (X * X).T)
        values = (logits.view(r, q, -1) + constant[..., None]).logsumexp(1)
        if self.precision is not None:
            values = values - 0.5 * ((X @ to_device(self.precision, X, X.dtype)) * X).sum(-1)
        return values.T


class _Data(NamedTuple):
    """The points of the classes, and what does not change from step to step."""

    points: Tensor
    """(k, n, d)"""
    squares: Tensor
    """(k, n, d): the points, each feature squared; (k, n, 0) where they are not asked for."""
    share: Tensor
    """(k, g, n): weights that sum to 1 in each group."""
    second: Tensor
    """(k, g, d, d): second moments about zero where covariances are tied, (k, g, 0, 0) where they are not."""
    variance: Tensor
    """(k, g, d): of each feature, with `reg`."""
    reg: Tensor
    """(d,): what is added to the variances."""


class _Sums(NamedTuple):
    """What a step needs of the responsibilities of q components in each group."""

    weight: Tensor
    """(k, g, q)"""
    first: Tensor
    """(k, g, q, d): sums of the points."""
    second: Tensor
    """(k, g, q, d): sums of their squares; (k, g, q, 0) where they are not asked for."""
    likelihood: Tensor
    """(k, g): mean of log sum_j exp."""


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
    data = _prepare(groups, reg, tied)
    seeds = _seeds(data, draws)
    cap = (groups.size / POINTS_A_COMPONENT + 1e-9).long().clamp_min(1)
    fitted, traces = [], []
    for size in sizes:
        likelihoods: list[Tensor] = []
        fitted.append(_climb(data, _seeded(data, seeds[:, :, :size], cap), tied, max_iter, likelihoods))
        traces.append(likelihoods)
    if trace is not None:
        steps = range(max(len(part) for part in traces))
        trace += [torch.stack([part[min(step, len(part) - 1)] for part in traces], -1) for step in steps]
    return _joined(fitted)


def _climb(data: _Data, start: Mixtures, tied: bool, max_iter: int, likelihoods: list[Tensor]) -> Mixtures:
    """EM from a start, until every group is done."""
    fitted, last = start, start.log_weight.new_full(start.log_weight.shape[:-1], -torch.inf)
    for _ in range(max_iter):
        likelihood, better = _step(data, fitted)
        likelihoods.append(likelihood)
        done = likelihood - last < TOLERANCE
        if bool(done.all()):
            break
        fitted, last = better.keep(done, fitted), likelihood
    return fitted


def _joined(fitted: Sequence[Mixtures]) -> Mixtures:
    """Mixtures (k, g) of several sizes as one, (k, g, number of sizes), padded to the largest."""
    widest = max(part.log_weight.shape[-1] for part in fitted)
    missing = [widest - part.log_weight.shape[-1] for part in fitted]
    weight = [pad(part.log_weight, (0, more), value=-torch.inf) for part, more in zip(fitted, missing, strict=True)]
    mean = [pad(part.mean, (0, 0, 0, more)) for part, more in zip(fitted, missing, strict=True)]
    if fitted[0].tied:
        covariance = [part.covariance for part in fitted]
    else:
        covariance = [
            pad(part.covariance, (0, 0, 0, more), value=1.0) for part, more in zip(fitted, missing, strict=True)
        ]
    return Mixtures(torch.stack(weight, 2), torch.stack(mean, 2), torch.stack(covariance, 2), fitted[0].tied)


def mixture_terms(mixtures: Mixtures) -> Terms:
    """Return what answers for mixtures, once for all points."""
    return _terms(mixtures, torch.zeros_like(mixtures.mean[..., 0, :]))


def _prepare(groups: Groups, reg: Tensor, tied: bool) -> _Data:
    points, share = groups.points, groups.weight / groups.weight.sum(-1, keepdim=True)
    squares = points**2
    variance = (share @ squares - (share @ points) ** 2).clamp_min(0) + reg
    if not tied:
        return _Data(points, squares, share, points.new_zeros(*share.shape[:2], 0, 0), variance, reg)
    second = torch.stack([(part[:, :, None] * points).mT @ points for part in share.unbind(1)], 1)
    return _Data(points, points[..., :0], share, second, variance, reg)


def _seeded(data: _Data, seeds: Tensor, cap: Tensor) -> Mixtures:
    """The mixtures of a few steps of k-means from seeds (k, g, q, d), of which a group may have the first `cap`."""
    allowed, mean = torch.arange(seeds.shape[2]) < cap[..., None], seeds
    for _ in range(KMEANS_STEPS):
        sums = _sums(data._replace(squares=data.points[..., :0]), _distance_terms(data, mean, allowed), hard=True)
        weight = sums.weight[..., None]
        mean = torch.where(weight > 0, sums.first / weight.clamp_min(torch.finfo(weight.dtype).tiny), mean)
    return _maximise(data, _sums(data, _distance_terms(data, mean, allowed), hard=True))


def _distance_terms(data: _Data, mean: Tensor, allowed: Tensor) -> Terms:
    """Terms that are largest for the nearest of the allowed means (k, g, q, d)."""
    scaled = mean / data.variance[:, :, None]
    constant = (-0.5 * (scaled * mean).sum(-1)).masked_fill(~allowed, -torch.inf)
    return Terms(scaled, constant, None, None)


def _seeds(data: _Data, draws: NDArray[np.float64]) -> Tensor:
    """Seeds (k, g, q, d) drawn as in k-means++, with distances in units of the deviations of the group.

    A seed is drawn with probability in proportion to the squared distance from the seeds before it. The draws are
    the same for every group, so a group's seeds do not depend on its company.
    """
    scaled = data.points[:, None] / data.variance.sqrt()[:, :, None]
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


def _step(data: _Data, mixtures: Mixtures) -> tuple[Tensor, Mixtures]:
    """One step of EM: the mean log-likelihood of each mixture (k, g), and the mixtures after it."""
    terms = _terms(mixtures, data.reg)
    sums = _sums(data, terms)
    likelihood = sums.likelihood
    if terms.precision is not None:
        likelihood = likelihood - 0.5 * (terms.precision * data.second).sum((-1, -2))
    return likelihood, _maximise(data, sums)


def _maximise(data: _Data, sums: _Sums) -> Mixtures:
    """The M-step; with one covariance for all components it needs no products of features."""
    divisor = sums.weight.clamp_min(torch.finfo(sums.weight.dtype).tiny)[..., None]
    mean = sums.first / divisor
    tied = data.second.numel() > 0
    if tied:
        covariance = data.second - (sums.weight[..., None] * mean).mT @ mean + torch.diag(data.reg)
    else:
        covariance = (sums.second / divisor - mean**2).clamp_min(0) + data.reg
    return Mixtures(sums.weight.log(), mean, covariance, tied)


def _sums(data: _Data, terms: Terms, hard: bool = False) -> _Sums:
    """The E-step, some points at a time, so that they stay in the cache; `hard` gives a point to its nearest."""
    k, g, q, d = terms.linear.shape
    linear = terms.linear.view(k, g * q, d)
    weight, first = linear.new_zeros(k, g * q), torch.zeros_like(linear)
    second = linear.new_zeros(k, g * q, data.squares.shape[-1])
    likelihood = linear.new_zeros(k, g)
    for some in chunks(data.points.shape[1], max(1, BLOCK // (k * g * q))):
        points, share = data.points[:, some], data.share[:, :, None, some]
        logits = linear @ points.mT
        if terms.square is not None:
            logits.baddbmm_(terms.square.view(k, g * q, d), data.squares[:, some].mT)
        logits = logits.view(k, g, q, -1).add_(terms.constant[..., None])
        top = logits.amax(-2, keepdim=True)
        logits = (logits == top).to(top) if hard else logits.sub_(top).exp_()
        total = logits.sum(-2, keepdim=True)
        likelihood += ((total.log() + top) * share).sum((-1, -2))
        shared = logits.mul_(share / total).view(k, g * q, -1)
        weight += shared.sum(-1)
        first.baddbmm_(shared, points)
        second.baddbmm_(shared, data.squares[:, some])
    return _Sums(weight.view(k, g, q), first.view(k, g, q, d), second.view(k, g, q, data.squares.shape[-1]), likelihood)


def _terms(mixtures: Mixtures, reg: Tensor) -> Terms:
    """Coefficients of the components, each multiplied by exp(-reg/2 tr Sigma^-1), under which EM is exact."""
    log_weight, mean, covariance, tied = mixtures
    d = mean.shape[-1]
    if not tied:
        inverse, spread = 1.0 / covariance, reg[..., None, :] if reg.dim() > 1 else reg
        norm = covariance.log().sum(-1) + (inverse * (mean**2 + spread)).sum(-1) + d * LOG_2_PI
        return Terms(mean * inverse, log_weight - 0.5 * norm, -0.5 * inverse, None)
    precision, log_det = _inverse(covariance)
    linear = mean @ precision
    penalty = (precision.diagonal(dim1=-2, dim2=-1) * reg).sum(-1)
    norm = (log_det + penalty)[..., None] + (linear * mean).sum(-1) + d * LOG_2_PI
    return Terms(linear, log_weight - 0.5 * norm, None, precision)


def _inverse(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Inverses (..., d, d) and log-determinants (...) of covariances; singular ones are floored."""
    root, info = torch.linalg.cholesky_ex(covariance)
    if bool((info > 0).any()):
        gaussians, _ = to_gaussians(torch.zeros_like(covariance[..., 0]), covariance)
        return gaussians.matrix @ gaussians.matrix.mT, gaussians.log_det
    return torch.cholesky_inverse(root), 2.0 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
