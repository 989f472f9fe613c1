"""A small residual network with named stages, and batches of digits."""

from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    """Stages in the order of their names, so that a test can walk them by hand."""

    def __init__(self, k: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.layer1, self.layer2 = Block(6), Block(6)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(6, k)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.children():
            x = stage(x)
        return x


@pytest.fixture
def make_network() -> Callable[[], nn.Module]:
    """Return a function that makes the network, always with the same weights."""

    def make(k: int = 10) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return Net(k)

    return make


@pytest.fixture
def digits() -> tuple[Tensor, Tensor]:
    """64 images (n, 1, 8, 8) in [0, 1] and their classes."""
    X, y = load_digits(return_X_y=True)
    return torch.from_numpy(X[:64] / 16.0).float().reshape(-1, 1, 8, 8), torch.from_numpy(y[:64]).long()
