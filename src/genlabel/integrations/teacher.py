"""Teachers: networks that give features only, frozen or the moving average of the network that is trained."""

from __future__ import annotations

import copy
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._validation import check_choice, check_interval
from genlabel.integrations.hooks import FeatureHook, find_layer, unwrap


@final
class Teacher(nn.Module):
    """Network in evaluation mode that gives features only; its owner saves and moves it.

    Parameters
    ----------
    network : Module
        Network, which is put in evaluation mode.
    feature_layer, input_of : str or None
        See :func:`find_layer`.
    num_classes : int
    decay : float in [0, 1) or None
        None is a frozen teacher. Otherwise it is the moving average of the network, of which it starts as a copy: decay
        is the weight of the average in an update, in the long run; the t-th update uses at most (1 + t) / (10 + t).

    Examples
    --------
    >>> Teacher(nn.Linear(2, 3), None, 3, decay=0.999).features(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """

    updates: Tensor

    def __init__(
        self,
        network: nn.Module,
        feature_layer: str | None,
        num_classes: int,
        decay: float | None = None,
        input_of: str | None = None,
    ) -> None:
        super().__init__()
        self.network = unwrap(network)
        if decay is not None:
            check_interval("decay", decay, 0.0, 1.0 - 1e-9, "0.999 averages about the last thousand steps")
            self.network = copy.deepcopy(self.network).requires_grad_(False)
        self.network.eval()
        self.feature_layer, self.input_of, self.num_classes, self.decay = feature_layer, input_of, num_classes, decay
        self.register_buffer("updates", torch.zeros(()))
        self._hook: FeatureHook | None = self._make_hook()

    @property
    def is_average(self) -> bool:
        """True if it is the moving average of a network."""
        return self.decay is not None

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """Return the features (n, d) of a batch."""
        if self._hook is None:  # in a copy
            self._hook = self._make_hook()
        return self._hook.features_of(x)

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Move the weights towards those of the network; buffers, such as running statistics, are copied."""
        self.updates.add_(1.0)
        decay = ((1.0 + self.updates) / (10.0 + self.updates)).clamp(max=self.decay)
        source = unwrap(network)
        for mine, theirs in zip(self.network.parameters(), source.parameters(), strict=True):
            mine.lerp_(theirs.detach(), (1.0 - decay).to(mine))
        for buffer, value in zip(self.network.buffers(), source.buffers(), strict=True):
            buffer.copy_(value)

    def _make_hook(self) -> FeatureHook:
        layer = find_layer(self.network, self.feature_layer, self.num_classes, self.input_of)
        return FeatureHook(layer, self.network)

    def train(self, mode: bool = True) -> Teacher:
        """Stay in evaluation mode."""
        super().train(mode)
        self.network.eval()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the hook, which a copy registers on its own network."""
        return {**self.__dict__, "_hook": None}


def make_teacher(
    teacher: nn.Module | str | None,
    network: nn.Module | None,
    feature_layer: str | None,
    input_of: str | None,
    k: int,
    decay: float,
) -> Teacher | None:
    """Return the teacher for a module, for "ema" or for None."""
    if teacher is None:
        return None
    if isinstance(teacher, str):
        check_choice("teacher", teacher, ["ema"], also="a module")
        if network is None:
            raise ValueError("teacher='ema' needs the network that it averages: GenLabelMixup(network, ...)")
        return Teacher(network, feature_layer, k, decay, input_of)
    if network is not None and unwrap(teacher) is unwrap(network):
        raise ValueError("teacher is the network itself; pass a copy, copy.deepcopy(network), or 'ema'")
    return Teacher(teacher, feature_layer, k, input_of=input_of)
