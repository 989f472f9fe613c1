"""Training: tasks and batches, the loop over one network, the fleet of many small networks, AdaMixup."""

from genlabel._runtime import eval_mode
from genlabel.training.adamixup.fleet import train_adamixup
from genlabel.training.adamixup.network import train_adamixup_network
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.trainer import FleetTrainer, train_fleet
from genlabel.training.batching import Batch, BatchPlan, Hyperparameters, TrainingTask
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.image_batches import ImageBatches, predict_scores
from genlabel.training.loop import train_network, train_task
from genlabel.training.optimizers import SGD, Adam, Optimizer
from genlabel.training.step import soft_cross_entropy

__all__ = [
    "SGD",
    "Adam",
    "Batch",
    "BatchPlan",
    "BestEpoch",
    "Checkpoint",
    "CompileConfig",
    "Fleet",
    "FleetTrainer",
    "Hyperparameters",
    "ImageBatches",
    "Optimizer",
    "TrainingTask",
    "eval_mode",
    "predict_scores",
    "soft_cross_entropy",
    "train_adamixup",
    "train_adamixup_network",
    "train_fleet",
    "train_network",
    "train_task",
]
