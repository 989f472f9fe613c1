"""Any PyTorch module as a network of one stage: its features, and its last linear layer."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from genlabel.training.networks.staged import StagedNetwork


@final
class WrappedNetwork(StagedNetwork):
    """Network of one's own whose last layer is an `nn.Linear`: depth 1 is the input of that layer.

    Parameters
    ----------
    module : Module
        Network from points to scores (n, num_classes).
    num_classes : int

    Examples
    --------
    >>> net = WrappedNetwork(nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), 3)
    >>> x = torch.ones(5, 2, 2)
    >>> net.encode(x, 1).shape, bool(torch.equal(net.decode(net.encode(x, 1), 1), net(x)))
    (torch.Size([5, 8]), True)
    """

    depth = 1

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        heads = [part for part in module.modules() if isinstance(part, nn.Linear) and part.out_features == num_classes]
        if not heads:
            raise ValueError(
                f"the network has no nn.Linear with {num_classes} outputs, one for each class, as its last layer"
            )
        self.module = module
        self._head = [heads[-1]]  # in a list, so that it is registered once

    @property
    def num_classes(self) -> int:
        """Outputs of the last layer."""
        return self._head[0].out_features

    def encode(self, x: Tensor, depth: int, start: int = 0) -> Tensor:
        """Return the input of the last layer in a pass of the module; depth 0 is the input."""
        if depth == start:
            return x
        captured: list[Tensor] = []
        handle = self._head[0].register_forward_pre_hook(
            lambda module, args, kwargs: captured.append((*args, *kwargs.values())[0]), with_kwargs=True
        )
        try:
            self.module(x)
        finally:
            handle.remove()
        if len(captured) != 1 or captured[0].ndim != 2:
            shapes = [tuple(h.shape) for h in captured]
            raise ValueError(f"the last layer must run once in a pass, on features (n, d); its inputs were {shapes}")
        return captured[0]

    def decode(self, h: Tensor, depth: int) -> Tensor:
        """Return the scores of points, or of features."""
        scores: Tensor = self.module(h) if depth == 0 else self._head[0](h)
        return scores

    @torch.no_grad()
    def check(self, x: Tensor) -> None:
        """Raise unless the scores of some points are those of the last layer, one for each class."""
        mode = self.training
        scores, again = self.eval()(x), self.decode(self.encode(x, 1), 1)
        self.train(mode)
        if scores.shape != again.shape or not torch.allclose(scores, again, rtol=1e-3, atol=1e-4):
            raise ValueError(
                f"the output {tuple(scores.shape)} of the network is not that of its last linear layer: "
                "return scores (logits) without a softmax, or derive from genlabel.training.networks.StagedNetwork"
            )
