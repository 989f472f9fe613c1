"""Generative labels in anybody's training loop: the drop-in, and its adapters to other libraries."""

from genlabel.lazy import load_when_used
from genlabel.loops.accuracy import MixedAccuracy, mixed_accuracy
from genlabel.loops.collate import MixCollate
from genlabel.loops.mixup import GenLabelMixup

__all__ = ["GenLabelCallback", "GenLabelMixup", "GenLabelTrainer", "MixCollate", "MixedAccuracy", "mixed_accuracy"]

__getattr__ = load_when_used(__name__, {"lightning": ("GenLabelCallback",), "trainer": ("GenLabelTrainer",)})
