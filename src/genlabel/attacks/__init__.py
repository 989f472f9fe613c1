"""Attacks: points close to the given ones that a model misclassifies, and the accuracy under them."""

from genlabel.attacks.base import Attack
from genlabel.attacks.external import AutoAttack, Boundary
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.margin import linear_margins, margins
from genlabel.attacks.robustness import robust_accuracy, train_robust

__all__ = [
    "FGSM",
    "PGD",
    "Attack",
    "AutoAttack",
    "Boundary",
    "linear_margins",
    "margins",
    "robust_accuracy",
    "train_robust",
]
