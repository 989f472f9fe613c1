"""Staged networks, with `encode(x, depth)` and `decode(h, depth)`: fully connected, and those for images."""

from genlabel.training.networks.convolutional import LeNet5, PreActResNet18, ResNet18
from genlabel.training.networks.staged import MLP, StagedNetwork

__all__ = ["MLP", "LeNet5", "PreActResNet18", "ResNet18", "StagedNetwork"]
