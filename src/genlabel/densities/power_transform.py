"""A density in a space where every feature is made as normal as a power can make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self, final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_rng, as_tensor, chunks, like, to_device
from genlabel.densities._crossval import AT_ONCE
from genlabel.densities.base import ClassDensity, Excess

LIMIT = 8.0
"""Warped values are clipped to this many standard deviations."""
WIDEST = 6.0
"""Powers are sought in [-6, 6]."""
NEAR = 1e-8
"""A power nearer to 0 (or 2) than this is the logarithm."""
POWER_ROWS = 5_000
"""So many rows choose the powers."""


class PowerTransform(NamedTuple):
    """A Yeo-Johnson map of each feature, followed by standardisation."""

    power: Tensor
    """(d,)"""
    centre: Tensor
    """(d,)"""
    scale: Tensor
    """(d,)"""

    def __call__(self, X: Tensor) -> Warped:
        """Return the warped points (m, d), clipped to +-8, and the log-Jacobian of each, (m,), in float64.

        Where a value is clipped, the log-Jacobian falls by what is cut off, so that the tails still hold next to
        nothing.
        """
        here = PowerTransform(*(to_device(part, X) for part in self))
        parts = [here._of(X[some]) for some in _parts(X)]
        points, log_jacobian = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        return Warped(points, log_jacobian, self)

    def _of(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Warped points and log-Jacobians of some points, on the device of the map."""
        power, centre, scale = self
        logs = _Logs.of(X.double())
        warped = (logs.bent(power) - centre) / scale
        clipped = warped.clamp(-LIMIT, LIMIT)
        slope = (power - 1.0) * logs.sign * logs.log - scale.log()
        return clipped, (slope - (warped - clipped).abs()).sum(1)


class Warped(NamedTuple):
    """What a map makes of points."""

    points: Tensor
    """(m, d)"""
    log_jacobian: Tensor
    """(m,)"""
    warp: PowerTransform
    """The map."""


@final
class PowerTransformedDensity(ClassDensity):
    """`density`, fitted to features that went through a Yeo-Johnson map each (Yeo and Johnson, 2000).

    The powers are those of the largest likelihood over all points, whatever their class, as in
    `sklearn.preprocessing.PowerTransformer`; a feature may be skewed, or have a long tail. The log-density is that of
    the point itself: it counts the Jacobian of the map. (A negative power maps the line to an interval; the little that
    a density of the warped features has beyond it is lost.)

    Parameters
    ----------
    density : ClassDensity
    warp : Warp or None
        A map from :func:`fit_warp` that several densities share; None fits one.

    Attributes
    ----------
    warp_ : Warp
    density_ : ClassDensity
        The fitted density of the warped points.

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity
    >>> X = [[0.1], [0.3], [1.0], [9.0], [0.2], [2.0], [4.0], [40.0]]
    >>> density = PowerTransformedDensity(GaussianDensity()).fit(X, [0, 0, 0, 0, 1, 1, 1, 1])
    >>> density.log_prob([[1.0]]).round(2)
    array([[-1.25, -1.57]])
    """

    def __init__(self, density: ClassDensity, warp: PowerTransform | None = None) -> None:
        self.density = density
        self.warp = warp

    @property
    def default_priors(self) -> str:
        """Those of the density."""
        return self.density.default_priors

    def to_cpu(self) -> Self:
        """With the density, all that it has learned, on the CPU."""
        self.density_.to_cpu()
        return self

    @property
    def cross_fitted(self) -> bool:
        """Whether the fitted density is."""
        return self.density_.cross_fitted

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """As `log_prob`, by models of the density that saw neither parent, where it has them.

        What the map makes of a blend is no blend: `lam` and `points` are of no use.
        """
        if not self.cross_fitted:
            return self.log_prob(X)
        warped = self.warp_(as_tensor(X))
        found = self.density_.log_prob_of_pairs(warped.points, rows, partner_rows) + warped.log_jacobian[:, None]
        return like(found.to(as_tensor(X)), X)

    @property
    def supports_latent_space(self) -> bool:
        """Whether the density may."""
        return self.density.supports_latent_space

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.warp_ = fit_warp(X, weight) if self.warp is None else self.warp
        self.density_ = clone(self.density).fit(self.warp_(X).points, self.classes_[index.numpy()], weight)

    def _log_prob(self, X: Tensor) -> Tensor:
        return self._log_prob_of(self.warp_(X)).to(X)

    def _log_prob_of(self, warped: Warped) -> Tensor:
        return self.density_.log_prob(warped.points) + warped.log_jacobian[:, None]

    def log_prob_from_transformed(self, X: Tensor, warped: Warped | None) -> Tensor:
        """Return `log_prob(X)`, from the warped points if they are those of its map."""
        if warped is None or warped.warp is not self.warp_:
            return super().log_prob_from_transformed(X, warped)
        return self._log_prob_of(warped)

    @property
    def min_stack_weight(self) -> float:
        """That of the density."""
        return self.density.min_stack_weight

    @property
    def uses_power_transform(self) -> bool:
        """Whether no map was given."""
        return self.warp is None

    def with_transform(self, warp: PowerTransform) -> ClassDensity:
        """Return the density with that map, unless it has one."""
        return PowerTransformedDensity(self.density, warp) if self.uses_power_transform else self

    def behind(self, warp: PowerTransform) -> ClassDensity | None:
        """Return the density of the mapped features, if that is its map."""
        return self.density if self.warp is warp else None

    def excess(self, n: int, d: int) -> Excess | None:
        """Say if the density would take too long."""
        return self.density.excess(n, d)


def fit_warp(X: Tensor, weight: Tensor) -> PowerTransform:
    """Return the map of the largest (weighted) likelihood: a grid of powers, then golden sections, for all features.

    Of more than 5,000 rows, so many choose the powers; centre and scale are those of all rows. A feature whose
    likelihood is no number anywhere, a constant one for example, keeps power 1.

    >>> X = torch.linspace(0, 3, 50, dtype=torch.float64)[:, None] ** 3
    >>> round(float(fit_warp(X, torch.ones(50, dtype=torch.float64)).power), 2)
    -0.06
    """
    some = _spread(len(X))
    logs, portion = _Logs.of(X[some]), weight[some] / weight[some].sum()
    grid = torch.arange(-WIDEST, WIDEST + 0.5, dtype=X.dtype)
    found = torch.stack([_likelihood(logs, portion, power.expand(X.shape[1])) for power in grid])
    best = grid[found.argmax(0)]
    power = _golden_section(logs, portion, (best - 1.0).clamp_min(-WIDEST), (best + 1.0).clamp_max(WIDEST))
    power = torch.where(found.amax(0).isfinite(), power, torch.ones_like(power))
    share = weight / weight.sum()
    warped = torch.cat([_Logs.of(X[some]).bent(power) for some in _parts(X)])
    centre = share @ warped
    scale = (share @ (warped - centre) ** 2).sqrt()
    usable = scale.isfinite() & (scale > 1e-12 * centre.abs() + torch.finfo(scale.dtype).tiny ** 0.5)
    return PowerTransform(power, centre, torch.where(usable, scale, torch.ones_like(scale)))


def share_transform(
    members: Sequence[ClassDensity], X: Tensor, weight: Tensor
) -> tuple[list[ClassDensity], PowerTransform | None]:
    """Return the densities, and the map that is fitted for those that want one; None if none does."""
    if not any(member.uses_power_transform for member in members):
        return list(members), None
    warp = fit_warp(X, weight)
    return [member.with_transform(warp) for member in members], warp


def log_prob_of_members(members: Sequence[ClassDensity], X: Tensor, transform: PowerTransform | None) -> list[Tensor]:
    """Return the log-densities (m, k) of points under each member; a shared transform is evaluated once."""
    transformed = None
    if transform is not None:
        transformed = transform(X)
        transformed = transformed._replace(points=transformed.points.to(X))
    return [member.log_prob_from_transformed(X, transformed) for member in members]


def _parts(X: Tensor) -> list[slice]:
    """The rows in parts, so that what is computed on the way stays small; on a GPU in one."""
    return chunks(len(X), len(X) if X.is_cuda else max(1, AT_ONCE // X.shape[1]))


def _spread(n: int) -> Any:
    """The rows of `n` that choose powers: all, or some that are drawn once and for all."""
    return slice(None) if n <= POWER_ROWS else torch.from_numpy(as_rng(0).permutation(n)[:POWER_ROWS])


class _Logs(NamedTuple):
    """What the map of any power needs of points."""

    sign: Tensor
    """(n, d)"""
    log: Tensor
    """(n, d): log(1 + |x|)."""

    @classmethod
    def of(cls, X: Tensor) -> _Logs:
        """Those of points (n, d)."""
        return cls(X.sign(), X.abs().log1p())

    def bent(self, power: Tensor) -> Tensor:
        """Yeo and Johnson's map: ((1 + x)^p - 1) / p for x >= 0, and -((1 - x)^(2 - p) - 1) / (2 - p) below.

        It is the logarithm where a power is 0.
        """
        exponent = (power - 1.0) * self.sign + 1.0
        away = torch.minimum(power.abs(), (2.0 - power).abs()) >= 2 * NEAR
        if not power.is_cuda and bool(away.all()):  # on a GPU, to know would be to wait
            return self.sign * (torch.expm1(exponent * self.log) / exponent)
        logarithm = exponent.abs() < NEAR
        safe = torch.where(logarithm, torch.ones_like(exponent), exponent)
        return self.sign * torch.where(logarithm, self.log, torch.expm1(safe * self.log) / safe)


def _golden_section(logs: _Logs, share: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return the likeliest powers within [low, high] (d,), to 1e-4."""
    ratio = (5.0**0.5 - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = (_likelihood(logs, share, power) for power in (left, right))
    for _ in range(20):
        go_left = at_left > at_right
        low, high = torch.where(go_left, low, left), torch.where(go_left, right, high)
        new = torch.where(go_left, high - ratio * (high - low), low + ratio * (high - low))
        at_new = _likelihood(logs, share, new)
        left, right = torch.where(go_left, new, right), torch.where(go_left, left, new)
        at_left, at_right = torch.where(go_left, at_new, at_right), torch.where(go_left, at_left, at_new)
    return 0.5 * (low + high)


def _likelihood(logs: _Logs, share: Tensor, power: Tensor) -> Tensor:
    """Mean log-likelihood of the warped features as normal ones, up to a constant, (d,); -inf where it is no number."""
    warped = logs.bent(power)
    variance = share @ (warped - share @ warped).square_()
    usable = variance > torch.finfo(variance.dtype).tiny
    value = -0.5 * variance.log() + (power - 1.0) * (share @ (logs.sign * logs.log))
    return torch.where(usable & value.isfinite(), value, torch.full_like(value, -torch.inf))
