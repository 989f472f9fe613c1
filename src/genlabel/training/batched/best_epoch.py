"""The best epoch of every network of a fleet: what it does on rows that it does not train on, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._validation import check_choice, check_count
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batching import NUMBERS_AT_ONCE, TrainingTask

EPOCH_CHOICES = ("last", "best")
"""Which epoch of a network is kept: the last one, or the best one on rows that it does not train on."""
Score: TypeAlias = Callable[[Fleet, int], NDArray[np.float64]]
"""Called with the C networks of one task, as a fleet of one group, and the place of the task; returns what they are
compared by, (C, m): the larger is better, and a later column counts where the earlier ones are equal."""


@final
@dataclass(frozen=True)
class BestEpoch:
    """Keep every network as it was at its best epoch; of equally good ones the first.

    >>> from genlabel.training import Hyperparameters, train_fleet
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> from genlabel.labeling import LinearLabel
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), valid=(np.array([[0.5], [4.5]]), np.array([0, 1])))
    >>> train_fleet([task], [Hyperparameters(0.1)], epochs=5, keep=BestEpoch(every=2)).log_proba(0, X).shape
    (1, 4, 2)
    """

    score: Score | None = None
    """By what; None is accuracy on the `valid` rows of the tasks, and where that is equal log-loss."""
    every: int = 1
    """Epochs from one look to the next; the last epoch is always looked at."""


def check_keep(keep: Any) -> BestEpoch | None:
    """Return what a word stands for: None for "last", a :class:`BestEpoch` for "best", or the given one.

    >>> check_keep("best")
    BestEpoch(score=None, every=1)
    """
    if isinstance(keep, BestEpoch):
        check_count("every", keep.every)
        return keep
    check_choice("keep", keep, EPOCH_CHOICES, also="a BestEpoch such as BestEpoch(every=5)")
    return BestEpoch() if keep == "best" else None


def score_rows(rows: Sequence[tuple[NDArray[np.float64], NDArray[Any]]]) -> Score:
    """Return the score of networks by accuracy, then log-loss, on the rows (X, y) of each task."""
    return lambda fleet, group: fleet.rate(0, *rows[group])


def watch_of(keep: Any, tasks: Sequence[TrainingTask], fleet: Fleet, epochs: int) -> BestEpochTracker | None:
    """Return what looks at the networks of a run on the way; None where the last epoch is kept."""
    rule = check_keep(keep)
    if rule is None:
        return None
    if rule.score is not None:
        return BestEpochTracker(rule.score, rule.every, fleet, epochs)
    rows = [task.valid for task in tasks if task.valid is not None]
    if len(rows) < len(tasks):
        raise ValueError("keep='best' chooses an epoch on rows that are not trained on; give each Task valid=(X, y)")
    return BestEpochTracker(score_rows(rows), rule.every, fleet, epochs)


@final
class BestEpochTracker:
    """Looks at the networks of a run at the end of epochs, many epochs in one go, and keeps the best of each.

    Parameters
    ----------
    score : Score
    every : int
    fleet : Fleet
        The networks as they begin.
    epochs : int
        Of the run.

    Attributes
    ----------
    best : Tensor (G, C, size)
        The parameters at the best epoch so far.
    best_epochs : ndarray (G, C)
        That epoch, from 1; 0 before the first look.

    Examples
    --------
    >>> fleet = Fleet([1, 2], seeds=[0], candidates=3, dtype=torch.float64, device=torch.device("cpu"))
    >>> watch = BestEpochTracker(lambda fleet, group: np.array([[0.5], [0.7], [0.6]]), 1, fleet, epochs=2)
    >>> watch.record(slice(None), 1, fleet.theta)
    >>> watch.flush(slice(None))
    >>> watch.best_epochs.tolist(), watch.path.shape
    ([[1, 1, 1]], (1, 1, 3, 1))
    """

    def __init__(self, score: Score, every: int, fleet: Fleet, epochs: int) -> None:
        self._score, self._every, self._fleet, self._epochs = score, every, fleet, epochs
        self.best = fleet.theta.clone()
        self.best_epochs = np.zeros(self.best.shape[:2], dtype=np.int64)
        self._seen: list[list[NDArray[np.float64]]] = [[] for _ in self.best]
        self._looks: list[list[int]] = [[] for _ in self.best]
        self._waiting: list[tuple[int, Tensor]] = []
        self._high: dict[int, NDArray[np.float64]] = {}

    @property
    def looks(self) -> list[int]:
        """The epochs that were looked at, from 1."""
        return self._looks[0]

    @property
    def path(self) -> NDArray[np.float64]:
        """What was seen, (looks, G, C, m)."""
        return np.stack([np.concatenate(parts) for parts in self._seen], 1)

    def record(self, tasks: slice, epoch: int, theta: Tensor) -> None:
        """Be shown the parameters (g, C, size) of some tasks at the end of an epoch, from 1."""
        if epoch % self._every and epoch != self._epochs:
            return
        full = theta.numel() * (len(self._waiting) + 1) >= NUMBERS_AT_ONCE
        self._waiting.append((epoch, theta if full else theta.clone()))
        if full:
            self.flush(tasks)

    def flush(self, tasks: slice) -> None:
        """Look at what was shown and not yet looked at; the networks of some epochs are like so many candidates."""
        if not self._waiting:
            return
        epochs, parts = zip(*self._waiting, strict=True)
        thetas = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        self._waiting = []
        for place, group in enumerate(range(len(self.best))[tasks]):
            with torch.enable_grad():  # an attack goes along it
                found = self._score(self._fleet.at(thetas[place : place + 1]), group)
            scores = np.where(np.isnan(found), -np.inf, found).reshape(len(epochs), -1, found.shape[-1])
            self._seen[group].append(scores)
            self._looks[group] += epochs
            self._take(group, epochs, scores, thetas[place].view(len(epochs), -1, thetas.shape[-1]))

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of the candidates alone."""
        index = list(places)
        self.best, self.best_epochs = self.best[:, index], self.best_epochs[:, index]
        self._seen = [[part[:, index] for part in parts] for parts in self._seen]
        self._high = {group: high[index] for group, high in self._high.items()}

    def _take(self, group: int, epochs: Sequence[int], scores: NDArray[np.float64], theta: Tensor) -> None:
        """Keep those that are better than all before; scores (E, C, m), theta (E, C, size)."""
        high = self._high.setdefault(group, np.full(scores.shape[1:], -np.inf))
        for epoch, score, at in zip(epochs, scores, theta, strict=True):
            better = _greater(score, high) | (self.best_epochs[group] == 0)
            if better.any():
                high[better], self.best_epochs[group, better] = score[better], epoch
                places = torch.from_numpy(np.flatnonzero(better)).to(at.device)
                self.best[group, places] = at[places]


def _greater(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows (C, m) are the greater ones, by the first column in which they differ."""
    found, equal = np.zeros(len(one), dtype=bool), np.ones(len(one), dtype=bool)
    for a, b in zip(one.T, other.T, strict=True):
        found |= equal & (a > b)
        equal &= a == b
    return found
