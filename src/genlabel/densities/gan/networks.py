"""Stacks of small networks of one shape: generators, critics and encoders of many GANs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, silu

Weights = Sequence[Tensor]  # weights of a stack of s networks; s is the first dimension of each tensor
Shape = tuple[int, int, int]  # channels, height and width of an image


def apply(network: StackedNetwork, weights: Weights, x: Tensor) -> Tensor:
    """Return the outputs (s, n, out) of a stack of networks at points (s, n, in).

    >>> network = Perceptron((2, 8, 3))
    >>> apply(network, network.draw(np.random.default_rng(0)), torch.zeros(1, 5, 2)).shape
    torch.Size([1, 5, 3])
    """
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
        return [part for n_in, n_out in pairwise(self.sizes) for part in _dense(rng, n_in, n_out)]

    def layers(self, weights: Weights) -> list[_Dense]:
        """Return the dense layers, which alternate with SiLU."""
        return [_Dense(*pair) for pair in zip(weights[::2], weights[1::2], strict=True)]


class ConvNetwork(NamedTuple):
    """Network of flat images (c, h, w) with additional inputs: two strided convolutions and two dense layers.

    >>> network = ConvNetwork((1, 28, 28), 2, 8, 1)
    >>> apply(network, network.draw(np.random.default_rng(0)), torch.zeros(1, 5, 786)).shape
    torch.Size([1, 5, 1])
    """

    shape: Shape
    extra_inputs: int
    width: int
    n_out: int

    def draw(self, rng: np.random.Generator) -> list[Tensor]:
        """Draw normal weights of variance 2 / fan-in."""
        c, h, w = self.shape
        kernels = [*_kernel(rng, c, self.width, 4), *_kernel(rng, self.width, 2 * self.width, 4)]
        n_in = 2 * self.width * (h // 4) * (w // 4) + self.extra_inputs
        return [*kernels, *_dense(rng, n_in, 4 * self.width), *_dense(rng, 4 * self.width, self.n_out)]

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


def _dense(rng: np.random.Generator, n_in: int, n_out: int) -> list[Tensor]:
    return [_normal(rng, (1, n_in, n_out), n_in), torch.zeros(1, 1, n_out)]


def _kernel(rng: np.random.Generator, n_in: int, n_out: int, size: int) -> list[Tensor]:
    return [_normal(rng, (1, n_out, n_in, size, size), n_in * size * size), torch.zeros(1, n_out)]


def _normal(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2 / fan_in)))
