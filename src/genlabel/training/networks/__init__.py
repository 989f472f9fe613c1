"""Staged networks: `encode(x, depth)` and `decode(h, depth)`; fully connected, and those of the image experiments."""

from genlabel.training.networks.convolutional import (
    IMAGE_NETWORKS,
    LeNet5,
    PreActResNet18,
    ResNet18,
    SmallConvNet,
    Stages,
)
from genlabel.training.networks.ensemble import Ensemble, log_proba_of
from genlabel.training.networks.staged import MLP, StagedNetwork, draw_weights

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
    "draw_weights",
    "log_proba_of",
]
