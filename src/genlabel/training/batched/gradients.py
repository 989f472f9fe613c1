"""Explicit gradients of the cross-entropy for many small networks at once: no autograd graph, few large operations.

Shapes: G groups (tasks) of C candidates, B points a batch, k classes, J label matrices.
"""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor

MAX_NARROW = 12
"""Matrix products with at most this many columns are slow on a CPU; their transposes are not."""


class LayerParams(NamedTuple):
    """Views of one layer in the flat parameters: W (G, C, in, out), b (G, C, out)."""

    W: Tensor
    b: Tensor


class GroupBatch(NamedTuple):
    """One step of every group."""

    x: Tensor
    """(G, B, d)"""
    target: Tensor
    """(G, B, k, J)"""
    weight: Tensor
    """(G, B), of sum 1 in each group"""
    partner: Tensor
    """(G, B)"""
    lam: list[Tensor | None]
    """Mixing weights (G, B) for each depth, or None for no mixing there."""


@final
class Workspace:
    """Buffers reused by every step: allocation takes longer than many of the products."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, int], Tensor] = {}

    def __call__(self, name: tuple[str, int], like: Tensor, last: int | None = None) -> Tensor:
        """Return a buffer of the shape of a tensor, or with another last axis; its content is arbitrary."""
        shape = (*like.shape[:-1], like.shape[-1] if last is None else last)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != shape:
            buffer = self._buffers[name] = like.new_empty(shape)
        return buffer


def linear_gradient(
    layer: LayerParams, batch: GroupBatch, label_weights: Tensor, grad: LayerParams, weighted: bool
) -> Tensor:
    """Write the gradients of softmax regression into `grad`, and return the losses (G, C).

    One product of each group's points with all of its candidates' weights. `label_weights` (J, C) define each
    candidate's target in the basis of label matrices; `weighted` says that these have class weights.
    """
    G, C, d, k = layer.W.shape
    W = layer.W.permute(0, 2, 3, 1).reshape(G, d, k * C)
    b = layer.b.transpose(1, 2).reshape(G, 1, k * C)
    scores = torch.baddbmm(b, batch.x, W).view(G, -1, k, C)
    target = (batch.target.flatten(1, 2) @ label_weights).view_as(scores)
    delta, loss = _cross_entropy(scores, target, batch.weight[:, :, None, None], weighted)
    grad.W.copy_((batch.x.transpose(1, 2) @ delta.view(G, -1, k * C)).view(G, d, k, C).permute(0, 3, 1, 2))
    grad.b.copy_(delta.sum(1).transpose(1, 2))
    return loss.sum(1)


def relu_gradient(
    layers: list[LayerParams],
    batch: GroupBatch,
    label_weights: Tensor,
    grads: list[LayerParams],
    weighted: bool,
    workspace: Workspace | None = None,
) -> Tensor:
    """Write the gradients of fully connected ReLU networks into `grads`, and return the losses (G, C).

    Batched products over all models, layer by layer. Mixing at a depth is linear, so that its gradient flows to a row
    and to its partner. Consecutive steps may share a `workspace`.
    """
    G, C = layers[0].W.shape[:2]
    workspace = Workspace() if workspace is None else workspace
    inputs, outputs = _forward(layers, batch, C, workspace)
    target = (batch.target.flatten(1, 2) @ label_weights).transpose(1, 2).reshape(G * C, *batch.target.shape[1:3])
    weight = repeat_models(batch.weight, C)[:, :, None]
    delta, loss = _cross_entropy(outputs[-1], target, weight, weighted)
    for depth in reversed(range(len(layers))):
        layer, grad = layers[depth], grads[depth]
        _outer(inputs[depth], delta, grad.W.flatten(0, 1))
        grad.b.copy_(delta.sum(1).view_as(grad.b))
        if depth:
            before = workspace(("delta", depth), inputs[depth])
            delta = torch.bmm(delta, layer.W.flatten(0, 1).mT, out=before)
            delta = _unmix(delta, batch, depth, C)
            torch.ops.aten.threshold_backward.grad_input(delta, outputs[depth - 1], 0.0, grad_input=delta)
    return loss.sum(1).view(G, C)


def relu_scores(layers: list[LayerParams], x: Tensor) -> Tensor:
    """Return the scores (G, C, m, k) of points x (G, m, d) under every model."""
    h = x[:, None]
    for layer in layers[:-1]:
        h = torch.relu(h @ layer.W + layer.b[:, :, None])
    return h @ layers[-1].W + layers[-1].b[:, :, None]


def _forward(
    layers: list[LayerParams], batch: GroupBatch, C: int, workspace: Workspace
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the input of each layer (after mixing), and the output of each (before mixing)."""
    h = repeat_models(batch.x, C)
    inputs, outputs = [], []
    for depth, layer in enumerate(layers):
        inputs.append(_mix(h, batch, depth, C))
        h = _affine(LayerParams(layer.W.flatten(0, 1), layer.b.flatten(0, 1)[:, None]), inputs[-1], workspace, depth)
        if depth < len(layers) - 1:
            h = h.relu_()
        outputs.append(h)
    return inputs, outputs


def _affine(layer: LayerParams, x: Tensor, workspace: Workspace, depth: int) -> Tensor:
    """Return x W + b for every model; with few outputs via the transpose, which is four times faster on a CPU."""
    W, b = layer
    if _is_narrow(W):
        return torch.baddbmm(b.mT, W.mT.contiguous(), x.mT).mT
    return torch.baddbmm(b, x, W, out=workspace(("output", depth), x, W.shape[-1]))


def _outer(x: Tensor, delta: Tensor, out: Tensor) -> None:
    """Write x^T delta for every model."""
    if _is_narrow(delta):
        out.copy_(torch.bmm(delta.mT, x).mT)
    else:
        torch.bmm(x.mT, delta, out=out)


def _is_narrow(values: Tensor) -> bool:
    return values.shape[-1] <= MAX_NARROW and values.device.type == "cpu"


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


def _cross_entropy(scores: Tensor, target: Tensor, weight: Tensor, weighted: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient of the weighted cross-entropy in the scores, w (sum(y) softmax(s) - y), and the row losses.

    The classes are the third axis. Plain reductions instead of `log_softmax`, which is slow with few classes.
    Overwrites `scores`.
    """
    scores -= scores.amax(2, keepdim=True)
    picked = (target * scores).sum(2)
    exp = scores.exp_()
    total = exp.sum(2, keepdim=True)
    mass = target.sum(2, keepdim=True) if weighted else torch.ones_like(weight)
    loss = weight.squeeze(2) * (mass.squeeze(2) * total.log().squeeze(2) - picked)
    return exp.mul_(mass / total).sub_(target).mul_(weight), loss
