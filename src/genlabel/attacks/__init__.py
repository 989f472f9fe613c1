"""Attacks: points close to the given ones that a model takes for another class, and the accuracy that is left."""

from genlabel.attacks.autoattack import AutoAttack
from genlabel.attacks.base import Attack
from genlabel.attacks.black_box import DecisionModel, FunctionModel
from genlabel.attacks.boundary import Boundary
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.margin import Margins, linear_margins, margins
from genlabel.attacks.models import AttackedFleet, AttackedModel, AttackedNetwork
from genlabel.attacks.robustness import Robustness, robust_accuracy
from genlabel.attacks.training import AttackedBatches, train_robust

__all__ = [
    "FGSM",
    "PGD",
    "Attack",
    "AttackedBatches",
    "AttackedFleet",
    "AttackedModel",
    "AttackedNetwork",
    "AutoAttack",
    "Boundary",
    "DecisionModel",
    "FunctionModel",
    "Margins",
    "Robustness",
    "linear_margins",
    "margins",
    "robust_accuracy",
    "train_robust",
]
