"""Soft labels for mixed points: linear (mixup), logistic, and generative (GenLabel), from densities that were fitted
before or that learn as the network trains."""

from genlabel.labeling.base import Labeler, observe_and_label
from genlabel.labeling.generative import GenLabel
from genlabel.labeling.linear import LinearLabel, LogisticLabel
from genlabel.labeling.online import OnlineGenLabel
from genlabel.labeling.sampler import GenLabelSampler
from genlabel.labeling.shared import WeightedLabel

__all__ = [
    "GenLabel",
    "GenLabelSampler",
    "Labeler",
    "LinearLabel",
    "LogisticLabel",
    "OnlineGenLabel",
    "WeightedLabel",
    "observe_and_label",
]
