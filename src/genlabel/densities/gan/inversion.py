"""Inversion of generators: the nearest point of each class manifold, batched over points, classes and restarts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel.densities.gan.generators import Generators
from genlabel.densities.gan.networks import StackedNetwork, linearize
from genlabel.densities.gan.training import GANSchedule, take_step

NORMS = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}  # order of each norm


class _NormModel(NamedTuple):
    """Smooth approximation of a norm of the residual r (..., d): value, gradient and majorized curvature.

    The curvature is diag(weight) - rank gradient gradient'.
    """

    value: Tensor
    gradient: Tensor
    weight: Tensor
    rank: Tensor | float


def _norm_model(norm: str, r: Tensor, width: Tensor) -> _NormModel:
    """Return the model of a norm of residuals; half the square for "l2", which needs no smoothing."""
    if norm == "l2":
        return _NormModel(0.5 * r.square().sum(-1), r, torch.ones_like(r), 0.0)
    if norm == "l1":  # sum sqrt(r^2 + width^2), with the parabola above it that touches it at r
        size = (r.square() + width.square()).sqrt()
        return _NormModel(size.sum(-1), r / size, 1 / size, 0.0)
    both = torch.cat([r, -r], -1) / width  # the soft maximum of |r|, width log sum (exp(r / width) + exp(-r / width))
    up, down = torch.softmax(both, -1).chunk(2, -1)
    return _NormModel(width[..., 0] * both.logsumexp(-1), up - down, (up + down) / width, 1 / width[..., None])


class Bank(NamedTuple):
    """Points of each manifold with their latents: the starts of an inversion."""

    latents: Tensor  # (k, n, size)
    points: Tensor  # (k, n, d)

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
    unit: Tensor  # size of a unit of the generator in the units of the distance, (d,)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the nearest points (k, m, d) to points (m, d), both in the units of the generator."""
        parts = self.generators.latents.charts * -(-self.restarts // self.generators.latents.charts)
        count = self.bank.points.shape[1] // parts * parts
        distance = torch.cdist(X * self.unit, self.bank.points[:, :count] * self.unit, NORMS[self.norm])
        nearest, rank = distance.reshape(*distance.shape[:2], -1, parts).min(-2)
        near = nearest.topk(self.restarts, -1, largest=False).indices
        index = rank.gather(-1, near) * parts + near
        w = self.bank.latents[torch.arange(len(index), device=X.device)[:, None, None], index]
        if self.generators.encoder is not None:
            encoded, dim = self.generators.encode(X.expand(len(w), -1, -1)), self.generators.latents.dim
            chart = encoded[..., dim:].where(self.generators.shares[:, None] > 0, -torch.inf).argmax(-1)
            chart = one_hot(chart, self.generators.latents.charts, encoded.dtype)
            w = torch.cat([w, torch.cat([encoded[..., :dim], chart], -1)[:, :, None]], 2)
        k, m, n, _ = w.shape
        inner, target, (weight, bias) = self, X.expand(len(w), -1, -1), self.generators.weights[-2:]
        if self.norm == "l2" and weight.shape[1] < weight.shape[2]:
            # The range of the last layer has at most as many dimensions as the layer has inputs; the rest of an L2
            # distance is the same for all points of the manifold. An image of 784 pixels has 64 coordinates.
            base, square = torch.linalg.qr((weight * self.unit).mT)
            weights = [*self.generators.weights[:-2], square.mT, bias * self.unit @ base]
            generators, target = self.generators._replace(weights=weights), X * self.unit @ base
            inner = self._replace(generators=generators, unit=torch.ones_like(self.unit[:1]))
        target = target[:, :, None].expand(-1, -1, n, -1).flatten(1, 2)
        best = inner._search(w.flatten(1, 2), target)
        closest = inner._distance(inner.generators(best) - target).reshape(k, m, n).argmin(-1)
        return self.generators(best.reshape(w.shape).take_along_dim(closest[..., None, None], 2)[:, :, 0])

    def _distance(self, r: Tensor) -> Tensor:
        return torch.linalg.vector_norm(r * self.unit, NORMS[self.norm], -1)

    def _search(self, w: Tensor, target: Tensor) -> Tensor:
        """Return the best latents of damped Gauss-Newton steps from w (k, n, size)."""
        network, (dim, _), weights, *_ = self.generators
        best, least = w, self._distance(self.generators(w) - target)
        damping = torch.full_like(least, 1e-2)
        start = least.clone()
        for step in range(self.steps):
            width = (start * 0.3 * 0.6**step).clamp_min(1e-12)[..., None]
            points, jacobian = linearize(network, weights, w, dim)
            model = _norm_model(self.norm, (points - target) * self.unit, width)
            jacobian, z = jacobian * self.unit[:, None], w[..., :dim]
            gradient = (jacobian.mT @ model.gradient[..., None])[..., 0]
            free = ~((z <= -1) & (gradient > 0) | (z >= 1) & (gradient < 0))  # latents that stay within the cube
            gradient, jacobian = gradient * free, jacobian * free[..., None, :]
            curvature = jacobian.mT @ (model.weight[..., None] * jacobian)
            curvature = curvature - model.rank * gradient[..., :, None] * gradient[..., None, :]
            diagonal = jacobian.square().sum(-2) * model.weight.mean(-1, keepdim=True)
            damped = curvature + torch.diag_embed(damping[..., None] * diagonal + 1e-12)
            z = (z - torch.linalg.solve_ex(damped, gradient)[0]).clamp(-1, 1)
            proposal = torch.cat([z, w[..., dim:]], -1)
            r = (self.generators(proposal) - target) * self.unit
            better = _norm_model(self.norm, r, width).value < model.value
            damping = torch.where(better, damping * 0.2, damping * 4).clamp(1e-9, 1e9)
            w = torch.where(better[..., None], proposal, w)
            distance = torch.linalg.vector_norm(r, NORMS[self.norm], -1)
            best = torch.where((distance < least)[..., None], proposal, best)
            least = torch.minimum(distance, least)
        return best


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
