"""Gradients of the cross-entropy for many small networks at once, written out: no graph, few large operations.

Shapes: G groups (tasks) of C candidates, B points a batch, k classes, J label matrices.
"""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor

NARROW = 12
"""Products with so few columns are slow on a CPU, those with so few rows are not."""


class LayerParams(NamedTuple):
    """Views of one layer in the flat parameters: W (G, C, in, out), b (G, C, out)."""

    W: Tensor
    b: Tensor


class GroupBatch(NamedTuple):
    """One step for every group."""

    x: Tensor
    """(G, B, d)"""
    target: Tensor
    """(G, B, k, J)"""
    weight: Tensor
    """(G, B), each group's sum 1"""
    partner: Tensor
    """(G, B)"""
    lam: list[Tensor | None]
    """For each depth, weights (G, B) of the mixing there, or None for no mixing."""


@final
class Workspace:
    """Memory for what a step computes, used again by the next: to ask for it anew takes longer than many a product."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Tensor] = {}

    def __call__(self, name: tuple[str, int], like: Tensor, last: int | None = None) -> Tensor:
        """Room of the shape of a tensor, or with another last axis; what was there is lost."""
        shape = (*like.shape[:-1], like.shape[-1] if last is None else last)
        held = self._held.get(name)
        if held is None or held.shape != shape:
            held = self._held[name] = like.new_empty(shape)
        return held


def linear_gradient(layer: LayerParams, batch: GroupBatch, shares: Tensor, grad: LayerParams, tilted: bool) -> Tensor:
    """Softmax regression: one product of each group's points with all of its candidates' weights.

    `shares` (J, C) states each candidate's target in the basis of label matrices. Writes the gradient into `grad`
    and returns the loss (G, C).
    """
    G, C, d, k = layer.W.shape
    W = layer.W.permute(0, 2, 3, 1).reshape(G, d, k * C)
    b = layer.b.transpose(1, 2).reshape(G, 1, k * C)
    scores = torch.baddbmm(b, batch.x, W).view(G, -1, k, C)
    target = (batch.target.flatten(1, 2) @ shares).view_as(scores)
    delta, loss = _cross_entropy(scores, target, batch.weight[:, :, None, None], tilted)
    grad.W.copy_((batch.x.transpose(1, 2) @ delta.view(G, -1, k * C)).view(G, d, k, C).permute(0, 3, 1, 2))
    grad.b.copy_(delta.sum(1).transpose(1, 2))
    return loss.sum(1)


def relu_gradient(
    layers: list[LayerParams],
    batch: GroupBatch,
    shares: Tensor,
    grads: list[LayerParams],
    tilted: bool,
    room: Workspace | None = None,
) -> Tensor:
    """A fully connected ReLU network for each candidate: batched products over all models, layer by layer.

    Mixing at a depth is linear, so that its gradient goes back to a row and to its partner. Of many steps, each may
    work in the same `room`.
    """
    G, C = layers[0].W.shape[:2]
    room = Workspace() if room is None else room
    inputs, outputs = _forward(layers, batch, C, room)
    target = (batch.target.flatten(1, 2) @ shares).transpose(1, 2).reshape(G * C, *batch.target.shape[1:3])
    weight = repeat_models(batch.weight, C)[:, :, None]
    delta, loss = _cross_entropy(outputs[-1], target, weight, tilted)
    for depth in reversed(range(len(layers))):
        layer, grad = layers[depth], grads[depth]
        _outer(inputs[depth], delta, grad.W.flatten(0, 1))
        grad.b.copy_(delta.sum(1).view_as(grad.b))
        if depth:
            before = room(("delta", depth), inputs[depth])
            delta = torch.bmm(delta, layer.W.flatten(0, 1).mT, out=before)
            delta = _unmix(delta, batch, depth, C)
            torch.ops.aten.threshold_backward.grad_input(delta, outputs[depth - 1], 0.0, grad_input=delta)
    return loss.sum(1).view(G, C)


def relu_scores(layers: list[LayerParams], x: Tensor) -> Tensor:
    """Scores (G, C, m, k) of points x (G, m, d) under every model."""
    h = x[:, None]
    for layer in layers[:-1]:
        h = torch.relu(h @ layer.W + layer.b[:, :, None])
    return h @ layers[-1].W + layers[-1].b[:, :, None]


def _forward(
    layers: list[LayerParams], batch: GroupBatch, C: int, room: Workspace
) -> tuple[list[Tensor], list[Tensor]]:
    """Input of each layer (mixed where it is mixed), and output of each (before that mixing)."""
    h = repeat_models(batch.x, C)
    inputs, outputs = [], []
    for depth, layer in enumerate(layers):
        inputs.append(_mix(h, batch, depth, C))
        h = _affine(LayerParams(layer.W.flatten(0, 1), layer.b.flatten(0, 1)[:, None]), inputs[-1], room, depth)
        if depth < len(layers) - 1:
            h = h.relu_()
        outputs.append(h)
    return inputs, outputs


def _affine(layer: LayerParams, x: Tensor, room: Workspace, depth: int) -> Tensor:
    """x W + b for every model; of few outputs as the transpose, for which a CPU takes a quarter of the time."""
    W, b = layer
    if _is_narrow(W):
        return torch.baddbmm(b.mT, W.mT.contiguous(), x.mT).mT
    return torch.baddbmm(b, x, W, out=room(("output", depth), x, W.shape[-1]))


def _outer(x: Tensor, delta: Tensor, out: Tensor) -> None:
    """Write x' delta for every model."""
    if _is_narrow(delta):
        out.copy_(torch.bmm(delta.mT, x).mT)
    else:
        torch.bmm(x.mT, delta, out=out)


def _is_narrow(values: Tensor) -> bool:
    """Whether the last axis is short, on a CPU."""
    return values.shape[-1] <= NARROW and values.device.type == "cpu"


def repeat_models(values: Tensor, C: int) -> Tensor:
    """Repeat (G, ...) for each candidate: (G C, ...)."""
    return values[:, None].expand(-1, C, *values.shape[1:]).flatten(0, 1)


def _mix(h: Tensor, batch: GroupBatch, depth: int, C: int) -> Tensor:
    lam = batch.lam[depth]
    if lam is None:
        return h
    lam, partner = repeat_models(lam, C)[:, :, None], repeat_models(batch.partner, C)[:, :, None]
    return lam * h + (1.0 - lam) * torch.take_along_dim(h, partner, 1)


def _unmix(delta: Tensor, batch: GroupBatch, depth: int, C: int) -> Tensor:
    lam = batch.lam[depth]
    if lam is None:
        return delta
    lam, partner = repeat_models(lam, C)[:, :, None], repeat_models(batch.partner, C)[:, :, None]
    return (lam * delta).scatter_add_(1, partner.expand_as(delta), (1.0 - lam) * delta)


def _cross_entropy(scores: Tensor, target: Tensor, weight: Tensor, tilted: bool) -> tuple[Tensor, Tensor]:
    """Weighted cross-entropy of each row, and its gradient in the scores: w (sum(y) softmax(s) - y).

    The classes are the third axis. Plain reductions instead of `log_softmax`, which is slow where the classes are
    few. Overwrites `scores`.
    """
    scores -= scores.amax(2, keepdim=True)
    picked = (target * scores).sum(2)
    parts = scores.exp_()
    total = parts.sum(2, keepdim=True)
    mass = target.sum(2, keepdim=True) if tilted else torch.ones_like(weight)
    loss = weight.squeeze(2) * (mass.squeeze(2) * total.log().squeeze(2) - picked)
    return parts.mul_(mass / total).sub_(target).mul_(weight), loss
