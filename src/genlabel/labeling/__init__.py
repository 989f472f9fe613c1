"""Soft labels of mixed points: linear (mixup), logistic, and generative (GenLabel), with fitted or online densities."""

from genlabel.labeling.base import Labeler, LinearLabel, LogisticLabel
from genlabel.labeling.generative import GenLabel, GenLabelSampler
from genlabel.labeling.online import OnlineGenLabel

__all__ = ["GenLabel", "GenLabelSampler", "Labeler", "LinearLabel", "LogisticLabel", "OnlineGenLabel"]
