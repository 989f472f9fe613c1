"""What the commands share: errors in one line, progress with a rate and the time left, checks before the work."""

from __future__ import annotations

import signal
import sys
from _thread import interrupt_main
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from threading import Timer, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from genlabel.evaluation.records import RunPlan, TrialResult


MOST_WARNINGS = 5
LATER = 0.05
"""Seconds until an interrupt that was lost is sent again."""
WIDTH = 120
"""Letters of a line of a table where there is no terminal."""
PICTURES = (".png", ".pdf", ".svg", ".jpg")

Jobs = Annotated[int, typer.Option(help="Processes that train, one thread each; -1 is one for each processor.")]
Dask = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:8786, whose workers train instead.")
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Training epochs, at most.", show_default="by the size of the table")
]
NetworkName = Annotated[
    str,
    typer.Option(
        help='"logistic", "mlp" (two hidden layers of 128), "auto" (the better of the two on held-out rows), or hidden '
        'sizes such as "64,128".'
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Restart = Annotated[bool, typer.Option("--restart", help="Begin again; the records so far are lost.")]


def read_network(network: str) -> str | tuple[int, ...]:
    """Return a named network, or the sizes of "64,128".

    >>> read_network("64,128")
    (64, 128)
    """
    if network in ("auto", "logistic", "mlp"):
        return network
    parts = network.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        known = '"auto", "logistic", "mlp" or hidden sizes such as "64,128"'
        raise ValueError(f"network={network!r} is not known; use {known}")
    return tuple(int(part) for part in parts)


def check_jobs(jobs: int, dask: str | None = None) -> None:
    """Raise unless so many fits can be done at once, and the scheduler, if one is named, answers."""
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs} must be at least 1, or -1 for one for each processor")
    if dask is not None:
        from genlabel.evaluation.records import check_dask_scheduler

        check_dask_scheduler(dask)


def check_share(test_size: float) -> None:
    """Raise unless so large a share of the rows can be held out."""
    from genlabel._validation import check_interval

    check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")


def check_picture(name: str, path: Path | None) -> None:
    """Raise unless the ending of the path, if there is one, is that of a picture we can draw."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ValueError(f"{name}={str(path)!r} ends in {path.suffix!r}; end it in one of {', '.join(PICTURES)}")


def check_outputs(**paths: Path | None) -> None:
    """Find out before the work whether its results can be written; the names are those of the options."""
    for name, path in paths.items():
        if path is None:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            path.open("ab").close()
            if new:
                path.unlink()
        except OSError as error:
            raise ValueError(f"{name}={str(path)!r} cannot be written ({error.strerror}); name another file") from error


def check_not_overwriting_input(source: str, **paths: Path | None) -> None:
    """Raise where a result would be written over the table that is read; the names are those of the options."""
    for name, path in paths.items():
        if path is not None and path.is_file() and Path(source).is_file() and path.samefile(source):
            raise ValueError(f"{name}={str(path)!r} is the table itself, which would be lost; name another file")


@contextmanager
def one_line_errors(interrupted: str = "nothing was written", debug: bool | None = None) -> Iterator[None]:
    """Turn an error about the input into one red line and exit code 2, and a fault of ours into exit code 3.

    Parameters
    ----------
    interrupted : str
        Said of an interrupt, which has exit code 130.
    debug : bool, optional
        Whether the option --debug is given, which leaves errors alone; None if the command has no such option, which
        leaves faults alone.
    """
    try:
        with _no_interrupt_lost():
            yield
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print(Text(f"interrupted; {interrupted}"), soft_wrap=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        known = isinstance(error, ValueError | OSError)
        if debug or (debug is None and not known):
            raise
        fault = "" if known else f"{type(error).__name__}: "
        hint = "" if known else "; this is a fault of genlabel, --debug shows where"
        message = Text(" ".join(f"Error: {fault}{error}{hint}".split()), style="red")
        Console(stderr=True, highlight=False).print(message, soft_wrap=True)
        raise typer.Exit(2 if known else 3) from None


@contextmanager
def _no_interrupt_lost() -> Iterator[None]:
    """Send an interrupt again that came where Python cannot raise it: in a destructor, or as garbage is collected."""
    before, sent = sys.unraisablehook, list[Timer]()

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            sent.append(Timer(LATER, _interrupt))
            sent[-1].start()
        else:
            before(lost)

    sys.unraisablehook = send_again
    try:
        yield
        if any(timer.is_alive() for timer in sent):
            raise KeyboardInterrupt
    finally:
        sys.unraisablehook = before
        for timer in sent:
            timer.cancel()


def _interrupt() -> None:
    """Interrupt the main thread, which may be waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
    else:
        interrupt_main()


def replace_unencodable_output() -> None:
    """Let letters that a terminal cannot show be question marks there, not an error at the end of a long run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def plus_minus() -> str:
    """Return the sign, or what stands for it where the output cannot show it."""
    try:
        "±".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "+/-"
    return "±"


def print_line(line: str) -> None:
    """Print a line as it is, however long."""
    Console(highlight=False).print(Text(line), soft_wrap=True)


def print_grid(grid: Table) -> None:
    """Print a table, as wide as the terminal or, where there is none, as a page."""
    _paper().print(grid)


def has_room(grid: Table) -> bool:
    """Whether a table fits where `print_grid` prints it, with nothing wrapped or cut off."""
    console = _paper()
    return console.measure(grid, options=console.options.update_width(10 * WIDTH)).maximum <= console.width


def _paper() -> Console:
    """What tables are printed on."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def end(failed: int, what: str = "fits") -> None:
    """Leave with a code that says whether some failed, after a line that counts them."""
    if failed:
        print_line(f"\nfailed: {failed} of the {what}, see above; the same command tries them again")
        raise typer.Exit(1)


class Lines:
    """Progress where there is no terminal: about `most` plain lines."""

    def __init__(self, what: str, most: int = 10) -> None:
        self.done, self.total, self.most, self.begin = 0, 0, most, monotonic()
        self.say(f"{what} ...")

    def start(self, total: int, what: str = "fitting") -> None:
        """Begin to count fits, or whatever else."""
        self.total, self.begin = total, monotonic()

    def advance(self, count: int) -> None:
        """Count some at once; lines are for fits only."""
        self.done += count

    def epochs(self, method: str, split: int, epochs: int) -> None:
        """Lines are for fits only."""

    def fitted(self, method: str, split: int) -> None:
        """Count a fit."""
        self.done += 1
        if self.done * self.most // self.total > (self.done - 1) * self.most // self.total:
            spent = monotonic() - self.begin
            left = spent / self.done * (self.total - self.done)
            rate = _rate(self.done / max(spent, 1e-9))
            self.say(f"{self.done} of {self.total} fits, {spent:.0f} s elapsed, {rate}, {left:.0f} s left")

    def step(self, line: str) -> None:
        """Count one of what was begun, and print what it was."""
        self.done += 1
        self.say(line)

    def say(self, line: str) -> None:
        """Print a line."""
        typer.echo(line, err=True)


class Bar:
    """Progress on a terminal."""

    def __init__(self, bar: progress.Progress, what: str) -> None:
        self.bar, self.task = bar, bar.add_task(what, total=None)
        self.within = 0

    def start(self, total: int, what: str = "fitting") -> None:
        """Begin to count fits, or whatever else."""
        self.bar.update(self.task, total=total, description=what)

    def advance(self, count: int) -> None:
        """Count some at once."""
        self.bar.advance(self.task, count)

    def epochs(self, method: str, split: int, epochs: int) -> None:
        """Show the epochs of the fit that is under way."""
        self.within += epochs
        self.bar.update(self.task, description=f"split {split + 1}, {method}: {self.within} epochs")

    def fitted(self, method: str, split: int) -> None:
        """Count a fit."""
        self.within = 0
        self.bar.advance(self.task)

    def step(self, line: str) -> None:
        """Count one of what was begun, and show what it was."""
        self.bar.update(self.task, advance=1, description=line)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(Text(line), soft_wrap=True, highlight=False)


class RunReporter:
    """Tells of the trials of a run as they end, and of each failure once."""

    def __init__(self, bar: Lines | Bar, what: str = "fits") -> None:
        self.bar, self.what = bar, what
        self.failures: dict[Any, str] = {}

    def start(self, counts: RunPlan) -> None:
        """Say what is on record."""
        if counts.done or counts.stale:
            self.bar.say(f"{self.what} on record: {counts.done}; to do: {counts.todo}")
        if counts.stale:
            self.bar.say(
                f"{self.what} on record that were made with other settings or data, to be done again: {counts.stale}"
            )
        self.bar.start(counts.todo)

    def trial(self, outcome: TrialResult) -> None:
        """Count a trial."""
        if outcome.error is not None:
            before = failed_lines(self.failures)
            self.failures[outcome.trial] = outcome.error
            for line in failed_lines(self.failures)[len(before) :]:
                self.bar.say(line)
        for cell in outcome.cells:
            self.bar.fitted(cell.method, cell.split)


def failed_lines(failures: Mapping[Any, str]) -> list[str]:
    """Return a line for each failure of trials; the same error of a dataset once, with the number of further trials.

    >>> from genlabel.evaluation.records import Fit
    >>> failed_lines({Fit(61, "mixup", 0): "OSError: not there", Fit(61, "vanilla", 0): "OSError: not there"})
    ['failed: 61, mixup and 1 more: OSError: not there']
    """
    alike: dict[tuple[Any, str], list[Any]] = {}
    for trial, error in failures.items():
        alike.setdefault((trial.dataset, error), []).append(trial)
    more = {key: f" and {len(trials) - 1} more" if len(trials) > 1 else "" for key, trials in alike.items()}
    return [f"failed: {trials[0][0]}, {trials[0][1]}{more[key]}: {key[1]}" for key, trials in alike.items()]


def count_messages(heard: Iterable[Mapping[str, int]]) -> list[str]:
    """Return each warning once, with the number of times it was given, the most frequent first.

    >>> count_messages([{"few rows": 2}, {"few rows": 1, "slow": 1}])
    ['few rows (3 times)', 'slow']
    """
    counts: Counter[str] = Counter()
    for texts in heard:
        counts.update(texts)
    shown = [f"{text} ({times} times)" if times > 1 else text for text, times in counts.most_common(MOST_WARNINGS)]
    more = len(counts) - len(shown)
    return [*shown, f"other warnings of this kind: {more}"] if more > 0 else shown


class _Rate(progress.ProgressColumn):
    """Fits a second, or seconds a fit."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(_rate(speed, self.unit) if speed else "")


def _rate(speed: float, unit: str = "fit") -> str:
    """Say a speed with a number above one."""
    return f"{speed:.1f} {unit}s/s" if speed >= 1 else f"{1 / speed:.1f} s a {unit}"


@contextmanager
def show_progress(what: str, lines: int = 10, unit: str = "fit") -> Iterator[Lines | Bar]:
    """Show progress on the error stream, at once; where that is no terminal, in about so many lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(what, lines)
        return
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        _Rate(unit),
        progress.TextColumn("elapsed"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, speed_estimate_period=600.0) as bar:
        yield Bar(bar, what)
