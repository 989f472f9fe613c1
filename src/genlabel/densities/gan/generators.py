"""Generators of class manifolds: latent cubes, their initial charts, and stacks of generators with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel.densities.gan.networks import StackedNetwork, Weights, apply


class Latents(NamedTuple):
    """Latent space of the generators: a cube [-1, 1]^dim for each of several charts, w = (z, e_chart).

    NOTE[PAPER]: the paper has w in R^d. With a cube the manifold ends where the class ends, and charts let it have
    several pieces, like the classes of Two-circle.
    """

    dim: int
    charts: int

    @property
    def size(self) -> int:
        """Number of inputs of a generator."""
        return self.dim + self.charts

    def draw(self, n: int, shares: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw latents (s, n, size): the same uniform z for all generators, charts with their shares (s, charts)."""
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1).to(shares)
        quantiles = torch.from_numpy((np.arange(n) + rng.random()) / n).to(shares)
        chart = torch.searchsorted(shares.cumsum(1), quantiles.expand(len(shares), n).contiguous())
        return self._join(z.expand(len(shares), -1, -1), chart.clamp_max(self.charts - 1))

    def spread(self, n: int, shares: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw latents (s, n, size) that cycle through the charts; unused charts are replaced by the first."""
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1).to(shares)
        used = torch.arange(self.charts, device=shares.device) * (shares > 0)
        chart = used[:, torch.arange(n, device=shares.device) % self.charts]
        return self._join(z.expand(len(shares), -1, -1), chart)

    def _join(self, z: Tensor, chart: Tensor) -> Tensor:
        return torch.cat([z, one_hot(chart, self.charts, z.dtype)], -1)


class Charts(NamedTuple):
    """Flat pieces of a stack of manifolds, and the fraction of the rows in each."""

    shares: Tensor  # (s, charts)
    centers: Tensor  # (s, charts, d)
    axes: Tensor  # half axes of each piece, (s, charts, dim, d)

    @classmethod
    def fit(cls, rows: Tensor, weight: Tensor, latents: Latents, used: int, seed: int) -> Charts:
        """Cluster the rows (n, d) of a class into `used` pieces, at most the number of distinct rows.

        NOTE[PAPER]: the paper does not define the initialization of a generator.
        """
        used = min(used, len(torch.unique(rows, dim=0)))
        clusters = KMeans(used, n_init=3, random_state=seed).fit(rows.numpy(), sample_weight=weight.numpy())
        # Clusters of rows that differ by rounding only may be empty.
        distinct, labels = torch.unique(torch.from_numpy(clusters.labels_).long(), return_inverse=True)
        (dim, count), d = latents, rows.shape[1]
        charts = cls(torch.zeros(1, count), torch.zeros(1, count, d), torch.zeros(1, count, dim, d))
        for chart in range(len(distinct)):
            piece = rows[labels == chart]
            charts.shares[0, chart] = weight[labels == chart].sum() / weight.sum()
            charts.centers[0, chart] = center = piece.mean(0)
            _, sizes, directions = torch.linalg.svd(piece - center, full_matrices=False)
            half_axes = directions * sizes[:, None] * (3**0.5 / len(piece) ** 0.5)  # of a uniform distribution
            axes = charts.axes[0, chart]  # missing axes are 0
            axes[: len(half_axes[:dim])] = half_axes[:dim]
            sign = torch.sign(axes.gather(1, axes.abs().argmax(1, keepdim=True)))
            axes *= torch.where(sign == 0, 1.0, sign)
        return charts

    def __call__(self, w: Tensor) -> Tensor:
        """Return the points of the pieces at latents (s, n, size)."""
        dim = self.axes.shape[2]
        z, chart = w[..., :dim], w[..., dim:]
        along = torch.einsum("snj,snl,sjld->snd", chart, z, self.axes)
        return chart @ self.centers + along

    @classmethod
    def join(cls, stacks: Sequence[Charts]) -> Charts:
        """Return one stack of several."""
        return cls(*(torch.cat(parts) for parts in zip(*stacks, strict=True)))

    def to(self, like: Tensor) -> Charts:
        """Return the stack on the device of a tensor."""
        return Charts(*(part.to(like.device) for part in self))


class Generators(NamedTuple):
    """Stack of s generators: x = G(w) + sigma e is a point of the class, G(w) one of its manifold.

    NOTE[PAPER]: the generator of the paper has no noise; its p_c assumes noise around the manifold that is spherical in
    the units of the distance, as here. With different noise for each feature, a short curve with noise along it could
    replace a long straight class.
    """

    network: StackedNetwork
    latents: Latents
    weights: Weights
    log_noise: Tensor  # log sigma, (s, 1, d): the same for all features in the units of the distance
    shares: Tensor  # probability of each chart, (s, charts)
    encoder: StackedNetwork | None = None
    encoder_weights: Weights = ()

    def __call__(self, w: Tensor) -> Tensor:
        """Return the points (s, n, d) of the manifolds at latents (s, n, size)."""
        return apply(self.network, self.weights, w)

    def encode(self, x: Tensor) -> Tensor:
        """Return the latents (s, n, size) that the encoder predicts for points (s, n, d), charts as probabilities."""
        assert self.encoder is not None
        raw = apply(self.encoder, self.encoder_weights, x)
        dim = self.latents.dim
        return torch.cat([raw[..., :dim].tanh(), raw[..., dim:].softmax(-1)], -1)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw points with noise, (s, n, d), and their latents; all generators receive the same z and noise."""
        w = self.latents.draw(n, self.shares, rng)
        points = self(w)
        noise = torch.from_numpy(rng.standard_normal(points.shape[1:], dtype=np.float32)).to(points)
        return points + self.log_noise.exp() * noise, w

    def select(self, members: Tensor) -> Generators:
        """Return some members of the stack."""
        return self.map(lambda part: part[members])

    def to(self, like: Tensor) -> Generators:
        """Return the stack in the precision and on the device of a tensor."""
        return self.map(lambda part: part.to(like))

    @classmethod
    def join(cls, stacks: Sequence[Generators]) -> Generators:
        """Return one stack of several."""
        parts = [torch.cat(tensors) for tensors in zip(*(stack.tensors for stack in stacks), strict=True)]
        return stacks[0]._with_tensors(parts)

    def map(self, function: Callable[[Tensor], Tensor]) -> Generators:
        """Return the stack with a function applied to every tensor."""
        return self._with_tensors([function(part) for part in self.tensors])

    @property
    def tensors(self) -> list[Tensor]:
        """Noise, shares and weights."""
        return [self.log_noise, self.shares, *self.weights, *self.encoder_weights]

    def _with_tensors(self, tensors: list[Tensor]) -> Generators:
        log_noise, shares, *weights = tensors
        n = len(self.weights)
        return self._replace(log_noise=log_noise, shares=shares, weights=weights[:n], encoder_weights=weights[n:])


def log_likelihood(X: Tensor, points: Tensor, log_noise: Tensor) -> Tensor:
    """Return log mean_i exp(-|x - G(w_i)| / b) / b^d over points G(w_i) (s, n, d) at X (s, m, d): (s, m).

    arXiv Section 7.1, before its maximum, up to a constant. The density exp(-|e| / b) has heavier tails than the normal
    noise (s, 1, d) of the generators, and the same variances, (d + 1) b^2.
    """
    d = X.shape[-1]
    log_b = log_noise - 0.5 * math.log(d + 1)
    a, b = X / log_b.exp(), points / log_b.exp()
    square = a.square().sum(-1)[..., None] + b.square().sum(-1)[..., None, :] - 2 * a @ b.mT
    distance = square.clamp_min(1e-6).sqrt()
    return torch.logsumexp(-distance, -1) - math.log(points.shape[-2]) - log_b.sum(-1)
