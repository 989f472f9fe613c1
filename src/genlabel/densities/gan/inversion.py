"""The nearest point of each class manifold: the inversion of generators, batched over points, classes and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel.densities.gan.networks import Network, linearise
from genlabel.densities.gan.training import Generators, Schedule, take_step

NORMS = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}
"""The order of each norm."""


class _Model(NamedTuple):
    """A smooth function f of the residual r (..., d) near a norm: its value, slope and (majorised) curvature.

    The curvature is diag(weight) - rank slope slope'.
    """

    value: Tensor
    slope: Tensor
    weight: Tensor
    rank: Tensor | float


def _squared(r: Tensor, width: Tensor) -> _Model:
    return _Model(0.5 * r.square().sum(-1), r, torch.ones_like(r), 0.0)


def _absolute(r: Tensor, width: Tensor) -> _Model:
    """Sum of sqrt(r^2 + width^2), and the parabola above it that touches it at r."""
    size = (r.square() + width.square()).sqrt()
    return _Model(size.sum(-1), r / size, 1 / size, 0.0)


def _largest(r: Tensor, width: Tensor) -> _Model:
    """The soft maximum of |r|, width log sum (exp(r / width) + exp(-r / width))."""
    both = torch.cat([r, -r], -1) / width
    up, down = torch.softmax(both, -1).chunk(2, -1)
    return _Model(width[..., 0] * both.logsumexp(-1), up - down, (up + down) / width, 1 / width[..., None])


_MODELS: dict[str, Callable[[Tensor, Tensor], _Model]] = {"l1": _absolute, "l2": _squared, "linf": _largest}


class Bank(NamedTuple):
    """Points of each manifold with their latents, from which a search begins."""

    latents: Tensor
    """(k, n, size)"""
    points: Tensor
    """(k, n, d)"""

    @classmethod
    def draw(cls, generators: Generators, n: int, rng: np.random.Generator) -> Bank:
        """`n` points for each manifold, the charts in turn."""
        w = generators.latents.spread(n, generators.shares, rng)
        return cls(w, generators(w))


class Inverter(NamedTuple):
    """Finds m*_c = argmin over the manifold of class c of d(x, m) (arXiv Section F.3, GenMix+GAN).

    The search begins at the nearest points of a bank, in several charts or draws, and where the encoder says; it goes
    on by damped Gauss-Newton steps in a norm that is smoothed less and less, within the cube of the latents, and the
    best point ever seen is kept. Every row is treated by itself, and nothing is random.
    """

    generators: Generators
    bank: Bank
    norm: str
    restarts: int
    steps: int
    unit: Tensor
    """(d,): what a unit of the generator is in the units of the distance."""

    def __call__(self, X: Tensor) -> Tensor:
        """The nearest points, (k, m, d), to points (m, d); both in the units of the generator."""
        w = torch.cat(self._starts(X), 2)  # (k, m, restarts, size)
        k, m, n, _ = w.shape
        inner, target = self._narrowed(X)
        target = target[:, :, None].expand(-1, -1, n, -1).flatten(1, 2)
        best = inner._search(w.flatten(1, 2), target)
        nearest = inner._distance(inner.generators(best) - target).reshape(k, m, n).argmin(-1)
        return self.generators(best.reshape(w.shape).take_along_dim(nearest[..., None, None], 2)[:, :, 0])

    def _narrowed(self, X: Tensor) -> tuple[Inverter, Tensor]:
        """The same search in fewer coordinates, if there are such, and the points (k, m, coordinates) there.

        The last layer of a generator reaches no more directions than it has inputs; what is left of an L2 distance
        is the same for all points of the manifold. An image of 784 pixels is sought in 64 coordinates.
        """
        weight, bias = self.generators.weights[-2:]
        if self.norm != "l2" or weight.shape[1] >= weight.shape[2]:
            return self, X.expand(len(weight), -1, -1)
        base, square = torch.linalg.qr((weight * self.unit).mT)
        weights = [*self.generators.weights[:-2], square.mT, bias * self.unit @ base]
        generators = self.generators._replace(weights=weights)
        return self._replace(generators=generators, unit=torch.ones_like(self.unit[:1])), X * self.unit @ base

    def _distance(self, r: Tensor) -> Tensor:
        return torch.linalg.vector_norm(r * self.unit, NORMS[self.norm], -1)

    def _starts(self, X: Tensor) -> list[Tensor]:
        """Latents (k, m, some, size)."""
        parts = self.generators.latents.charts * -(-self.restarts // self.generators.latents.charts)
        some = self.bank.points.shape[1] // parts * parts
        distance = torch.cdist(X * self.unit, self.bank.points[:, :some] * self.unit, NORMS[self.norm])  # (k, m, some)
        nearest, rank = distance.reshape(*distance.shape[:2], -1, parts).min(-2)
        near = nearest.topk(self.restarts, -1, largest=False).indices
        index = rank.gather(-1, near) * parts + near
        starts = self.bank.latents[torch.arange(len(index), device=X.device)[:, None, None], index]
        return [starts] if self.generators.reader is None else [starts, self._encoded(X)]

    def _encoded(self, X: Tensor) -> Tensor:
        k, (dim, charts) = len(self.generators.log_noise), self.generators.latents
        w = self.generators.encode(X.expand(k, -1, -1))
        used = self.generators.shares[:, None] > 0
        chart = one_hot(w[..., dim:].where(used, -torch.inf).argmax(-1), charts, w.dtype)
        return torch.cat([w[..., :dim], chart], -1)[:, :, None]

    def _search(self, w: Tensor, target: Tensor) -> Tensor:
        """The best latents that are seen on the way from w (k, n, size)."""
        dim = self.generators.latents.dim
        best, least = w, self._distance(self.generators(w) - target)
        damping = torch.full_like(least, 1e-2)
        start = least.clone()
        for step in range(self.steps):
            width = (start * 0.3 * 0.6**step).clamp_min(1e-12)[..., None]
            residual, jacobian = self._linearise(w, target)
            model = _MODELS[self.norm](residual, width)
            z = w[..., :dim]
            z = (z - _solve(model, jacobian, damping, z)).clamp(-1, 1)
            tried = torch.cat([z, w[..., dim:]], -1)
            r = (self.generators(tried) - target) * self.unit
            better = _MODELS[self.norm](r, width).value < model.value
            damping = torch.where(better, damping * 0.2, damping * 4).clamp(1e-9, 1e9)
            w = torch.where(better[..., None], tried, w)
            distance = torch.linalg.vector_norm(r, NORMS[self.norm], -1)
            best = torch.where((distance < least)[..., None], tried, best)
            least = torch.minimum(distance, least)
        return best

    def _linearise(self, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals (k, n, d) and their Jacobian by the latents (k, n, d, dim), in the units of the distance."""
        network, latents, weights, *_ = self.generators
        points, jacobian = linearise(network, weights, w, latents.dim)
        return (points - target) * self.unit, jacobian * self.unit[:, None]


def _solve(model: _Model, jacobian: Tensor, damping: Tensor, z: Tensor) -> Tensor:
    """The damped Gauss-Newton step, (k, n, dim), less those latents that it would push out of the cube."""
    slope = (jacobian.mT @ model.slope[..., None])[..., 0]
    free = ~((z <= -1) & (slope > 0) | (z >= 1) & (slope < 0))
    slope, jacobian = slope * free, jacobian * free[..., None, :]
    curvature = jacobian.mT @ (model.weight[..., None] * jacobian)
    curvature = curvature - model.rank * slope[..., :, None] * slope[..., None, :]
    diagonal = jacobian.square().sum(-2) * model.weight.mean(-1, keepdim=True)
    damped = curvature + torch.diag_embed(damping[..., None] * diagonal + 1e-12)
    return torch.linalg.solve_ex(damped, slope)[0]


def train_encoder(network: Network, generators: Generators, schedule: Schedule, rng: np.random.Generator) -> Generators:
    """The generators with encoders that were regressed on the latents of generated points, x = G(w) -> w."""
    k = len(generators.log_noise)
    weights = [part.repeat(k, *[1] * (part.ndim - 1)).to(generators.log_noise) for part in network.draw(rng)]
    learned = generators._replace(reader=network, reader_weights=[part.requires_grad_() for part in weights])
    optimizer = torch.optim.Adam(weights, schedule.learning_rate, fused=True)
    for step in range(schedule.steps):
        optimizer.param_groups[0]["lr"] = schedule.learning_rate * (1 - step / schedule.steps)
        w = generators.latents.spread(schedule.batch_size, generators.shares, rng)
        with torch.no_grad():
            points = generators(w)
        take_step(optimizer, (learned.encode(points) - w).square().mean((1, 2)).sum())
    return learned.map(Tensor.detach)
