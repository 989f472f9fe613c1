from .batches import MixedBatch
from .lightning import GenLabelCallback
from .mixup import GenLabelMixup, MixCollate
from .trainer import GenLabelTrainer

__all__ = ["GenLabelCallback", "GenLabelMixup", "GenLabelTrainer", "MixCollate", "MixedBatch"]
