"""Callbacks of long work, and the progress and the time limit of a fit.

Functions that train take `callback=`. Methods that cannot, such as scikit-learn's `fit`, report to the callback of
:func:`use_callback`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Any, NamedTuple, final


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
    """True if the stage ends with this event."""


class RunPlan(NamedTuple):
    """Numbers of requested runs; :meth:`Callback.on_run_start` receives it."""

    todo: int
    cached: int
    """Runs with a record of the current settings."""
    stale: int
    """Runs with a record of other settings, part of `todo`."""


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

    Examples
    --------
    >>> class EpochCounter(Callback):
    ...     epochs = 0
    ...     def on_epoch_end(self, epoch, logs):
    ...         self.epochs += 1
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> counter = EpochCounter()
    >>> with use_callback(counter):
    ...     model = MixupClassifier.from_paper(training__epochs=5).fit(*load_iris(return_X_y=True))
    >>> counter.epochs  # of a search, and of the final fit
    10
    """

    def on_progress(self, event: ProgressEvent) -> None:
        """Receive the state of a fit; it is called after each epoch and where a stage or a step begins or ends."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Receive the end of an epoch of training.

        Parameters
        ----------
        epoch : int
            Index of the epoch, from 0.
        logs : mapping of str -> value
            Results of the epoch by name, such as "loss"; empty where many networks are trained together.
        """

    def on_run_start(self, plan: RunPlan) -> None:
        """Receive the number of runs that are going to be done."""

    def on_trial_start(self, trial: Any) -> None:
        """Receive a trial that begins in this process."""

    def on_trial_end(self, result: TrialResult) -> None:
        """Receive the result of a trial, wherever it ran."""


@final
class LambdaCallback(Callback):
    """Callback made of functions.

    Parameters
    ----------
    **methods : callable
        Functions by the name of the method that they stand for, such as `on_epoch_end`.

    Examples
    --------
    >>> LambdaCallback(on_trial_start=print).on_trial_start("mixup")
    mixup
    """

    def __init__(self, **methods: Callable[..., object]) -> None:
        for name, function in methods.items():
            if not hasattr(Callback, name):
                raise TypeError(f"{name} is not a method of Callback")
            setattr(self, name, function)


@final
class CallbackList(Callback):
    """Several callbacks as one; each method calls them in their order.

    Parameters
    ----------
    callbacks : iterable of Callback or None
        Callbacks; None is left out.

    Examples
    --------
    >>> printer = LambdaCallback(on_trial_start=print)
    >>> CallbackList([None, printer, printer]).on_trial_start("mixup")
    mixup
    mixup
    """

    def __init__(self, callbacks: Iterable[Callback | None]) -> None:
        self.callbacks = [callback for callback in callbacks if callback is not None]

    def on_progress(self, event: ProgressEvent) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_progress(event)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_epoch_end(epoch, logs)

    def on_run_start(self, plan: RunPlan) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_run_start(plan)

    def on_trial_start(self, trial: Any) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_trial_start(trial)

    def on_trial_end(self, result: TrialResult) -> None:
        """Call all."""
        for callback in self.callbacks:
            callback.on_trial_end(result)


_callback: ContextVar[Callback | None] = ContextVar("callback", default=None)
_fit: ContextVar[FitProgress | None] = ContextVar("fit", default=None)


@contextmanager
def use_callback(callback: Callback) -> Iterator[None]:
    """Report the fits of estimators and densities in this block to a callback; safe in threads.

    An inner block replaces the callback of an outer one.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier, TrainingOptions
    >>> events = []
    >>> with use_callback(LambdaCallback(on_progress=events.append)):
    ...     model = MixupClassifier(training=TrainingOptions(epochs=10)).fit(*load_iris(return_X_y=True))
    >>> [event.stage for event in events if event.stage_ended]  # doctest: +NORMALIZE_WHITESPACE
    ['search, rung 1 of 4, 24 candidates', 'search, rung 2 of 4, 8 candidates',
     'search, rung 3 of 4, 5 candidates', 'search, rung 4 of 4, 3 candidates']
    >>> events[-1].fraction, events[-1].seconds_left
    (1.0, 0.0)
    """
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@final
class FitProgress(Callback):
    """Progress of a fit, and its time limit.

    Parameters
    ----------
    callback : Callback, optional
        Callback that receives the events and epochs.
    time_limit : float
        Seconds that the fit may take from now on.

    Attributes
    ----------
    epoch_weight : float
        Work of each of the next epochs, such as the number of candidates that they train.
    best_loss : float or None
        Lowest held-out log-loss so far.
    truncations : list of str
        Parts of the fit that were left out because time was short.

    Examples
    --------
    >>> printer = LambdaCallback(on_progress=lambda event: print(event.stage, event.fraction, event.stage_ended))
    >>> progress = FitProgress(printer)
    >>> progress.plan({"stacked density": 1.0, "search": 3.0})
    >>> with progress.stage("stacked density"):
    ...     progress.update(1, 2)
    stacked density 0.0 False
    stacked density 0.125 False
    stacked density 0.25 True
    """

    def __init__(self, callback: Callback | None = None, time_limit: float = inf) -> None:
        self._callback = callback
        self.time_limit, self._begin = time_limit, monotonic()
        self.epoch_weight = 1.0
        self.best_loss: float | None = None
        self.truncations: list[str] = []
        self._shares: dict[str, float] = {}
        self._stage, self._step, self._epochs = "", "", 0
        # Fractions: of the fit before this stage, of this stage in the fit, of the stage that is done; and the latter's
        # increase for each unit of work.
        self._before = self._share = self._done = self._per_work = 0.0
        self._stage_end, self._stage_begin = time_limit, self._begin

    @property
    def has_time_limit(self) -> bool:
        """True if the fit has a time limit."""
        return self.time_limit < inf

    @property
    def has_callback(self) -> bool:
        """True if a callback receives the events."""
        return self._callback is not None

    @property
    def elapsed(self) -> float:
        """Seconds since the fit began."""
        return monotonic() - self._begin

    @property
    def time_left(self) -> float:
        """Seconds until the time limit."""
        return self.time_limit - self.elapsed

    @property
    def stage_time_left(self) -> float:
        """Seconds until the stage should end."""
        return self._stage_end - self.elapsed

    @property
    def out_of_time(self) -> bool:
        """True if the stage should end now."""
        return self.stage_time_left <= 0.0

    def plan(self, shares: Mapping[str, float]) -> None:
        """Set the stages in their order, and the approximate share of each in the whole fit."""
        whole = sum(shares.values())
        self._shares = {name: share / whole for name, share in shares.items()}

    @contextmanager
    def stage(self, name: str, until: float = 1.0) -> Iterator[None]:
        """Enter a stage that should end when the fraction `until` of the time limit is spent.

        Stages that are not planned are not reported.
        """
        self._stage_end, self._stage_begin = until * self.time_limit, monotonic()
        if self._shares and name not in self._shares:
            yield
            return
        names = list(self._shares)
        self._before = sum(self._shares[one] for one in names[: names.index(name)]) if names else 0.0
        self._stage, self._step, self._share = name, "", self._shares.get(name, 0.0)
        self._done = self._per_work = 0.0
        self._report()
        yield
        self._done = 1.0
        self._report(stage_ended=not self._step)

    def update(self, done: float, total: float) -> None:
        """Set the fraction of the stage that is done, `done / total`."""
        self._done = min(1.0, done / total)
        self._report()

    @contextmanager
    def step(self, name: str, work: float) -> Iterator[None]:
        """Enter a step of the stage; the rest of the stage takes `work` epochs, times their weights."""
        if self._done == 0.0:
            self._stage_begin = monotonic()  # the time before the first step says nothing about its pace
        self._step, self._per_work = name, (1.0 - self._done) / work
        self._report()
        yield
        self._report(stage_ended=True)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Count an epoch."""
        self._epochs += 1
        self._done = min(1.0, self._done + self.epoch_weight * self._per_work)
        if self._callback is not None:
            self._callback.on_epoch_end(epoch, logs)
        self._report()

    def record_loss(self, loss: float) -> None:
        """Keep a held-out log-loss if it is the lowest."""
        self.best_loss = loss if self.best_loss is None else min(self.best_loss, loss)

    def _report(self, stage_ended: bool = False) -> None:
        if self._callback is None:
            return
        stage = f"{self._stage}, {self._step}" if self._step else self._stage
        fraction = round(self._before + self._share * self._done, 9) if self._shares else None
        # The time left extrapolates the pace of this stage; before it has one, that of the fit so far.
        done, seconds = self._share * self._done, monotonic() - self._stage_begin
        if done <= 0.0:
            done, seconds = self._before, self.elapsed
        left = None if fraction is None or done <= 0.0 else seconds / done * (1.0 - fraction)
        self._callback.on_progress(ProgressEvent(stage, fraction, left, self.best_loss, self._epochs, stage_ended))


@contextmanager
def track_fit(verbose: int, name: str, time_limit: float | None = None) -> Iterator[FitProgress]:
    """Give the progress of a fit, which reports to the current callback and, if `verbose`, to the error stream.

    Parameters
    ----------
    verbose : int
        Progress is displayed if it is above 0.
    name : str
        Name of the fit in the display.
    time_limit : float, optional
        Seconds that the fit may take.

    >>> with track_fit(0, "a fit", time_limit=60.0) as progress:
    ...     progress.time_left > 59.0
    True
    """
    callback = _callback.get()
    with ExitStack() as stack:
        if verbose > 0:
            from genlabel._progress_display import display_progress

            callback = CallbackList([stack.enter_context(display_progress(name, announce=False)), callback])
        progress = FitProgress(callback, inf if time_limit is None else time_limit)
        token = _fit.set(progress)
        try:
            yield progress
        finally:
            _fit.reset(token)


@contextmanager
def training_callback(verbose: int, name: str) -> Iterator[Callback | None]:
    """Give the callback for the training of a density.

    It is the current one inside the fit of an estimator; alone, a verbose density displays its own progress.

    >>> printer = LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch))
    >>> with use_callback(printer), training_callback(0, "flow") as callback:
    ...     callback.on_epoch_end(3, {})
    3
    """
    if verbose <= 0 or _fit.get() is not None:
        yield _callback.get()
        return
    with track_fit(verbose, name) as progress, progress.stage("training"):
        yield progress


def current_fit() -> FitProgress | None:
    """Return the progress of the fit that is running in this context, if there is one."""
    return _fit.get()


def report_progress(done: float, total: float) -> None:
    """Set the fraction of the current stage that is done, if a fit is running.

    >>> printer = LambdaCallback(on_progress=lambda event: print(event.fraction))
    >>> with use_callback(printer), track_fit(0, "a fit") as progress:
    ...     progress.plan({"stacked density": 1.0, "search": 3.0})
    ...     with progress.stage("search"):
    ...         report_progress(1, 2)
    0.25
    0.625
    1.0
    """
    progress = _fit.get()
    if progress is not None:
        progress.update(done, total)


def report_truncation(message: str) -> None:
    """Add a message about a part that was left out because time was short, if a fit is running.

    >>> with track_fit(0, "a fit") as progress:
    ...     report_truncation("the kernel density")
    >>> progress.truncations
    ['the kernel density']
    """
    progress = _fit.get()
    if progress is not None:
        progress.truncations.append(message)


def out_of_time() -> bool:
    """Return whether the current stage should end; without a time limit it never should.

    >>> out_of_time()
    False
    """
    progress = _fit.get()
    return progress is not None and progress.out_of_time
