"""Inversion of generators: the nearest point of each class manifold, batched over points, classes and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel.densities.gan.generators import Generators
from genlabel.densities.gan.networks import StackedNetwork, linearize
from genlabel.densities.gan.training import GANSchedule, take_step

NORMS = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}
"""Order of each norm."""


class _NormModel(NamedTuple):
    """Smooth approximation of a norm of the residual r (..., d): value, gradient and majorized curvature.

    The curvature is diag(weight) - rank gradient gradient'.
    """

    value: Tensor
    gradient: Tensor
    weight: Tensor
    rank: Tensor | float


def _squared(r: Tensor, width: Tensor) -> _NormModel:
    return _NormModel(0.5 * r.square().sum(-1), r, torch.ones_like(r), 0.0)


def _absolute(r: Tensor, width: Tensor) -> _NormModel:
    """Model sum sqrt(r^2 + width^2), with the parabola above it that touches it at r."""
    size = (r.square() + width.square()).sqrt()
    return _NormModel(size.sum(-1), r / size, 1 / size, 0.0)


def _largest(r: Tensor, width: Tensor) -> _NormModel:
    """Model the soft maximum of |r|, width log sum (exp(r / width) + exp(-r / width))."""
    both = torch.cat([r, -r], -1) / width
    up, down = torch.softmax(both, -1).chunk(2, -1)
    return _NormModel(width[..., 0] * both.logsumexp(-1), up - down, (up + down) / width, 1 / width[..., None])


_MODELS: dict[str, Callable[[Tensor, Tensor], _NormModel]] = {"l1": _absolute, "l2": _squared, "linf": _largest}


class Bank(NamedTuple):
    """Points of each manifold with their latents: the starts of an inversion."""

    latents: Tensor
    """(k, n, size)"""
    points: Tensor
    """(k, n, d)"""

    @classmethod
    def draw(cls, generators: Generators, n: int, rng: np.random.Generator) -> Bank:
        """Draw `n` points for each manifold, cycling through the charts."""
        w = generators.latents.spread(n, generators.shares, rng)
        return cls(w, generators(w))


class Inverter(NamedTuple):
    """Search of m*_c = argmin over the manifold of class c of d(x, m) (arXiv Section F.3, GenMix+GAN).

    The search starts at the nearest points of a bank, in several charts or draws, and at the prediction of the encoder.
    Damped Gauss-Newton steps follow in a norm that is smoothed less and less, within the cube of the latents; the best
    point of all steps is returned. Rows are independent, and nothing is random.
    """

    generators: Generators
    bank: Bank
    norm: str
    restarts: int
    steps: int
    unit: Tensor
    """Size of a unit of the generator in the units of the distance, (d,)."""

    def __call__(self, X: Tensor) -> Tensor:
        """Return the nearest points (k, m, d) to points (m, d), both in the units of the generator."""
        w = torch.cat(self._starts(X), 2)  # (k, m, restarts, size)
        k, m, n, _ = w.shape
        inner, target = self._reduce_dimension(X)
        target = target[:, :, None].expand(-1, -1, n, -1).flatten(1, 2)
        best = inner._search(w.flatten(1, 2), target)
        nearest = inner._distance(inner.generators(best) - target).reshape(k, m, n).argmin(-1)
        return self.generators(best.reshape(w.shape).take_along_dim(nearest[..., None, None], 2)[:, :, 0])

    def _reduce_dimension(self, X: Tensor) -> tuple[Inverter, Tensor]:
        """Return the search and the points (k, m, coordinates) in fewer coordinates, where possible.

        The range of the last layer of a generator has at most as many dimensions as the layer has inputs; the rest of
        an L2 distance is the same for all points of the manifold. An image of 784 pixels has 64 coordinates.
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
        """Return the initial latents, each (k, m, starts, size)."""
        parts = self.generators.latents.charts * -(-self.restarts // self.generators.latents.charts)
        count = self.bank.points.shape[1] // parts * parts
        distance = torch.cdist(X * self.unit, self.bank.points[:, :count] * self.unit, NORMS[self.norm])
        nearest, rank = distance.reshape(*distance.shape[:2], -1, parts).min(-2)
        near = nearest.topk(self.restarts, -1, largest=False).indices
        index = rank.gather(-1, near) * parts + near
        starts = self.bank.latents[torch.arange(len(index), device=X.device)[:, None, None], index]
        return [starts] if self.generators.encoder is None else [starts, self._encoded(X)]

    def _encoded(self, X: Tensor) -> Tensor:
        k, (dim, charts) = len(self.generators.log_noise), self.generators.latents
        w = self.generators.encode(X.expand(k, -1, -1))
        used = self.generators.shares[:, None] > 0
        chart = one_hot(w[..., dim:].where(used, -torch.inf).argmax(-1), charts, w.dtype)
        return torch.cat([w[..., :dim], chart], -1)[:, :, None]

    def _search(self, w: Tensor, target: Tensor) -> Tensor:
        """Return the best latents of the steps from w (k, n, size)."""
        dim = self.generators.latents.dim
        best, least = w, self._distance(self.generators(w) - target)
        damping = torch.full_like(least, 1e-2)
        start = least.clone()
        for step in range(self.steps):
            width = (start * 0.3 * 0.6**step).clamp_min(1e-12)[..., None]
            residual, jacobian = self._linearize(w, target)
            model = _MODELS[self.norm](residual, width)
            z = w[..., :dim]
            z = (z - _solve(model, jacobian, damping, z)).clamp(-1, 1)
            proposal = torch.cat([z, w[..., dim:]], -1)
            r = (self.generators(proposal) - target) * self.unit
            better = _MODELS[self.norm](r, width).value < model.value
            damping = torch.where(better, damping * 0.2, damping * 4).clamp(1e-9, 1e9)
            w = torch.where(better[..., None], proposal, w)
            distance = torch.linalg.vector_norm(r, NORMS[self.norm], -1)
            best = torch.where((distance < least)[..., None], proposal, best)
            least = torch.minimum(distance, least)
        return best

    def _linearize(self, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return residuals (k, n, d) and their Jacobian by the latents (k, n, d, dim), in the units of the distance."""
        network, latents, weights, *_ = self.generators
        points, jacobian = linearize(network, weights, w, latents.dim)
        return (points - target) * self.unit, jacobian * self.unit[:, None]


def _solve(model: _NormModel, jacobian: Tensor, damping: Tensor, z: Tensor) -> Tensor:
    """Return the damped Gauss-Newton step (k, n, dim), without latents that it would move out of the cube."""
    gradient = (jacobian.mT @ model.gradient[..., None])[..., 0]
    free = ~((z <= -1) & (gradient > 0) | (z >= 1) & (gradient < 0))
    gradient, jacobian = gradient * free, jacobian * free[..., None, :]
    curvature = jacobian.mT @ (model.weight[..., None] * jacobian)
    curvature = curvature - model.rank * gradient[..., :, None] * gradient[..., None, :]
    diagonal = jacobian.square().sum(-2) * model.weight.mean(-1, keepdim=True)
    damped = curvature + torch.diag_embed(damping[..., None] * diagonal + 1e-12)
    return torch.linalg.solve_ex(damped, gradient)[0]


def train_encoder(
    network: StackedNetwork, generators: Generators, schedule: GANSchedule, rng: np.random.Generator
) -> Generators:
    """Return the generators with encoders that are regressed on latents of generated points, x = G(w) -> w."""
    k = len(generators.log_noise)
    weights = [part.repeat(k, *[1] * (part.ndim - 1)).to(generators.log_noise) for part in network.draw(rng)]
    learned = generators._replace(encoder=network, encoder_weights=[part.requires_grad_() for part in weights])
    optimizer = torch.optim.Adam(weights, schedule.learning_rate, fused=True)
    for step in range(schedule.steps):
        optimizer.param_groups[0]["lr"] = schedule.learning_rate * (1 - step / schedule.steps)
        w = generators.latents.spread(schedule.batch_size, generators.shares, rng)
        with torch.no_grad():
            points = generators(w)
        take_step(optimizer, (learned.encode(points) - w).square().mean((1, 2)).sum())
    return learned.map(Tensor.detach)
