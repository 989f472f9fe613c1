"""The best epoch of one network: its state when it did best on rows that it does not train on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from genlabel._progress import Callback
from genlabel._runtime import eval_mode
from genlabel.metrics import accuracy, log_loss
from genlabel.training.networks import StagedNetwork

Valid: TypeAlias = tuple[Any, Any] | Callable[[StagedNetwork], Any]
"""Rows (x, y) that are not trained on; or what scores a network: a number, or several of which the first ones that
differ decide, the larger the better."""
AT_ONCE = 1000
"""Rows that a network is asked about in one go."""


@final
class BestState(Callback):
    """Keeps the state of a network at its best epoch; of equally good ones the first.

    >>> from genlabel.training.networks import MLP
    >>> network = MLP(1, 2, seed=0)
    >>> best = BestState(network, lambda network: 1.0)
    >>> best.on_epoch_end(0, {})
    >>> best.epoch, sorted(best.restore()) == sorted(network.state_dict())
    (1, True)
    """

    def __init__(self, network: StagedNetwork, valid: Valid | None) -> None:
        if valid is None:
            raise ValueError("keep='best' chooses an epoch on rows that are not trained on; give valid=(x, y)")
        self._network, self._valid = network, valid
        self.epoch = 0
        self._score: tuple[float, ...] = ()
        self._state: dict[str, Tensor] = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Score the network at the end of an epoch, from 0, and keep its state if it was never as good."""
        score = self._ask()
        if not self._state or score > self._score:
            self.epoch, self._score = epoch + 1, score
            self._state = {name: part.detach().clone() for name, part in self._network.state_dict().items()}

    def restore(self) -> dict[str, Tensor]:
        """Set the network to its best state, and return it."""
        self._network.load_state_dict(self._state)
        return self._state

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"epoch": self.epoch, "score": list(self._score), "state": self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.epoch, self._score, self._state = state["epoch"], tuple(state["score"]), state["state"]

    def _ask(self) -> tuple[float, ...]:
        with eval_mode(self._network), torch.no_grad():
            found = self._valid(self._network) if callable(self._valid) else _score_rows(self._network, *self._valid)
        return tuple(-np.inf if np.isnan(one) else float(one) for one in np.atleast_1d(np.asarray(found, dtype=float)))


def _score_rows(network: StagedNetwork, x: Any, y: Any) -> Sequence[float]:
    """Accuracy and minus the log-loss."""
    like = next(network.parameters())
    parts = torch.split(torch.as_tensor(x).to(like), AT_ONCE)
    said = torch.cat([torch.log_softmax(network(part).double(), -1) for part in parts])
    rows = said.cpu().numpy(), torch.as_tensor(y).cpu().numpy()
    return [float(accuracy(*rows)), -float(log_loss(*rows))]
