"""One descent for many models at once: all parameters in a flat tensor, a step of the optimiser for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, final

import torch
from torch import Tensor

from genlabel.progress import Listener
from genlabel.training.optimizers import Optimizer
from genlabel.training.plan import Candidate

__all__ = ["Descent"]

Step = TypeVar("Step")


@final
class Descent:
    """The state of a training run: parameters, gradients, optimiser state and losses of G tasks with C candidates each.

    Parameters
    ----------
    theta : Tensor (G, C, size)
        All parameters; changed in place.
    candidates : sequence of Candidate
        Rate and decay of each of the C models of a task.
    rule : Optimizer
    epochs, batches : int
        How long it goes on, and the steps of an epoch.

    Attributes
    ----------
    grad : Tensor (G, C, size)
        Where the gradient of a step is written.
    """

    def __init__(
        self, theta: Tensor, candidates: Sequence[Candidate], rule: Optimizer, epochs: int, batches: int
    ) -> None:
        self.theta, self.grad = theta, torch.zeros_like(theta)
        self.epochs, self.batches = epochs, batches
        self._rule, self._state = rule, rule.start(theta)
        self._lr = theta.new_tensor([c.learning_rate for c in candidates])[:, None]
        self._decay = theta.new_tensor([c.weight_decay for c in candidates])[:, None]
        self._losses: list[Tensor] = []

    def run(self, steps: Iterable[Step], gradient: Callable[[Step], Tensor], progress: Listener | None) -> None:
        """Take steps: `gradient` writes a step's gradient into `grad` and returns the losses (G, C)."""
        for step in steps:
            self._losses.append(gradient(step))
            self.grad.addcmul_(self.theta, self._decay)
            t = len(self._losses)
            rate = self._lr * self._rule.factor((t - 1) // self.batches, self.epochs)
            self._rule.step(self.theta, self.grad, self._state, rate, t)
            if progress is not None and t % self.batches == 0:
                progress(1)

    def epoch_losses(self) -> Tensor:
        """Mean loss of each epoch, (epochs, G, C), in float64 on the CPU."""
        losses = torch.stack(self._losses).cpu().double()
        return losses.view(self.epochs, self.batches, *self.theta.shape[:2]).mean(1)
