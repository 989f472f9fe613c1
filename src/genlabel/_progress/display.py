"""How a fit that is asked to show its progress does so: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from genlabel._progress.epoch_callback import EpochCallback, current_listener
from genlabel._progress.fit_progress import (
    FitProgress,
    ProgressCallback,
    ProgressEvent,
    current_course,
    current_watcher,
    under_way,
)

EVERY = 5.0
"""Seconds between two lines of a log, but for those that end a stage."""


@contextmanager
def track_fit(verbose: int, name: str, time_limit: float | None = None) -> Iterator[FitProgress]:
    """The course of a fit: told to those who listen and watch, and if it is `verbose`, shown on the error stream.

    Parameters
    ----------
    verbose : int
    name : str
        Of what is fitted.
    time_limit : float, optional
        Seconds that it may take.

    >>> with track_fit(0, "a fit", time_limit=60.0) as course:
    ...     course.left > 59.0
    True
    """
    with _shown(verbose, name) as watcher:
        course = FitProgress(current_listener(), watcher, inf if time_limit is None else time_limit)
        with under_way(course):
            yield course


@contextmanager
def epoch_callback_for(verbose: int, name: str) -> Iterator[EpochCallback | None]:
    """Whom a density tells of its epochs: the listener, and if it is `verbose` on its own, the error stream.

    >>> from genlabel._progress import epoch_callback
    >>> heard = []
    >>> with epoch_callback(heard.append), epoch_callback_for(0, "flow") as tell:
    ...     tell(3)
    >>> heard
    [3]
    """
    if verbose <= 0 or current_course() is not None:
        yield current_listener()
        return
    with track_fit(verbose, name) as course, course.stage("training"):
        yield course.epochs


@contextmanager
def _shown(verbose: int, name: str) -> Iterator[ProgressCallback | None]:
    """Who watches: the one outside, and what shows it."""
    outer = current_watcher()
    if verbose <= 0:
        yield outer
        return
    with progress_bar(name) as show:

        def both(report: ProgressEvent) -> None:
            show(report)
            if outer is not None:
                outer(report)

        yield both


@contextmanager
def progress_bar(name: str) -> Iterator[ProgressCallback]:
    """Give a watcher that shows a fit on the error stream: as a bar on a terminal, else in lines.

    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout), progress_bar("a fit") as show:
    ...     show(ProgressEvent("search", done=0.5, left=60.0, loss=0.31, epochs=40, ended=True))
    a fit: search: 50 % done, 60 s left, best held-out log-loss 0.3100
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(name)
        return
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=20),
        progress.TextColumn("{task.fields[said]}", markup=False),
        progress.TextColumn("elapsed"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=None, said="")

        def show(report: ProgressEvent) -> None:
            total = None if report.done is None else 1.0
            stage = f"{name}: {report.stage}"
            bar.update(task, total=total, completed=report.done or 0.0, description=stage, said=_said(report))

        yield show


class _Lines:
    """Lines of a log: one at the end of each stage, and one every few seconds."""

    def __init__(self, name: str) -> None:
        self.name, self.last = name, monotonic()

    def __call__(self, report: ProgressEvent) -> None:
        if report.ended or monotonic() - self.last >= EVERY:
            self.last = monotonic()
            print(f"{self.name}: {report.stage}: {_said(report)}", file=sys.stderr, flush=True)


def _said(report: ProgressEvent) -> str:
    """How far a fit is, in words."""
    parts = [f"{report.epochs} epochs" if report.done is None else f"{100 * report.done:.0f} % done"]
    if report.left is not None:
        parts.append(f"{_time(report.left)} left")
    if report.loss is not None:
        parts.append(f"best held-out log-loss {report.loss:.4f}")
    return ", ".join(parts)


def _time(seconds: float) -> str:
    """Seconds, or minutes where there are many.

    >>> _time(7.3), _time(600.0)
    ('7 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
