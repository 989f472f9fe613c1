"""The course of a fit: its stages, how much of it is done, how long it will take, and how long it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import NamedTuple, final

from genlabel._progress.epoch_callback import EpochCallback


class ProgressEvent(NamedTuple):
    """Where a fit is.

    `progress_callback` gives it to a watcher.
    """

    stage: str
    """What it is at: "stacked density", "search, rung 2 of 4, 8 candidates", "final fit", "support"."""
    done: float | None
    """How much of the whole fit is done, between 0 and 1; None if that is not known."""
    left: float | None
    """About how many seconds are left; None if that is not known."""
    loss: float | None
    """The lowest held-out log-loss so far, if there is one."""
    epochs: int
    """Epochs done so far."""
    ended: bool
    """Whether the stage ends here."""


ProgressCallback = Callable[[ProgressEvent], None]
"""Called as a fit goes on."""

_watcher: ContextVar[ProgressCallback | None] = ContextVar("watcher", default=None)
_course: ContextVar[FitProgress | None] = ContextVar("course", default=None)


@contextmanager
def progress_callback(watcher: ProgressCallback) -> Iterator[None]:
    """Hear where every fit within is; safe in threads. An exception that the watcher raises ends the fit.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier, TrainingOptions
    >>> reports = []
    >>> with progress_callback(reports.append):
    ...     model = MixupClassifier(training=TrainingOptions(epochs=10)).fit(*load_iris(return_X_y=True))
    >>> [report.stage for report in reports if report.ended]  # doctest: +NORMALIZE_WHITESPACE
    ['search, rung 1 of 4, 24 candidates', 'search, rung 2 of 4, 8 candidates',
     'search, rung 3 of 4, 5 candidates', 'search, rung 4 of 4, 3 candidates']
    >>> reports[-1].done, reports[-1].left
    (1.0, 0.0)
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@final
class FitProgress:
    """What a fit tells of itself while it is under way, and the time that it has.

    Parameters
    ----------
    listener : callable, optional
        Told of epochs.
    watcher : callable, optional
        Told of everything.
    time_limit : float
        Seconds that the fit may take, from now on.

    Attributes
    ----------
    weight : float
        How much work an epoch is, of those that are told next.
    loss : float or None
        The lowest held-out log-loss so far.
    cuts : list of str
        What the fit left out for want of time.

    Examples
    --------
    >>> course = FitProgress(watcher=lambda report: print(report.stage, report.done, report.ended))
    >>> course.plan({"stacked density": 1.0, "search": 3.0})
    >>> with course.stage("stacked density"):
    ...     course.part(1, 2)
    stacked density 0.0 False
    stacked density 0.125 False
    stacked density 0.25 True
    """

    def __init__(
        self, listener: EpochCallback | None = None, watcher: ProgressCallback | None = None, time_limit: float = inf
    ) -> None:
        self._listener, self._watcher = listener, watcher
        self.time_limit, self._begin = time_limit, monotonic()
        self.weight = 1.0
        self.loss: float | None = None
        self.cuts: list[str] = []
        self._shares: dict[str, float] = {}
        self._name, self._detail, self._epochs = "", "", 0
        self._before = self._share = self._part = self._pace = 0.0
        self._until, self._stage_begin = time_limit, self._begin

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.time_limit < inf

    @property
    def watched(self) -> bool:
        """Whether anyone wants to know more than epochs."""
        return self._watcher is not None

    @property
    def spent(self) -> float:
        """Seconds since the fit began."""
        return monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds that it may still take."""
        return self.time_limit - self.spent

    @property
    def stage_left(self) -> float:
        """Seconds that the stage may still take."""
        return self._until - self.spent

    @property
    def out_of_time(self) -> bool:
        """Whether the stage should come to its end."""
        return self.stage_left <= 0.0

    def plan(self, shares: Mapping[str, float]) -> None:
        """Say which stages there will be, in this order, and about how much of the whole each of them is."""
        whole = sum(shares.values())
        self._shares = {name: share / whole for name, share in shares.items()}

    @contextmanager
    def stage(self, name: str, until: float = 1.0) -> Iterator[None]:
        """Be at a stage, which should be over when so much of the time limit is spent.

        One that is not planned is not told.
        """
        self._until, self._stage_begin = until * self.time_limit, monotonic()
        if self._shares and name not in self._shares:
            yield
            return
        names = list(self._shares)
        self._before = sum(self._shares[one] for one in names[: names.index(name)]) if names else 0.0
        self._name, self._detail, self._share = name, "", self._shares.get(name, 0.0)
        self._part = self._pace = 0.0
        self.tell()
        yield
        self._part = 1.0
        self.tell(ended=not self._detail)

    def part(self, done: float, total: float) -> None:
        """Say how much of the stage is done."""
        self._part = min(1.0, done / total)
        self.tell()

    @contextmanager
    def step(self, detail: str, work: float) -> Iterator[None]:
        """Be at a step of the stage, with so much work left in the whole of it, in epochs times their weight."""
        if self._part == 0.0:
            self._stage_begin = monotonic()  # what comes before the first step says nothing of its pace
        self._detail, self._pace = detail, (1.0 - self._part) / work
        self.tell()
        yield
        self.tell(ended=True)

    def epochs(self, count: int) -> None:
        """Tell of epochs, as a :data:`EpochCallback` is told."""
        self._epochs += count
        self._part = min(1.0, self._part + count * self.weight * self._pace)
        if self._listener is not None:
            self._listener(count)
        self.tell()

    def better(self, loss: float) -> None:
        """Remember a held-out log-loss, if it is the lowest."""
        self.loss = loss if self.loss is None else min(self.loss, loss)

    def cut(self, what: str) -> None:
        """Remember what was left out."""
        self.cuts.append(what)

    def tell(self, ended: bool = False) -> None:
        """Report to the watcher."""
        if self._watcher is None:
            return
        stage = f"{self._name}, {self._detail}" if self._detail else self._name
        done = round(self._before + self._share * self._part, 9) if self._shares else None
        left = None if done is None else self._seconds_left(done)
        self._watcher(ProgressEvent(stage, done, left, self.loss, self._epochs, ended))

    def _seconds_left(self, done: float) -> float | None:
        """At the pace of this stage; before it has one, at that of the fit so far."""
        here, spent = self._share * self._part, monotonic() - self._stage_begin
        if here <= 0.0:
            here, spent = self._before, self.spent
        return spent / here * (1.0 - done) if here > 0.0 else None


def report_progress(done: float, total: float) -> None:
    """Tell whoever watches the fit that is under way how much of its stage is done.

    >>> from genlabel._progress import track_fit
    >>> with progress_callback(lambda report: print(report.done)), track_fit(0, "a fit") as course:
    ...     course.plan({"stacked density": 1.0, "search": 3.0})
    ...     with course.stage("search"):
    ...         report_progress(1, 2)
    0.25
    0.625
    1.0
    """
    course = _course.get()
    if course is not None:
        course.part(done, total)


def report_truncation(what: str) -> None:
    """Let the fit that is under way say at its end what was left out for want of time.

    >>> from genlabel._progress import track_fit
    >>> with track_fit(0, "a fit") as course:
    ...     report_truncation("the kernel density")
    >>> course.cuts
    ['the kernel density']
    """
    course = _course.get()
    if course is not None:
        course.cut(what)


def out_of_time() -> bool:
    """Whether the stage of the fit that is under way should come to its end; never without a time limit.

    >>> out_of_time()
    False
    """
    course = _course.get()
    return course is not None and course.out_of_time


def current_course() -> FitProgress | None:
    """The fit that is under way here, if there is one."""
    return _course.get()


def current_watcher() -> ProgressCallback | None:
    """Who watches here, if anyone does."""
    return _watcher.get()


@contextmanager
def under_way(course: FitProgress) -> Iterator[None]:
    """Let all parts of a fit tell of themselves on this course."""
    token = _course.set(course)
    try:
        yield
    finally:
        _course.reset(token)
