"""Training: the plan of points and labels, the loop for one network, the fleet for many small ones at once."""

from genlabel.labeling import SharedLabel
from genlabel.training.acceleration import Acceleration, evaluating, leave_running_statistics
from genlabel.training.adamixup import Trio, mixing_share, policy_range, train_adamixup
from genlabel.training.adamixup_network import AdaMixupRun, train_adamixup_network
from genlabel.training.best_epoch import KEEPS, BestEpoch, Score, Watch
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.descent import LATE
from genlabel.training.fleet import Fleet
from genlabel.training.fleet_run import FleetRun, train_fleet
from genlabel.training.image_batches import ImageBatches, predict_scores
from genlabel.training.loop import train_network, train_task
from genlabel.training.optimizers import SGD, Adam, Optimizer, resolve_optimizer
from genlabel.training.plan import Batch, Candidate, Plan, Steps, Task, batches_per_epoch
from genlabel.training.step import soft_cross_entropy

__all__ = [
    "KEEPS",
    "LATE",
    "SGD",
    "Acceleration",
    "AdaMixupRun",
    "Adam",
    "Batch",
    "BestEpoch",
    "Candidate",
    "Checkpoint",
    "Fleet",
    "FleetRun",
    "ImageBatches",
    "Optimizer",
    "Plan",
    "Score",
    "SharedLabel",
    "Steps",
    "Task",
    "Trio",
    "Watch",
    "batches_per_epoch",
    "evaluating",
    "leave_running_statistics",
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
