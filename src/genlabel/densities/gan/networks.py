"""Generators, critics and encoders of many small GANs at once: a stack of networks that share one shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, silu

Weights = Sequence[Tensor]
"""The weights of a stack of s networks, which are the first dimension of each."""
Shape = tuple[int, int, int]
"""Channels, height and width of an image."""


class Layer(Protocol):
    """An affine map of a stack, (s, n, in) -> (s, n, out)."""

    def __call__(self, x: Tensor, *, shift: bool = True) -> Tensor:
        """The map, or its linear part alone."""
        ...


class Network(Protocol):
    """The shape of a network; its weights are kept apart from it, as plain tensors."""

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Initial weights of a stack of one network."""
        ...

    def layers(self, weights: Weights) -> Sequence[Layer]:
        """Its affine maps; between them, smooth units (SiLU)."""
        ...


def apply(network: Network, weights: Weights, x: Tensor) -> Tensor:
    """What a stack of s networks makes of points (s, n, in): (s, n, out).

    >>> network = Perceptron((2, 8, 3))
    >>> apply(network, network.draw(np.random.default_rng(0)), torch.zeros(1, 5, 2)).shape
    torch.Size([1, 5, 3])
    """
    *hidden, last = network.layers(weights)
    for layer in hidden:
        x = silu(layer(x))
    return last(x)


def linearise(network: Network, weights: Weights, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The same, and the Jacobian by the first `dim` inputs, (s, n, out, dim): tangents go along with the points."""
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
    """A fully connected network."""

    sizes: tuple[int, ...]
    """Of the input, of each hidden layer, and of the output."""

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Initial weights, normal, of variance 2 over the fan-in."""
        return [part for n_in, n_out in pairwise(self.sizes) for part in _dense(rng, n_in, n_out)]

    def layers(self, weights: Weights) -> list[Layer]:
        """Dense layers."""
        return [_Dense(*pair) for pair in zip(weights[::2], weights[1::2], strict=True)]


class ConvReader(NamedTuple):
    """Flat images (c, h, w), and what else is known of them, to numbers: two strided convolutions, two dense layers.

    >>> network = ConvReader((1, 28, 28), 2, 8, 1)
    >>> apply(network, network.draw(np.random.default_rng(0)), torch.zeros(1, 5, 786)).shape
    torch.Size([1, 5, 1])
    """

    shape: Shape
    n_beside: int
    width: int
    n_out: int

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Initial weights, normal, of variance 2 over the fan-in."""
        c, h, w = self.shape
        kernels = [*_kernel(rng, c, self.width, 4), *_kernel(rng, self.width, 2 * self.width, 4)]
        n_in = 2 * self.width * (h // 4) * (w // 4) + self.n_beside
        return [*kernels, *_dense(rng, n_in, 4 * self.width), *_dense(rng, 4 * self.width, self.n_out)]

    def layers(self, weights: Weights) -> list[Layer]:
        """Two convolutions, each of which halves height and width, and two dense layers."""
        c, h, w = self.shape
        return [
            _Convolution(weights[0], weights[1], (c, h, w)),
            _Convolution(weights[2], weights[3], (self.width, h // 2, w // 2)),
            _Dense(*weights[4:6]),
            _Dense(*weights[6:]),
        ]


class _Dense(NamedTuple):
    weight: Tensor
    """(s, in, out)"""
    bias: Tensor
    """(s, 1, out)"""

    def __call__(self, x: Tensor, *, shift: bool = True) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight) if shift else torch.bmm(x, self.weight)


class _Convolution(NamedTuple):
    """A strided convolution of flat images; each network of the stack sees its own channels; the rest stays."""

    kernel: Tensor
    """(s, out, in, size, size)"""
    bias: Tensor
    """(s, out)"""
    shape: Shape
    """Of the images that come in."""

    def __call__(self, x: Tensor, *, shift: bool = True) -> Tensor:
        s, n, _ = x.shape
        pixels = math.prod(self.shape)
        c, h, w = self.shape
        images = x[..., :pixels].transpose(0, 1).reshape(n, s * c, h, w)
        bias = self.bias.flatten() if shift else None
        found = conv2d(images, self.kernel.flatten(0, 1), bias, stride=2, padding=1, groups=s)
        flat = found.reshape(n, s, -1).transpose(0, 1)
        return flat if x.shape[-1] == pixels else torch.cat([flat, x[..., pixels:]], -1)


def _dense(rng: np.random.Generator, n_in: int, n_out: int) -> list[Tensor]:
    return [_normal(rng, (1, n_in, n_out), n_in), torch.zeros(1, 1, n_out)]


def _kernel(rng: np.random.Generator, n_in: int, n_out: int, size: int) -> list[Tensor]:
    return [_normal(rng, (1, n_out, n_in, size, size), n_in * size * size), torch.zeros(1, n_out)]


def _normal(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2 / fan_in)))
