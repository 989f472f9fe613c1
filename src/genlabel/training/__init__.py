"""Training: tasks and batches, the loop over one network, the fleet of many small networks, AdaMixup."""

from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig
from genlabel.training.image_batches import ImageBatches
from genlabel.training.loop import train_network
from genlabel.training.optimizers import SGD, Adam

__all__ = ["SGD", "Adam", "Checkpoint", "CompileConfig", "ImageBatches", "train_network"]
