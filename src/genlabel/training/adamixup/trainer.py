"""AdaMixup (Guo, Mao and Zhang, 2019): networks that learn how to mix, all models of a search trained together.

Each model is three networks that minimise one loss: the classifier; a policy that says of a pair how it is mixed; a
critic that tells mixed points from real ones (the paper's intrusion discriminator).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng
from genlabel._progress import Callback
from genlabel.training.adamixup.gradients import Pairs, gradient, plan_pairs
from genlabel.training.batched.best_epoch import BestEpoch, watch_of
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.optimizer import BatchedOptimizer, Watching
from genlabel.training.batching import Hyperparameters, TrainingTask, batches_per_epoch
from genlabel.training.optimizers import Adam, Optimizer


class AdaMixupNetworks(NamedTuple):
    """The three networks of every model, each kind a fleet of its own.

    `train_adamixup` returns it.
    """

    classifier: Fleet
    """Point (d) to classes (k)."""
    policy: Fleet
    """Pair (2 d) to the shares (a, delta, rest): lam is uniform in [a, a + delta]."""
    critic: Fleet
    """Point (d) to real or mixed."""


@torch.no_grad()
def train_adamixup(
    tasks: Sequence[TrainingTask],
    candidates: Sequence[Hyperparameters],
    *,
    hidden: Sequence[int] = (),
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    callback: Callback | None = None,
    policy_hidden: int = 32,
    intrusion_weight: float = 1.0,
    alternating: bool = False,
    keep: str | BestEpoch = "last",
) -> AdaMixupNetworks:
    """Train every candidate on every task, each with a policy and a critic of its own, and return all three fleets.

    A step sees the points and the partners that :func:`train_fleet` would see with `Mixup`, from the same weights; the
    tasks' mixers and labelers are not used, nor the candidates' labels: the policy draws lam, the labels are linear.
    AdaMixup is a baseline of arXiv Section 6.

    Parameters
    ----------
    tasks, candidates, hidden, optimizer, epochs, batch_size, dtype, device, callback
        As in :func:`train_fleet`; rate and decay of a candidate are those of its three networks.
    policy_hidden : int
        Width of the one hidden layer of policies and critics.
    intrusion_weight : float
        Weight of the critic's loss; at 0 nothing keeps mixed points off the real ones.
    alternating : bool
        Whether a step is two: the critic first, then the classifier and the policy against the new critic.
        NOTE[PAPER]: neither paper says how the steps of the three are arranged; one step of all is the default.
    keep : "last", "best" or BestEpoch
        Of the classifiers, as of :class:`FleetTrainer`; policies and critics are those of the last epoch.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> trio = train_adamixup([TrainingTask(X, y, 2, ())], [Hyperparameters(0.1), Hyperparameters(0.01)], epochs=5)
    >>> trio.classifier.log_proba(0, X).shape
    (2, 4, 2)
    """
    for task in tasks:
        _check_task(task)
    trio = _draw_trio(tasks, len(candidates), tuple(hidden), policy_hidden, dtype, torch.device(device))
    batches = batches_per_epoch(max(len(task.X) for task in tasks), batch_size)
    watch = watch_of(keep, tasks, trio.classifier, epochs)
    rule = Adam() if optimizer is None else optimizer
    joint = _Joint(trio, candidates, rule, epochs, batches, alternating)
    seen = None if watch is None else partial(watch.record, slice(None))
    joint.last.callback, joint.last.watch = callback, None if seen is None else partial(joint.show, seen)
    for pairs in plan_pairs(tasks, epochs, batches, joint.theta):
        for step in map(Pairs, *pairs):
            joint.step(step, intrusion_weight)
    losses = joint.last.epoch_losses().numpy()
    for fleet, part in _parts(trio, joint.theta):
        fleet.theta, fleet.losses = part.clone(), losses
    if watch is not None:
        watch.flush(slice(None))
        trio.classifier.theta, trio.classifier.best_epochs = watch.best, watch.best_epochs
    return trio


class _Joint:
    """The descents of the three networks: one of all, or the critic's, then that of the classifier and the policy."""

    def __init__(
        self,
        trio: AdaMixupNetworks,
        candidates: Sequence[Hyperparameters],
        rule: Optimizer,
        epochs: int,
        batches: int,
        apart: bool,
    ) -> None:
        self.theta = torch.cat([fleet.theta for fleet in trio], -1)
        grad = torch.zeros_like(self.theta)
        self._networks, self._grads = (
            [f.layers(part) for f, part in _parts(trio, flat)] for flat in (self.theta, grad)
        )
        self._classifier = trio.classifier.theta.shape[-1]
        own = self.theta.shape[-1] - trio.critic.theta.shape[-1]
        places = [slice(own, None), slice(0, own)] if apart else [slice(None)]
        self._descents = [
            BatchedOptimizer(self.theta[..., place], candidates, rule, epochs, batches) for place in places
        ]
        for descent, place in zip(self._descents, places, strict=True):
            descent.grad = grad[..., place]

    @property
    def last(self) -> BatchedOptimizer:
        """The last descent of a step: the epoch ends with it."""
        return self._descents[-1]

    def step(self, pairs: Pairs, intrusion_weight: float) -> None:
        """Take the steps of a batch, each along a gradient of its own."""
        for descent in self._descents:
            descent.step(gradient(self._networks, pairs, self._grads, intrusion_weight))

    def show(self, seen: Watching, epoch: int, theta: Tensor) -> None:
        """Show the classifiers alone."""
        seen(epoch, self.theta[..., : self._classifier])


def policy_range(policy: Fleet, X: NDArray[np.float64], seed: Any = None, group: int = 0) -> NDArray[np.float64]:
    """Mean a and mean a + delta, (C, 2), of a group's policies over random pairs of points: where lam lies.

    Parameters
    ----------
    policy : Fleet
        The policies of a :class:`AdaMixupNetworks`.
    X : array (n, d)
        Each point is paired with a random one.
    seed : int, Generator or None
    group : int

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0]]), np.array([0, 0, 1])
    >>> trio = train_adamixup([TrainingTask(X, y, 2, ())], [Hyperparameters(0.1)], epochs=5)
    >>> policy_range(trio.policy, X, seed=0).shape
    (1, 2)
    """
    return _shares(policy, X, as_rng(seed), group).mean(1).cumsum(1)[:, :2]


def mixing_share(policy: Fleet, X: NDArray[np.float64], seed: Any = None, group: int = 0) -> NDArray[np.float64]:
    """Mean share of the lesser parent, min(lam, 1 - lam), (C,): 1/4 for mixup with uniform lam, 0 if nothing is mixed.

    A policy that prefers one parent or the other, and never mixes, has a range about 1/2 all the same.

    Parameters
    ----------
    policy, X, seed, group
        As in :func:`policy_range`.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0]]), np.array([0, 0, 1])
    >>> trio = train_adamixup([TrainingTask(X, y, 2, ())], [Hyperparameters(0.1)], epochs=5)
    >>> mixing_share(trio.policy, X, seed=0).shape
    (1,)
    """
    generator = as_rng(seed)
    shares = _shares(policy, X, generator, group)
    lam = shares[..., 0] + generator.random(len(X)) * shares[..., 1]
    return np.minimum(lam, 1.0 - lam).mean(1)


def _shares(policy: Fleet, X: NDArray[np.float64], rng: np.random.Generator, group: int) -> NDArray[np.float64]:
    """(a, delta, rest) of every candidate, (C, n, 3), each point paired with a random one."""
    return np.exp(policy.log_proba(group, np.hstack([X, X[rng.permutation(len(X))]])))


def _parts(trio: AdaMixupNetworks, flat: Tensor) -> Iterator[tuple[Fleet, Tensor]]:
    """Each fleet with its part of a flat tensor (G, C, size of all three)."""
    return zip(trio, torch.split(flat, [fleet.theta.shape[-1] for fleet in trio], -1), strict=True)


def _draw_trio(
    tasks: Sequence[TrainingTask], C: int, hidden: tuple[int, ...], width: int, dtype: torch.dtype, device: torch.device
) -> AdaMixupNetworks:
    """Initial networks; the classifiers start where those of a fleet start."""
    d, k = tasks[0].X.shape[1], tasks[0].num_classes
    seeds = [
        [task.seed for task in tasks],
        *zip(*(np.random.default_rng(task.seed).spawn(3)[1:] for task in tasks), strict=True),
    ]
    sizes = [(d, *hidden, k), (2 * d, width, 3), (d, width, 2)]
    return AdaMixupNetworks(*(Fleet(size, seed, C, dtype, device) for size, seed in zip(sizes, seeds, strict=True)))


def _check_task(task: TrainingTask) -> None:
    """Raise where a task asks for what AdaMixup does not do."""
    if task.X.ndim != 2:
        raise ValueError(f"X has shape {task.X.shape}; AdaMixup trains on features (n, d): flatten X")
    if task.exclude_intrusion:
        raise ValueError("exclude_intrusion=True: AdaMixup's critic takes its place; leave it False")
    if task.clean_fraction:
        raise ValueError(
            f"clean_fraction={task.clean_fraction!r}: AdaMixup trains on all points and on all mixed ones; leave it 0"
        )
