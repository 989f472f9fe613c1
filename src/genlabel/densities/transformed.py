"""Densities of transformed features: power-transformed ones, or the latent ones of a trained network (arXiv Alg. 2)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_rng, as_tensor, chunks, like, to_device
from genlabel.densities.base import ClassDensity
from genlabel.densities.samples import MAX_CHUNK_VALUES

MAX_TRANSFORMED = 8.0  # bound on transformed values, in standard deviations
MAX_POWER = 6.0  # powers are searched in [-6, 6]
POWER_TOLERANCE = 1e-8  # distance of a power from 0 (or 2) below which the transform is the logarithm
MAX_POWER_ROWS = 5_000  # number of rows above which the powers are estimated on a subsample of this size


class PowerTransform(NamedTuple):
    """Yeo-Johnson transform and standardization of each feature; unlike scikit-learn's with weights and a Jacobian."""

    power: Tensor  # (d,)
    center: Tensor  # (d,)
    scale: Tensor  # (d,)

    @classmethod
    def fit(cls, X: Tensor, weight: Tensor) -> PowerTransform:
        """Fit the powers that maximize the weighted likelihood of points (n, d), of a subsample above 5,000 rows.

        A feature without a finite likelihood, for example a constant, has power 1.
        """
        n = len(X)
        rows = slice(None) if n <= MAX_POWER_ROWS else torch.from_numpy(as_rng(0).permutation(n)[:MAX_POWER_ROWS])
        logs, share = _SignedLogs.of(X[rows]), weight[rows] / weight[rows].sum()
        grid = torch.arange(-MAX_POWER, MAX_POWER + 0.5, dtype=X.dtype)
        likelihood = torch.stack([logs.likelihood(share, power.expand(X.shape[1])) for power in grid])
        best = grid[likelihood.argmax(0)]
        power = logs.golden_section(share, (best - 1.0).clamp_min(-MAX_POWER), (best + 1.0).clamp_max(MAX_POWER))
        power = torch.where(likelihood.amax(0).isfinite(), power, torch.ones_like(power))
        share = weight / weight.sum()
        transformed = torch.cat([_SignedLogs.of(X[chunk]).transform(power) for chunk in _chunks(X)])
        center = share @ transformed
        scale = (share @ (transformed - center) ** 2).sqrt()
        usable = scale.isfinite() & (scale > 1e-12 * center.abs() + torch.finfo(scale.dtype).tiny ** 0.5)
        return cls(power, center, torch.where(usable, scale, torch.ones_like(scale)))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return the transformed points (m, d), clipped to +-8, and their log-Jacobians (m,), in float64.

        The log-Jacobian of a clipped value is reduced by the clipped amount, so that the tails hold almost no mass.
        """
        transform = PowerTransform(*(to_device(part, X) for part in self))
        parts = []
        for rows in _chunks(X):
            logs = _SignedLogs.of(X[rows].double())
            transformed = (logs.transform(transform.power) - transform.center) / transform.scale
            clipped = transformed.clamp(-MAX_TRANSFORMED, MAX_TRANSFORMED)
            slope = (transform.power - 1.0) * logs.sign * logs.log - transform.scale.log()
            parts.append((clipped, (slope - (transformed - clipped).abs()).sum(1)))
        points, log_jacobians = zip(*parts, strict=True)
        return torch.cat(points), torch.cat(log_jacobians)


class _SignedLogs(NamedTuple):
    """Signs and log(1 + |x|) of points (n, d): the transform by any power is computed from these."""

    sign: Tensor
    log: Tensor

    @classmethod
    def of(cls, X: Tensor) -> _SignedLogs:
        return cls(X.sign(), X.abs().log1p())

    def transform(self, power: Tensor) -> Tensor:
        """Return ((1 + x)^p - 1) / p for x >= 0 and -((1 - x)^(2 - p) - 1) / (2 - p) below; the logarithm at 0."""
        exponent = (power - 1.0) * self.sign + 1.0
        regular = torch.minimum(power.abs(), (2.0 - power).abs()) >= 2 * POWER_TOLERANCE
        if not power.is_cuda and bool(regular.all()):  # on a GPU this test would wait for the device
            return self.sign * (torch.expm1(exponent * self.log) / exponent)
        logarithm = exponent.abs() < POWER_TOLERANCE
        safe = torch.where(logarithm, torch.ones_like(exponent), exponent)
        return self.sign * torch.where(logarithm, self.log, torch.expm1(safe * self.log) / safe)

    def likelihood(self, share: Tensor, power: Tensor) -> Tensor:
        """Return the mean normal log-likelihood of the transformed features up to a constant, (d,), or -inf."""
        transformed = self.transform(power)
        variance = share @ (transformed - share @ transformed).square_()
        usable = variance > torch.finfo(variance.dtype).tiny
        value = -0.5 * variance.log() + (power - 1.0) * (share @ (self.sign * self.log))
        return torch.where(usable & value.isfinite(), value, torch.full_like(value, -torch.inf))

    def golden_section(self, share: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Return the powers of the largest likelihood within [low, high] (d,), to 1e-4."""
        ratio = (5.0**0.5 - 1.0) / 2.0
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = (self.likelihood(share, power) for power in (left, right))
        for _ in range(20):
            go_left = at_left > at_right
            low, high = torch.where(go_left, low, left), torch.where(go_left, right, high)
            new = torch.where(go_left, high - ratio * (high - low), low + ratio * (high - low))
            at_new = self.likelihood(share, new)
            left, right = torch.where(go_left, new, right), torch.where(go_left, left, new)
            at_left, at_right = torch.where(go_left, at_new, at_right), torch.where(go_left, at_left, at_new)
        return 0.5 * (low + high)


def _chunks(X: Tensor) -> list[slice]:
    """Return chunks of rows that bound the memory of intermediate results; one chunk on a GPU."""
    return chunks(len(X), len(X) if X.is_cuda else max(1, MAX_CHUNK_VALUES // X.shape[1]))


class FeatureDensity(ClassDensity):
    """Base class of the densities that fit another one, `density`, to features of the points."""

    density: ClassDensity

    @property
    def default_priors(self) -> str:
        """Priors of the density of features."""
        return self.density.default_priors

    @property
    def cross_fitted(self) -> bool:
        """True if the density of features is cross-fitted."""
        return self.density_.cross_fitted

    def to_cpu(self) -> Self:
        """Move the density of features to the CPU."""
        self.density_.to_cpu()
        return self

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return `log_prob` by models that exclude both parents, if the density of features is cross-fitted."""
        if not self.cross_fitted:
            return self.log_prob(X)
        features, log_jacobian = self._features(as_tensor(X))
        values = self.density_.log_prob_of_pairs(features, rows, partner_rows) + log_jacobian
        return like(values.to(as_tensor(X)), X)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.density_ = clone(self.density).fit(self._features(X)[0], self.classes_[index.numpy()], weight)

    def _log_prob(self, X: Tensor) -> Tensor:
        features, log_jacobian = self._features(X)
        return (self.density_.log_prob(features) + log_jacobian).to(X)

    @abstractmethod
    def _features(self, X: Tensor) -> tuple[Tensor, Tensor | float]:
        """Return the features of points (m, d), and the log-Jacobians (m, 1) of the map, or 0."""


@final
@dataclass(eq=False, repr=False)
class PowerTransformedDensity(FeatureDensity):
    """A density fitted to Yeo-Johnson transformed features (Yeo and Johnson, 2000).

    The powers maximize the likelihood over all points, as in `sklearn.preprocessing.PowerTransformer`: skewed and
    long-tailed features become closer to normal. The log-density is that of the original point: it includes the
    Jacobian. A negative power maps the line to an interval; the small mass that a density has outside is lost.

    Parameters
    ----------
    density : ClassDensity
    transform : PowerTransform or None
        A fitted transform that several densities share; None fits one.

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity
    >>> X = [[0.1], [0.3], [1.0], [9.0], [0.2], [2.0], [4.0], [40.0]]
    >>> density = PowerTransformedDensity(GaussianDensity()).fit(X, [0, 0, 0, 0, 1, 1, 1, 1])
    >>> density.log_prob([[1.0]]).round(2)
    array([[-1.25, -1.57]])
    """

    density: ClassDensity
    transform: PowerTransform | None = None

    @property
    def supports_latent_space(self) -> bool:
        """True if the transformed density supports it."""
        return self.density.supports_latent_space

    @property
    def min_stack_weight(self) -> float:
        """Weight of the transformed density."""
        return self.density.min_stack_weight

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.transform_ = PowerTransform.fit(X, weight) if self.transform is None else self.transform
        super()._fit(X, index, weight)

    def _features(self, X: Tensor) -> tuple[Tensor, Tensor]:
        points, log_jacobian = self.transform_(X)
        return points, log_jacobian[:, None]


def share_transform(members: Sequence[ClassDensity], X: Tensor, weight: Tensor) -> PowerTransform | None:
    """Fit one transform and set it in the unfitted members that need one; return None if none does."""
    transformed = [m for m in members if isinstance(m, PowerTransformedDensity) and m.transform is None]
    transform = PowerTransform.fit(X, weight) if transformed else None
    for member in transformed:
        member.transform = transform
    return transform


def split_transform(member: ClassDensity, transform: PowerTransform | None) -> tuple[ClassDensity, bool]:
    """Return the density that is fitted to the features, and whether these are transformed by a shared transform."""
    if transform is not None and isinstance(member, PowerTransformedDensity) and member.transform is transform:
        return member.density, True
    return member, False


def log_prob_of_members(members: Sequence[ClassDensity], X: Tensor, transform: PowerTransform | None) -> list[Tensor]:
    """Return the log-densities (m, k) of points under each fitted member; a shared transform is evaluated once."""
    if transform is None:
        return [member.log_prob(X) for member in members]
    points, log_jacobian = transform(X)
    points = points.to(X)
    return [
        member.density_.log_prob(points) + log_jacobian[:, None]
        if isinstance(member, PowerTransformedDensity) and member.transform_ is transform
        else member.log_prob(X)
        for member in members
    ]


@final
@dataclass(eq=False, repr=False)
class LatentDensity(FeatureDensity):
    """p_c(z) of the features z = f_phi(x) of a second network, evaluated at points x of the input space.

    `fit` encodes the training points with this network and fits `density` to the features (arXiv Alg. 2, line 3);
    `log_prob` encodes the mixed points and evaluates the density there (lines 6 and 7).

    Parameters
    ----------
    encoder : StagedNetwork
        Feature network after plain training, for example a :class:`genlabel.training.networks.MLP` in float64.
    depth : int
        Number of stages that make the features; the number of hidden layers is the penultimate layer.
    density : ClassDensity
    """

    encoder: Any
    depth: int
    density: ClassDensity

    def __sklearn_clone__(self) -> LatentDensity:
        """Return a copy with the same feature network (its weights are shared, not reset) and an unfitted density."""
        return LatentDensity(self.encoder, self.depth, clone(self.density))

    def to_cpu(self) -> Self:
        """Move the feature network and the density of features to the CPU."""
        self.encoder.to("cpu")
        return super().to_cpu()

    def _features(self, X: Tensor) -> tuple[Tensor, float]:
        weight = next(iter(self.encoder.parameters()))
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            return encode_rows(self.encoder, X.to(weight), self.depth).to(X), 0.0


def encode_rows(encoder: Any, X: Tensor, depth: int) -> Tensor:
    """Return the features of rows; raise ValueError if the network cannot encode them."""
    try:
        features: Tensor = encoder.encode(X, depth)
    except (RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"the network cannot encode X of shape {tuple(X.shape)} to depth {depth} ({reason}); pass rows of the same "
            "shape as its training rows, and a depth that it has"
        ) from error
    return features
