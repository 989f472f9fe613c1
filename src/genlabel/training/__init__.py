"""Training: the plan of points and labels, the loop for one network, the fleet for many small ones at once."""

from genlabel._runtime import eval_mode
from genlabel.training.adamixup.network_step import AdaMixupRun, train_adamixup_network
from genlabel.training.adamixup.trainer import AdaMixupNetworks, mixing_share, policy_range, train_adamixup
from genlabel.training.batched.best_epoch import EPOCH_CHOICES, BestEpoch, BestEpochTracker, Score
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.optimizer import AVERAGING_POWER
from genlabel.training.batched.trainer import FleetTrainer, train_fleet
from genlabel.training.batching import Batch, BatchPlan, Hyperparameters, StepBlock, TrainingTask, batches_per_epoch
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig, frozen_batchnorm_stats
from genlabel.training.image_batches import ImageBatches, predict_scores
from genlabel.training.loop import train_network, train_task
from genlabel.training.optimizers import SGD, Adam, Optimizer, resolve_optimizer
from genlabel.training.step import soft_cross_entropy

__all__ = [
    "AVERAGING_POWER",
    "EPOCH_CHOICES",
    "SGD",
    "AdaMixupNetworks",
    "AdaMixupRun",
    "Adam",
    "Batch",
    "BatchPlan",
    "BestEpoch",
    "BestEpochTracker",
    "Checkpoint",
    "CompileConfig",
    "Fleet",
    "FleetTrainer",
    "Hyperparameters",
    "ImageBatches",
    "Optimizer",
    "Score",
    "StepBlock",
    "TrainingTask",
    "batches_per_epoch",
    "eval_mode",
    "frozen_batchnorm_stats",
    "mixing_share",
    "policy_range",
    "predict_scores",
    "resolve_optimizer",
    "soft_cross_entropy",
    "train_adamixup",
    "train_adamixup_network",
    "train_fleet",
    "train_network",
    "train_task",
]
