"""Soft labels of mixed points: linear (mixup), logistic, and generative (GenLabel), with fitted or online densities."""

from genlabel.labeling.base import Labeler
from genlabel.labeling.generative import GenLabel
from genlabel.labeling.linear import LinearLabel, LogisticLabel, WeightedLabel
from genlabel.labeling.online import OnlineGenLabel
from genlabel.labeling.sampler import GenLabelSampler

__all__ = [
    "GenLabel",
    "GenLabelSampler",
    "Labeler",
    "LinearLabel",
    "LogisticLabel",
    "OnlineGenLabel",
    "WeightedLabel",
]
