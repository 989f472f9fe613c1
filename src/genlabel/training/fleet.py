"""The fleet: all models of a search train together, as one batched tensor program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import chunks
from genlabel.mixing import Mix
from genlabel.networks import MLP, draw_weights
from genlabel.progress import Listener
from genlabel.training.backprop import GroupBatch, Layer, linear_gradient, relu_gradient, relu_scores
from genlabel.training.descent import Descent
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.plan import (
    NUMBERS_AT_ONCE,
    Candidate,
    Plan,
    Steps,
    Task,
    batches_per_epoch,
    check_task,
    stretches,
)

__all__ = ["Fleet", "train_fleet", "weight_rng"]

PARAMETERS_AT_ONCE = 700_000
"""Parameters of hidden networks that train together on a CPU: with their gradients and moments, what a cache holds."""


@final
class Fleet:
    """G x C networks of one shape in one flat tensor: G tasks, C candidates on each.

    Candidates of a task start from the same weights and see the same points in the same order.

    Attributes
    ----------
    theta : Tensor (G, C, size)
        All parameters.
    losses : ndarray (epochs, G, C)
        Mean training loss of each epoch.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[Any],
        candidates: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.sizes = tuple(sizes)
        # NOTE: the plan draws from the seed itself, the weights from its first spawned child.
        weights = [draw_weights(self.sizes, weight_rng(seed)) for seed in seeds]
        flat = np.stack([np.concatenate([part.ravel() for layer in group for part in layer]) for group in weights])
        theta = torch.from_numpy(flat).to(device=device, dtype=dtype)
        self.theta = theta[:, None].repeat(1, candidates, 1)
        self.losses: NDArray[np.float64] = np.empty((0, len(seeds), candidates))

    def layers(self, flat: Tensor) -> list[Layer]:
        """Views of a flat tensor (G, C, size) as layers."""
        views, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            W = flat[:, :, at : at + n_in * n_out].view(*flat.shape[:2], n_in, n_out)
            at += n_in * n_out
            views.append(Layer(W, flat[:, :, at : at + n_out]))
            at += n_out
        return views

    def network(self, group: int = 0, candidate: int = 0) -> MLP:
        """One of the models, as a network of its own (float64, on the CPU)."""
        theta = self.theta[group : group + 1, candidate : candidate + 1].double().cpu()
        weights = [(layer.W[0, 0].numpy(), layer.b[0, 0].numpy()) for layer in self.layers(theta)]
        return MLP(self.sizes[0], self.sizes[-1], self.sizes[1:-1], dtype=torch.float64).load(weights)

    def log_proba(self, group: int, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probabilities (C, m, k) of points under every candidate of a group."""
        theta = self.theta[group : group + 1].double()
        layers, x = self.layers(theta), torch.from_numpy(X).to(theta)[None]
        at_once = max(1, NUMBERS_AT_ONCE // (theta.shape[1] * max(self.sizes)))
        scores = torch.cat([relu_scores(layers, x[:, part])[0] for part in chunks(len(X), at_once)], dim=1)
        return torch.log_softmax(scores, -1).cpu().numpy()


@torch.no_grad()
def train_fleet(
    tasks: Sequence[Task],
    candidates: Sequence[Candidate],
    *,
    hidden: Sequence[int] = (),
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    progress: Listener | None = None,
) -> Fleet:
    """Train every candidate on every task (arXiv Alg. 1) and return the trained fleet.

    The tasks have the same number of features, classes and labelers; their sizes may differ. All of them take
    the number of batches that the largest one needs.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = Task(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> fleet = train_fleet([task], [Candidate(0.1), Candidate(0.01)], epochs=5)
    >>> fleet.log_proba(0, X).shape
    (2, 4, 2)
    """
    for task in tasks:
        _check_task(task, len(hidden), candidates)
    rule = Adam() if optimizer is None else optimizer
    sizes = (tasks[0].X.shape[1], *hidden, tasks[0].n_classes)
    fleet = Fleet(sizes, [task.seed for task in tasks], len(candidates), dtype, torch.device(device))
    batches = batches_per_epoch(max(len(task.X) for task in tasks), batch_size)
    blocks = chunks(len(tasks), _tasks_at_once(fleet, len(candidates)))
    losses = []
    for place, block in enumerate(blocks):
        descent = Descent(fleet.theta[block], candidates, rule, epochs, batches)
        _train_block(fleet, descent, tasks[block], candidates, _share(progress, place, len(blocks)))
        losses.append(descent.epoch_losses())
    fleet.losses = torch.cat(losses, 1).numpy()
    return fleet


def _check_task(task: Task, depth: int, candidates: Sequence[Candidate]) -> None:
    """Raise where a task does not suit a fleet: it multiplies features, and blends hidden layers linearly."""
    check_task(task, depth, candidates)
    if task.X.ndim != 2:
        raise ValueError(f"X has shape {task.X.shape}; a fleet trains on features (n, d): flatten X, or use train_task")
    if task.mixer is not None and task.mixer.max_depth and not task.mixer.linear:
        raise ValueError(
            f"{task.mixer!r} mixes hidden layers in a way of its own; a fleet has the linear blend only: use train_task"
        )


def _train_block(
    fleet: Fleet, descent: Descent, tasks: Sequence[Task], candidates: Sequence[Candidate], progress: Listener | None
) -> None:
    """Train the models of some tasks together, stretch by stretch."""
    layers, grads = fleet.layers(descent.theta), fleet.layers(descent.grad)
    shares = descent.theta.new_tensor([candidate.label for candidate in candidates]).T.contiguous()
    tilted = any(task.class_weight is not None for task in tasks)

    def gradient(batch: GroupBatch) -> Tensor:
        if len(layers) == 1:
            return linear_gradient(layers[0], batch, shares, grads[0], tilted)
        return relu_gradient(layers, batch, shares, grads, tilted)

    plans = [Plan(task, descent.batches, descent.theta) for task in tasks]
    for epochs in stretches(tasks, descent.epochs):
        steps = _together([plan.steps(epochs) for plan in plans])
        descent.run((_batch(steps, t, len(layers)) for t in range(len(steps.x))), gradient, progress)


def _tasks_at_once(fleet: Fleet, candidates: int) -> int:
    """How many tasks train together: all, but for networks on a CPU as many as stay in its cache."""
    if len(fleet.sizes) == 2 or fleet.theta.device.type != "cpu":
        return len(fleet.theta)
    return max(1, PARAMETERS_AT_ONCE // (candidates * fleet.theta.shape[-1]))


def _share(progress: Listener | None, place: int, blocks: int) -> Listener | None:
    """What a block tells of its epochs: those of all blocks together count as one run."""
    if progress is None or blocks == 1:
        return progress
    done = 0

    def listener(epochs: int) -> None:
        nonlocal done
        before, done = done, done + epochs
        more = (done + place) // blocks - (before + place) // blocks
        if more:
            progress(more)

    return listener


def weight_rng(seed: Any) -> np.random.Generator:
    """The generator of a model's initial weights: a child of the seed that orders and mixes its points."""
    return np.random.default_rng(seed).spawn(1)[0]


def _together(parts: Sequence[Steps]) -> Steps:
    """Stack the tasks' steps along a second axis, (T, G, B, ...), batches filled up to the largest."""
    size = max(part.x.shape[1] for part in parts)
    filled = [_fill(part, size) for part in parts]
    x, target, weight = (torch.stack(fields, 1) for fields in zip(*(part[:3] for part in filled), strict=True))
    partner, lam = (torch.stack(fields, 1) for fields in zip(*(part.draw[:2] for part in filled), strict=True))
    return Steps(x, target, weight, Mix(partner, lam, np.stack([part.draw.depth for part in parts], 1)))


def _fill(steps: Steps, size: int) -> Steps:
    """Add rows of weight 0 that are their own partners."""
    T, B = steps.weight.shape
    if size == B:
        return steps
    more = (T, size - B)
    partner = torch.arange(B, size, device=steps.x.device).expand(more)
    return Steps(
        torch.cat([steps.x, steps.x.new_zeros(*more, *steps.x.shape[2:])], 1),
        torch.cat([steps.target, steps.target.new_zeros(*more, *steps.target.shape[2:])], 1),
        torch.cat([steps.weight, steps.weight.new_zeros(more)], 1),
        steps.draw._replace(
            partner=torch.cat([steps.draw.partner, partner], 1),
            lam=torch.cat([steps.draw.lam, steps.draw.lam.new_ones(more)], 1),
        ),
    )


def _batch(steps: Steps, t: int, n_layers: int) -> GroupBatch:
    """Step `t` for every group; a group that mixes at another depth has lam = 1, no mixing, at this one."""
    partner, lams, depths, _ = steps.draw
    lam: list[Tensor | None] = [None] * n_layers
    for at in set(depths[t].tolist()) - {0}:
        here = torch.from_numpy(depths[t] == at).to(lams.device)[:, None]
        lam[at] = torch.where(here, lams[t], 1.0)
    return GroupBatch(steps.x[t], steps.target[t], steps.weight[t], partner[t], lam)
