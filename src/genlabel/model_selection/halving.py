"""Successive halving: all candidates train on all folds for a few epochs, the better ones for longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel.model_selection.scoring import ScoreTable
from genlabel.model_selection.search_space import SearchSpace, Trainer
from genlabel.training.fleet import Fleet

HALVING_SCHEDULE = ((1 / 10, 8), (1 / 4, 5), (1 / 2, 3))
"""Share of the epochs after which candidates are compared, and how many of them continue."""
HALVING_SCHEDULE_LARGE = ((1 / 20, 4), (1 / 8, 2), (1 / 3, 1))
"""The schedule of a table whose passes take several epochs: its many held-out rows tell candidates apart early."""

Predict = Callable[[Fleet, int], NDArray[np.float64]]
"""Log-probabilities (candidates, m, k) of the rows that a fold holds out, by the networks of a fleet."""
Score = Callable[[Sequence[NDArray[Any]]], ScoreTable]
"""The scores of candidates, from their log-probabilities (n, k) of the held-out rows of all folds."""
Rank = Callable[[ScoreTable], NDArray[np.int64]]
"""The rank of each candidate, from 1."""


class Rung(NamedTuple):
    """A point of the search at which candidates are compared."""

    epochs: int
    """Epochs of training so far."""
    survivors: int | None
    """Candidates that continue; None is all."""


class RungResult(NamedTuple):
    """A configuration at a rung."""

    configuration: int
    """Index in the search space."""
    epochs: int
    scores: ScoreTable
    """Its scores, as it was compared then."""
    log_proba: NDArray[Any] | None = None
    """(n, k), of the held-out rows of all folds; None for a configuration that was dropped at this rung."""
    fleet: Fleet | None = None
    """The networks of the folds, if it was not dropped; with their losses and best epochs."""


def halving_schedule(epochs: int, many_rows: bool = False) -> list[Rung]:
    """Return the rungs of a halving search of so many epochs; the last one is the end.

    >>> [(rung.epochs, rung.survivors) for rung in halving_schedule(50)]
    [(5, 8), (12, 5), (25, 3), (50, None)]
    """
    schedule = HALVING_SCHEDULE_LARGE if many_rows else HALVING_SCHEDULE
    rungs = [Rung(max(1, int(share * epochs)), count) for share, count in schedule]
    last = {rung.epochs: rung for rung in rungs if rung.epochs < epochs}
    return [*last.values(), Rung(epochs, None)]


def successive_halving(
    space: SearchSpace,
    trainers: Mapping[int, Trainer],
    schedule: Sequence[Rung],
    subsets: Sequence[Sequence[int]],
    predict: Predict,
    score: Score,
    rank: Rank,
    row_weight: NDArray[np.float64] | None,
    progress: FitProgress,
) -> list[list[RungResult]]:
    """Train from rung to rung; return, for each subset of the configurations, those it contained at each rung.

    Each subset, of indices of configurations, is halved as if there were no others; networks are trained once, on all
    folds. `row_weight` (n,) holds the weights of the held-out rows in the log-loss that is reported.
    """
    state = _HalvingState(space, trainers, candidates_by_mixing(space, subsets))
    alive = [list(subset) for subset in subsets]
    history: list[list[RungResult]] = [[] for _ in subsets]
    for number, rung in enumerate(schedule):
        if number and progress.time_left <= 0.0:
            progress.truncations.append(f"the search ends after {state.epochs} of {schedule[-1].epochs} epochs")
            break
        trained = union(alive)
        work = count_epochs(schedule[number:], len(trained), len(subsets), state.epochs)
        position = f"rung {number + 1} of {len(schedule)}, " if len(schedule) > 1 else ""
        tables = []
        with progress.step(f"{position}{len(trained)} candidates", work):
            state.train_until(rung.epochs, progress)
            # Checkpoints of several rungs are stored in single precision: there is one for each candidate at each rung.
            log_proba = state.log_proba(trained, predict, np.float64 if len(schedule) == 1 else np.float32)
            continuing = []
            for subset in alive:
                tables.append(score([log_proba[e] for e in subset]))
                order = rank(tables[-1]).argsort(kind="stable")[: rung.survivors]
                continuing.append([subset[index] for index in sorted(order.tolist())])
                if progress.callback is not None:
                    progress.record_loss(float(np.average(tables[-1].losses[order[0]], weights=row_weight)))
        survivors = union(continuing)
        fleets = {e: state.single_fleet(e) for e in survivors}
        for seen, before, after, table in zip(history, alive, continuing, tables, strict=True):
            for index, e in enumerate(before):
                networks = (log_proba[e], fleets[e]) if e in after else (None, None)
                seen.append(RungResult(e, state.epochs, table.select(index), *networks))
        state.select(survivors)
        alive = continuing
    return history


class _HalvingState:
    """The trainers of a search, one for each mixing configuration, and the candidates that each still trains."""

    def __init__(
        self, space: SearchSpace, trainers: Mapping[int, Trainer], candidates: Mapping[int, list[int]]
    ) -> None:
        self.space, self.trainers, self.candidates, self.epochs = space, dict(trainers), dict(candidates), 0

    def train_until(self, epochs: int, progress: FitProgress) -> None:
        """Train until so many epochs, or as many as there is time for."""
        trainers = [(trainer, len(self.candidates[m])) for m, trainer in self.trainers.items()]
        self.epochs += train(trainers, epochs - self.epochs, progress)

    def log_proba(
        self, configurations: Sequence[int], predict: Predict, dtype: type[np.floating[Any]]
    ) -> dict[int, NDArray[Any]]:
        """Return the log-probabilities of configurations for the held-out rows of all folds, (n, k) each."""
        result = {}
        for m, trainer in self.trainers.items():
            fleet, folds = trainer.fleet, list[list[NDArray[Any]]]()
            for fold in range(len(fleet.theta)):
                with np.errstate(over="ignore"):  # of a network that diverges
                    # Each candidate in memory of its own, since some are dropped before others.
                    folds.append([values.astype(dtype) for values in predict(fleet, fold)])
            result[m] = [np.concatenate(each) for each in zip(*folds, strict=True)]
        return {e: result[m][index] for e in configurations for m, index in [self._position(e)]}

    def single_fleet(self, e: int) -> Fleet:
        """Return the networks of a configuration as they are now, with their losses and best epochs."""
        m, index = self._position(e)
        fleet = self.trainers[m].fleet
        single = fleet.with_theta(fleet.theta[:, [index]].clone())
        single.losses = fleet.losses[:, :, [index]]
        single.best_epochs = None if fleet.best_epochs is None else fleet.best_epochs[:, [index]]
        return single

    def select(self, configurations: Sequence[int]) -> None:
        """Continue with some configurations."""
        positions = sorted({self._position(e) for e in configurations})
        for m in list(self.trainers):
            remaining = [index for mixing, index in positions if mixing == m]
            if not remaining:
                del self.trainers[m], self.candidates[m]
            elif len(remaining) < len(self.candidates[m]):
                self.trainers[m].select(remaining)
                self.candidates[m] = [self.candidates[m][index] for index in remaining]

    def _position(self, e: int) -> tuple[int, int]:
        """Return the trainer of a configuration, and its index among the candidates there."""
        configuration = self.space.configurations[e]
        return configuration.mixing, self.candidates[configuration.mixing].index(configuration.candidate)


def train(trainers: Sequence[tuple[Trainer, int]], epochs: int, progress: FitProgress) -> int:
    """Train for some epochs, or for as many as there is time, one at least; return their number.

    Without a time limit each trainer, with its number of candidates, takes all epochs at once; with a limit, all take
    them together, a few at a time.
    """
    done, step = 0, 1 if progress.has_time_limit else epochs
    while True:
        begin = progress.elapsed
        for trainer, candidates in trainers:
            progress.epoch_weight = candidates
            trainer.advance(step)
        done, seconds = done + step, max(progress.elapsed - begin, 1e-9) / step
        if done == epochs or progress.time_left < seconds:
            return done
        # The clock is checked again when a tenth of the time left has passed.
        step = min(epochs - done, max(1, int(0.1 * progress.time_left / seconds)))


def candidates_by_mixing(space: SearchSpace, subsets: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Return the candidates of the configurations of any subset, for each mixing configuration."""
    result: dict[int, list[int]] = {}
    for e in union(subsets):
        configuration = space.configurations[e]
        result.setdefault(configuration.mixing, []).append(configuration.candidate)
    return result


def count_epochs(schedule: Sequence[Rung], candidates: int, subsets: int = 1, done: int = 0) -> int:
    """Return how many epochs of one candidate a search takes at most, after so many epochs are done.

    >>> count_epochs(halving_schedule(50), candidates=24)
    316
    """
    total = 0
    for rung in schedule:
        total, done = total + candidates * (rung.epochs - done), rung.epochs
        candidates = min(candidates, candidates if rung.survivors is None else rung.survivors * subsets)
    return total


def union(subsets: Iterable[Sequence[int]]) -> list[int]:
    """Return the members of any subset, in order."""
    return sorted({e for subset in subsets for e in subset})
