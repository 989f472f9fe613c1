"""The training of a fleet: all models of a search together, as one batched program, some epochs at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import chunks
from genlabel._progress import Callback
from genlabel.mixing import MixParams
from genlabel.training.batched.best_epoch import BestEpoch, watch_of
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.gradients import GroupBatch, Workspace, linear_gradient, relu_gradient
from genlabel.training.batched.optimizer import BatchedOptimizer
from genlabel.training.batching import (
    BatchPlan,
    Hyperparameters,
    StepBlock,
    TrainingTask,
    batches_per_epoch,
    check_task,
    epoch_chunks,
)
from genlabel.training.optimizers import Adam, Optimizer

PARAMETERS_AT_ONCE = 700_000
"""Parameters of hidden networks that train together on a CPU: with their gradients and moments, what a cache holds."""


@final
class FleetTrainer:
    """Every candidate on every task (arXiv Alg. 1), trained some epochs at a time, with fewer candidates as it goes on.

    The tasks have the same number of features, classes and labelers; their sizes may differ. All of them take
    the number of batches that the largest one needs. A model is the same, but for rounding, whichever others are
    trained beside it, and however its epochs are parted.

    Parameters
    ----------
    tasks : sequence of Task
    candidates : sequence of Candidate
    hidden : sequence of int
    optimizer : Optimizer, optional
        Adam if not given.
    epochs : int
        Of the whole run; a schedule of the learning rate ends with them.
    batch_size : int
    parts : int
        Epochs that make a pass over the rows.
    dtype, device
        In single precision, the log-probabilities are within 1e-4 of those of a network in double precision while
        rounding has not grown: see `docs/benchmarks.md`.
    averaged : bool
        Whether the networks of `fleet` have the average of the parameters over the steps so far, in which late ones
        count most: good at any time, where the last step is noisy at a large learning rate.
    keep : "last", "best" or BestEpoch
        Whether the networks of `fleet` are those of the last epoch, or each is that of its best one: by accuracy, then
        log-loss, on the `valid` rows of its task, or as a :class:`BestEpoch` says. `watch` then has the best epochs,
        and what was seen on the way.
    progress : callable, optional

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> run = FleetTrainer([task], [Hyperparameters(0.1), Hyperparameters(0.01), Hyperparameters(0.001)], epochs=5)
    >>> run.advance(2)
    >>> run.keep([0, 2])
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
        parts: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        averaged: bool = False,
        keep: str | BestEpoch = "last",
        callback: Callback | None = None,
    ) -> None:
        for task in tasks:
            _check_task(task, len(hidden), candidates)
        self.tasks, self.candidates, self._callback, self._parts = tasks, list(candidates), callback, parts
        sizes = (tasks[0].X.shape[1], *hidden, tasks[0].num_classes)
        self._fleet = Fleet(sizes, [task.seed for task in tasks], len(candidates), dtype, torch.device(device))
        batches = batches_per_epoch(max(len(task.X) for task in tasks), batch_size * parts)
        rule = Adam() if optimizer is None else optimizer
        self._descent = BatchedOptimizer(self._fleet.theta, candidates, rule, epochs, batches, averaged=averaged)
        self._plans = [BatchPlan(task, batches, self._fleet.theta, parts) for task in tasks]
        self.watch = watch_of(keep, tasks, self._fleet, epochs)
        self._losses: list[Tensor] = []

    @property
    def fleet(self) -> Fleet:
        """The networks as they are now, or as they were at their best epochs."""
        descent = self._descent
        now = descent.theta if descent.average is None else descent.average
        found = self._fleet.at(now if self.watch is None else self.watch.best)
        found.best_epochs = None if self.watch is None else self.watch.best_epochs
        found.losses = torch.cat(self._losses).numpy() if self._losses else self._fleet.losses
        return found

    @torch.no_grad()
    def advance(self, epochs: int) -> None:
        """Train for some epochs more."""
        blocks = chunks(len(self.tasks), self._tasks_at_once())
        losses = []
        for place, block in enumerate(blocks):
            seen = None if self.watch is None else partial(self.watch.record, block)
            part = self._descent.of_tasks(block, _of_block(self._callback, place, len(blocks)), seen)
            self._train_block(part, block, epochs)
            if self.watch is not None:
                self.watch.flush(block)
            losses.append(part.epoch_losses())
        self._descent.steps += epochs * self._descent.batches
        self._losses.append(torch.cat(losses, 1))

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of the candidates alone, in this order."""
        self._descent.keep(places)
        self._fleet = self._fleet.at(self._descent.theta)
        self.candidates = [self.candidates[place] for place in places]
        self._losses = [losses[..., list(places)] for losses in self._losses]
        if self.watch is not None:
            self.watch.keep(places)

    def _train_block(self, descent: BatchedOptimizer, block: slice, epochs: int) -> None:
        """Train the models of some tasks together, stretch by stretch."""
        layers, grads = self._fleet.layers(descent.theta), self._fleet.layers(descent.grad)
        shares = descent.theta.new_tensor([candidate.label for candidate in self.candidates]).T.contiguous()
        tasks, plans = self.tasks[block], self._plans[block]
        room, tilted = Workspace(), any(task.class_weight is not None for task in tasks)
        for some in epoch_chunks(tasks, epochs, self._parts):
            steps = _together([plan.steps(some) for plan in plans])
            for t in range(len(steps.x)):
                batch = _batch(steps, t, len(layers))
                if len(layers) == 1:
                    loss = linear_gradient(layers[0], batch, shares, grads[0], tilted)
                else:
                    loss = relu_gradient(layers, batch, shares, grads, tilted, room)
                descent.step(loss)

    def _tasks_at_once(self) -> int:
        """How many tasks train together: all, but for networks on a CPU as many as stay in its cache."""
        theta = self._descent.theta
        if len(self._fleet.sizes) == 2 or theta.device.type != "cpu":
            return len(theta)
        return max(1, PARAMETERS_AT_ONCE // (theta.shape[1] * theta.shape[-1]))


def train_fleet(
    tasks: Sequence[TrainingTask], candidates: Sequence[Hyperparameters], *, epochs: int = 100, **settings: Any
) -> Fleet:
    """Train every candidate on every task for all epochs, and return the trained fleet.

    The settings are those of :class:`FleetTrainer`.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> fleet = train_fleet([task], [Hyperparameters(0.1), Hyperparameters(0.01)], epochs=5)
    >>> fleet.log_proba(0, X).shape
    (2, 4, 2)
    """
    run = FleetTrainer(tasks, candidates, epochs=epochs, **settings)
    run.advance(epochs)
    return run.fleet


def _check_task(task: TrainingTask, depth: int, candidates: Sequence[Hyperparameters]) -> None:
    """Raise where a task does not suit a fleet: it multiplies features, and blends hidden layers linearly."""
    check_task(task, depth, candidates)
    if task.X.ndim != 2:
        raise ValueError(f"X has shape {task.X.shape}; a fleet trains on features (n, d): flatten X, or use train_task")
    if task.mixer is not None and task.mixer.max_depth and not task.mixer.linear:
        raise ValueError(
            f"{task.mixer!r} mixes hidden layers in a way of its own; a fleet has the linear blend only: use train_task"
        )


class _BlockCallback(Callback):
    """Callback of one block of tasks: the epochs of all blocks together count as those of one run."""

    def __init__(self, callback: Callback, index: int, blocks: int) -> None:
        self.callback, self.index, self.blocks, self.done = callback, index, blocks, 0

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        before, self.done = self.done, self.done + 1
        if (self.done + self.index) // self.blocks > (before + self.index) // self.blocks:
            self.callback.on_epoch_end(epoch, logs)


def _of_block(callback: Callback | None, index: int, blocks: int) -> Callback | None:
    return callback if callback is None or blocks == 1 else _BlockCallback(callback, index, blocks)


def _together(parts: Sequence[StepBlock]) -> StepBlock:
    """Stack the tasks' steps along a second axis, (T, G, B, ...), batches filled up to the largest."""
    size = max(part.x.shape[1] for part in parts)
    filled = [_fill(part, size) for part in parts]
    x, target, weight = (torch.stack(fields, 1) for fields in zip(*(part[:3] for part in filled), strict=True))
    partner, lam = (torch.stack(fields, 1) for fields in zip(*(part.draw[:2] for part in filled), strict=True))
    return StepBlock(x, target, weight, MixParams(partner, lam, np.stack([part.draw.depth for part in parts], 1)))


def _fill(steps: StepBlock, size: int) -> StepBlock:
    """Add rows of weight 0 that are their own partners."""
    T, B = steps.weight.shape
    if size == B:
        return steps
    more = (T, size - B)
    partner = torch.arange(B, size, device=steps.x.device).expand(more)
    return StepBlock(
        torch.cat([steps.x, steps.x.new_zeros(*more, *steps.x.shape[2:])], 1),
        torch.cat([steps.target, steps.target.new_zeros(*more, *steps.target.shape[2:])], 1),
        torch.cat([steps.weight, steps.weight.new_zeros(more)], 1),
        steps.draw._replace(
            partner=torch.cat([steps.draw.partner, partner], 1),
            lam=torch.cat([steps.draw.lam, steps.draw.lam.new_ones(more)], 1),
        ),
    )


def _batch(steps: StepBlock, t: int, n_layers: int) -> GroupBatch:
    """Step `t` for every group; a group that mixes at another depth has lam = 1, no mixing, at this one."""
    partner, lams, depths, _ = steps.draw
    lam: list[Tensor | None] = [None] * n_layers
    for at in set(depths[t].tolist()) - {0}:
        here = torch.from_numpy(depths[t] == at).to(lams.device)[:, None]
        lam[at] = torch.where(here, lams[t], 1.0)
    return GroupBatch(steps.x[t], steps.target[t], steps.weight[t], partner[t], lam)
