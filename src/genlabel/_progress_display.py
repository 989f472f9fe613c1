"""Display of progress on the error stream, for fits and commands: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, final

from genlabel._progress import Callback, ProgressEvent, RunPlan, TrialResult

if TYPE_CHECKING:
    from rich.progress import Progress

MIN_SECONDS_BETWEEN_LINES = 5.0
"""Time between two lines about a fit, except for the lines that end a stage."""


@contextmanager
def display_progress(
    name: str, *, unit: str = "fit", max_lines: int = 10, announce: bool = True
) -> Iterator[ProgressDisplay]:
    """Display progress until the end of the block.

    Parameters
    ----------
    name : str
        Name of the fit or the first description of the work.
    unit : str
        Unit that a run counts, in the singular.
    max_lines : int
        Approximate number of lines for a whole run where there is no terminal.
    announce : bool
        Whether to print the name at once where there is no terminal.

    >>> from contextlib import redirect_stderr
    >>> with redirect_stderr(sys.stdout), display_progress("a fit", announce=False) as display:
    ...     display.on_progress(ProgressEvent("search", 0.5, 60.0, best_loss=0.31, epochs=40, stage_ended=True))
    a fit: search: 50 % done, 60 s left, best held-out log-loss 0.3100
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        display = ProgressDisplay(name, unit=unit, max_lines=max_lines)
        if announce:
            display.print(f"{name} ...")
        yield display
        return
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=20),
        progress.TextColumn("{task.fields[status]}", markup=False),
        progress.TextColumn("elapsed"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console) as bar:
        yield ProgressDisplay(name, bar, unit=unit, max_lines=max_lines)


@final
class ProgressDisplay(Callback):
    """Display of one fit, or of the trials of a run; :func:`display_progress` makes it.

    Parameters
    ----------
    name : str
        Name of the fit, or the first description of the work.
    bar : rich.progress.Progress, optional
        Bar of a terminal; without it, lines are printed.
    unit : str
        Unit that a run counts, in the singular.
    max_lines : int
        Approximate number of lines of a whole run.
    quiet : bool
        Whether to print nothing, for processes other than the first.

    Attributes
    ----------
    failures : dict of trial -> str
        Errors of trials.
    """

    def __init__(
        self, name: str, bar: Progress | None = None, *, unit: str = "fit", max_lines: int = 10, quiet: bool = False
    ) -> None:
        self.name, self.unit, self.max_lines, self.quiet = name, unit, max_lines, quiet
        self.failures: dict[Any, str] = {}
        self._bar = bar
        self._task = None if bar is None else bar.add_task(name, total=None, status="")
        self._total: int | None = None
        self._done, self._trial = 0, ""
        self._begin = self._last_line = monotonic()

    def start(self, total: int, description: str = "fitting") -> None:
        """Begin to count units of work."""
        self._total, self._done, self._begin = total, 0, monotonic()
        self._update_bar(description=description, total=total)

    def advance(self, count: int = 1) -> None:
        """Count units on the bar; without a bar nothing is printed."""
        self._done += count
        self._update_bar(completed=self._done, status=f"{self._done}/{self._total}{self._pace()}")

    def step(self, line: str) -> None:
        """Count one unit, and print a line about it."""
        self.advance()
        if self._bar is None:
            self.print(line)
        self._update_bar(description=line)

    def print(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            from rich.text import Text

            self._bar.console.print(Text(line), soft_wrap=True, highlight=False)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def on_progress(self, event: ProgressEvent) -> None:
        """Display the state of a fit; inside a run only its epochs, on the bar."""
        if self._total is not None:
            self._update_bar(description=f"{self._trial}: {event.epochs} epochs")
        elif self._bar is not None:
            description, done = f"{self.name}: {event.stage}", event.fraction
            total = None if done is None else 1.0
            self._update_bar(total=total, completed=done or 0.0, description=description, status=_describe(event))
        elif event.stage_ended or monotonic() - self._last_line >= MIN_SECONDS_BETWEEN_LINES:
            self._last_line = monotonic()
            self.print(f"{self.name}: {event.stage}: {_describe(event)}")

    def on_run_start(self, plan: RunPlan) -> None:
        """Print the numbers of records, and begin to count."""
        if plan.cached or plan.stale:
            self.print(f"{self.unit}s on record: {plan.cached}; to do: {plan.todo}")
        if plan.stale:
            self.print(f"{self.unit}s on record with other settings or data, which will be done again: {plan.stale}")
        self.start(plan.todo)

    def on_trial_start(self, trial: Any) -> None:
        """Display the first fields of the trial on the bar."""
        self._trial = ", ".join(map(str, trial[:2]))
        self._update_bar(description=self._trial)

    def on_trial_end(self, result: TrialResult) -> None:
        """Count the cells of the trial, and print its error if it failed in a new way."""
        if result.error is not None:
            before = len(failure_lines(self.failures))
            self.failures[result.trial] = result.error
            for line in failure_lines(self.failures)[before:]:
                self.print(line)
        before = self._done
        self.advance(len(result.keys))
        total = self._total or 1
        if self._bar is None and self._done * self.max_lines // total > before * self.max_lines // total:
            elapsed = monotonic() - self._begin
            self.print(f"{self._done} of {total} {self.unit}s, {elapsed:.0f} s elapsed{self._pace()}")

    def _update_bar(self, **fields: Any) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **fields)

    def _pace(self) -> str:
        """Return the rate of the work and the time left, as the end of a sentence."""
        elapsed = max(monotonic() - self._begin, 1e-9)
        if not self._done or not self._total:
            return ""
        rate = self._done / elapsed
        words = f"{rate:.1f} {self.unit}s/s" if rate >= 1.0 else f"{1.0 / rate:.1f} s/{self.unit}"
        return f", {words}, {_time((self._total - self._done) / rate)} left"


def failure_lines(failures: Mapping[Any, str]) -> list[str]:
    """Return a line for each failure; equal errors of one dataset make one line with the number of further trials.

    >>> from genlabel.evaluation.records import Fit
    >>> failure_lines({Fit(61, "mixup", 0): "OSError: not there", Fit(61, "vanilla", 0): "OSError: not there"})
    ['failed: 61, mixup and 1 more: OSError: not there']
    """
    trials: dict[tuple[Any, str], list[Any]] = {}
    for trial, error in failures.items():
        trials.setdefault((trial.dataset, error), []).append(trial)
    return [
        f"failed: {first[0]}, {first[1]}{f' and {len(more)} more' if more else ''}: {error}"
        for (_, error), (first, *more) in trials.items()
    ]


def _describe(event: ProgressEvent) -> str:
    parts = [f"{event.epochs} epochs" if event.fraction is None else f"{100 * event.fraction:.0f} % done"]
    if event.seconds_left is not None:
        parts.append(f"{_time(event.seconds_left)} left")
    if event.best_loss is not None:
        parts.append(f"best held-out log-loss {event.best_loss:.4f}")
    return ", ".join(parts)


def _time(seconds: float) -> str:
    """Return seconds, or minutes from two minutes on.

    >>> _time(7.3), _time(600.0)
    ('7 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
