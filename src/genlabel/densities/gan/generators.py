"""Generators of class manifolds: stacks of small networks of one shape, charts, and the inversion of generators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn.functional import conv2d, silu

from genlabel._arrays import one_hot

Weights = Sequence[Tensor]  # weights of a stack of s networks; s is the first dimension of each tensor
Shape = tuple[int, int, int]  # channels, height and width of an image
NORMS = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}  # order of each norm


def apply(network: StackedNetwork, weights: Weights, x: Tensor) -> Tensor:
    """Return the outputs (s, n, out) of a stack of networks at points (s, n, in)."""
    *hidden, last = network.layers(weights)
    for layer in hidden:
        x = silu(layer(x))
    return last(x)


def linearize(network: StackedNetwork, weights: Weights, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the outputs and their Jacobian by the first `dim` inputs, (s, n, out, dim), by forward differentiation."""
    s, n, size = x.shape
    tangents = torch.eye(size, dtype=x.dtype, device=x.device)[:dim, None].expand(s, dim, n, size)
    *hidden, last = network.layers(weights)
    for layer in hidden:
        before = layer(x)
        gate = torch.sigmoid(before)
        x = before * gate
        slope = gate * (1 + before * (1 - gate))
        tangents = slope[:, None] * layer(tangents.flatten(1, 2), shift=False).reshape(s, dim, n, -1)
    jacobian = last(tangents.flatten(1, 2), shift=False).reshape(s, dim, n, -1)
    return last(x), jacobian.permute(0, 2, 3, 1)


class Perceptron(NamedTuple):
    """Fully connected network."""

    sizes: tuple[int, ...]  # sizes of the input, of each hidden layer, and of the output

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Draw normal weights of variance 2 / fan-in."""
        return [part for n_in, n_out in pairwise(self.sizes) for part in _draw_layer(rng, n_in, n_out)]

    def layers(self, weights: Weights) -> list[_Dense]:
        """Return the dense layers, which alternate with SiLU."""
        return [_Dense(*pair) for pair in zip(weights[::2], weights[1::2], strict=True)]


class ConvNetwork(NamedTuple):
    """Network of flat images (c, h, w) with additional inputs: two strided convolutions and two dense layers."""

    shape: Shape
    extra_inputs: int
    width: int
    n_out: int

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Draw normal weights of variance 2 / fan-in."""
        c, h, w = self.shape
        channels, n_in = (c, self.width, 2 * self.width), 2 * self.width * (h // 4) * (w // 4) + self.extra_inputs
        kernels = [part for pair in pairwise(channels) for part in _draw_layer(rng, *pair, kernel_size=4)]
        dense = [part for pair in pairwise((n_in, 4 * self.width, self.n_out)) for part in _draw_layer(rng, *pair)]
        return kernels + dense

    def layers(self, weights: Weights) -> list[_Dense | _Convolution]:
        """Return two convolutions, each of which halves height and width, and two dense layers."""
        c, h, w = self.shape
        return [
            _Convolution(weights[0], weights[1], (c, h, w)),
            _Convolution(weights[2], weights[3], (self.width, h // 2, w // 2)),
            _Dense(*weights[4:6]),
            _Dense(*weights[6:]),
        ]


StackedNetwork = Perceptron | ConvNetwork  # shape of a network; its weights are separate tensors


class _Dense(NamedTuple):
    """Affine map of a stack, (s, n, in) -> (s, n, out), or only its linear part."""

    weight: Tensor  # (s, in, out)
    bias: Tensor  # (s, 1, out)

    def __call__(self, x: Tensor, *, shift: bool = True) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight) if shift else torch.bmm(x, self.weight)


class _Convolution(NamedTuple):
    """Strided convolution of flat images, grouped by network; additional inputs pass through."""

    kernel: Tensor  # (s, out, in, size, size)
    bias: Tensor  # (s, out)
    shape: Shape  # shape of the input images

    def __call__(self, x: Tensor, *, shift: bool = True) -> Tensor:
        s, n, _ = x.shape
        pixels = math.prod(self.shape)
        c, h, w = self.shape
        images = x[..., :pixels].transpose(0, 1).reshape(n, s * c, h, w)
        bias = self.bias.flatten() if shift else None
        maps = conv2d(images, self.kernel.flatten(0, 1), bias, stride=2, padding=1, groups=s)
        flat = maps.reshape(n, s, -1).transpose(0, 1)
        return flat if x.shape[-1] == pixels else torch.cat([flat, x[..., pixels:]], -1)


def _draw_layer(rng: np.random.Generator, n_in: int, n_out: int, kernel_size: int = 0) -> list[Tensor]:
    """Draw the weights and biases of a dense layer, or of a convolution with a kernel size."""
    shape = (1, n_out, n_in, kernel_size, kernel_size) if kernel_size else (1, n_in, n_out)
    fan_in = n_in * max(kernel_size, 1) ** 2
    weight = rng.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2 / fan_in))
    return [torch.from_numpy(weight), torch.zeros((1, n_out) if kernel_size else (1, 1, n_out))]


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

    def draw(self, n: int, shares: Tensor, rng: np.random.Generator, *, cycle: bool = False) -> Tensor:
        """Draw latents (s, n, size): the same uniform z for all generators, charts with their shares (s, charts).

        With `cycle`, the charts take turns, the first one also in place of unused ones.
        """
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1).to(shares)
        if cycle:
            used = torch.arange(self.charts, device=shares.device) * (shares > 0)
            chart = used[:, torch.arange(n, device=shares.device) % self.charts]
        else:
            quantiles = torch.from_numpy((np.arange(n) + rng.random()) / n).to(shares)
            chart = torch.searchsorted(shares.cumsum(1), quantiles.repeat(len(shares), 1)).clamp_max(self.charts - 1)
        return torch.cat([z.expand(len(shares), -1, -1), one_hot(chart, self.charts, z.dtype)], -1)


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
        count, dim, d = latents.charts, latents.dim, rows.shape[1]
        charts = cls(torch.zeros(1, count), torch.zeros(1, count, d), torch.zeros(1, count, dim, d))
        for chart in range(len(distinct)):
            piece = rows[labels == chart]
            charts.shares[0, chart] = weight[labels == chart].sum() / weight.sum()
            charts.centers[0, chart] = center = piece.mean(0)
            _, sizes, directions = torch.linalg.svd(piece - center, full_matrices=False)
            half_axes = (directions * sizes[:, None] * (3**0.5 / len(piece) ** 0.5))[:dim]  # of a uniform distribution
            axes = charts.axes[0, chart]  # missing axes are 0
            axes[: len(half_axes)] = half_axes
            # The sign of a singular vector is arbitrary: the largest component of each axis becomes positive.
            sign = torch.sign(axes.gather(1, axes.abs().argmax(1, keepdim=True)))
            axes *= torch.where(sign == 0, 1.0, sign)
        return charts

    def __call__(self, w: Tensor) -> Tensor:
        """Return the points of the pieces at latents (s, n, size)."""
        dim = self.axes.shape[2]
        z, chart = w[..., :dim], w[..., dim:]
        return chart @ self.centers + torch.einsum("snj,snl,sjld->snd", chart, z, self.axes)


class Generators(NamedTuple):
    """Stack of s generators: x = G(w) + sigma e is a point of the class, G(w) one of its manifold.

    NOTE[PAPER]: the generator of the paper has no noise; its p_c assumes noise around the manifold that is spherical in
    the units of the distance, as here: with noise of each feature, a short curve could replace a long straight class.
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
        return stacks[0].map(lambda *parts: torch.cat(parts), *stacks[1:])

    def map(self, function: Callable[..., Tensor], *others: Generators) -> Generators:
        """Return the stack with a function applied to every tensor, and to those of other stacks beside it."""
        parts = zip(self.tensors, *(other.tensors for other in others), strict=True)
        log_noise, shares, *weights = [function(*tensors) for tensors in parts]
        n = len(self.weights)
        return self._replace(log_noise=log_noise, shares=shares, weights=weights[:n], encoder_weights=weights[n:])

    @property
    def tensors(self) -> list[Tensor]:
        """Noise, shares and weights."""
        return [self.log_noise, self.shares, *self.weights, *self.encoder_weights]


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


def _norm_model(norm: str, r: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | float]:
    """Return a norm of residuals r (..., d), smoothed within `width`, its gradient, and a bound on its curvature.

    The bound is diag(weight) - rank gradient gradient', given by `weight` and `rank`. The norm "l2" is half the square,
    without smoothing.
    """
    if norm == "l2":
        return 0.5 * r.square().sum(-1), r, torch.ones_like(r), 0.0
    if norm == "l1":  # sum sqrt(r^2 + width^2), with the parabola above it that touches it at r
        size = (r.square() + width.square()).sqrt()
        return size.sum(-1), r / size, 1 / size, 0.0
    # The soft maximum of |r|: width log sum (exp(r / width) + exp(-r / width)).
    both_signs = torch.cat([r, -r], -1) / width
    up, down = torch.softmax(both_signs, -1).chunk(2, -1)
    return width[..., 0] * both_signs.logsumexp(-1), up - down, (up + down) / width, 1 / width[..., None]


class Bank(NamedTuple):
    """Points of each manifold with their latents: the starts of an inversion."""

    latents: Tensor  # (k, n, size)
    points: Tensor  # (k, n, d)

    @classmethod
    def draw(cls, generators: Generators, n: int, rng: np.random.Generator) -> Bank:
        """Draw `n` points for each manifold, cycling through the charts."""
        w = generators.latents.draw(n, generators.shares, rng, cycle=True)
        return cls(w, generators(w))


class Inverter(NamedTuple):
    """Search of m*_c = argmin over the manifold of class c of d(x, m) (arXiv Section F.3, GenMix+GAN).

    The search starts at the nearest points of a bank, in several charts or draws, and at the prediction of the encoder.
    Damped Gauss-Newton steps follow in a norm that is smoothed less and less, within the cube of the latents.
    """

    generators: Generators
    bank: Bank
    norm: str
    restarts: int
    steps: int
    unit: Tensor  # size of a unit of the generator in the units of the distance, (d,)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the nearest points (k, m, d) to points (m, d), both in the units of the generator."""
        charts, dim = self.generators.latents.charts, self.generators.latents.dim
        # Point i of the bank is in part i % parts and in chart i % charts: each part has points of one chart only. The
        # starts are the nearest points of the nearest parts.
        parts = charts * -(-self.restarts // charts)
        count = self.bank.points.shape[1] // parts * parts
        distance = torch.cdist(X * self.unit, self.bank.points[:, :count] * self.unit, NORMS[self.norm])
        nearest, position = distance.reshape(*distance.shape[:2], -1, parts).min(-2)
        part = nearest.topk(self.restarts, -1, largest=False).indices
        index = position.gather(-1, part) * parts + part
        w = self.bank.latents[torch.arange(len(index), device=X.device)[:, None, None], index]
        if self.generators.encoder is not None:
            encoded = self.generators.encode(X.expand(len(w), -1, -1))
            most_likely = encoded[..., dim:].where(self.generators.shares[:, None] > 0, -torch.inf).argmax(-1)
            encoded = torch.cat([encoded[..., :dim], one_hot(most_likely, charts, encoded.dtype)], -1)
            w = torch.cat([w, encoded[:, :, None]], 2)
        k, m, n, _ = w.shape
        inverter, target = self, X.expand(k, -1, -1)
        weight, bias = self.generators.weights[-2:]
        if self.norm == "l2" and weight.shape[1] < weight.shape[2]:
            # The range of the last layer has at most as many dimensions as the layer has inputs; the rest of an L2
            # distance is the same for all points of the manifold. An image of 784 pixels has 64 coordinates.
            basis, coordinates = torch.linalg.qr((weight * self.unit).mT)
            weights = [*self.generators.weights[:-2], coordinates.mT, bias * self.unit @ basis]
            generators = self.generators._replace(weights=weights)
            inverter = self._replace(generators=generators, unit=torch.ones_like(self.unit[:1]))
            target = X * self.unit @ basis
        target = target[:, :, None].expand(-1, -1, n, -1).flatten(1, 2)
        best = inverter.gauss_newton(w.flatten(1, 2), target)
        closest = inverter._distance(inverter.generators(best) - target).reshape(k, m, n).argmin(-1)
        return self.generators(best.reshape(w.shape).take_along_dim(closest[..., None, None], 2)[:, :, 0])

    def _distance(self, r: Tensor) -> Tensor:
        return torch.linalg.vector_norm(r * self.unit, NORMS[self.norm], -1)

    def gauss_newton(self, w: Tensor, target: Tensor) -> Tensor:
        """Return the best latents of damped Gauss-Newton steps from w (k, n, size)."""
        network, dim, weights = self.generators.network, self.generators.latents.dim, self.generators.weights
        best, least = w, self._distance(self.generators(w) - target)
        damping = torch.full_like(least, 1e-2)
        start = least.clone()
        for step in range(self.steps):
            width = (start * 0.3 * 0.6**step).clamp_min(1e-12)[..., None]
            points, jacobian = linearize(network, weights, w, dim)
            value, slope, weight, rank = _norm_model(self.norm, (points - target) * self.unit, width)
            jacobian, z = jacobian * self.unit[:, None], w[..., :dim]
            gradient = (jacobian.mT @ slope[..., None])[..., 0]
            is_free = ~((z <= -1) & (gradient > 0) | (z >= 1) & (gradient < 0))  # the step stays within the cube
            gradient, jacobian = gradient * is_free, jacobian * is_free[..., None, :]
            curvature = jacobian.mT @ (weight[..., None] * jacobian)
            curvature = curvature - rank * gradient[..., :, None] * gradient[..., None, :]
            diagonal = jacobian.square().sum(-2) * weight.mean(-1, keepdim=True)
            damped = curvature + torch.diag_embed(damping[..., None] * diagonal + 1e-12)
            z = (z - torch.linalg.solve_ex(damped, gradient)[0]).clamp(-1, 1)
            proposal = torch.cat([z, w[..., dim:]], -1)
            r = (self.generators(proposal) - target) * self.unit
            better = _norm_model(self.norm, r, width)[0] < value
            damping = torch.where(better, damping * 0.2, damping * 4).clamp(1e-9, 1e9)
            w = torch.where(better[..., None], proposal, w)
            distance = torch.linalg.vector_norm(r, NORMS[self.norm], -1)
            best = torch.where((distance < least)[..., None], proposal, best)
            least = torch.minimum(distance, least)
        return best
