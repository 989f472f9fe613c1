from .batches import MixedAccuracy, mixed_accuracy
from .collate import MixCollate
from .lightning import GenLabelCallback
from .mixup import GenLabelMixup
from .trainer import GenLabelTrainer

__all__ = [
    "GenLabelCallback",
    "GenLabelMixup",
    "GenLabelTrainer",
    "MixCollate",
    "MixedAccuracy",
    "mixed_accuracy",
]
