"""Parts that commands share: errors in one line, interrupts, checks before the work, exit codes."""

from __future__ import annotations

import signal
import sys
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from threading import Timer, main_thread
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from genlabel.reporting.terminal import print_line as print_line

RESEND_SECONDS = 0.05
"""Delay until a lost interrupt is sent again."""
FIGURE_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")

Jobs = Annotated[int, typer.Option(help="Number of training processes, one thread each; -1 is one for each processor.")]
Dask = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786, whose workers train instead.")
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of training epochs.", show_default="by the size of the table")
]
NetworkName = Annotated[
    str,
    typer.Option(
        help='"logistic", "mlp" (two hidden layers of 128), "auto" (the better of the two on held-out rows), or hidden '
        'sizes such as "64,128".'
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Restart = Annotated[bool, typer.Option("--restart", help="Start again and delete the previous records.")]


def read_network(network: str) -> str | tuple[int, ...]:
    """Return a named network, or the hidden sizes of "64,128".

    >>> read_network("64,128")
    (64, 128)
    """
    if network in ("auto", "logistic", "mlp"):
        return network
    sizes = network.split(",")
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        known = '"auto", "logistic", "mlp" or hidden sizes such as "64,128"'
        raise ValueError(f"network={network!r} is not known; use {known}")
    return tuple(int(size) for size in sizes)


def check_jobs(jobs: int, dask: str | None = None) -> None:
    """Raise unless the number of processes is valid and the Dask scheduler, if there is one, answers."""
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs} must be at least 1, or -1 for one for each processor")
    if dask is not None:
        from genlabel.evaluation.records import check_dask_scheduler

        check_dask_scheduler(dask)


def check_share(test_size: float) -> None:
    """Raise unless the share of the test rows is valid."""
    from genlabel._validation import check_interval

    check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")


def check_picture(name: str, path: Path | None) -> None:
    """Raise if the suffix of a path is not that of a figure."""
    if path is not None and path.suffix.lower() not in FIGURE_SUFFIXES:
        raise ValueError(f"{name}={str(path)!r} ends in {path.suffix!r}; end it in one of {', '.join(FIGURE_SUFFIXES)}")


def check_outputs(**paths: Path | None) -> None:
    """Raise unless files can be written, given by the names of their options; create their folders."""
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
    """Raise if a result, given by the name of its option, would overwrite the table that is read."""
    for name, path in paths.items():
        if path is not None and path.is_file() and Path(source).is_file() and path.samefile(source):
            raise ValueError(f"{name}={str(path)!r} is the table itself, which would be lost; name another file")


@contextmanager
def one_line_errors(interrupted: str = "nothing was written", debug: bool | None = None) -> Iterator[None]:
    """Turn an error about the input into one red line and exit code 2, a bug of genlabel into exit code 3.

    Parameters
    ----------
    interrupted : str
        State after an interrupt, which has exit code 130.
    debug : bool, optional
        Value of the option --debug, which lets errors through; None if the command has no such option, which lets bugs
        through.
    """
    try:
        with _resend_lost_interrupts():
            yield
    except KeyboardInterrupt:
        print_line(f"interrupted; {interrupted}", stderr=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        expected = isinstance(error, ValueError | OSError)
        if debug or (debug is None and not expected):
            raise
        kind = "" if expected else f"{type(error).__name__}: "
        hint = "" if expected else "; this is a bug of genlabel, --debug shows where"
        message = Text(" ".join(f"Error: {kind}{error}{hint}".split()), style="red")
        Console(stderr=True, highlight=False).print(message, soft_wrap=True)
        raise typer.Exit(2 if expected else 3) from None


@contextmanager
def _resend_lost_interrupts() -> Iterator[None]:
    """Send an interrupt again that arrived in a destructor or a garbage collection, where Python cannot raise it."""
    previous_hook, timers = sys.unraisablehook, list[Timer]()

    def resend(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            timers.append(Timer(RESEND_SECONDS, _interrupt_main_thread))
            timers[-1].start()
        else:
            previous_hook(lost)

    sys.unraisablehook = resend
    try:
        yield
        if any(timer.is_alive() for timer in timers):
            raise KeyboardInterrupt
    finally:
        sys.unraisablehook = previous_hook
        for timer in timers:
            timer.cancel()


def _interrupt_main_thread() -> None:
    """Interrupt the main thread, also while it waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
    else:
        interrupt_main()


def replace_unencodable_output() -> None:
    """Print question marks for characters that the output cannot encode, instead of failing after a long run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def end(failed: int, what: str = "fits") -> None:
    """Exit with code 1 if some of the work failed, after a line that counts the failures."""
    if failed:
        print_line(f"\nfailed: {failed} of the {what}, see above; the same command tries them again")
        raise typer.Exit(1)
