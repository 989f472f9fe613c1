"""The training of a density's network: Adam with jitter, a held-out part and early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import chunks
from genlabel._progress import Callback

STEEPEST = 10.0
"""Gradients of a larger norm are cut to it."""

Loss = Callable[[Tensor, Tensor, np.random.Generator], Tensor]
"""Of points (n, d) and one-hot classes (n, k), with a generator for what is random in it: a loss for each, (n,)."""


class Points(NamedTuple):
    """What a network is trained on, in float32 on its device."""

    x: Tensor
    """(n, d), standardised"""
    c: Tensor
    """(n, k), one-hot"""
    weight: Tensor
    """(n,), 1 in the mean"""

    def at(self, rows: Tensor) -> Points:
        """Some of the rows."""
        return Points(self.x[rows], self.c[rows], self.weight[rows])

    def mean_loss(self, loss: Loss, rng: np.random.Generator) -> Tensor:
        """The weighted mean of a loss."""
        return (self.weight * loss(self.x, self.c, rng)).sum() / self.weight.sum()

    def jittered(self, scale: float, rng: np.random.Generator) -> Points:
        """The points with normal noise of that standard deviation."""
        noise = torch.from_numpy(rng.standard_normal(self.x.shape, np.float32)).to(self.x)
        return self._replace(x=self.x + scale * noise)


class Schedule(NamedTuple):
    """How a network is trained."""

    epochs: int
    batch_size: int
    learning_rate: float
    """Of Adam; it falls to 0 over the epochs as a cosine does."""
    held_out: float
    """Share of the rows of each class that are not trained on, but say which epoch was best."""
    patience: int
    """Epochs without a better held-out loss after which training ends."""
    jitter: float
    """Standard deviation of the normal noise on the (standardised) training points."""

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        return 0.5 * self.learning_rate * (1.0 + math.cos(math.pi * epoch / self.epochs))


def train_until_plateau(
    network: nn.Module,
    loss: Loss,
    points: Points,
    schedule: Schedule,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> list[float]:
    """Train a network in place, keep the weights of its best epoch, and return the held-out loss after each epoch.

    >>> x = torch.tensor([[0.0], [1.0]]).repeat(50, 1)
    >>> points = Points(x, torch.ones(100, 1), torch.ones(100))
    >>> network = nn.Linear(1, 1)
    >>> loss = lambda x, c, rng: (network(x) - 3.0 * x)[:, 0] ** 2
    >>> schedule = Schedule(200, 20, 0.05, 0.1, 50, 0.0)
    >>> losses = train_until_plateau(network, loss, points, schedule, np.random.default_rng(0))
    >>> round(network.weight.item(), 2)
    3.0
    """
    train, held = _split(points, schedule.held_out, rng)
    same = int(rng.integers(2**31))
    optimizer = torch.optim.Adam(network.parameters(), schedule.learning_rate)
    found: list[float] = []
    best: dict[str, Tensor] = {}
    for epoch in range(schedule.epochs):
        optimizer.param_groups[0]["lr"] = schedule.rate(epoch)
        _epoch(network, optimizer, loss, train, schedule, rng)
        with torch.no_grad():
            found.append(float(held.mean_loss(loss, np.random.default_rng(same))))
        if callback is not None:
            callback.on_epoch_end(epoch, {"loss": found[-1]})
        if found[-1] <= np.nanmin(np.array([*found, math.inf])):
            best = {name: value.detach().clone() for name, value in network.state_dict().items()}
            at = epoch
        if not best or epoch - at >= schedule.patience:
            break
    if not best:
        raise ValueError(f"the loss is {found[-1]} after an epoch; try a learning_rate below {schedule.learning_rate}")
    network.load_state_dict(best)
    return found


def initialise(network: nn.Module, rng: np.random.Generator, gain: float = 1.0) -> None:
    """Draw the linear layers from the generator: weights uniform within gain / sqrt(number of inputs), shifts likewise
    with a gain of 1."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for part in layer.parameters(recurse=False):
                    drawn = rng.uniform(-bound, bound, part.shape) * (gain if part.ndim > 1 else 1.0)
                    part.copy_(torch.from_numpy(drawn))


def _epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    train: Points,
    schedule: Schedule,
    rng: np.random.Generator,
) -> None:
    order = torch.from_numpy(rng.permutation(len(train.x))).to(train.x.device)
    for some in chunks(len(order), schedule.batch_size):
        optimizer.zero_grad()
        batch = train.at(order[some]).jittered(schedule.jitter, rng)
        batch.mean_loss(loss, rng).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), STEEPEST)
        optimizer.step()


def _split(points: Points, share: float, rng: np.random.Generator) -> tuple[Points, Points]:
    """The points that are trained on, and a share of each class that is not, at least one."""
    held: list[NDArray[np.intp]] = []
    classes = points.c.argmax(1).cpu().numpy()
    for c in range(points.c.shape[1]):
        rows = rng.permutation(np.flatnonzero(classes == c))
        held.append(rows[: max(1, round(share * len(rows)))])
    mask = np.zeros(len(classes), dtype=bool)
    mask[np.concatenate(held)] = True
    inside = torch.from_numpy(mask).to(points.x.device)
    return points.at(~inside), points.at(inside)
