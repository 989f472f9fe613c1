"""The loop for one staged network: the same plan as the fleet's, gradients by autograd, torch.optim's optimisers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.mixing import Mix, blend
from genlabel.networks import StagedNetwork
from genlabel.progress import Listener
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.plan import Candidate, Steps, Task, batches_per_epoch, check_task, epochs_at_once, plan

__all__ = ["soft_cross_entropy", "train_network"]


def train_network(
    network: StagedNetwork,
    task: Task,
    candidate: Candidate,
    *,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    progress: Listener | None = None,
) -> NDArray[np.float64]:
    """Train a network in place (arXiv Alg. 1) and return the mean training loss of each epoch.

    dtype and device are the network's own. A :class:`genlabel.networks.MLP` trained here and a fleet of one,
    from the same weights and the same seed, end in the same place.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.networks import MLP
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = Task(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> train_network(MLP(1, 2, rng=0), task, Candidate(0.1), epochs=5).shape
    (5,)
    """
    check_task(task, network.depth, [candidate])
    rule = Adam() if optimizer is None else optimizer
    first = next(network.parameters())
    steps_per_epoch = batches_per_epoch(len(task.X), batch_size)
    update = rule.for_network(network.parameters(), candidate.learning_rate, candidate.weight_decay)
    losses: list[float] = []
    for steps in plan(task, epochs, steps_per_epoch, epochs_at_once([task], epochs), first):
        for t in range(len(steps.x)):
            _set_rate(update, candidate.learning_rate * rule.factor(len(losses) // steps_per_epoch, epochs))
            losses.append(_step(network, update, steps, t, candidate.label))
        if progress is not None:
            progress(len(steps.x) // steps_per_epoch)
    return np.array(losses).reshape(epochs, steps_per_epoch).mean(1)


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method."""
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()


def _step(
    network: StagedNetwork,
    update: torch.optim.Optimizer,
    steps: Steps,
    t: int,
    label: tuple[float, ...],
) -> float:
    target = steps.target[t] @ steps.target.new_tensor(label)
    depth = int(steps.depth[t])
    h = network.encode(steps.x[t], depth)
    if depth:
        h = blend(h, Mix(steps.partner[t].cpu().numpy(), steps.lam[t].double().cpu().numpy(), depth))
    loss = soft_cross_entropy(network.decode(h, depth), target, steps.weight[t])
    update.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    update.step()
    return float(loss.detach())


def _set_rate(update: torch.optim.Optimizer, rate: float) -> None:
    for group in update.param_groups:
        group["lr"] = rate
