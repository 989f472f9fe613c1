"""Staged networks, with `encode(x, depth)` and `decode(h, depth)`: fully connected, and those for images."""

from genlabel.training.networks.convolutional import (
    IMAGE_NETWORKS,
    LeNet5,
    PreActResNet18,
    ResNet18,
    SmallConvNet,
    Stages,
)
from genlabel.training.networks.ensemble import Ensemble
from genlabel.training.networks.staged import MLP, StagedNetwork

__all__ = [
    "IMAGE_NETWORKS",
    "MLP",
    "Ensemble",
    "LeNet5",
    "PreActResNet18",
    "ResNet18",
    "SmallConvNet",
    "StagedNetwork",
    "Stages",
]
