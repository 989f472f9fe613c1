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
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    pass


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
