"""AdaMixup (Guo, Mao and Zhang, 2019): networks that learn how to mix, a baseline of arXiv Section 6.

Three networks minimize one loss: the classifier; a policy that outputs how a pair is mixed; a critic that tells mixed
points from real ones (the paper's intrusion discriminator). `train_adamixup` trains a fleet of such trios with explicit
gradients: no autograd graph, few large operations, and points as columns, because sums over few classes are slow along
the last axis. `train_adamixup_network` trains one trio of any staged networks, such as those for images.

Shapes: G groups (tasks) of C candidates, B points per batch, d features, k classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng
from genlabel._progress import Callback
from genlabel._validation import check_interval
from genlabel.mixing import Mixup
from genlabel.training.batching import Batch, BatchPlan, Hyperparameters, TrainingTask, batches_per_epoch, epoch_chunks
from genlabel.training.compile import CompileConfig, StepInputs, resolve_compile_config
from genlabel.training.early_stopping import BestEpoch, make_tracker
from genlabel.training.fleet import Fleet, LayerParams, repeat_models
from genlabel.training.fleet_trainer import BatchedOptimizer, mean_by_epoch
from genlabel.training.loop import Step, run_epochs, soft_cross_entropy
from genlabel.training.networks import StagedNetwork
from genlabel.training.optimizers import Adam, Optimizer


class AdaMixupNetworks(NamedTuple):
    """Trained networks of every model, each kind a fleet: the result of :func:`train_adamixup`."""

    classifier: Fleet
    """Points (d) to class scores (k)."""
    policy: Fleet
    """Pairs (2 d) to (a, delta, rest): lam is uniform in [a, a + delta]."""
    critic: Fleet
    """Points (d) to real or mixed."""


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
    restore_best: bool | BestEpoch = False,
) -> AdaMixupNetworks:
    """Train every candidate on every task, each with its policy and critic, and return all three fleets.

    A step uses the points and partners that :func:`train_fleet` would use with `Mixup`, from the same weights. The
    tasks' mixers and labelers are ignored, and so are the candidates' labels: the policy draws lam, the labels are
    linear.

    Parameters
    ----------
    tasks, candidates, hidden, optimizer, epochs, batch_size, dtype, device, callback
        See :func:`train_fleet`; rate and decay of a candidate are those of its three networks.
    policy_hidden : int
        Width of the one hidden layer of policies and critics.
    intrusion_weight : float
        Weight of the critic's loss; at 0 nothing keeps mixed points off the real ones.
    alternating : bool
        If True, a step is two: the critic first, then the classifier and the policy against the new critic.
        NOTE[PAPER]: neither paper says how the steps of the three are arranged; one step of all is the default.
    restore_best : bool or BestEpoch
        Best epochs of the classifiers, see :class:`FleetTrainer`; policies and critics are those of the last epoch.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> trio = train_adamixup([TrainingTask(X, y, 2, ())], [Hyperparameters(0.1), Hyperparameters(0.01)], epochs=5)
    >>> trio.classifier.log_proba(0, X).shape
    (2, 4, 2)
    """
    d, k = tasks[0].X.shape[1], tasks[0].num_classes
    # Classifiers start as those of `train_fleet`; policies and critics from the second and third child of the seed.
    children = zip(*(np.random.default_rng(task.seed).spawn(3)[1:] for task in tasks), strict=True)
    seeds = [[task.seed for task in tasks], *children]
    sizes = [(d, *hidden, k), (2 * d, policy_hidden, 3), (d, policy_hidden, 2)]
    fleets = map(partial(Fleet, candidates=len(candidates), dtype=dtype, device=torch.device(device)), sizes, seeds)
    trio = AdaMixupNetworks(*fleets)
    batches = batches_per_epoch(max(len(task.X) for task in tasks), batch_size)
    tracker = make_tracker(restore_best, tasks, trio.classifier, epochs)
    rule = Adam() if optimizer is None else optimizer
    # All parameters are one tensor, so that one optimizer can update all networks in a step.
    theta = torch.cat([fleet.theta for fleet in trio], -1)
    grad = torch.zeros_like(theta)
    n_parameters = [fleet.theta.shape[-1] for fleet in trio]
    networks, grads = (
        [fleet.layers(part) for fleet, part in zip(trio, torch.split(flat, n_parameters, -1), strict=True)]
        for flat in (theta, grad)
    )
    critic_start = theta.shape[-1] - n_parameters[-1]
    parts = [slice(critic_start, None), slice(0, critic_start)] if alternating else [slice(None)]
    optimizers = [BatchedOptimizer(theta[..., part], candidates, rule, epochs, batches) for part in parts]
    losses: list[Tensor] = []
    for block in plan_pairs(tasks, epochs, batches, theta):
        for step in map(Pairs, *block):
            for part, part_optimizer in zip(parts, optimizers, strict=True):
                loss = gradient(networks, step, grads, intrusion_weight)
                part_optimizer.step(grad[..., part])
            losses.append(loss)
            if len(losses) % batches == 0:
                epoch = len(losses) // batches
                if tracker is not None:
                    tracker.record(slice(None), epoch, theta[..., : n_parameters[0]])
                if callback is not None:
                    callback.on_epoch_end(epoch - 1, {})
    mean_losses = mean_by_epoch(losses, batches).numpy()
    for fleet, parameters in zip(trio, torch.split(theta, n_parameters, -1), strict=True):
        fleet.theta, fleet.losses = parameters.clone(), mean_losses
    if tracker is not None:
        tracker.flush(slice(None))
        trio.classifier.theta, trio.classifier.best_epochs = tracker.best, tracker.best_epochs
    return trio


def policy_statistics(policy: Fleet, X: NDArray[np.float64], seed: Any = None, group: int = 0) -> NDArray[np.float64]:
    """Return the means of a, a + delta and min(lam, 1 - lam) over random pairs, (C, 3), for a group's policies.

    The last is the mean weight of the lesser parent: 1/4 for mixup with uniform lam, 0 if nothing is mixed. The first
    two cannot tell: a policy that takes either parent at random, and never mixes, has a range around 1/2 too.
    """
    rng = as_rng(seed)
    output = np.exp(policy.log_proba(group, np.hstack([X, X[rng.permutation(len(X))]])))  # a, delta, rest: (C, n, 3)
    lam = output[..., 0] + rng.random(len(X)) * output[..., 1]
    lesser_weight = np.minimum(lam, 1.0 - lam).mean(1)
    return np.column_stack([output.mean(1).cumsum(1)[:, :2], lesser_weight])


class Pairs(NamedTuple):
    """T steps, or one of them; batches shorter than B are padded with columns of weight 0."""

    first: Tensor
    """(T, G, d + k, B): points, and below them their labels times the class weights."""
    second: Tensor
    """(T, G, d + k, B): the same of their partners."""
    ends: Tensor
    """(T, G, 3, B): (1, u, 0) with u uniform in (0, 1); its product with (a, delta, rest) is lam = a + u delta."""
    weight: Tensor
    """(T, G, 1, 2 B): weights of the points, then of the mixed ones; either half of a step's sums to 1 on average."""


def plan_pairs(tasks: Sequence[TrainingTask], epochs: int, batches: int, like: Tensor) -> Iterator[Pairs]:
    """Yield the steps of `epochs` epochs of `batches` batches each, in the dtype and on the device of `like`.

    Rows, partners and u are those of `Mixup()`, whose lam is uniform, in the plan of a fleet.
    """
    ignored: dict[str, Any] = {"mixer": Mixup(), "exclude_intrusion": False, "clean_fraction": 0.0}
    plans = [BatchPlan(replace(task, **ignored), batches, like) for task in tasks]
    for count in epoch_chunks(tasks, epochs):
        draws = [plan.draw(count) for plan in plans]
        size = max(draw.rows.shape[1] for draw in draws)
        fields = []
        for task, (draw, rows, _, real) in zip(tasks, draws, strict=True):
            unpadded = rows, np.take_along_axis(rows, draw.partner, 1), draw.lam * real, real.astype(np.float64)
            row, partner, u, is_real = (np.pad(values, ((0, 0), (0, size - rows.shape[1]))) for values in unpadded)
            class_weight = np.ones(task.num_classes) if task.class_weight is None else task.class_weight
            columns = np.hstack([task.X, task.targets * class_weight])
            first, second = (np.ascontiguousarray(columns[index].transpose(0, 2, 1)) for index in (row, partner))
            # A mixed point has the mean of its parents' weights: the blend would shift weight away from hard points.
            weight = task.relative_weight
            row_weight, partner_weight = weight[row] * is_real, weight[partner] * is_real
            weights = np.hstack([row_weight, (row_weight + partner_weight) / 2])
            weights = weights / is_real.sum(1, keepdims=True)
            fields.append([first, second, np.stack([np.ones_like(u), u, np.zeros_like(u)], 1), weights[:, None]])
        yield Pairs(*(torch.from_numpy(np.stack(field, 1)).to(like) for field in zip(*fields, strict=True)))


def gradient(
    trio: Sequence[Sequence[LayerParams]], step: Pairs, grads: Sequence[Sequence[LayerParams]], intrusion_weight: float
) -> Tensor:
    """Write the gradients of all networks at one step into `grads`, and return the losses (G, C).

    The loss is the classifier's cross-entropy on points and on mixed points, plus the critic's, which tells the two
    apart. All networks minimize it: the policy mixes where the critic is right, off the manifold of the data.
    """
    classifier, policy, critic = trio
    G, C, d = classifier[0].W.shape[:3]
    first, second, ends, weight = (repeat_models(field, C) for field in step)
    activations = _forward(policy, torch.cat([first[:, :d], second[:, :d]], 1))
    shares = torch.softmax(activations[-1], 1)
    lam = (shares * ends).sum(1, keepdim=True)
    both = torch.cat([first, torch.lerp(second, first, lam)], -1)
    points, labels, B = both[:, :d], both[:, d:], first.shape[-1]
    is_mixed = torch.eye(2, dtype=first.dtype, device=first.device).repeat_interleave(B, 1)
    loss, grad_points, log_proba = _cross_entropy(classifier, points, labels, weight, grads[0])
    intrusion, grad_critic, _ = _cross_entropy(critic, points, is_mixed, weight * intrusion_weight, grads[2])
    # Gradients in the mixed points and in their labels, then in lam, then (by the softmax) in the policy's scores.
    grad_mixed = torch.cat([grad_points + grad_critic, -(weight * log_proba)[..., B:]], 1)
    grad_lam = (grad_mixed * (first - second)).sum(1, keepdim=True)
    _backward(policy, activations, grad_lam * shares * (ends - lam), grads[1])
    return (loss + intrusion).view(G, C)


def _cross_entropy(
    layers: Sequence[LayerParams], points: Tensor, target: Tensor, weight: Tensor, grads: Sequence[LayerParams]
) -> tuple[Tensor, Tensor, Tensor]:
    """Write the parameters' gradients; return the losses (G C), the gradient in the mixed points, and log-proba."""
    activations = _forward(layers, points)
    log_proba = torch.log_softmax(activations[-1], 1)
    loss = -(weight * target * log_proba).sum((1, 2))
    delta = weight * (target.sum(-2, keepdim=True) * log_proba.exp() - target)
    delta = _backward(layers, activations, delta, grads)[..., points.shape[-1] // 2 :]
    return loss, torch.bmm(layers[0].W.flatten(0, 1), delta), log_proba


def _forward(layers: Sequence[LayerParams], x: Tensor) -> list[Tensor]:
    """Return the input of each layer, and the scores (G C, out, B), for points x (G C, in, B)."""
    activations = [x]
    for depth, layer in enumerate(layers, 1):
        h = torch.baddbmm(layer.b.flatten(0, 1)[..., None], layer.W.flatten(0, 1).mT, activations[-1])
        activations.append(h.relu_() if depth < len(layers) else h)
    return activations


def _backward(
    layers: Sequence[LayerParams], activations: Sequence[Tensor], delta: Tensor, grads: Sequence[LayerParams]
) -> Tensor:
    """Write the parameters' gradients from that in the scores; return that in the outputs of the first layer."""
    for depth in reversed(range(len(layers))):
        grads[depth].W.copy_(torch.bmm(activations[depth], delta.mT).view_as(grads[depth].W))
        grads[depth].b.copy_(delta.sum(2).view_as(grads[depth].b))
        if depth:
            delta = torch.bmm(layers[depth].W.flatten(0, 1), delta).mul_(activations[depth].sign())
    return delta


def train_adamixup_network(
    network: StagedNetwork,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    policy: StagedNetwork,
    critic: StagedNetwork,
    intrusion_weight: float = 1.0,
    seed: Any = None,
    compile_config: CompileConfig | str | None = None,
    **settings: Any,
) -> NDArray[np.float64]:
    """Train a network in place by AdaMixup, with a policy and a critic; return the mean loss of each epoch.

    The loss is the classifier's on points and mixed points, plus the critic's. A pair is mixed with lam = a + u delta,
    u uniform: the policy outputs (a, delta, rest), and moves to where both the classifier and the critic are right.

    Parameters
    ----------
    network : StagedNetwork
    batches, compile_config
        See :func:`train_network`; the lam of a batch's own draw is u.
    policy : StagedNetwork
        Network from pairs, concatenated along the second axis (n, 2 c, ...), to 3 scores, such as a
        :class:`genlabel.training.networks.SmallConvNet`.
    critic : StagedNetwork
        Network from points to 2 scores, real or mixed.
    intrusion_weight : float
        Weight of the critic's loss.
    seed : int, Generator or None
        Seed of the pairs of batches that bring none.
    **settings
        The parameters learning_rate, weight_decay, optimizer, epochs, callback and checkpoint of :func:`train_network`.
    """
    config = resolve_compile_config(compile_config, network)
    weight = check_interval("intrusion_weight", intrusion_weight, 0.0, np.inf, "1 is the usual choice")
    networks = {"network": network, "policy": policy, "critic": critic}
    return run_epochs(AdaMixupStep(networks, weight, as_rng(seed), config), batches, **settings)


@final
class AdaMixupStep(Step):
    """Loss that the three networks minimize."""

    def __init__(
        self, networks: dict[str, StagedNetwork], intrusion_weight: float, rng: Generator, config: CompileConfig
    ) -> None:
        super().__init__(networks, Mixup(), rng, config)
        self.network, self.policy, self.critic = self.networks
        self.intrusion_weight = intrusion_weight

    def loss(self, batch: StepInputs) -> Tensor:
        """Return the mean cross-entropy of points and mixed points, plus that of the critic.

        NOTE[PAPER]: a mean over both, where :func:`train_adamixup` has their sum: a learning rate for SGD then means
        what it means for mixup.
        """
        x, n, u = batch.x, len(batch.x), batch.draw.lam
        partner = x[batch.draw.partner]
        with self.config.autocast(x.device):
            output = torch.softmax(self.policy(torch.cat([x, partner], 1)).to(u.dtype), 1)
            lam = output[:, 0] + u * output[:, 1]
            mixed = torch.lerp(partner, x, lam.to(x.dtype).view(-1, *[1] * (x.ndim - 1)))
            both = torch.cat([x, mixed])
            scores, critic_scores = self.network(both), self.critic(both)
        labels = self.targets(batch.labels, scores)
        target = torch.cat([labels, torch.lerp(labels[batch.draw.partner], labels, lam[:, None])])
        weight = torch.cat([batch.weight, batch.weight]) / 2.0
        is_mixed = torch.eye(2, dtype=labels.dtype, device=x.device).repeat_interleave(n, 0)
        intrusion = soft_cross_entropy(critic_scores.to(labels.dtype), is_mixed, weight)
        return soft_cross_entropy(scores.to(labels.dtype), target, weight) + self.intrusion_weight * intrusion
