"""One descent for many models at once: all parameters in a flat tensor, a step of the optimiser for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import TypeAlias, final

import torch
from torch import Tensor

from genlabel._progress import Callback
from genlabel.training.batching import Hyperparameters
from genlabel.training.optimizers import Optimizer

Watching: TypeAlias = Callable[[int, Tensor], None]
"""Called with an epoch, from 1, and the parameters at its end."""
AVERAGING_POWER = 8.0
"""How strongly an average of the weights favours late steps: that of step t counts as t to this power."""


@final
class BatchedOptimizer:
    """The state of a training run: parameters, optimiser state and losses of G tasks with C candidates each.

    Parameters
    ----------
    theta : Tensor (G, C, size)
        All parameters; changed in place.
    candidates : sequence of Candidate
        Rate and decay of each of the C models of a task.
    rule : Optimizer
    epochs, batches : int
        How long it goes on at most, and the steps of an epoch.
    progress : callable, optional
        Told of each epoch.
    averaged : bool
        Whether the average of the parameters over the steps so far is kept, in which late steps count most.
    watch : callable (epoch from 1, parameters), optional
        Shown the parameters, or their average, at the end of each epoch.

    Attributes
    ----------
    grad : Tensor (G, C, size)
        Where the gradient of a step is written before it is taken; lost in it.
    average : Tensor (G, C, size) or None
    """

    def __init__(
        self,
        theta: Tensor,
        candidates: Sequence[Hyperparameters],
        rule: Optimizer,
        epochs: int,
        batches: int,
        callback: Callback | None = None,
        averaged: bool = False,
        watch: Watching | None = None,
    ) -> None:
        self.theta, self.watch = theta, watch
        self.average = theta.clone() if averaged else None
        self.epochs, self.batches, self.callback = epochs, batches, callback
        self._rule, self._state = rule, list(rule.start(theta))
        self._lr = theta.new_tensor([c.learning_rate for c in candidates])[:, None]
        self._decay = theta.new_tensor([c.weight_decay for c in candidates])[:, None]
        self.steps = 0
        self._losses: list[Tensor] = []

    @cached_property
    def grad(self) -> Tensor:
        """Room for a gradient, (G, C, size): only those that take steps have it."""
        return torch.zeros_like(self.theta)

    def of_tasks(
        self, tasks: slice, callback: Callback | None = None, watch: Watching | None = None
    ) -> BatchedOptimizer:
        """The descent of some tasks alone, in the same memory, but for the gradient."""
        part = copy(self)
        part.theta = self.theta[tasks]
        part.__dict__.pop("grad", None)
        part.average = None if self.average is None else self.average[tasks]
        part._state = [one[tasks] for one in self._state]
        part._losses, part.callback, part.watch = [], callback, watch
        return part

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some candidates alone; the memory of the others is given back, tensor by tensor."""
        index = torch.tensor(places, device=self.theta.device)
        self.__dict__.pop("grad", None)
        self.theta = self.theta[:, index]
        self.average = None if self.average is None else self.average[:, index]
        for place in range(len(self._state)):
            self._state[place] = self._state[place][:, index]
        self._lr, self._decay = self._lr[index], self._decay[index]

    def step(self, loss: Tensor) -> None:
        """Take a step along `grad`, in which the gradient of the losses (G, C) has been written."""
        self._losses.append(loss)
        self.grad.addcmul_(self.theta, self._decay)
        self.steps += 1
        rate = self._lr * self._rule.factor((self.steps - 1) // self.batches, self.epochs)
        self._rule.step(self.theta, self.grad, self._state, rate, self.steps)
        if self.average is not None:
            self.average.lerp_(self.theta, (AVERAGING_POWER + 1.0) / (self.steps + AVERAGING_POWER))
        if self.steps % self.batches == 0:
            self._end_epoch()

    def _end_epoch(self) -> None:
        """Tell those who want to know."""
        if self.watch is not None:
            self.watch(self.steps // self.batches, self.theta if self.average is None else self.average)
        if self.callback is not None:
            self.callback.on_epoch_end(self.steps // self.batches - 1, {})

    def epoch_losses(self) -> Tensor:
        """Mean loss of each epoch that it made, (epochs, G, C), in float64 on the CPU."""
        losses = torch.stack(self._losses).cpu().double()
        return losses.view(-1, self.batches, *self.theta.shape[:2]).mean(1)
