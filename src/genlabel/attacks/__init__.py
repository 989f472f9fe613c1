"""Attacks: points close to the given ones that a model misclassifies, and the accuracy under them."""

from genlabel.attacks.autoattack import AutoAttack
from genlabel.attacks.base import Attack
from genlabel.attacks.boundary import Boundary
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.margin import Margins, linear_margins, margins
from genlabel.attacks.models import AttackedFleet, AttackedModel, AttackedNetwork, DecisionModel, FunctionModel
from genlabel.attacks.robustness import Robustness, robust_accuracy
from genlabel.attacks.training import train_robust

__all__ = [
    "FGSM",
    "PGD",
    "Attack",
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
