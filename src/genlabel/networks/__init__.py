"""Staged networks: `encode(x, depth)` and `decode(h, depth)`; fully connected, and those of the image experiments."""

from genlabel.networks.convolutional import IMAGE_NETWORKS, Judge, LeNet5, PreActResNet18, ResNet18, Stages
from genlabel.networks.ensemble import Ensemble, log_proba_of
from genlabel.networks.staged import MLP, StagedNetwork, draw_weights

__all__ = [
    "IMAGE_NETWORKS",
    "MLP",
    "Ensemble",
    "Judge",
    "LeNet5",
    "PreActResNet18",
    "ResNet18",
    "StagedNetwork",
    "Stages",
    "draw_weights",
    "log_proba_of",
]
