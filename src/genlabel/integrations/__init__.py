"""Generative labels in any training loop: GenLabelMixup, and its adapters to other libraries."""

from genlabel._lazy import lazy_getattr
from genlabel.integrations.batches import MixedAccuracy, mixed_accuracy
from genlabel.integrations.collate import MixCollate
from genlabel.integrations.mixup import GenLabelMixup

__all__ = ["GenLabelCallback", "GenLabelMixup", "GenLabelTrainer", "MixCollate", "MixedAccuracy", "mixed_accuracy"]

__getattr__ = lazy_getattr(__name__, {"lightning": ("GenLabelCallback",), "trainer": ("GenLabelTrainer",)})
