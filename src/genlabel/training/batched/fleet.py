"""Fleet: many networks of one shape in one tensor."""

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
from genlabel.training.batching import MAX_CHUNK_VALUES
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import draw_weights


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
        weights = (draw_weights(self.sizes, weight_rng(seed)) for seed in seeds)
        flat = (np.concatenate([part.ravel() for layer in group for part in layer]) for group in weights)
        theta = torch.stack([torch.from_numpy(group).to(device=device, dtype=dtype) for group in flat])
        self.theta = theta[:, None].repeat(1, candidates, 1)
        self.losses: NDArray[np.float64] = np.empty((0, len(seeds), candidates))
        self.best_epochs: NDArray[np.int64] | None = None

    def with_theta(self, theta: Tensor) -> Fleet:
        """Return networks of the same shape with other parameters (G, C, size)."""
        other = copy(self)
        other.theta = theta
        return other

    def layers(self, flat: Tensor) -> list[LayerParams]:
        """Return views of a flat tensor (G, C, size), or (C, size) of one group, as layers."""
        views, start = [], 0
        for n_in, n_out in pairwise(self.sizes):
            W = flat[..., start : start + n_in * n_out].view(*flat.shape[:-1], n_in, n_out)
            start += n_in * n_out
            views.append(LayerParams(W, flat[..., start : start + n_out]))
            start += n_out
        return views

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
        layers = self.layers(self.theta[group])
        parts = [_evaluate(layers, torch.from_numpy(X[r]).to(self.theta), y[r]) for r in self._row_chunks(len(X))]
        hits, losses = (torch.cat(both, -1).double().cpu().numpy() for both in zip(*parts, strict=True))
        scores = np.stack([np.average(values, axis=-1, weights=weight) for values in (hits, -losses)], -1)
        return np.where(np.isnan(scores), -np.inf, scores)

    def _row_chunks(self, n: int) -> list[slice]:
        return chunks(n, max(1, MAX_CHUNK_VALUES // (self.theta.shape[1] * max(self.sizes))))


def _evaluate(layers: Sequence[LayerParams], x: Tensor, y: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Return a mask of correctly classified rows (m, d), and their losses, (C, m) each."""
    h = x.T
    for W, b in layers[:-1]:
        h = torch.relu(W.mT @ h + b[..., None])
    scores = layers[-1].W.mT @ h + layers[-1].b[..., None]
    index = torch.from_numpy(y).to(x.device)
    own, highest = scores[:, index, torch.arange(len(x), device=x.device)], scores.amax(1)
    hits = own == highest
    if int((scores == highest[:, None]).sum()) > highest.numel():  # ties count for the first class; argmax is slow
        hits &= scores.argmax(1) == index
    return hits, scores.logsumexp(1) - own


def weight_rng(seed: Any) -> np.random.Generator:
    """Return the generator of initial weights: the first child of the seed that orders and mixes the points."""
    return np.random.default_rng(seed).spawn(1)[0]
