"""Training of a fleet: all models of a search together, as one batched program, some epochs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import chunks
from genlabel._progress import Callback
from genlabel.mixing import MixParams
from genlabel.training.batching import (
    BatchPlan,
    Hyperparameters,
    StepBlock,
    TrainingTask,
    batches_per_epoch,
    check_depths,
    epoch_chunks,
)
from genlabel.training.early_stopping import BestEpoch, make_tracker
from genlabel.training.fleet import Fleet, linear_gradient, relu_gradient
from genlabel.training.optimizers import Adam, Optimizer

AVERAGING_POWER = 8.0
"""Weight of step t in an average of the parameters is t to this power."""
MAX_PARAMETERS_PER_BLOCK = 700_000
"""Parameters of hidden networks trained together on a CPU; with gradients and moments, they fit in its cache."""


@final
class FleetTrainer:
    """Training of every candidate on every task (arXiv Alg. 1), some epochs at a time, with ever fewer candidates.

    The tasks have equal numbers of features, classes and labelers; their sizes may differ. All of them take the number
    of batches that the largest one needs. Up to rounding, a model does not depend on the others trained with it, nor on
    how its epochs are split into calls.

    Parameters
    ----------
    tasks : sequence of TrainingTask
    candidates : sequence of Hyperparameters
    hidden : sequence of int
        Sizes of the hidden layers.
    optimizer : Optimizer, optional
        Adam by default.
    epochs : int
        Epochs of the whole run, for the schedule of the learning rate.
    batch_size : int
        Largest batch.
    epochs_per_pass : int
        Number of epochs in one pass over the rows.
    dtype, device
        In single precision, log-probabilities are within 1e-4 of those in double precision as long as rounding has
        not grown: see `docs/benchmarks.md`.
    averaged : bool
        If True, `fleet` has the average of the parameters over the steps so far, weighted towards late ones: good at
        any time, also with a large learning rate, at which the last step is noisy.
    restore_best : bool or BestEpoch
        If True, each network of `fleet` is that of its best epoch, by accuracy, then log-loss, on the `valid` rows of
        its task; a :class:`BestEpoch` sets another rule.
    callback : Callback, optional
        Its `on_epoch_end` is called after each epoch, with empty logs.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> run = FleetTrainer([task], [Hyperparameters(0.1), Hyperparameters(0.01), Hyperparameters(0.001)], epochs=5)
    >>> run.advance(2)
    >>> run.select([0, 2])
    >>> run.advance(3)
    >>> run.fleet.log_proba(0, X).shape
    (2, 4, 2)
    """

    @torch.no_grad()
    def __init__(
        self,
        tasks: Sequence[TrainingTask],
        candidates: Sequence[Hyperparameters],
        *,
        hidden: Sequence[int] = (),
        optimizer: Optimizer | None = None,
        epochs: int = 100,
        batch_size: int = 128,
        epochs_per_pass: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        averaged: bool = False,
        restore_best: bool | BestEpoch = False,
        callback: Callback | None = None,
    ) -> None:
        for task in tasks:
            if task.X.ndim != 2:
                raise ValueError(f"X has shape {task.X.shape}; a fleet trains on features (n, d): flatten X")
            check_depths(task.mixer, len(hidden))
            mixer, learning = task.mixer, [each for each in task.labelers if each.update_source is not None]
            if mixer is not None and mixer.max_depth and not mixer.linear:
                raise ValueError(f"{mixer!r} does not mix hidden layers linearly, as a fleet must; use train_network")
            if learning:
                raise ValueError(f"{learning[0]!r} learns while a network trains, not before it; use train_network")
        self.tasks, self.candidates, self._callback = tasks, list(candidates), callback
        self._epochs_per_pass = epochs_per_pass
        sizes = (tasks[0].X.shape[1], *hidden, tasks[0].num_classes)
        self._fleet = Fleet(sizes, [task.seed for task in tasks], len(candidates), dtype, torch.device(device))
        theta = self._fleet.theta
        batches = batches_per_epoch(max(len(task.X) for task in tasks), batch_size * epochs_per_pass)
        rule = Adam() if optimizer is None else optimizer
        self._optimizer = BatchedOptimizer(theta, candidates, rule, epochs, batches)
        self._optimizer.average = theta.clone() if averaged else None
        self._plans = [BatchPlan(task, batches, theta, epochs_per_pass) for task in tasks]
        self.tracker = make_tracker(restore_best, tasks, self._fleet, epochs)
        self._losses: list[Tensor] = []

    @property
    def fleet(self) -> Fleet:
        """Networks as they are now, or at their best epochs."""
        fleet = self._fleet.with_theta(self._optimizer.current if self.tracker is None else self.tracker.best)
        fleet.best_epochs = None if self.tracker is None else self.tracker.best_epochs
        fleet.losses = torch.cat(self._losses).numpy() if self._losses else self._fleet.losses
        return fleet

    @torch.no_grad()
    def advance(self, epochs: int) -> None:
        """Train for some more epochs."""
        theta, size = self._optimizer.theta, len(self.tasks)
        if len(self._fleet.sizes) > 2 and theta.device.type == "cpu":  # as many hidden networks as fit in the cache
            size = max(1, MAX_PARAMETERS_PER_BLOCK // (theta.shape[1] * theta.shape[-1]))
        blocks, batches, losses = chunks(len(self.tasks), size), self._optimizer.batches, []
        for i, block in enumerate(blocks):
            optimizer, step_losses = self._optimizer.of_tasks(block), list[Tensor]()
            for epoch, epoch_losses in enumerate(self._train_block(optimizer, block, epochs), 1):
                step_losses += epoch_losses
                number = optimizer.steps // batches
                if self.tracker is not None:
                    self.tracker.record(block, number, optimizer.current)
                # Blocks are trained one after the other. Each reports one in `len(blocks)` of its epochs, in turn, so
                # that progress is even over the whole training.
                if self._callback is not None and (epoch + i) % len(blocks) == 0:
                    self._callback.on_epoch_end(number - 1, {})
            if self.tracker is not None:
                self.tracker.flush(block)
            losses.append(mean_by_epoch(step_losses, batches))
        self._optimizer.steps += epochs * batches
        self._losses.append(torch.cat(losses, 1))

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some of the candidates only, in the given order of their indices."""
        self._optimizer.select(candidates)
        self._fleet = self._fleet.with_theta(self._optimizer.theta)
        self.candidates = [self.candidates[index] for index in candidates]
        self._losses = [losses[..., list(candidates)] for losses in self._losses]
        if self.tracker is not None:
            self.tracker.select(candidates)

    def _train_block(self, optimizer: BatchedOptimizer, block: slice, epochs: int) -> Iterator[list[Tensor]]:
        """Train the models of some tasks together; yield the losses (G, C) of the steps of each epoch, at its end."""
        grad = torch.zeros_like(optimizer.theta)
        layers, grads = self._fleet.layers(optimizer.theta), self._fleet.layers(grad)
        label_weights = optimizer.theta.new_tensor([candidate.label for candidate in self.candidates]).T.contiguous()
        tasks, plans = self.tasks[block], self._plans[block]
        weighted = any(task.class_weight is not None for task in tasks)
        losses: list[Tensor] = []
        workspace: dict[tuple[str, int], Tensor] = {}
        for count in epoch_chunks(tasks, epochs, self._epochs_per_pass):
            for step in _stack_tasks([plan.steps(count) for plan in plans]):
                if len(layers) == 1:
                    losses.append(linear_gradient(layers[0], step, label_weights, grads[0], weighted))
                else:
                    losses.append(relu_gradient(layers, step, label_weights, grads, weighted, workspace))
                optimizer.step(grad)
                if len(losses) == optimizer.batches:
                    yield losses
                    losses = []


def train_fleet(
    tasks: Sequence[TrainingTask], candidates: Sequence[Hyperparameters], *, epochs: int = 100, **settings: Any
) -> Fleet:
    """Train every candidate on every task for all epochs, and return the trained fleet.

    `settings` are further parameters of :class:`FleetTrainer`.
    """
    run = FleetTrainer(tasks, candidates, epochs=epochs, **settings)
    run.advance(epochs)
    return run.fleet


@final
class BatchedOptimizer:
    """Optimizer of many models at once: G tasks with C candidates each, in steps of `batches` per epoch.

    The parameters `theta` (G, C, size) are updated in place. An `average`, if there is one, is that of the parameters
    over the steps, weighted towards late ones.
    """

    def __init__(
        self, theta: Tensor, candidates: Sequence[Hyperparameters], rule: Optimizer, epochs: int, batches: int
    ) -> None:
        self.theta = theta
        self.average: Tensor | None = None
        self.epochs, self.batches, self.steps = epochs, batches, 0
        self._rule, self._state = rule, list(rule.start(theta))
        self._lr = theta.new_tensor([c.learning_rate for c in candidates])[:, None]
        self._decay = theta.new_tensor([c.weight_decay for c in candidates])[:, None]

    @property
    def current(self) -> Tensor:
        """The parameters, or their average if there is one."""
        return self.theta if self.average is None else self.average

    def of_tasks(self, tasks: slice) -> BatchedOptimizer:
        """Return an optimizer of some tasks that shares memory with this one."""
        part = copy(self)
        part.theta = self.theta[tasks]
        part.average = None if self.average is None else self.average[tasks]
        part._state = [state[tasks] for state in self._state]
        return part

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some candidates only; the memory of the others is freed, tensor by tensor."""
        index = torch.tensor(candidates, device=self.theta.device)
        self.theta = self.theta[:, index]
        self.average = None if self.average is None else self.average[:, index]
        for i in range(len(self._state)):
            self._state[i] = self._state[i][:, index]
        self._lr, self._decay = self._lr[index], self._decay[index]

    def step(self, grad: Tensor) -> None:
        """Take a step along a gradient of the shape of `theta`, which is overwritten."""
        grad.addcmul_(self.theta, self._decay)
        self.steps += 1
        rate = self._lr * self._rule.factor((self.steps - 1) // self.batches, self.epochs)
        self._rule.step(self.theta, grad, self._state, rate, self.steps)
        if self.average is not None:
            self.average.lerp_(self.theta, (AVERAGING_POWER + 1.0) / (self.steps + AVERAGING_POWER))


def mean_by_epoch(losses: list[Tensor], batches: int) -> Tensor:
    """Return the mean losses (epochs, G, C) of steps (G, C), in float64 on the CPU."""
    return torch.stack(losses).cpu().double().view(-1, batches, *losses[0].shape).mean(1)


def _stack_tasks(blocks: Sequence[StepBlock]) -> Iterator[StepBlock]:
    """Yield the steps of all tasks together, (G, B, ...), padded by rows of weight 0 that are not mixed."""
    first, size = blocks[0], max(block.x.shape[1] for block in blocks)
    shape = (len(first.x), len(blocks), size)
    x, target = (values.new_zeros(*shape, *values.shape[2:]) for values in first[:2])
    weight, lam = first.weight.new_zeros(shape), first.draw.lam.new_ones(shape)
    partner = torch.arange(size, device=x.device).repeat(*shape[:2], 1)
    for g, block in enumerate(blocks):
        rows = slice(block.x.shape[1])
        x[:, g, rows], target[:, g, rows], weight[:, g, rows] = block[:3]
        partner[:, g, rows], lam[:, g, rows] = block.draw[:2]
    depth = np.stack([block.draw.depth for block in blocks], 1)
    return map(StepBlock, x, target, weight, map(MixParams, partner, lam, depth))
