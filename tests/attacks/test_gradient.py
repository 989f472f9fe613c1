"""Test FGSM and PGD on adversarially designed scores."""

import numpy as np
import torch
from torch import Tensor, nn

from genlabel.attacks import FGSM, PGD
from genlabel.attacks.models import AttackedNetwork, FunctionModel


def test_a_step_that_overshoots_keeps_a_wrong_point_wrong() -> None:
    """Class 1 is a ripple: a full step from a misclassified point ends where the prediction is correct."""

    def log_proba(X: np.ndarray) -> np.ndarray:
        ripple = np.hstack([np.zeros_like(X), np.cos(40 * X)])
        return torch.from_numpy(ripple).log_softmax(-1).numpy()

    target, X = FunctionModel(log_proba), np.array([[-0.03], [-0.07]])
    assert log_proba(X).argmax(1).tolist() == [1, 0]
    assert log_proba(X + 0.1).argmax(1).tolist() == [0, 1]
    adversarial = FGSM(0.1)(target, X, [0, 0])
    assert log_proba(adversarial).argmax(1).tolist() == [1, 1]
    np.testing.assert_array_equal(adversarial[0], X[0])


class Decoy(nn.Module):
    """Class 1 approaches class 0 towards (+, -) and never wins; class 2 wins at (+, +), along a curved path."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.T
        return torch.stack([0 * a, -0.05 * torch.exp(4 * (b - a)), -0.5 + 0.1 * b + 20 * a * b], 1)


def test_only_targeted_pgd_reaches_a_class_against_the_gradient() -> None:
    target, X = AttackedNetwork(Decoy()), np.zeros((1, 2))

    def fooled(attack: FGSM | PGD) -> bool:
        return bool(target.log_proba(torch.from_numpy(attack(target, X, [0]))).argmax() != 0)

    assert not fooled(FGSM())
    assert not fooled(FGSM(targeted=True))
    assert not fooled(PGD(random_start=False))
    assert fooled(PGD(random_start=False, targeted=True))
