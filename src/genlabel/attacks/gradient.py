"""Attacks that follow the gradient: one step (FGSM), or many within the ball (PGD)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import Tensor

from genlabel._validation import check_count, check_positive
from genlabel.attacks.base import Attack, BestAdversarial, steepest_direction
from genlabel.attacks.models import AttackedModel
from genlabel.registry import ATTACKS


@ATTACKS.register("fgsm")
@final
@dataclass(frozen=True, repr=False)
class FGSM(Attack):
    """Fast gradient sign method: one step of the whole radius (Goodfellow et al., 2015; arXiv Table 12).

    It is exact for linear models of two classes, and for linear models of any number with `targeted=True` (in L2, where
    no bound is in the way).

    Parameters
    ----------
    eps, norm, bounds
        As in :class:`Attack`; in "l2" the step goes along the gradient, not along its sign.
    targeted : bool
        Step towards every other class, along the gradient of its score minus the true one's, and keep the most harmful;
        otherwise step along the gradient of the cross-entropy (the paper's).

    Examples
    --------
    >>> from genlabel.attacks.models import AttackedNetwork
    >>> FGSM(0.2)(AttackedNetwork(torch.nn.Linear(2, 2)), np.zeros((1, 2)), [0]).__abs__()
    array([[0.2, 0.2]])
    """

    targeted: bool = field(default=False, kw_only=True)

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Take one step, or one towards each other class."""
        if not self.targeted:
            return single_step(self, model, x, y)
        best = BestAdversarial(model, x, y)
        for other in other_classes(model, x, y):
            best.update(single_step(self, model, x, y, other))
        return best.points


@ATTACKS.register("pgd")
@final
@dataclass(frozen=True, repr=False)
class PGD(Attack):
    """Projected gradient ascent on the cross-entropy from a random point of the ball (Madry et al., 2018).

    It starts with the steps of :class:`FGSM` towards every other class, and returns the most harmful of all points on
    its way: it is never weaker than either, and exact for linear models where that is.

    Parameters
    ----------
    eps, norm, bounds
        As in :class:`Attack`.
    steps : int
        Number of steps from each start.
    step_size : float or None
        Length of a step; None is 2.5 eps / steps, enough to cross the ball.
    restarts : int
        Number of random starts; every model of a fleet starts from the same points.
    random_start : bool
        Start at a random point of the ball; otherwise at the point itself.
    targeted : bool
        Climb towards every other class in turn, instead of away from the true one.

    Examples
    --------
    >>> from genlabel.attacks.models import AttackedNetwork
    >>> PGD(0.2, "l2", steps=5)(AttackedNetwork(torch.nn.Linear(2, 2)), np.zeros((3, 2)), [0, 1, 0], seed=0).shape
    (3, 2)
    """

    steps: int = 20
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = True
    targeted: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)
        if self.step_size is not None:
            check_positive("step_size", self.step_size, "None is 2.5 eps / steps")
        if self.restarts > 1 and not self.random_start:
            raise ValueError(f"restarts={self.restarts} would all begin at the same point; use random_start=True")

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Climb from each start, away from the true class or towards each other one."""
        best, (m, d) = BestAdversarial(model, x, y), x.shape[-2:]
        size = 2.5 * self.eps / self.steps if self.step_size is None else self.step_size
        for other in other_classes(model, x, y):
            best.update(single_step(self, model, x, y, other))
        for _ in range(self.restarts):
            start = x
            if self.random_start:  # a uniform point of the ball, the same for every model
                if self.norm == "linf":
                    noise = torch.from_numpy(rng.uniform(-self.eps, self.eps, (m, d))).to(x)
                else:
                    unit = steepest_direction(torch.from_numpy(rng.normal(size=(m, d))), "l2")
                    noise = (self.eps * unit * torch.from_numpy(rng.random((m, 1)) ** (1 / d))).to(x)
                start = self.project(x + noise, x)
            for target in other_classes(model, x, y) if self.targeted else [None]:
                points = start
                for _ in range(self.steps):
                    if bool(best.misclassified.all()):
                        break
                    gradient = model.log_odds_gradient(points, y, target)
                    points = self.project(points + size * steepest_direction(gradient, self.norm), x)
                    best.update(points)
        return best.points


def single_step(attack: Attack, model: AttackedModel, x: Tensor, y: Tensor, other: Tensor | None = None) -> Tensor:
    """Return x plus one step of the whole radius along the gradient of `AttackedModel.log_odds_gradient`."""
    gradient = model.log_odds_gradient(x, y, other)
    return attack.project(x + attack.eps * steepest_direction(gradient, attack.norm), x)


def other_classes(model: AttackedModel, x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Yield k - 1 tensors of the shape of y that run through the other classes of each point."""
    k = model.log_proba(x[..., :1, :]).shape[-1]
    return ((y + offset) % k for offset in range(1, k))
