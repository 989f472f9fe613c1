"""Attacks: points close to the given ones that a model takes for another class, and the accuracy that is left."""

from genlabel.attacks.autoattack import AutoAttack
from genlabel.attacks.base import Attack
from genlabel.attacks.boundary import Boundary
from genlabel.attacks.functions import DecisionTarget, FunctionTarget
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.margin import Margins, linear_margins, margins
from genlabel.attacks.robustness import Robustness, robust_accuracy
from genlabel.attacks.targets import FleetTarget, NetworkTarget, Target
from genlabel.attacks.training import AttackedBatches, train_robust

__all__ = [
    "FGSM",
    "PGD",
    "Attack",
    "AttackedBatches",
    "AutoAttack",
    "Boundary",
    "DecisionTarget",
    "FleetTarget",
    "FunctionTarget",
    "Margins",
    "NetworkTarget",
    "Robustness",
    "Target",
    "linear_margins",
    "margins",
    "robust_accuracy",
    "train_robust",
]
