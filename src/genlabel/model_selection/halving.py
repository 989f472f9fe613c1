"""Successive halving: every entry of a method for a few epochs on all folds, then the better ones for longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._progress import FitProgress
from genlabel.model_selection.scoring import CandidateScorer, ScoreTable
from genlabel.model_selection.search_space import Run, SearchResult, SearchSpace
from genlabel.training import Fleet
from genlabel.training.networks import MLP

HALVING_SCHEDULE = ((1 / 10, 8), (1 / 4, 5), (1 / 2, 3))
"""After which part of the epochs a search stops to look, and how many entries go on."""
HALVING_SCHEDULE_LARGE = ((1 / 20, 4), (1 / 8, 2), (1 / 3, 1))
"""The same of a sample whose passes take several epochs: so many held-out rows tell entries apart early."""

PART = 0.1
"""Of the time that is left, how much may pass before a search that has a limit looks at the clock again."""

Ask = Callable[[Fleet, int], NDArray[np.float64]]
"""Log-probabilities (candidates, m, k) of the rows that a fold holds out, by the networks of a fleet."""


class Rung(NamedTuple):
    """A stop of the search."""

    epochs: int
    """Trained until then."""
    most: int | None
    """Of the entries that go on; None is all."""


class _RungResult(NamedTuple):
    """An entry at a rung."""

    entry: int
    epochs: int
    sheet: ScoreTable
    """How it did, as it was judged then."""
    said: _Checkpointed | None
    """Of an entry that goes on."""


class _Checkpointed(NamedTuple):
    """What may be chosen yet: what an entry says, and its networks."""

    log_proba: NDArray[Any]
    """(n, k), of the held-out rows of all folds."""
    snapshot: _Snapshot


class _Snapshot(NamedTuple):
    """The networks of the folds, as they are at a rung."""

    fleet: Fleet
    """Of one candidate."""
    losses: list[float]
    best_epochs: list[int] | None
    """Which epoch each is of, where the best one was kept."""

    def networks(self) -> list[MLP]:
        """Each as a network of its own."""
        return [self.fleet.network(fold) for fold in range(len(self.fleet.theta))]


class _HalvingState:
    """The runs of a search, one for each recipe, with the candidates that are left in each."""

    def __init__(
        self, method: SearchSpace, runs: Mapping[int, Run], used: Mapping[int, list[int]], dtype: type[np.floating[Any]]
    ) -> None:
        self.method, self.runs, self.dtype = method, dict(runs), dtype
        self.left = dict(used)
        self.epochs = 0

    def advance(self, epochs: int, course: FitProgress) -> None:
        """Train all that are left until so many epochs, or as many as there is time for."""
        runs = [(run, len(self.left[r])) for r, run in self.runs.items()]
        self.epochs += advance(runs, epochs - self.epochs, course)

    def log_proba(self, entries: Sequence[int], ask: Ask) -> dict[int, NDArray[Any]]:
        """What entries say of the held-out rows of all folds, (n, k) each."""
        said = {r: self._said(run.fleet, ask) for r, run in self.runs.items()}
        return {e: said[r][place] for e, (r, place) in zip(entries, map(self._place, entries), strict=True)}

    def _said(self, fleet: Fleet, ask: Ask) -> list[NDArray[Any]]:
        """What each candidate of a fleet says, (n, k), in memory of its own: some are forgotten before others."""
        parts: list[list[NDArray[Any]]] = []
        for fold in range(len(fleet.theta)):
            with np.errstate(over="ignore"):  # of a network that diverges
                parts.append([values.astype(self.dtype) for values in ask(fleet, fold)])
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    def snapshot(self, e: int) -> _Snapshot:
        """The networks of an entry."""
        r, place = self._place(e)
        fleet = self.runs[r].fleet
        epochs = None if fleet.best_epochs is None else fleet.best_epochs[:, place].tolist()
        losses = fleet.losses[:, :, place].mean(1).tolist()
        return _Snapshot(fleet.at(fleet.theta[:, [place]].clone()), losses, epochs)

    def keep(self, entries: Sequence[int]) -> None:
        """Go on with some entries."""
        places = sorted({self._place(e) for e in entries})
        for r in list(self.runs):
            some = [place for recipe, place in places if recipe == r]
            if not some:
                del self.runs[r], self.left[r]
            elif len(some) < len(self.left[r]):
                self.runs[r].keep(some)
                self.left[r] = [self.left[r][place] for place in some]

    def _place(self, e: int) -> tuple[int, int]:
        """The run of an entry, and its place among those that are left there."""
        entry = self.method.entries[e]
        return entry.recipe, self.left[entry.recipe].index(entry.candidate)


def halving_schedule(epochs: int, halving: bool, many: bool = False) -> list[Rung]:
    """Return the stops of a search of so many epochs; without halving there is one, at the end.

    >>> [(rung.epochs, rung.most) for rung in halving_schedule(50, halving=True)]
    [(5, 8), (12, 5), (25, 3), (50, None)]
    """
    looks = HALVING_SCHEDULE_LARGE if many else HALVING_SCHEDULE
    found = [Rung(max(1, int(part * epochs)), count) for part, count in looks] if halving else []
    last = {rung.epochs: rung for rung in found if rung.epochs < epochs}
    return [*last.values(), Rung(epochs, None)]


def candidates_of(method: SearchSpace, variants: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Return the candidates that are trained under each recipe: those of the entries of any variant."""
    found: dict[int, list[int]] = {}
    for e in union(variants):
        entry = method.entries[e]
        found.setdefault(entry.recipe, []).append(entry.candidate)
    return found


def successive_halving(
    method: SearchSpace,
    runs: Mapping[int, Run],
    rungs: Sequence[Rung],
    variants: Sequence[Sequence[int]],
    ask: Ask,
    judge: CandidateScorer,
    course: FitProgress,
) -> list[SearchResult]:
    """Train from rung to rung, and return what is best among the entries of each variant, as if there were no others.

    An entry that stays behind is judged no more; one that goes on may be chosen as it was at any of its rungs, which is
    early stopping.

    Parameters
    ----------
    method : Method
    runs : dict of recipe -> Run
        Each trains its candidates, those of :func:`candidates_of`, on all folds, mixed by its recipe.
    rungs : sequence of Rung
    variants : sequence of sequences of int
        The entries that each variant may choose.
    ask : callable
    judge : Judge
    course : Course
        Is told of each rung.
    """
    # The table of a long climb is kept in single precision: it has a row for each entry at each rung.
    ladder = _HalvingState(method, runs, candidates_of(method, variants), np.float64 if len(rungs) == 1 else np.float32)
    searches = [_Search(list(variant)) for variant in variants]
    for place, rung in enumerate(rungs):
        if place and course.out_of_time:
            course.cut(f"the search ends after {ladder.epochs} of {rungs[-1].epochs} epochs")
            break
        alive = union(search.alive for search in searches)
        work = work_of(rungs[place:], len(alive), len(searches), ladder.epochs)
        rung_of = f"rung {place + 1} of {len(rungs)}, " if len(rungs) > 1 else ""
        with course.step(f"{rung_of}{len(alive)} candidates", work):
            ladder.advance(rung.epochs, course)
            said = ladder.log_proba(alive, ask)
            for search in searches:
                search.thin(said, rung.most, judge)
                search.tell(judge, course)
        stay = union(search.alive for search in searches)
        snapshots = {e: ladder.snapshot(e) for e in stay}
        for search in searches:
            search.note(ladder.epochs, said, snapshots)
        ladder.keep(stay)
    return [search.choice(method, judge) for search in searches]


def advance(runs: Sequence[tuple[Run, int]], epochs: int, course: FitProgress) -> int:
    """Train runs, each of so many candidates, for some epochs more; return for how many there was time, one at least.

    Without a time limit each run takes all its epochs at once; with one, all runs take them together, a few at a time.
    """
    done, some = 0, 1 if course.limited else epochs
    while True:
        begin = course.spent
        for run, candidates in runs:
            course.weight = candidates
            run.advance(some)
        done, an_epoch = done + some, max(course.spent - begin, 1e-9) / some
        if done == epochs or course.stage_left < an_epoch:
            return done
        some = min(epochs - done, max(1, int(PART * course.stage_left / an_epoch)))


def work_of(rungs: Sequence[Rung], entries: int, variants: int = 1, begun: int = 0) -> int:
    """Return how many epochs of one entry a climb takes, at most, from where so many epochs are behind it.

    >>> work_of(halving_schedule(50, halving=True), entries=24)
    316
    """
    work = 0
    for rung in rungs:
        work, begun = work + entries * (rung.epochs - begun), rung.epochs
        entries = min(entries, entries if rung.most is None else rung.most * variants)
    return work


class _Search:
    """What a variant has seen, and the entries that are left to it."""

    def __init__(self, entries: list[int]) -> None:
        self.before, self.alive = entries, entries
        self.stops: list[_RungResult] = []
        self.sheet: ScoreTable
        """How those before did at the last rung."""
        self.best: int
        """The place of the best among them."""

    def thin(self, said: Mapping[int, NDArray[Any]], count: int | None, judge: CandidateScorer) -> None:
        """Leave the best entries."""
        self.sheet = judge.sheet([said[e] for e in self.alive])
        self.before, order = self.alive, judge.ranks(self.sheet).argsort(kind="stable")[:count]
        self.alive = [self.alive[place] for place in sorted(order.tolist())]
        self.best = int(order[0])

    def tell(self, judge: CandidateScorer, course: FitProgress) -> None:
        """Tell of the held-out log-loss of the best entry, if anyone wants to know."""
        if course.watched:
            course.better(float(np.average(self.sheet.losses[self.best], weights=judge.rows.weight)))

    def note(self, epochs: int, said: Mapping[int, NDArray[Any]], snapshots: Mapping[int, _Snapshot]) -> None:
        """Remember what was seen at a rung."""
        for place, e in enumerate(self.before):
            goes_on = _Checkpointed(said[e], snapshots[e]) if e in self.alive else None
            self.stops.append(_RungResult(e, epochs, self.sheet.at(place), goes_on))

    def choice(self, method: SearchSpace, judge: CandidateScorer) -> SearchResult:
        """The best of what went on."""
        entries = [method.entries[stop.entry] for stop in self.stops]
        several = len({stop.epochs for stop in self.stops}) > 1
        named = [
            {**entry.params, **({"epochs": stop.epochs} if several else {})}
            for entry, stop in zip(entries, self.stops, strict=True)
        ]
        among = {place: stop.said.log_proba for place, stop in enumerate(self.stops) if stop.said is not None}
        behind = {place: stop.sheet for place, stop in enumerate(self.stops) if stop.said is None}
        candidates = [method.candidates[entry.candidate] for entry in entries]
        best, results, pooling, held_out = judge.decide(candidates, named, among, behind)
        stop = self.stops[best]
        assert stop.said is not None
        snapshot = stop.said.snapshot
        made = snapshot.networks, snapshot.losses, snapshot.best_epochs
        return SearchResult(entries[best], best, results, stop.epochs, *made, pooling, held_out)


def union(parts: Iterable[Sequence[int]]) -> list[int]:
    """Return the entries of any part, in order."""
    return sorted({e for part in parts for e in part})
