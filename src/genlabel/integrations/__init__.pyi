from .batches import MixedBatch
from .collate import MixCollate
from .lightning import GenLabelCallback
from .mixup import GenLabelMixup
from .trainer import GenLabelTrainer

__all__ = ["GenLabelCallback", "GenLabelMixup", "GenLabelTrainer", "MixCollate", "MixedBatch"]
