"""Training: tasks and batches, the loop over one network, the fleet of many small networks, AdaMixup."""

from genlabel.training.adamixup.network import train_adamixup_network
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.trainer import train_fleet
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.image_batches import ImageBatches, predict_scores
from genlabel.training.loop import train_network
from genlabel.training.optimizers import SGD, Adam, Optimizer

__all__ = [
    "SGD",
    "Adam",
    "BestEpoch",
    "Checkpoint",
    "CompileConfig",
    "Fleet",
    "ImageBatches",
    "Optimizer",
    "predict_scores",
    "train_adamixup_network",
    "train_fleet",
    "train_network",
]
