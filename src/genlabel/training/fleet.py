"""Fleet: many networks of one shape in one tensor, and explicit gradients of their cross-entropy.

Without an autograd graph, a step is a few large operations, which is fast for many small networks. Shapes: G groups
(tasks) of C candidates, B points a batch, k classes, J label matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import chunks
from genlabel.training.batching import MAX_CHUNK_VALUES, StepBlock
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import draw_weights

MAX_NARROW = 12
"""Matrix products with at most this many columns are slow on a CPU; their transposes are not."""


class LayerParams(NamedTuple):
    """Views of one layer in the flat parameters: W (G, C, in, out), b (G, C, out)."""

    W: Tensor
    b: Tensor


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
    best_epochs : ndarray (G, C) or None
        Epoch, from 1, that each network was restored to; None for the last one.
    """

    def __init__(
        self, sizes: Sequence[int], seeds: Sequence[Any], candidates: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.sizes = tuple(sizes)
        groups = []
        for seed in seeds:
            layers = draw_weights(self.sizes, weight_rng(seed))
            flat = np.concatenate([part.ravel() for layer in layers for part in layer])
            groups.append(torch.from_numpy(flat).to(device=device, dtype=dtype))
        self.theta = torch.stack(groups)[:, None].repeat(1, candidates, 1)
        self.losses: NDArray[np.float64] = np.empty((0, len(seeds), candidates))
        self.best_epochs: NDArray[np.int64] | None = None

    def with_theta(self, theta: Tensor) -> Fleet:
        """Return networks of the same shape with other parameters (G, C, size)."""
        fleet = copy(self)
        fleet.theta = theta
        return fleet

    def candidate(self, index: int) -> Fleet:
        """Return the networks of one candidate as they are now, with their losses and best epochs."""
        single = self.with_theta(self.theta[:, [index]].clone())
        single.losses = self.losses[:, :, [index]]
        single.best_epochs = None if self.best_epochs is None else self.best_epochs[:, [index]]
        return single

    def layers(self, flat: Tensor) -> list[LayerParams]:
        """Return views of a flat tensor (G, C, size), or (C, size) of one group, as layers."""
        shapes = list(pairwise(self.sizes))
        parts = torch.split(flat, [size for n_in, n_out in shapes for size in (n_in * n_out, n_out)], -1)
        layers = zip(parts[::2], parts[1::2], shapes, strict=True)
        return [LayerParams(W.view(*flat.shape[:-1], *shape), b) for W, b, shape in layers]

    def network(self, group: int = 0, candidate: int = 0) -> MLP:
        """Return one of the models as a network of its own (float64, on the CPU)."""
        theta = self.theta[group : group + 1, candidate : candidate + 1].double().cpu()
        weights = [(layer.W[0, 0].numpy(), layer.b[0, 0].numpy()) for layer in self.layers(theta)]
        return MLP(self.sizes[0], self.sizes[-1], self.sizes[1:-1], dtype=torch.float64).load(weights)

    def log_proba(self, group: int, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probabilities (C, m, k) of points under every candidate of a group."""
        theta = self.theta[group : group + 1].double()
        layers, x = self.layers(theta), torch.from_numpy(X).to(theta)[None]
        scores = torch.cat([relu_scores(layers, x[:, rows])[0] for rows in self._row_chunks(len(X))], dim=1)
        return torch.log_softmax(scores, -1).cpu().numpy()

    def score(self, group: int, X: NDArray[np.float64], y: NDArray[Any], weight: Any = None) -> NDArray[np.float64]:
        """Return accuracy and minus the log-loss, (C, 2), of every candidate of a group on rows with class indices y.

        It is fast: in the precision of the networks, with the rows along the last axis. A network whose scores are NaN
        is never correct, and its log-loss is infinite.
        """
        *hidden, last = self.layers(self.theta[group])
        hits, losses = [], []
        for rows in self._row_chunks(len(X)):
            h = torch.from_numpy(X[rows]).to(self.theta).T
            index = torch.from_numpy(y[rows]).to(self.theta.device)
            for W, b in hidden:
                h = torch.relu(W.mT @ h + b[..., None])
            scores = last.W.mT @ h + last.b[..., None]
            own = scores[:, index, torch.arange(len(index), device=index.device)]
            highest = scores.amax(1)
            hit = own == highest
            if int((scores == highest[:, None]).sum()) > highest.numel():  # ties count for the first class
                hit &= scores.argmax(1) == index
            hits.append(hit)
            losses.append(scores.logsumexp(1) - own)
        accuracy, loss = (torch.cat(parts, -1).double().cpu().numpy() for parts in (hits, losses))
        result = np.stack([np.average(values, axis=-1, weights=weight) for values in (accuracy, -loss)], -1)
        return np.where(np.isnan(result), -np.inf, result)

    def _row_chunks(self, n: int) -> list[slice]:
        return chunks(n, max(1, MAX_CHUNK_VALUES // (self.theta.shape[1] * max(self.sizes))))


def weight_rng(seed: Any) -> np.random.Generator:
    """Return the generator of initial weights: the first child of the seed that orders and mixes the points."""
    return np.random.default_rng(seed).spawn(1)[0]


def relu_scores(layers: Sequence[LayerParams], x: Tensor) -> Tensor:
    """Return the scores (G, C, m, k) of points x (G, m, d) under every model."""
    h = x[:, None]
    for layer in layers[:-1]:
        h = torch.relu(h @ layer.W + layer.b[:, :, None])
    return h @ layers[-1].W + layers[-1].b[:, :, None]


def linear_gradient(
    layer: LayerParams, step: StepBlock, label_weights: Tensor, grad: LayerParams, weighted: bool
) -> Tensor:
    """Write the gradients of softmax regression into `grad`, and return the losses (G, C).

    One product of each group's points with the weights of all its candidates. `label_weights` (J, C) define each
    candidate's target in the basis of label matrices; `weighted` is True if these are multiplied by class weights.
    """
    G, C, d, k = layer.W.shape
    W = layer.W.permute(0, 2, 3, 1).reshape(G, d, k * C)
    b = layer.b.transpose(1, 2).reshape(G, 1, k * C)
    scores = torch.baddbmm(b, step.x, W).view(G, -1, k, C)
    target = (step.target.flatten(1, 2) @ label_weights).view_as(scores)
    delta, loss = _cross_entropy(scores, target, step.weight[:, :, None, None], weighted)
    grad.W.copy_((step.x.transpose(1, 2) @ delta.view(G, -1, k * C)).view(G, d, k, C).permute(0, 3, 1, 2))
    grad.b.copy_(delta.sum(1).transpose(1, 2))
    return loss.sum(1)


def relu_gradient(
    layers: Sequence[LayerParams],
    step: StepBlock,
    label_weights: Tensor,
    grads: Sequence[LayerParams],
    weighted: bool,
    workspace: dict[tuple[str, int], Tensor],
) -> Tensor:
    """Write the gradients of fully connected ReLU networks into `grads`, and return the losses (G, C).

    Batched products over all models, layer by layer; those of few columns are computed as transposes. Mixing at a depth
    is linear, so that its gradient flows to a row and to its partner. Steps of equal shapes share a `workspace`.
    """
    G, C = layers[0].W.shape[:2]
    h, inputs, outputs = repeat_models(step.x, C), [], []
    depths, mixing = step.draw.depth, dict[int, tuple[Tensor, Tensor]]()
    mixed_depths = set(depths.tolist()) - {0}
    for depth, layer in enumerate(layers):
        if depth in mixed_depths:  # groups that mix at another depth have lam = 1 here
            weight = torch.where(torch.from_numpy(depths == depth).to(h.device)[:, None], step.draw.lam, 1.0)
            lam, partner = (repeat_models(values, C)[:, :, None] for values in (weight, step.draw.partner))
            mixing[depth] = lam, partner
            h = lam * h + (1.0 - lam) * torch.take_along_dim(h, partner, 1)
        inputs.append(h)
        W, b = layer.W.flatten(0, 1), layer.b.flatten(0, 1)[:, None]
        if _is_narrow(W):
            h = torch.baddbmm(b.mT, W.mT.contiguous(), h.mT).mT
        else:
            h = torch.baddbmm(b, h, W, out=_buffer(workspace, ("output", depth), h, W.shape[-1]))
        outputs.append(h.relu_() if depth < len(layers) - 1 else h)
    target = (step.target.flatten(1, 2) @ label_weights).transpose(1, 2).reshape(G * C, *step.target.shape[1:3])
    delta, loss = _cross_entropy(outputs[-1], target, repeat_models(step.weight, C)[:, :, None], weighted)
    for depth in reversed(range(len(layers))):
        x, grad = inputs[depth], grads[depth]
        if _is_narrow(delta):
            grad.W.flatten(0, 1).copy_(torch.bmm(delta.mT, x).mT)
        else:
            torch.bmm(x.mT, delta, out=grad.W.flatten(0, 1))
        grad.b.copy_(delta.sum(1).view_as(grad.b))
        if depth:
            buffer = _buffer(workspace, ("delta", depth), x, x.shape[-1])
            delta = torch.bmm(delta, layers[depth].W.flatten(0, 1).mT, out=buffer)
            if depth in mixing:
                lam, partner = mixing[depth]
                delta = (lam * delta).scatter_add_(1, partner.expand_as(delta), (1.0 - lam) * delta)
            torch.ops.aten.threshold_backward.grad_input(delta, outputs[depth - 1], 0.0, grad_input=delta)
    return loss.sum(1).view(G, C)


def _buffer(workspace: dict[tuple[str, int], Tensor], name: tuple[str, int], like: Tensor, last: int) -> Tensor:
    """Return a reused buffer shaped like `like` with last axis `last`; allocating one costs more than most products."""
    if name not in workspace:
        workspace[name] = like.new_empty((*like.shape[:-1], last))
    return workspace[name]


def repeat_models(values: Tensor, C: int) -> Tensor:
    """Repeat (G, ...) for each candidate: (G C, ...)."""
    return values[:, None].expand(-1, C, *values.shape[1:]).flatten(0, 1)


def _is_narrow(values: Tensor) -> bool:
    """Return True if a product with this result is faster as a transpose."""
    return values.shape[-1] <= MAX_NARROW and values.device.type == "cpu"


def _cross_entropy(scores: Tensor, target: Tensor, weight: Tensor, weighted: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient of the weighted cross-entropy in the scores, w (sum(y) softmax(s) - y), and the row losses.

    The classes are the third axis. Plain reductions replace `log_softmax`, which is slow with few classes. `scores` are
    overwritten.
    """
    scores -= scores.amax(2, keepdim=True)
    picked = (target * scores).sum(2)
    exp = scores.exp_()
    total = exp.sum(2, keepdim=True)
    mass = target.sum(2, keepdim=True) if weighted else torch.ones_like(weight)
    loss = weight.squeeze(2) * (mass.squeeze(2) * total.log().squeeze(2) - picked)
    return exp.mul_(mass / total).sub_(target).mul_(weight), loss
