"""Networks in stages, so that a batch can be mixed before any stage: encode to a depth, mix, decode; and ensembles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import as_rng, chunks
from genlabel._validation import check_count

Weights = list[tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Matrix (in, out) and bias (out,) of each layer."""
MAX_CHUNK_ROWS = 65_536
"""Rows evaluated at once."""


class StagedNetwork(nn.Module, ABC):
    """Base class of classifiers in stages: `decode(encode(x, depth), depth)` is the same at every depth.

    >>> class Small(StagedNetwork):
    ...     depth = 1
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.body, self.head = nn.Linear(2, 4), nn.Linear(4, 3)
    ...     def encode(self, x, depth, start=0):
    ...         return torch.relu(self.body(x)) if depth > start else x
    ...     def decode(self, h, depth):
    ...         return self.head(self.encode(h, 1, start=depth))
    >>> network, x = Small(), torch.ones(1, 2)
    >>> bool((network.decode(network.encode(x, 1), 1) == network(x)).all())
    True
    """

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of stages before the last layer; `encode(x, depth)` gives the penultimate features."""

    @abstractmethod
    def encode(self, x: Tensor, depth: int, start: int = 0) -> Tensor:
        """Return the representation after `depth` stages of `x`, which has passed `start` stages; depth 0 is input."""

    @abstractmethod
    def decode(self, h: Tensor, depth: int) -> Tensor:
        """Return class scores (logits) of a representation at `depth`."""

    @property
    def num_classes(self) -> int | None:
        """Number of outputs; None if unknown."""
        return None

    @property
    def regions(self) -> list[nn.Module]:
        """Modules to compile, each by itself; empty if nothing is worth it."""
        return []

    def forward(self, x: Tensor) -> Tensor:
        """Return the class scores of `x`, (m, k)."""
        return self.decode(x, 0)


@final
class MLP(StagedNetwork):
    """Fully connected ReLU network; without hidden layers, softmax (logistic) regression.

    Parameters
    ----------
    n_features, num_classes : int
    hidden : sequence of int
        Sizes of the hidden layers; () is softmax regression, (128, 128) the paper's network for tables.
    seed : int, Generator or None
        Seed of the initial weights: uniform in +-1/sqrt(fan-in), like PyTorch's layers.
    dtype : torch.dtype

    Examples
    --------
    >>> net = MLP(2, 3, hidden=(8, 8), seed=0)
    >>> x = torch.zeros(5, 2)
    >>> bool(torch.equal(net.decode(net.encode(x, 1), 1), net(x)))
    True
    """

    def __init__(
        self,
        n_features: int,
        num_classes: int,
        hidden: Sequence[int] = (),
        seed: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        weights = draw_weights((n_features, *hidden, num_classes), as_rng(seed))
        self.layers = nn.ModuleList(nn.Linear(W.shape[0], W.shape[1], dtype=dtype) for W, _ in weights)
        self.load(weights)

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.layers) - 1

    @property
    def num_classes(self) -> int:
        """Outputs of the last layer."""
        return len(cast(Tensor, self.layers[-1].bias))

    def encode(self, x: Tensor, depth: int, start: int = 0) -> Tensor:
        """Apply the hidden layers from `start` up to `depth`."""
        if not 0 <= start <= depth <= self.depth:
            raise ValueError(f"depth={depth} from start={start} must lie in 0..{self.depth}, the hidden layers")
        for layer in self.layers[start:depth]:
            x = torch.relu(layer(x))
        return x

    def decode(self, h: Tensor, depth: int) -> Tensor:
        """Apply the hidden layers after `depth`, then the last one."""
        return self.layers[-1](self.encode(h, self.depth, start=depth))

    @torch.no_grad()
    def with_input_affine(self, scale: Any, shift: Any) -> MLP:
        """Return the network whose output at z is that of this network at scale z + shift; both (d,).

        >>> net, z = MLP(2, 3, seed=0), torch.tensor([[1.0, 2.0]])
        >>> bool(torch.allclose(net.with_input_affine([2.0, 1.0], [0.0, 3.0])(z), net(torch.tensor([[2.0, 5.0]]))))
        True
        """
        network = deepcopy(self)
        first = cast(nn.Linear, network.layers[0])
        s, t = (torch.as_tensor(values, dtype=first.weight.dtype) for values in (scale, shift))
        first.bias.add_(first.weight @ t)
        first.weight.mul_(s)
        return network

    @torch.no_grad()
    def load(self, weights: Weights) -> MLP:
        """Set the weights, and return the network."""
        for layer, (W, b) in zip(self.layers, weights, strict=True):
            cast(Tensor, layer.weight).copy_(torch.from_numpy(W).T)
            cast(Tensor, layer.bias).copy_(torch.from_numpy(b))
        return self


def draw_weights(sizes: Sequence[int], rng: np.random.Generator) -> Weights:
    """Draw initial weights for layers of the given sizes."""
    sizes = [check_count("a layer's size", size) for size in sizes]
    return [
        (rng.uniform(-1, 1, (n_in, n_out)) / n_in**0.5, rng.uniform(-1, 1, n_out) / n_in**0.5)
        for n_in, n_out in pairwise(sizes)
    ]


@final
class Ensemble(nn.Module):
    """Mean p of networks, sharpened or softened to r, and mixed with the class priors pi: (1 - e) r + e pi.

    Here log r = log pi + a (log p - log pi), normalized, with the exponent a, `weight`, and the weight e of the class
    priors, `prior_weight`. The outputs are scores, whose softmax are the probabilities. Without `log_prior` (k,), it is
    the plain mean, that of a = 1 and e = 0.
    """

    def __init__(
        self, networks: Sequence[nn.Module], weight: float = 1.0, log_prior: Any = None, prior_weight: float = 0.0
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.weight, self.prior_weight = weight, prior_weight
        self.register_buffer("log_prior", log_prior)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores (m, k)."""
        log_proba = torch.stack([torch.log_softmax(network(x), -1) for network in self.networks])
        mean = torch.logsumexp(log_proba, 0) - math.log(len(log_proba))
        if self.log_prior is None:
            return mean
        prior = cast(Tensor, self.log_prior).to(mean)
        scores = prior + self.weight * (mean - prior)
        if self.prior_weight == 0.0:
            return scores
        log_r = torch.log_softmax(scores, -1)
        return torch.logaddexp(log_r + math.log1p(-self.prior_weight), prior + math.log(self.prior_weight))


@torch.no_grad()
def log_proba_of(network: nn.Module, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log-probabilities (m, k) of points (m, d) under a network on the CPU."""
    scores = [network(torch.from_numpy(X[rows])) for rows in chunks(len(X), MAX_CHUNK_ROWS)]
    return np.asarray(torch.log_softmax(torch.cat(scores), dim=1).numpy())
