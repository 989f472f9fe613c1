"""Gaussian mixture of each class, fitted by expectation maximization (EM).

Unlike scikit-learn's `GaussianMixture`, EM takes weights and runs for many groups of points (classes and folds) and
several sizes at once, which makes a stacked density fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from genlabel._arrays import Standardization, as_rng, chunks, to_device
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities.base import ClassDensity
from genlabel.densities.covariance import EIGENVALUE_FLOOR, LOG_2_PI, Gaussians
from genlabel.densities.samples import CrossValSample, Groups, effective_size
from genlabel.registry import DENSITIES

MIN_SCALE = 1e-100  # lower bound on the scale of a feature, whose square would otherwise vanish
EM_TOLERANCE = 3e-3  # gain of the mean log-likelihood below which a mixture has converged
MIN_POINTS_PER_COMPONENT = 8
K_MEANS_STEPS = 5
CHUNK_RESPONSIBILITIES = 1 << 16  # responsibilities per chunk: few enough for the cache


@DENSITIES.register("mixture")
@final
@dataclass(eq=False, repr=False)
class MixtureDensity(ClassDensity):
    r"""A mixture of a few Gaussians for each class.

    .. math:: p_c(x) = \sum_j \pi_{cj} N(x; \mu_{cj}, \Sigma_{cj})

    Parameters
    ----------
    n_components : int
        Gaussians per class; a class of n_c points has at most max(1, n_c // 8), with weights by the effective n_c.
    covariance : "tied" or "diagonal"
        One full covariance for the Gaussians of a class, or a diagonal one for each.
    reg : float
        Variance added to each feature; meant for standardized features (at least 1e-4 of the variance is added to
        features of large scale). It bounds the density of equal points.
    max_iter, random_state : int
        Maximal number of EM steps, and seed of the k-means++ initialization. A class stops when its mean log-likelihood
        gains less than 3e-3 in a step.

    NOTE[EM]: EM increases the likelihood with a factor exp(-reg/2 tr Sigma^-1) for each Gaussian; adding `reg` to the
    variances is its exact maximum.

    Examples
    --------
    >>> X = [[v] for v in [0.0, 0.2, 0.1, 0.3, 5.0, 5.2, 5.1, 5.3] * 4]
    >>> density = MixtureDensity(n_components=2).fit(X, [0] * 32)
    >>> sorted(density.means_[0, :, 0].round(2).tolist())
    [0.15, 5.15]
    """

    n_components: int = 3
    covariance: str = "tied"
    reg: float = 0.05
    max_iter: int = 40
    random_state: int | np.random.Generator | None = 0

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters()
        self.scaler_ = Standardization.fit(X, weight, keep_constant=True)
        groups = Groups.by_class(self.scaler_(X), index, weight[None])
        draws = as_rng(self.random_state).random(self.n_components)
        reg = (self.reg / self.scaler_.scale.clamp_min(MIN_SCALE) ** 2).clamp_min(min(self.reg, EIGENVALUE_FLOOR))
        fitted = fit_mixtures(groups, [self.n_components], self.covariance == "tied", reg, self.max_iter, draws)
        self.mixtures_ = fitted.select(slice(None), 0, 0)
        self.terms_ = self.mixtures_.terms()

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        check_count("max_iter", self.max_iter)
        check_choice("covariance", self.covariance, ["tied", "diagonal"])
        check_positive("reg", self.reg, "0.05 is the usual choice")

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.terms_.log_prob(self.scaler_(X).to(X)) - self.scaler_.log_volume

    @property
    def cv_family(self) -> Hashable | None:
        """Mixtures of any size share the EM steps if they have the same initialization."""
        if not isinstance(self.random_state, int):
            return None
        return ("mixture", self.covariance, self.reg, self.max_iter, self.random_state)

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[MixtureDensity]) -> Tensor:
        """Return held-out log-densities (M, n, k); all sizes, folds, and classes of similar size share EM."""
        for density in densities:
            density._check_parameters()
        sizes = [density.n_components for density in densities]
        draws = as_rng(self.random_state).random(max(sizes))
        reg = torch.full_like(sample.X[0], self.reg)
        log_prob = sample.empty_log_prob(len(densities))
        counts = torch.bincount(sample.classes)
        batches: list[list[int]] = []  # classes that differ at most twofold in size, because they are padded
        for c in counts.argsort().tolist():
            if not batches or counts[c] > 2 * counts[batches[-1][0]]:
                batches.append([])
            batches[-1].append(c)
        for batch in batches:
            classes = torch.tensor(sorted(batch))
            points = sample.of_classes(classes)
            values = len(points.X) * max(len(sizes) * max(sizes), points.X.shape[1])
            for groups, valid in points.fold_groups(values):
                mixtures = fit_mixtures(groups, sizes, self.covariance == "tied", reg, self.max_iter, draws)
                for f, rows in enumerate(valid):
                    for s in range(len(sizes)):
                        terms = mixtures.select(slice(None), f, s).terms()
                        log_prob[s, rows[:, None], classes] = terms.log_prob(sample.X[rows])
        return log_prob

    @property
    def weights_(self) -> NDArray[np.float64]:
        """Weights pi_cj, (k, n_components); 0 for components beyond those of a small class."""
        return self.mixtures_.log_weight.exp().numpy()

    @property
    def means_(self) -> NDArray[np.float64]:
        """Means mu_cj, (k, n_components, d)."""
        mean, scale, _ = self.scaler_
        return (self.mixtures_.mean * scale + mean).numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Covariances (k, d, d) if tied, variances (k, n_components, d) if diagonal."""
        scale = self.scaler_.scale
        square = torch.outer(scale, scale) if self.covariance == "tied" else scale**2
        return (self.mixtures_.covariance * square).numpy()


class Mixtures(NamedTuple):
    """Gaussian mixtures with any number of leading dimensions, padded with components of weight 0."""

    log_weight: Tensor  # (..., q)
    mean: Tensor  # (..., q, d)
    covariance: Tensor  # (..., d, d) if tied, else variances (..., q, d)
    tied: bool

    def select(self, *index: int | slice) -> Mixtures:
        """Return the mixtures at an index of the leading dimensions."""
        return Mixtures(self.log_weight[index], self.mean[index], self.covariance[index], self.tied)

    def terms(self, reg: Tensor | float = 0.0) -> Terms:
        """Return the terms of the log-densities; with `reg`, times the factor exp(-reg/2 tr Sigma^-1) of NOTE[EM]."""
        log_weight, mean, covariance, tied = self
        d = mean.shape[-1]
        if not tied:
            inverse = 1.0 / covariance
            norm = covariance.log().sum(-1) + (inverse * (mean**2 + reg)).sum(-1) + d * LOG_2_PI
            return Terms(mean * inverse, log_weight - 0.5 * norm, -0.5 * inverse, None)
        root, info = torch.linalg.cholesky_ex(covariance)
        if bool((info > 0).any()):  # singular covariances are regularized
            gaussians, _ = Gaussians.of(torch.zeros_like(covariance[..., 0]), covariance)
            precision, log_det = gaussians.matrix @ gaussians.matrix.mT, gaussians.log_det
        else:
            precision, log_det = torch.cholesky_inverse(root), 2.0 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        linear = mean @ precision
        penalty = (precision.diagonal(dim1=-2, dim2=-1) * reg).sum(-1)
        norm = (log_det + penalty)[..., None] + (linear * mean).sum(-1) + d * LOG_2_PI
        return Terms(linear, log_weight - 0.5 * norm, None, precision)


class Terms(NamedTuple):
    """Coefficients of log pi_j N(x; mu_j, Sigma_j) = linear_j x + square_j x^2 + constant_j - x' precision x / 2."""

    linear: Tensor  # (..., q, d)
    constant: Tensor  # (..., q)
    square: Tensor | None  # (..., q, d); None if tied
    precision: Tensor | None  # inverse of the shared covariance, (..., d, d); None unless tied

    def log_prob(self, X: Tensor) -> Tensor:
        """Return the log-density of the rows of `X` (m, d) under r mixtures, (m, r), in the precision of `X`."""
        linear, constant = to_device(self.linear, X, X.dtype), to_device(self.constant, X, X.dtype)
        r, q, d = linear.shape
        logits = linear.view(r * q, d) @ X.T
        if self.square is not None:
            logits = logits.addmm_(to_device(self.square, X, X.dtype).view(r * q, d), (X * X).T)
        values = (logits.view(r, q, -1) + constant[..., None]).logsumexp(1)
        if self.precision is not None:
            values = values - 0.5 * ((X @ to_device(self.precision, X, X.dtype)) * X).sum(-1)
        return values.T


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

    `reg` (d,) is added to the variances, `draws` (largest size,) in [0, 1) initialize the components, `trace` receives
    the mean log-likelihoods (steps, k, g) of each size.
    """
    data = _GroupData.of(groups, reg, tied)
    seeds = data.draw_seeds(draws)
    cap = (effective_size(groups.weight) / MIN_POINTS_PER_COMPONENT + 1e-9).long().clamp_min(1)
    fitted = []
    for size in sizes:
        mixtures = _k_means(data, seeds[:, :, :size], cap)
        likelihoods: list[Tensor] = []
        last = mixtures.log_weight.new_full(mixtures.log_weight.shape[:-1], -torch.inf)
        for _ in range(max_iter):
            terms = mixtures.terms(data.reg)
            *sums, likelihood = _e_step(data, terms)
            if terms.precision is not None:
                likelihood = likelihood - 0.5 * (terms.precision * data.second).sum((-1, -2))
            likelihoods.append(likelihood)
            converged = likelihood - last < EM_TOLERANCE
            if bool(converged.all()):
                break
            for part, new_part in zip(mixtures[:3], _m_step(data, *sums)[:3], strict=True):
                part[~converged] = new_part[~converged]
            last = likelihood
        if trace is not None:
            trace.append(torch.stack(likelihoods))
        n_missing = max(sizes) - size
        log_weight = pad(mixtures.log_weight, (0, n_missing), value=-torch.inf)
        mean = pad(mixtures.mean, (0, 0, 0, n_missing))
        covariance = mixtures.covariance if tied else pad(mixtures.covariance, (0, 0, 0, n_missing), value=1.0)
        fitted.append((log_weight, mean, covariance))
    log_weight, mean, covariance = (torch.stack(parts, 2) for parts in zip(*fitted, strict=True))
    return Mixtures(log_weight, mean, covariance, tied)


class _GroupData(NamedTuple):
    """Points of the groups, and everything else that stays the same in all EM steps."""

    points: Tensor  # (k, n, d)
    squares: Tensor  # squared points (k, n, d) for diagonal covariances, else (k, n, 0)
    share: Tensor  # weights (k, g, n) that sum to 1 in each group
    second: Tensor  # second moments about zero (k, g, d, d) for tied covariances, else (k, g, 0, 0)
    variance: Tensor  # variances of the features with `reg`, (k, g, d)
    reg: Tensor  # (d,)

    @classmethod
    def of(cls, groups: Groups, reg: Tensor, tied: bool) -> _GroupData:
        points, share = groups.points, groups.weight / groups.weight.sum(-1, keepdim=True)
        squares = points**2
        variance = (share @ squares - (share @ points) ** 2).clamp_min(0) + reg
        if not tied:
            return cls(points, squares, share, points.new_zeros(*share.shape[:2], 0, 0), variance, reg)
        second = torch.stack([(part[:, :, None] * points).mT @ points for part in share.unbind(1)], 1)
        return cls(points, points[..., :0], share, second, variance, reg)

    def draw_seeds(self, draws: NDArray[np.float64]) -> Tensor:
        """Return k-means++ seeds (k, g, q, d) from draws (q,) that all groups share; distances are standardized."""
        scaled = self.points[:, None] / self.variance.sqrt()[:, :, None]
        nearest = torch.full_like(self.share, torch.inf)
        probability, indices = self.share, []
        for draw in draws:
            cumulative = probability.cumsum(-1)
            index = torch.searchsorted(cumulative, float(draw) * cumulative[..., -1:], right=True)
            index = index.clamp_max(cumulative.shape[-1] - 1)
            seed = scaled.gather(2, index[..., None].expand(-1, -1, 1, scaled.shape[-1]))
            nearest = torch.minimum(nearest, (scaled - seed).square_().sum(-1))
            probability = self.share * nearest
            indices.append(index)
        rows = torch.cat(indices, -1)[..., None].expand(-1, -1, -1, scaled.shape[-1])
        return self.points[:, None].expand_as(scaled).gather(2, rows)


def _k_means(data: _GroupData, seeds: Tensor, cap: Tensor) -> Mixtures:
    """Return mixtures after a few k-means steps from seeds (k, g, q, d), of which a group uses the first `cap`."""
    is_unused, mean = torch.arange(seeds.shape[2]) >= cap[..., None], seeds
    for _ in range(K_MEANS_STEPS + 1):
        # The largest term is that of the nearest mean, in standard deviations of the group.
        scaled = mean / data.variance[:, :, None]
        constant = (-0.5 * (scaled * mean).sum(-1)).masked_fill(is_unused, -torch.inf)
        weight, first, second, _ = _e_step(data, Terms(scaled, constant, None, None), hard=True)
        divisor = weight.clamp_min(torch.finfo(weight.dtype).tiny)[..., None]
        mean = torch.where(weight[..., None] > 0, first / divisor, mean)
    return _m_step(data, weight, first, second)


def _e_step(data: _GroupData, terms: Terms, hard: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sums over responsibilities, in chunks of points, and the mean (k, g) of log sum_j exp.

    The sums are those of the weights (k, g, q), of the points (k, g, q, d), and of their squares for diagonal
    covariances. `hard` assigns points to the largest term.
    """
    k, g, q, d = terms.linear.shape
    linear = terms.linear.view(k, g * q, d)
    weight, first = linear.new_zeros(k, g * q), torch.zeros_like(linear)
    second = linear.new_zeros(k, g * q, data.squares.shape[-1])
    likelihood = linear.new_zeros(k, g)
    for rows in chunks(data.points.shape[1], max(1, CHUNK_RESPONSIBILITIES // (k * g * q))):
        points, share = data.points[:, rows], data.share[:, :, None, rows]
        logits = linear @ points.mT
        if terms.square is not None:
            logits.baddbmm_(terms.square.view(k, g * q, d), data.squares[:, rows].mT)
        logits = logits.view(k, g, q, -1).add_(terms.constant[..., None])
        top = logits.amax(-2, keepdim=True)
        logits = (logits == top).to(top) if hard else logits.sub_(top).exp_()
        total = logits.sum(-2, keepdim=True)
        likelihood += ((total.log() + top) * share).sum((-1, -2))
        responsibilities = logits.mul_(share / total).view(k, g * q, -1)
        weight += responsibilities.sum(-1)
        first.baddbmm_(responsibilities, points)
        second.baddbmm_(responsibilities, data.squares[:, rows])
    return weight.view(k, g, q), first.view(k, g, q, d), second.view(k, g, q, -1), likelihood


def _m_step(data: _GroupData, weight: Tensor, first: Tensor, second: Tensor) -> Mixtures:
    """Return the mixtures of the sums; for tied covariances the products of features are those of `data.second`."""
    divisor = weight.clamp_min(torch.finfo(weight.dtype).tiny)[..., None]
    mean = first / divisor
    tied = data.second.numel() > 0
    if tied:
        covariance = data.second - (weight[..., None] * mean).mT @ mean + torch.diag(data.reg)
    else:
        covariance = (second / divisor - mean**2).clamp_min(0) + data.reg
    return Mixtures(weight.log(), mean, covariance, tied)
