"""A second network whose features label a batch before the first has seen it: frozen, or an average of the first."""

from __future__ import annotations

import copy
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._validation import check_interval
from genlabel.integrations.hooks import FeatureHook, find_layer, unwrap


@final
class Teacher(nn.Module):
    """A network in evaluation mode that is asked for features only, and goes with its owner in state and device.

    Parameters
    ----------
    network : Module
        Put in evaluation mode; the average of another is a copy of it.
    layer : str or None
        As in :func:`genlabel.integrations.hooks.find_layer`.
    num_classes : int
    decay : float in [0, 1) or None
        Share of the average that stays in an update, in the long run: the t-th keeps at most (1 + t) / (10 + t).
        None is a teacher that does not change.

    Examples
    --------
    >>> network = nn.Linear(2, 3)
    >>> Teacher.average_of(network, None, 3, decay=0.999).features_of(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """

    updates: Tensor

    def __init__(self, network: nn.Module, layer: str | None, num_classes: int, decay: float | None = None) -> None:
        super().__init__()
        self.network = unwrap(network).eval()
        self.layer, self.num_classes = layer, num_classes
        self.decay = decay
        if decay is not None:
            check_interval("decay", decay, 0.0, 1.0 - 1e-9, "0.999 averages about the last thousand steps")
        self.register_buffer("updates", torch.zeros(()))
        self._tap: FeatureHook | None = FeatureHook(find_layer(self.network, layer, num_classes), self.network)

    @property
    def averages(self) -> bool:
        """Whether it follows a network."""
        return self.decay is not None

    @classmethod
    def average_of(cls, network: nn.Module, layer: str | None, num_classes: int, decay: float) -> Teacher:
        """A teacher that starts as a copy of the network, and follows it by :meth:`follow`."""
        twin = copy.deepcopy(unwrap(network)).requires_grad_(False)
        return cls(twin, layer, num_classes, decay)

    @torch.no_grad()
    def features_of(self, x: Tensor) -> Tensor:
        """Return the features (n, d) of a batch."""
        if self._tap is None:  # a copy has no hook of its own yet
            self._tap = FeatureHook(find_layer(self.network, self.layer, self.num_classes), self.network)
        return self._tap.features_of(x)

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """Move the weights towards those of the network; statistics of batch normalisation are taken over."""
        self.updates.add_(1.0)
        keep = ((1.0 + self.updates) / (10.0 + self.updates)).clamp(max=self.decay)
        theirs = unwrap(network)
        for mine, new in zip(self.network.parameters(), theirs.parameters(), strict=True):
            mine.lerp_(new.detach(), (1.0 - keep).to(mine))
        for kept, now in zip(self.network.buffers(), theirs.buffers(), strict=True):
            kept.copy_(now)

    def train(self, mode: bool = True) -> Teacher:
        """It stays in evaluation mode."""
        super().train(mode)
        self.network.eval()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without the hook, which a copy puts on its own network."""
        return {**self.__dict__, "_tap": None}
