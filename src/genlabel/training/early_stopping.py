"""Best epochs by validation score: of one network, and of every network of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._progress import Callback
from genlabel._runtime import eval_mode
from genlabel._validation import check_count
from genlabel.metrics import accuracy, log_loss
from genlabel.training.batching import MAX_CHUNK_VALUES, TrainingTask
from genlabel.training.fleet import Fleet
from genlabel.training.networks import StagedNetwork

Validation: TypeAlias = tuple[Any, Any] | Callable[[StagedNetwork], Any]
"""Validation rows (x, y); or a score of a network: a float, or several compared in order, the larger the better."""
Score: TypeAlias = Callable[[Fleet, int], NDArray[np.float64]]
"""Function of the C networks of one task, as a fleet of one group, and the task's index; it returns scores (C, m),
compared column by column, the larger the better."""


@final
class BestState(Callback):
    """State of a network at its best epoch; of equally good epochs, the first."""

    def __init__(self, network: StagedNetwork, valid: Validation | None) -> None:
        if valid is None:
            raise ValueError("restore_best=True needs validation rows; pass valid=(x, y)")
        self._network = network
        self._rate = valid if callable(valid) else partial(_accuracy_and_loss, x=valid[0], y=valid[1])
        self.epoch = 0
        self._score: tuple[float, ...] = ()
        self._state: dict[str, Tensor] = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Score the network at the end of an epoch, from 0, and store its state if it is the best so far."""
        with eval_mode(self._network), torch.no_grad():
            score = np.atleast_1d(np.asarray(self._rate(self._network), dtype=float))
        values = tuple(np.where(np.isnan(score), -np.inf, score).tolist())
        if not self._state or values > self._score:
            self.epoch, self._score = epoch + 1, values
            self._state = {name: value.detach().clone() for name, value in self._network.state_dict().items()}

    def restore(self) -> None:
        """Load the best state into the network."""
        self._network.load_state_dict(self._state)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"epoch": self.epoch, "score": list(self._score), "state": self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the state of a checkpoint."""
        self.epoch, self._score, self._state = state["epoch"], tuple(state["score"]), state["state"]


def _accuracy_and_loss(network: StagedNetwork, x: Any, y: Any) -> Sequence[float]:
    """Return accuracy and minus the log-loss, 1000 rows at a time."""
    batches = torch.split(torch.as_tensor(x).to(next(network.parameters())), 1000)
    log_proba = torch.cat([torch.log_softmax(network(batch).double(), -1) for batch in batches])
    rows = log_proba.cpu().numpy(), torch.as_tensor(y).cpu().numpy()
    return [float(accuracy(*rows)), -float(log_loss(*rows))]


@final
@dataclass(frozen=True)
class BestEpoch:
    """Rule by which every network of a fleet is restored to its best epoch; of equally good epochs, the first."""

    score: Score | None = None
    """Score to maximize; None is accuracy on the `valid` rows of the tasks, then log-loss."""
    every: int = 1
    """Number of epochs between evaluations; the last epoch is always evaluated."""

    def __post_init__(self) -> None:
        check_count("every", self.every)


def make_tracker(
    restore_best: bool | BestEpoch, tasks: Sequence[TrainingTask], fleet: Fleet, epochs: int
) -> BestEpochTracker | None:
    """Return the tracker of a run's best epochs; None with restore_best=False."""
    if restore_best is False:
        return None
    rule = BestEpoch() if restore_best is True else restore_best
    if not isinstance(rule, BestEpoch):
        raise ValueError(f"restore_best={restore_best!r} must be True, False or a BestEpoch such as BestEpoch(every=5)")
    if rule.score is not None:
        return BestEpochTracker(rule.score, rule.every, fleet, epochs)
    rows = [task.valid for task in tasks if task.valid is not None]
    if len(rows) < len(tasks):
        raise ValueError("restore_best=True needs validation rows; give each TrainingTask valid=(X, y)")
    return BestEpochTracker(lambda fleet, group: fleet.score(0, *rows[group]), rule.every, fleet, epochs)


@final
class BestEpochTracker:
    """Best epoch of every network of a run; the scores of several epochs are computed at once.

    Attributes
    ----------
    best : Tensor (G, C, size)
        Parameters at the best epoch so far.
    best_epochs : ndarray (G, C)
        That epoch, from 1; 0 before the first evaluation.
    """

    def __init__(self, score: Score, every: int, fleet: Fleet, epochs: int) -> None:
        self._score, self._every, self._fleet, self._epochs = score, every, fleet, epochs
        self.best = fleet.theta.clone()
        self.best_epochs = np.zeros(self.best.shape[:2], dtype=np.int64)
        self._pending: list[tuple[int, Tensor]] = []
        self._highest: dict[int, NDArray[np.float64]] = {}

    def record(self, tasks: slice, epoch: int, theta: Tensor) -> None:
        """Record the parameters (g, C, size) of some tasks at the end of an epoch, from 1."""
        if epoch % self._every and epoch != self._epochs:
            return
        is_full = theta.numel() * (len(self._pending) + 1) >= MAX_CHUNK_VALUES
        self._pending.append((epoch, theta if is_full else theta.clone()))
        if is_full:
            self.flush(tasks)

    def flush(self, tasks: slice) -> None:
        """Evaluate the recorded epochs; the networks of all epochs are scored together, as if they were candidates."""
        if not self._pending:
            return
        epochs, parts = zip(*self._pending, strict=True)
        thetas = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        self._pending = []
        for i, group in enumerate(range(len(self.best))[tasks]):
            with torch.enable_grad():  # the score may be an attack
                values = self._score(self._fleet.with_theta(thetas[i : i + 1]), group)
            scores = np.where(np.isnan(values), -np.inf, values).reshape(len(epochs), -1, values.shape[-1])
            highest = self._highest.setdefault(group, np.full(scores.shape[1:], -np.inf))
            for epoch, score, theta in zip(epochs, scores, thetas[i].view(*scores.shape[:2], -1), strict=True):
                # Lists are compared lexicographically: by the first column, of equal ones by the second, and so on.
                is_higher = [new > old for new, old in zip(score.tolist(), highest.tolist(), strict=True)]
                better = np.array(is_higher) | (self.best_epochs[group] == 0)
                if better.any():
                    highest[better], self.best_epochs[group, better] = score[better], epoch
                    index = torch.from_numpy(np.flatnonzero(better)).to(theta.device)
                    self.best[group, index] = theta[index]

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with some of the candidates only."""
        index = list(candidates)
        self.best, self.best_epochs = self.best[:, index], self.best_epochs[:, index]
        self._highest = {group: highest[index] for group, highest in self._highest.items()}
