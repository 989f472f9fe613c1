"""The steps of AdaMixup for many models at once: the pairs to mix, and the gradients of its three networks.

The gradients are written out: no graph, few large operations. Points are columns, for sums over few classes are slow
along the last axis. Shapes: G groups (tasks) of C candidates, B points a batch, d features, k classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.mixing import Mixup
from genlabel.training.batched.gradients import LayerParams, repeat_models
from genlabel.training.batching import TrainingTask, batch_edges, epoch_chunks


class Pairs(NamedTuple):
    """A stretch of T steps, or one of them; batches shorter than B end in columns of weight 0."""

    first: Tensor
    """(T, G, d + k, B): points, and below them their labels times the class weights."""
    second: Tensor
    """(T, G, d + k, B): the same of their partners."""
    ends: Tensor
    """(T, G, 3, B): (1, u, 0) with u uniform in (0, 1); its product with (a, delta, rest) is lam = a + u delta."""
    weight: Tensor
    """(T, G, 1, 2 B): weights of the points, then of the mixed ones; either half of a step's sums to 1."""


def plan_pairs(tasks: Sequence[TrainingTask], epochs: int, batches: int, like: Tensor) -> Iterator[Pairs]:
    """Yield the steps of `epochs` epochs of `batches` batches each, in the dtype and on the device of `like`.

    Rows, partners and u are those of `Mixup()`, whose lam is uniform, in the plan of a fleet.
    """
    rngs = [np.random.default_rng(task.seed) for task in tasks]
    edges = [batch_edges(len(task.X), batches) for task in tasks]
    size = max(int(np.diff(edge).max()) for edge in edges)
    for count in epoch_chunks(tasks, epochs):
        settings = zip(tasks, edges, rngs, strict=True)
        drawn = [_pair(task, count, edge, rng, size) for task, edge, rng in settings]
        fields = (torch.from_numpy(np.stack(field, 1)).to(like) for field in zip(*drawn, strict=True))
        yield Pairs(*fields)


def gradient(
    trio: Sequence[Sequence[LayerParams]], step: Pairs, grads: Sequence[Sequence[LayerParams]], intrusion_weight: float
) -> Tensor:
    """Write the gradients of all networks at one step into `grads`, and return the losses (G, C).

    The loss is the classifier's cross-entropy on points and on mixed points, plus the critic's, that tells the two
    apart. All networks minimise it: the policy mixes where the critic is right, off the manifold of the data.
    """
    classifier, policy, critic = trio
    G, C, d = classifier[0].W.shape[:3]
    first, second, ends, weight = (repeat_models(field, C) for field in step)
    seen = _forward(policy, torch.cat([first[:, :d], second[:, :d]], 1))
    shares = torch.softmax(seen[-1], 1)
    lam = (shares * ends).sum(1, keepdim=True)
    both = torch.cat([first, torch.lerp(second, first, lam)], -1)
    points, labels, B = both[:, :d], both[:, d:], first.shape[-1]
    kind = torch.eye(2, dtype=first.dtype, device=first.device).repeat_interleave(B, 1)
    fit, by_fit, log_proba = _descend(classifier, points, labels, weight, grads[0])
    intrusion, by_intrusion, _ = _descend(critic, points, kind, weight * intrusion_weight, grads[2])
    by_mixed = torch.cat([by_fit + by_intrusion, -(weight * log_proba)[..., B:]], 1)
    by_lam = (by_mixed * (first - second)).sum(1, keepdim=True)
    _backward(policy, seen, by_lam * shares * (ends - lam), grads[1])
    return (fit + intrusion).view(G, C)


def _pair(
    task: TrainingTask, epochs: int, edges: NDArray[Any], rng: np.random.Generator, size: int
) -> list[NDArray[Any]]:
    """The fields of a task's steps; columns that are not real are of weight 0."""
    steps = epochs * (len(edges) - 1)
    rows, partner = np.zeros((2, steps, size), dtype=np.int64)
    ends, real = np.zeros((steps, 3, size)), np.zeros((steps, size))
    ends[:, 0] = 1.0
    for epoch in range(epochs):
        order = rng.permutation(len(task.X))
        for t, (start, stop) in enumerate(pairwise(edges), epoch * (len(edges) - 1)):
            n = stop - start
            drawn = Mixup().draw(n, rng)
            rows[t, :n], partner[t, :n] = order[start:stop], order[start:stop][drawn.partner]
            ends[t, 1, :n], real[t, :n] = drawn.lam, 1.0
    columns = _columns(task)
    first, second = (np.ascontiguousarray(columns[index].transpose(0, 2, 1)) for index in (rows, partner))
    return [first, second, ends, _weights(task, rows, partner, real)[:, None]]


def _columns(task: TrainingTask) -> NDArray[np.float64]:
    """Points with their labels, (n, d + k)."""
    tilt = np.ones(task.num_classes) if task.class_weight is None else task.class_weight
    return np.hstack([task.X, task.targets * tilt])


def _weights(task: TrainingTask, rows: NDArray[Any], partner: NDArray[Any], real: NDArray[Any]) -> NDArray[np.float64]:
    """Weights (T, 2 B) of points and mixed points.

    A mixed point has the mean of its parents' weights, not the blend: lam would shift weight away from hard points.
    """
    weight = np.ones(len(task.X)) if task.weight is None else task.weight
    first, second = weight[rows] * real, weight[partner] * real
    total = np.maximum(first.sum(1, keepdims=True), 1e-300)
    return np.hstack([first, (first + second) / 2]) / total


def _forward(layers: Sequence[LayerParams], x: Tensor) -> list[Tensor]:
    """Input of each layer, and the scores (G C, out, B), for points x (G C, in, B)."""
    seen = [x]
    for place, layer in enumerate(layers, 1):
        h = torch.baddbmm(layer.b.flatten(0, 1)[..., None], layer.W.flatten(0, 1).mT, seen[-1])
        seen.append(h.relu_() if place < len(layers) else h)
    return seen


def _backward(
    layers: Sequence[LayerParams], seen: Sequence[Tensor], delta: Tensor, grads: Sequence[LayerParams]
) -> Tensor:
    """Write the gradients, given that in the scores; return that in the outputs of the first layer."""
    for depth in reversed(range(len(layers))):
        grads[depth].W.copy_(torch.bmm(seen[depth], delta.mT).view_as(grads[depth].W))
        grads[depth].b.copy_(delta.sum(2).view_as(grads[depth].b))
        if depth:
            delta = torch.bmm(layers[depth].W.flatten(0, 1), delta).mul_(seen[depth].sign())
    return delta


def _descend(
    layers: Sequence[LayerParams], points: Tensor, target: Tensor, weight: Tensor, grads: Sequence[LayerParams]
) -> tuple[Tensor, Tensor, Tensor]:
    """Write the gradients of the cross-entropy; return it (G C), its gradient in the mixed points, and log-proba."""
    seen = _forward(layers, points)
    log_proba = torch.log_softmax(seen[-1], 1)
    loss = -(weight * target * log_proba).sum((1, 2))
    delta = weight * (target.sum(-2, keepdim=True) * log_proba.exp() - target)
    delta = _backward(layers, seen, delta, grads)[..., points.shape[-1] // 2 :]
    return loss, torch.bmm(layers[0].W.flatten(0, 1), delta), log_proba
