"""Generative labels in anybody's training loop: the drop-in, and its adapters to other libraries."""

from genlabel.loops.accuracy import MixedAccuracy, mixed_accuracy
from genlabel.loops.collate import MixCollate
from genlabel.loops.mixup import GenLabelMixup

__all__ = ["GenLabelMixup", "MixCollate", "MixedAccuracy", "mixed_accuracy"]
