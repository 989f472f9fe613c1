"""The fleet: many networks of one shape, in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import chunks
from genlabel.training.batched.gradients import LayerParams, relu_scores
from genlabel.training.batching import NUMBERS_AT_ONCE
from genlabel.training.networks import MLP, draw_weights


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
        Which epoch each network is of, from 1, where the best one was kept.

    Examples
    --------
    >>> fleet = Fleet([1, 2], seeds=[0, 1], candidates=3, dtype=torch.float64, device=torch.device("cpu"))
    >>> fleet.theta.shape  # 2 tasks, 3 candidates, 2 weights and 2 biases
    torch.Size([2, 3, 4])
    >>> bool((fleet.theta[:, 0] == fleet.theta[:, 2]).all())
    True
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
        drawn = (draw_weights(self.sizes, weight_rng(seed)) for seed in seeds)
        flat = (np.concatenate([part.ravel() for layer in group for part in layer]) for group in drawn)
        theta = torch.stack([torch.from_numpy(group).to(device=device, dtype=dtype) for group in flat])
        self.theta = theta[:, None].repeat(1, candidates, 1)
        self.losses: NDArray[np.float64] = np.empty((0, len(seeds), candidates))
        self.best_epochs: NDArray[np.int64] | None = None

    def at(self, theta: Tensor) -> Fleet:
        """Networks of the same shape with other parameters (G, C, size)."""
        other = copy(self)
        other.theta = theta
        return other

    def layers(self, flat: Tensor) -> list[LayerParams]:
        """Views of a flat tensor (G, C, size), or (C, size) of one group, as layers."""
        views, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            W = flat[..., at : at + n_in * n_out].view(*flat.shape[:-1], n_in, n_out)
            at += n_in * n_out
            views.append(LayerParams(W, flat[..., at : at + n_out]))
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

    def rate(self, group: int, X: NDArray[np.float64], y: NDArray[Any], weight: Any = None) -> NDArray[np.float64]:
        """Accuracy and minus the log-loss, (C, 2), of every candidate of a group on rows of the classes y, quickly.

        In the precision of the networks, with the rows along the last axis. A network that says no number is never
        right, and its log-loss is infinite.
        """
        layers = self.layers(self.theta[group])
        at_once = max(1, NUMBERS_AT_ONCE // (self.theta.shape[1] * max(self.sizes)))
        parts = [_rate(layers, torch.from_numpy(X[part]).to(self.theta), y[part]) for part in chunks(len(X), at_once)]
        hits, losses = (torch.cat(both, -1).double().cpu().numpy() for both in zip(*parts, strict=True))
        found = np.stack([np.average(values, axis=-1, weights=weight) for values in (hits, -losses)], -1)
        return np.where(np.isnan(found), -np.inf, found)


def _rate(layers: Sequence[LayerParams], x: Tensor, y: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Whether each row (m, d) is classified right, and its loss, (C, m) each."""
    h = x.T
    for W, b in layers[:-1]:
        h = torch.relu(W.mT @ h + b[..., None])
    scores = layers[-1].W.mT @ h + layers[-1].b[..., None]
    index = torch.from_numpy(y).to(x.device)
    own, top = scores[:, index, torch.arange(len(x), device=x.device)], scores.amax(1)
    hits = own == top
    if int((scores == top[:, None]).sum()) > top.numel():  # of equal scores the first counts; argmax is slow
        hits &= scores.argmax(1) == index
    return hits, scores.logsumexp(1) - own


def weight_rng(seed: Any) -> np.random.Generator:
    """The generator of a model's initial weights: a child of the seed that orders and mixes its points."""
    return np.random.default_rng(seed).spawn(1)[0]
