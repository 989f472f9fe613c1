"""Callbacks of long work, the progress and time limit of a fit, and the display of progress on the error stream.

Functions that train take `callback=`. Methods that cannot, such as scikit-learn's `fit`, report to the callback of
:func:`use_callback`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import takewhile
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Self, final

from genlabel._console import open_console
from genlabel._text import count_of

MIN_SECONDS_BETWEEN_LINES = 5.0
"""Time between two lines about a fit; the end of a stage always has a line."""


class ProgressEvent(NamedTuple):
    """State of a fit in progress; :meth:`Callback.on_progress` receives it."""

    stage: str
    """Current stage: "stacked density", "search, rung 2 of 4, 8 candidates", "final fit", "typicality"."""
    fraction: float | None
    """Fraction of the whole fit that is done, 0 to 1; None if it is unknown."""
    seconds_left: float | None
    """Estimated seconds left; None if they are unknown."""
    best_loss: float | None
    """Lowest held-out log-loss so far, if there is one."""
    epochs: int
    """Epochs done so far."""
    stage_ended: bool
    """True if a stage, or a step of one, ends with this event."""


class RunPlan(NamedTuple):
    """Numbers of requested runs; :meth:`Callback.on_run_start` receives it."""

    todo: int
    cached: int
    """Runs with a record of the current settings."""
    stale: int
    """Runs with a record of other settings; they are part of `todo`."""


class TrialResult(NamedTuple):
    """Records of the runs of a trial, or its error; :meth:`Callback.on_trial_end` receives it."""

    keys: Sequence[Any]
    records: Sequence[Any]
    error: str | None = None

    @property
    def trial(self) -> Any:
        """Fields that the runs have in common."""
        return self.keys[0].trial


class Callback:
    """Base class of callbacks: override the methods of interest; the others do nothing.

    An exception that a method raises ends the work, and leaves an estimator as it was before `fit`.

    >>> class EpochCounter(Callback):
    ...     epochs = 0
    ...     def on_epoch_end(self, epoch, logs):
    ...         self.epochs += 1
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> model = MixupClassifier.from_paper(training__epochs=5, search__restore_best=False)
    >>> with use_callback(counter := EpochCounter()):
    ...     model = model.fit(*load_iris(return_X_y=True))
    >>> counter.epochs  # of a search, and of the final fit
    10
    """

    def on_progress(self, event: ProgressEvent) -> None:
        """Receive the state of a fit, after each epoch and where a stage or a step begins or ends."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Receive the index of an epoch that ended, from 0, and its logs by name, which are empty for a fleet."""

    def on_run_start(self, plan: RunPlan) -> None:
        """Receive the number of runs that are going to be done."""

    def on_trial_start(self, trial: Any) -> None:
        """Receive a trial that begins in this process."""

    def on_trial_end(self, result: TrialResult) -> None:
        """Receive the result of a trial, wherever it ran."""


@final
class LambdaCallback(Callback):
    """Callback made of functions; each is passed by the name of the method that it defines.

    >>> LambdaCallback(on_trial_start=print).on_trial_start("mixup")
    mixup
    """

    def __init__(self, **methods: Callable[..., object]) -> None:
        for name, function in methods.items():
            if not hasattr(Callback, name):
                raise TypeError(f"{name} is not a method of Callback")
            setattr(self, name, function)


def combine_callbacks(*callbacks: Callback | None) -> Callback:
    """Return a callback whose methods call those of several callbacks, in their order; None is left out."""

    def call_all(method: str, *arguments: Any) -> None:
        for callback in callbacks:
            if callback is not None:
                getattr(callback, method)(*arguments)

    methods = [name for name in vars(Callback) if name.startswith("on_")]
    return LambdaCallback(**{name: partial(call_all, name) for name in methods})


_callback: ContextVar[Callback | None] = ContextVar("callback", default=None)
_fit: ContextVar[FitProgress | None] = ContextVar("fit", default=None)


@contextmanager
def use_callback(callback: Callback) -> Iterator[None]:
    """Report the fits of estimators and densities in this block to a callback; safe in threads.

    An inner block replaces the callback of an outer one.

    >>> from genlabel import MixupClassifier
    >>> model, stages = MixupClassifier().set_params(training__epochs=2), set()
    >>> with use_callback(LambdaCallback(on_progress=lambda event: stages.add(event.stage))):
    ...     _ = model.fit([[0.0], [1.0], [2.0], [4.0], [5.0], [6.0]], [0, 0, 0, 1, 1, 1])
    >>> any(stage.startswith("search") for stage in stages)
    True
    """
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@final
class FitProgress(Callback):
    """Progress of a fit in stages and steps, reported to a callback; and its time limit in seconds from now on."""

    def __init__(self, callback: Callback | None = None, time_limit: float = inf) -> None:
        self.callback, self.time_limit = callback, time_limit
        self.epoch_weight = 1.0  # work of each of the next epochs, such as the number of candidates that they train
        self.best_loss: float | None = None  # lowest held-out log-loss so far
        self.truncations: list[str] = []  # parts of the fit that were left out because time was short
        self._begin = self._stage_begin = monotonic()
        self._deadline = time_limit  # of the stage, in seconds after the begin of the fit
        self._shares: dict[str, float] = {}  # share of each planned stage in the fit
        self._stage, self._step, self._epochs = "", "", 0
        self._fraction_before = self._stage_share = 0.0  # of the fit: before the stage, and of the stage
        self._stage_done = self._done_per_work = 0.0  # fraction of the stage that is done; for each unit of work

    @property
    def has_time_limit(self) -> bool:
        return self.time_limit < inf

    @property
    def elapsed(self) -> float:
        """Seconds since the fit began."""
        return monotonic() - self._begin

    @property
    def time_left(self) -> float:
        """Seconds until the stage should end; before the first stage, until the fit should end."""
        return self._deadline - self.elapsed

    def plan(self, shares: Mapping[str, float]) -> None:
        """Set the stages in their order, and the approximate work of each, in any unit."""
        total = sum(shares.values())
        self._shares = {name: share / total for name, share in shares.items()}

    @contextmanager
    def stage(self, name: str, until: float = 1.0) -> Iterator[None]:
        """Enter a stage that should end when the fraction `until` of the time limit is spent.

        Stages that are not planned are not reported.
        """
        self._deadline, self._stage_begin = until * self.time_limit, monotonic()
        if self._shares and name not in self._shares:
            yield
            return
        earlier = takewhile(lambda other: other != name, self._shares)
        self._fraction_before = sum(self._shares[other] for other in earlier)
        self._stage, self._step, self._stage_share = name, "", self._shares.get(name, 0.0)
        self._stage_done = self._done_per_work = 0.0
        self._report()
        yield
        self._stage_done = 1.0
        self._report(stage_ended=not self._step)  # the last step has reported the end

    def update(self, done: float, total: float) -> None:
        """Set the fraction of the stage that is done, `done / total`."""
        self._stage_done = min(1.0, done / total)
        self._report()

    @contextmanager
    def step(self, name: str, work: float) -> Iterator[None]:
        """Enter a step of the stage; `work` is that of this and all later steps: epochs times `epoch_weight`."""
        if self._stage_done == 0.0:
            self._stage_begin = monotonic()  # preparations before the first step have another pace
        self._step, self._done_per_work = name, (1.0 - self._stage_done) / work
        self._report()
        yield
        self._report(stage_ended=True)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        self._epochs += 1
        self._stage_done = min(1.0, self._stage_done + self.epoch_weight * self._done_per_work)
        if self.callback is not None:
            self.callback.on_epoch_end(epoch, logs)
        self._report()

    def record_loss(self, loss: float) -> None:
        """Keep a held-out log-loss if it is the lowest."""
        self.best_loss = loss if self.best_loss is None else min(self.best_loss, loss)

    def _report(self, stage_ended: bool = False) -> None:
        if self.callback is None:
            return
        stage = f"{self._stage}, {self._step}" if self._step else self._stage
        done, seconds = self._stage_share * self._stage_done, monotonic() - self._stage_begin
        fraction = round(self._fraction_before + done, 9) if self._shares else None
        # The time left extrapolates the pace of this stage; before it has one, that of the fit so far.
        if done <= 0.0:
            done, seconds = self._fraction_before, self.elapsed
        left = None if fraction is None or done <= 0.0 else seconds / done * (1.0 - fraction)
        self.callback.on_progress(ProgressEvent(stage, fraction, left, self.best_loss, self._epochs, stage_ended))


@contextmanager
def track_fit(verbose: int, name: str, time_limit: float | None = None) -> Iterator[FitProgress]:
    """Give the progress of a fit, which reports to the current callback and, if `verbose` > 0, to the error stream."""
    with ProgressDisplay(name, announce=False) if verbose > 0 else nullcontext() as display:
        callback = _callback.get() if display is None else combine_callbacks(display, _callback.get())
        progress = FitProgress(callback, inf if time_limit is None else time_limit)
        token = _fit.set(progress)
        try:
            yield progress
        finally:
            _fit.reset(token)


@contextmanager
def training_callback(verbose: int, name: str) -> Iterator[Callback | None]:
    """Give the callback for the training of a density; a verbose one that is not part of a fit has its own display."""
    if verbose <= 0 or _fit.get() is not None:
        yield _callback.get()
        return
    with track_fit(verbose, name) as progress, progress.stage("training"):
        yield progress


def current_fit() -> FitProgress:
    """Return the progress of the fit that runs in this context; outside of a fit, a new one without a callback."""
    return _fit.get() or FitProgress()


@final
class ProgressDisplay(Callback):
    """Display of a fit, or of the trials of a run, on the error stream: a bar on a terminal, lines elsewhere.

    A run counts units of work, whose singular is `unit`, and prints about `max_lines` lines. `announce` prints the name
    at once where there is no terminal; `quiet` displays nothing, for processes other than the first.

    >>> import sys
    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout), ProgressDisplay("a fit", announce=False) as display:
    ...     display.on_progress(ProgressEvent("search", 0.5, 60.0, best_loss=0.31, epochs=40, stage_ended=True))
    a fit: search: 50 % done, 60 s left, best held-out log-loss 0.3100
    """

    def __init__(
        self, name: str, *, unit: str = "fit", max_lines: int = 10, announce: bool = True, quiet: bool = False
    ) -> None:
        from rich import progress

        self.name, self.unit, self.max_lines, self.announce = name, unit, max_lines, announce
        self.failures: dict[Any, str] = {}  # errors by trial
        console = open_console(stderr=True, force_jupyter=False, quiet=quiet)
        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=20),
            progress.TextColumn("{task.fields[status]}", markup=False),
            progress.TextColumn("elapsed"),
            progress.TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._bar.add_task(name, total=None, status="")
        (self._task,) = self._bar.tasks
        self._is_run, self._trial = False, ""
        self._last_line = monotonic()

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._bar.start()
        elif self.announce:
            self.print(f"{self.name} ...")
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def start(self, total: int, description: str = "fitting") -> None:
        """Begin to count units of work."""
        self._is_run = True
        self._bar.reset(self._task.id, total=total, description=description, status="")

    def advance(self, count: int = 1) -> None:
        """Count units on the bar; without a bar nothing is printed."""
        self._update(advance=count)
        self._update(status=f"{self._task.completed}/{self._task.total}{self._pace()}")

    def step(self, line: str) -> None:
        """Count one unit, and print a line about it."""
        self.advance()
        if self._bar.disable:
            self.print(line)
        self._update(description=line)

    def print(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self._bar.console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def on_progress(self, event: ProgressEvent) -> None:
        """Display the state of a fit; inside a run only its epochs, on the bar."""
        if self._is_run:
            self._update(description=f"{self._trial}: {count_of(event.epochs, 'epoch')}")
            return
        states = [count_of(event.epochs, "epoch") if event.fraction is None else f"{100 * event.fraction:.0f} % done"]
        if event.seconds_left is not None:
            states.append(f"{_time(event.seconds_left)} left")
        if event.best_loss is not None:
            states.append(f"best held-out log-loss {event.best_loss:.4f}")
        title, status, fraction = f"{self.name}: {event.stage}", ", ".join(states), event.fraction
        self._update(
            total=None if fraction is None else 1.0, completed=fraction or 0.0, description=title, status=status
        )
        if self._bar.disable and (event.stage_ended or monotonic() - self._last_line >= MIN_SECONDS_BETWEEN_LINES):
            self._last_line = monotonic()
            self.print(f"{title}: {status}")

    def on_run_start(self, plan: RunPlan) -> None:
        """Print the numbers of records, and begin to count."""
        if plan.cached or plan.stale:
            self.print(f"{self.unit}s recorded: {plan.cached}; to do: {plan.todo}")
        if plan.stale:
            self.print(f"{self.unit}s recorded with other settings or data, which will be done again: {plan.stale}")
        self.start(plan.todo)

    def on_trial_start(self, trial: Any) -> None:
        """Display the first fields of the trial on the bar."""
        self._trial = ", ".join(map(str, trial[:2]))
        self._update(description=self._trial)

    def on_trial_end(self, result: TrialResult) -> None:
        """Count the runs of the trial, and print its error if it is new for the dataset."""
        if result.error is not None:
            trial = result.trial
            if (trial.dataset, result.error) not in {(failed.dataset, text) for failed, text in self.failures.items()}:
                self.print(f"failed: {trial[0]}, {trial[1]}: {result.error}")
            self.failures[trial] = result.error
        total, done = self._task.total or 1, self._task.completed
        self.advance(len(result.keys))
        if self._bar.disable and self._task.completed * self.max_lines // total > done * self.max_lines // total:
            elapsed = f"{self._task.elapsed:.0f} s elapsed"
            self.print(f"{self._task.completed} of {total} {self.unit}s, {elapsed}{self._pace()}")

    def _update(self, **fields: Any) -> None:
        self._bar.update(self._task.id, **fields)

    def _pace(self) -> str:
        """Return the rate of the work and the time left, as the end of a sentence."""
        done, total = self._task.completed, self._task.total
        if not done or not total:
            return ""
        rate = done / max(self._task.elapsed or 0.0, 1e-9)
        pace = f"{rate:.1f} {self.unit}s/s" if rate >= 1.0 else f"{1.0 / rate:.1f} s/{self.unit}"
        return f", {pace}, {_time((total - done) / rate)} left"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
