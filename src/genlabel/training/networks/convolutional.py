"""Networks of the paper's image experiments, in stages: LeNet-5, ResNet-18 and PreAct ResNet-18.

They take pixels in [0, 1], (n, c, h, w), and normalize them inside: an attack sees the pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._arrays import as_rng
from genlabel._validation import check_count
from genlabel.training.networks.staged import StagedNetwork


class Stages(StagedNetwork):
    """Base class of networks that are a list of stages and a last linear layer; a subclass defines both."""

    stages: nn.ModuleList
    head: nn.Linear

    @property
    def depth(self) -> int:
        """Number of stages."""
        return len(self.stages)

    @property
    def num_classes(self) -> int:
        """Outputs of the last layer."""
        return self.head.out_features

    def encode(self, x: Tensor, depth: int, start: int = 0) -> Tensor:
        """Apply the stages from `start` up to `depth`."""
        if not 0 <= start <= depth <= self.depth:
            raise ValueError(f"depth={depth} from start={start} must lie in 0..{self.depth}, the network's stages")
        for stage in self.stages[start:depth]:
            x = stage(x)
        return x

    def decode(self, h: Tensor, depth: int) -> Tensor:
        """Apply the stages after `depth`, then the last layer."""
        scores: Tensor = self.head(self.encode(h, self.depth, start=depth))
        return scores


@final
class Normalize(nn.Module):
    """Standardization of pixels, channel by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        super().__init__()
        for name, value in (("mean", mean), ("std", std)):
            values = np.broadcast_to(np.asarray(value, np.float32), (channels,)).copy()
            self.register_buffer(name, torch.from_numpy(values).view(1, -1, 1, 1))
        if not bool((self.std > 0).all()):
            raise ValueError(f"std={std!r} must be above 0 for every channel; 1 leaves the pixels unchanged")

    def forward(self, x: Tensor) -> Tensor:
        """Return the pixels, standardized."""
        return (x - self.mean) / self.std


class _Pool(nn.Module):
    """Mean over the image, (n, c, h, w) -> (n, c)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


@final
class _Shortcut(nn.Conv2d):
    """Strided convolution of 1 x 1 pixels.

    On a CPU with fewer than 16 channels (the block size of oneDNN), pixels are selected before the convolution. The
    gradient of a strided convolution in oneDNN writes out of bounds for images with one channel or in channels-last
    format (its issue 6035), which gives wrong values or crashes.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and self.in_channels < 16:
            rows, columns = self.stride
            return nn.functional.conv2d(x[..., ::rows, ::columns], self.weight, self.bias)
        return super().forward(x)


def _convolution(channels: int, width: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3 x 3 convolution without a bias."""
    return nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)


@contextmanager
def _seeded(seed: Any) -> Iterator[None]:
    """Seed PyTorch's generator for initial weights, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(as_rng(seed).integers(2**62)))
        yield


@final
class LeNet5(Stages):
    """LeNet-5 (LeCun et al., 1998) with ReLU and max pooling; features of size 84.

    NOTE[PAPER]: the paper names the network only; ReLU and max pooling are the usual LeNet-5 today.

    Parameters
    ----------
    num_classes, in_channels, size : int
        Outputs, channels, and side of the (square) images.
    mean, std : float or sequence of float
        Mean and standard deviation of the pixels, one value or one per channel, with which they are normalized.
    seed : int, Generator or None
        Seed of the initial weights, which are PyTorch's.

    Examples
    --------
    >>> net = LeNet5(seed=0).eval()
    >>> x = torch.rand(2, 1, 28, 28)
    >>> net.encode(x, net.depth).shape, bool(torch.equal(net.decode(net.encode(x, 2), 2), net(x)))
    (torch.Size([2, 84]), True)
    """

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 1,
        size: int = 28,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        seed: Any = None,
    ) -> None:
        super().__init__()
        side = check_count("size", size, low=8)
        pad = 0 if side >= 16 else 2  # so that a small image does not vanish in the second convolution
        flat = 16 * ((side // 2 + 2 * pad - 4) // 2) ** 2
        with _seeded(seed):
            first = nn.Conv2d(in_channels, 6, 5, padding=2)
            stages = [
                [Normalize(in_channels, mean, std), first, nn.ReLU(), nn.MaxPool2d(2)],
                [nn.Conv2d(6, 16, 5, padding=pad), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()],
                [nn.Linear(flat, 120), nn.ReLU()],
                [nn.Linear(120, 84), nn.ReLU()],
            ]
            self.stages = nn.ModuleList(nn.Sequential(*stage) for stage in stages)
            self.head = nn.Linear(84, num_classes)


class _Block(nn.Module):
    """Residual block: two convolutions, each followed by batch normalization."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(_convolution(channels, width, stride), nn.BatchNorm2d(width), nn.ReLU())
        self.second = nn.Sequential(_convolution(width, width), nn.BatchNorm2d(width))
        shortcut = nn.Sequential(_Shortcut(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.shortcut = shortcut if stride > 1 or channels != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


class _PreActBlock(nn.Module):
    """Residual block: two convolutions, each preceded by batch normalization."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.first = _convolution(channels, width, stride)
        self.second = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), _convolution(width, width))
        self.changes = stride > 1 or channels != width
        self.shortcut = _Shortcut(channels, width, 1, stride, bias=False) if self.changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        normalized = self.before(x)
        skipped: Tensor = self.shortcut(normalized if self.changes else x)
        return skipped + self.second(self.first(normalized))


class _ResidualNetwork(Stages):
    """Stem, four groups of two residual blocks, the mean over pixels, a linear layer."""

    block: ClassVar[type[_Block | _PreActBlock]]

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        width: int = 64,
        seed: Any = None,
    ) -> None:
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]  # each group but the first halves the image
        with _seeded(seed):
            stem: list[nn.Module] = [Normalize(in_channels, mean, std), _convolution(in_channels, width)]
            groups: list[list[nn.Module]] = [
                [self.block(n_in, n_out, 2 if i else 1), self.block(n_out, n_out, 1)]
                for i, (n_in, n_out) in enumerate(pairwise(widths))
            ]
            end: nn.Module = _Pool()
            if self.block is _Block:
                stem += [nn.BatchNorm2d(width), nn.ReLU()]
            else:
                end = nn.Sequential(nn.BatchNorm2d(widths[-1]), nn.ReLU(), end)
            groups[0].insert(0, nn.Sequential(*stem))
            groups[-1].append(end)
            self.stages = nn.ModuleList(nn.Sequential(*group) for group in groups)
            self.head = nn.Linear(widths[-1], num_classes)

    @property
    def regions(self) -> list[nn.Module]:
        """Stem, blocks and the last normalization, if there is one; each shape is compiled once."""
        parts = [part for stage in self.stages for part in stage.children()]
        return [part for part in parts if not isinstance(part, _Pool)]


@final
class ResNet18(_ResidualNetwork):
    """ResNet-18 (He et al., 2016) for small images: a first convolution of 3 x 3 without pooling.

    Parameters
    ----------
    num_classes, in_channels, mean, std, seed
        As in :class:`LeNet5`.
    width : int
        Channels of the first of four groups; 64 is the ResNet-18 with 512 features.

    Examples
    --------
    >>> net = ResNet18(width=4, seed=0).eval()
    >>> net.encode(torch.rand(2, 3, 32, 32), net.depth).shape
    torch.Size([2, 32])
    """

    block = _Block


@final
class PreActResNet18(_ResidualNetwork):
    """ResNet-18 whose blocks normalize first (He et al., 2016b), for small images; parameters of :class:`ResNet18`.

    >>> PreActResNet18(200, width=4, seed=0)(torch.rand(2, 3, 64, 64)).shape
    torch.Size([2, 200])
    """

    block = _PreActBlock


@final
class SmallConvNet(Stages):
    """Small network for images of any size: three convolutions of stride 2, the mean, a linear layer.

    It serves as AdaMixup's policy (pairs: twice the channels, 3 outputs) and critic (2 outputs) for images.

    Parameters
    ----------
    in_channels, num_classes : int
    width : int
    seed : int, Generator or None
    """

    def __init__(self, in_channels: int, num_classes: int, width: int = 32, seed: Any = None) -> None:
        super().__init__()
        channels = [in_channels, width, 2 * width, 2 * width]
        with _seeded(seed):
            steps = [nn.Sequential(nn.Conv2d(c, w, 3, 2, 1), nn.ReLU()) for c, w in pairwise(channels)]
            self.stages = nn.ModuleList([nn.Sequential(*steps, _Pool())])
            self.head = nn.Linear(channels[-1], num_classes)


IMAGE_NETWORKS: dict[str, type[Stages]] = {"lenet5": LeNet5, "resnet18": ResNet18, "preact-resnet18": PreActResNet18}
"""Networks for images by name."""
