"""Training: the plan of points and labels, the loop for one network, the fleet for many small ones at once."""

from genlabel.training.adamixup import Trio, mixing_share, policy_range, train_adamixup
from genlabel.training.fleet import Fleet, train_fleet
from genlabel.training.loop import SharedLabel, soft_cross_entropy, train_network, train_task
from genlabel.training.optimizers import SGD, Adam, Optimizer, resolve_optimizer
from genlabel.training.plan import Batch, Candidate, Plan, Steps, Task, batches_per_epoch

__all__ = [
    "SGD",
    "Adam",
    "Batch",
    "Candidate",
    "Fleet",
    "Optimizer",
    "Plan",
    "SharedLabel",
    "Steps",
    "Task",
    "Trio",
    "batches_per_epoch",
    "mixing_share",
    "policy_range",
    "resolve_optimizer",
    "soft_cross_entropy",
    "train_adamixup",
    "train_fleet",
    "train_network",
    "train_task",
]
