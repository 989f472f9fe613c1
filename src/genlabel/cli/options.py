"""Options that commands share and their checks, reading of a table, errors in one line, and exit codes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
from _thread import interrupt_main
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer, main_thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from genlabel._console import open_console
from genlabel._validation import check_positive
from genlabel.reporting.terminal import print_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from genlabel.data.tables import Table

running_command: ContextVar[str | None] = ContextVar("running_command", default=None)
"""Name of the command that runs."""
RESEND_SECONDS = 0.05
"""Delay until a lost interrupt is sent again."""
FIGURE_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file (CSV with any common separator and encoding, also compressed as .csv.gz, TSV, Parquet, Feather, "
        "Excel, JSON lines), - for standard input, or a name that `genlabel datasets` lists, such as iris or "
        "openml:61.",
    ),
]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the class labels of a file.")]
NaValues = Annotated[
    list[str] | None,
    typer.Option(metavar="VALUE", help="Value that counts as missing in every column; can be repeated."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; can be repeated.")]
ForceInclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Column to use although it looks like an identifier or a leak; can be repeated."
    ),
]
TargetIsCategorical = Annotated[
    bool, typer.Option("--target-is-categorical", help="Take each distinct number of the target as a class.")
]
Bins = Annotated[
    int | None, typer.Option(min=2, metavar="N", help="Cut a numeric target into N classes of about equal size.")
]
Groups = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column whose equal values stay on one side of every split.")
]
Time = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of dates or numbers: train on earlier rows, test on later ones."),
]
MinClassSize = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Leave out classes of fewer than N rows.", show_default="keep all"),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of splits, training and synthetic tables.")]
NetworkName = Annotated[
    str,
    typer.Option(
        help='"logistic", "mlp" (two hidden layers of 128), "auto" (the better of the two on held-out rows), or hidden '
        'sizes such as "64,128".'
    ),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of training epochs.", show_default="by the size of the table")
]
Jobs = Annotated[int, typer.Option(help="Number of training processes, one thread each; -1 is one for each processor.")]
Dask = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786, whose workers train instead.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1; auto is a GPU if there is one.")]
Costs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=COST",
        help="Predict the class of the lowest expected cost: COST is that of a wrong prediction for a row of CLASS, 1 "
        "for other classes; can be repeated. balanced: costs inversely proportional to the class frequencies. "
        "Probabilities do not change.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Of two classes, predict the one of --pos-label from this probability on (default: 0.5)."
    ),
]
PosLabel = Annotated[
    str | None, typer.Option(metavar="CLASS", help="Class of --threshold.", show_default="1 of classes 0 and 1")
]
Restart = Annotated[bool, typer.Option("--restart", help="Start again and delete the previous records.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ReportPath = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Also write a self-contained HTML report; its values go to FILE.json."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class ReadOptions(NamedTuple):
    """Options of reading a file, as in `genlabel.data.tables.read_table`, and of leaving out rare classes."""

    na_values: list[str] | None
    drop: list[str] | None
    force_include: list[str] | None
    target_is_categorical: bool
    bins: int | None
    groups: str | None
    time: str | None
    min_class_size: int | None

    def settings(self) -> dict[str, Any]:
        """Return the options that are set, as plain values."""
        return {name: value for name, value in self._asdict().items() if value}


@contextmanager
def open_source(source: str) -> Iterator[str]:
    """Yield the source or, for "-", a temporary file with the standard input."""
    if source != "-":
        yield source
        return
    if sys.stdin.isatty():
        raise ValueError("SOURCE is -, but the standard input is a terminal; pipe a table: cat data.csv | genlabel ...")
    with TemporaryDirectory(prefix="genlabel-") as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield str(path)
        except (ValueError, OSError) as error:
            message = str(error).replace(repr(str(path)), "the standard input")
            raise ValueError(message) from error


def check_source(source: str, target: str | None, options: ReadOptions) -> str:
    """Return the name of the table for file names; raise if it or a column does not exist, before any heavy import."""
    from genlabel.data.datasets.catalog import find_source
    from genlabel.data.tables.files import check_columns, read_columns

    name, column = find_source(source, target)
    if column is None:
        return name
    columns = read_columns(source)
    for option in ("drop", "force_include", "groups", "time"):
        names = getattr(options, option) or ()
        check_columns(option, [names] if isinstance(names, str) else names, columns, name)
    return os.fsdecode(name.encode())


def load_source(source: str, target: str | None, options: ReadOptions, seed: int) -> Table:
    """Load a table with equal rows in one group; a file or an OpenML dataset also without leaks.

    Classes of too few rows to be measured are named in a note, or left out if the options say so.
    """
    from genlabel.data.datasets import load_table
    from genlabel.data.datasets.catalog import openml_id
    from genlabel.data.tables import drop_leaks, group_duplicates
    from genlabel.data.tables.table import drop_rare_classes, note_rare_classes

    settings = options.settings()
    min_class_size = settings.pop("min_class_size", None)
    table = load_table(source, target, random_state=seed, **settings)
    table = note_rare_classes(table) if min_class_size is None else drop_rare_classes(table, min_class_size)
    external = target is not None or openml_id(source) is not None
    return drop_leaks(table, options.force_include or ()) if external else group_duplicates(table)


def read_network(network: str) -> str | tuple[int, ...]:
    """Return a named network, or the hidden sizes of "64,128".

    >>> read_network("64,128")
    (64, 128)
    """
    if network in ("auto", "logistic", "mlp"):
        return network
    sizes = network.split(",")
    if all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        return tuple(map(int, sizes))
    known = '"auto", "logistic", "mlp" or hidden sizes such as "64,128"'
    raise ValueError(f"network={network!r} is not known; use {known}")


def read_class_values(option: str, values: list[str] | None, classes: NDArray[Any]) -> dict[Any, float] | str | None:
    """Return the number of each class of an option whose values are "CLASS=NUMBER", or one "balanced".

    >>> import numpy as np
    >>> read_class_values("cost", ["yes=5"], np.array(["no", "yes"]))
    {'yes': 5.0}
    """
    if not values or values == ["balanced"]:
        return "balanced" if values else None
    from genlabel.data.tables.files import name_hint

    names = {str(name): name for name in classes.tolist()}
    result = {}
    for value in values:
        name, _, number = value.rpartition("=")
        if name not in names:
            problem = f"{name!r} is not a class" if name else "it must be CLASS=NUMBER or balanced"
            raise ValueError(f"{option}={value!r}: {problem}; {name_hint(name, names, 'classes')}")
        try:
            result[names[name]] = float(number)
        except ValueError:
            raise ValueError(f"{option}={value!r} must end in a number, such as '{name}=5'") from None
        check_positive(option, result[names[name]], "5 counts as much as five")
    return result


def read_costs(
    costs: list[str] | None, threshold: float | None, pos_label: str | None, classes: NDArray[Any]
) -> dict[Any, float] | str | None:
    """Return the costs of errors of the options --cost, or --threshold and --pos-label; None without them."""
    if threshold is None:
        if pos_label is not None:
            raise ValueError(f"pos_label={pos_label!r} is for --threshold; pass both")
        return read_class_values("cost", costs, classes)
    if costs:
        raise ValueError(
            f"--threshold {threshold:g} and --cost {costs[0]} both turn probabilities into predictions; pass one"
        )
    if len(classes) != 2:
        raise ValueError(f"--threshold is for two classes, but there are {len(classes)}; use --cost CLASS=COST")
    from genlabel.estimators.classifier import threshold_costs

    by_text = {str(name): name for name in classes.tolist()}
    return threshold_costs(threshold, None if pos_label is None else by_text.get(pos_label, pos_label), classes)


def check_jobs(jobs: int, dask: str | None = None) -> None:
    """Raise unless the number of processes is valid and the Dask scheduler, if there is one, answers."""
    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs={jobs} must be at least 1, or -1 for one for each processor")
    if dask is not None:
        from genlabel.evaluation.records.run import check_dask_scheduler

        check_dask_scheduler(dask)


def check_test_size(test_size: float) -> None:
    """Raise unless the share of the test rows is valid."""
    from genlabel._validation import check_interval

    check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")


def check_figure_suffix(name: str, path: Path | None) -> None:
    """Raise if the path of an option does not end like a figure."""
    if path is not None and path.suffix.lower() not in FIGURE_SUFFIXES:
        raise ValueError(f"{name}={str(path)!r} ends in {path.suffix!r}; end it in one of {', '.join(FIGURE_SUFFIXES)}")


def check_outputs(source: str = "", /, **paths: Path | None) -> None:
    """Raise unless the files of options (name=path) can be written and none is the table; create their folders."""
    for name, path in paths.items():
        if path is None:
            continue
        if source and path.is_file() and Path(source).is_file() and path.samefile(source):
            raise ValueError(f"{name}={str(path)!r} is the table itself, which would be lost; name another file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            path.open("ab").close()
            if new:
                path.unlink()
        except OSError as error:
            raise ValueError(f"{name}={str(path)!r} cannot be written ({error.strerror}); name another file") from error


def check_report(path: Path | None, source: str) -> None:
    """Raise unless the report and its values can be written without overwriting the table."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"report={str(path)!r} ends in {path.suffix!r}; end it in .html or .htm")
    for file in (path, path.with_suffix(".json")):
        check_outputs(source, report=file)


def command_line(context: typer.Context, command: str = "", only: Collection[str] | None = None) -> str:
    """Return the running command as it can be typed again, without the options that have their defaults.

    `command` and `only` make it another command with those of its options that are named.
    """
    words = ["genlabel", command or str(context.info_name)]
    for parameter in context.command.params:
        if only is not None and parameter.name not in only:
            continue
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[str(parameter.name)]
        values = list(map(str, value if isinstance(value, list) else [value]))
        if parameter.param_type_name == "argument":
            words += values
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [word for text in values for word in (parameter.opts[0], text)]
    return shlex.join(words)


@contextmanager
def one_line_errors(interrupted: str = "nothing was written", debug: bool | None = None) -> Iterator[None]:
    """Turn an error about the input into one red line and exit code 2, a bug of genlabel into exit code 3.

    An interrupt gives exit code 130 and a line with the text `interrupted`. All errors are raised if `debug` is True;
    if it is None, because the command has no option --debug, bugs are raised.
    """
    try:
        with _resend_lost_interrupts():
            yield
    except KeyboardInterrupt:
        print_line(f"interrupted; {interrupted}", stderr=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort, BrokenPipeError):  # of a pipe to `head`: the command ends without a word
        raise
    except Exception as error:
        expected = isinstance(error, ValueError | OSError)
        if debug or (debug is None and not expected):
            raise
        kind = "" if expected else f"{type(error).__name__}: "
        hint = "" if expected else "; this is a bug of genlabel, --debug shows where"
        message = Text(" ".join(f"Error: {kind}{in_options(str(error))}{hint}".split()), style="red")
        open_console(stderr=True).print(message, soft_wrap=True)
        raise typer.Exit(2 if expected else 3) from None


def in_options(message: str) -> str:
    """Return a message of the library with its parameters written as options of the command line.

    >>> in_options("test_size=2 must be a number; lower test_size")
    '--test-size 2 must be a number; lower --test-size'
    """
    for name, option in _option_names(running_command.get()).items():
        message = re.sub(rf"(?<![\w.'-]){name}=(?=\S)", f"{option} ", message).replace(f"{option} True", option)
        if "_" in name:
            message = re.sub(rf"(?<![\w.'-]){name}(?![\w.'=-])", option, message)
    return message


@cache
def _option_names(command_name: str | None) -> dict[str, str]:
    """Return the options of a command, or of all, by the names that they have as parameters of the library."""
    from genlabel.cli import app

    names = {"id"}
    for command in app.registered_commands:
        callback = command.callback
        if callback is not None and command_name in (None, command.name, callback.__name__.replace("_", "-")):
            names |= set(signature(callback).parameters)
    return {name: f"--{name.replace('_', '-')}" for name in names} | {"repeats": "--n-splits"}


@contextmanager
def _resend_lost_interrupts() -> Iterator[None]:
    """Send an interrupt again if it arrived in a destructor or the garbage collection, where Python cannot raise it."""
    previous_hook, timers = sys.unraisablehook, list[Timer]()

    def interrupt() -> None:
        if hasattr(signal, "pthread_kill"):  # also while the main thread waits
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        else:
            interrupt_main()

    def resend(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            timers.append(Timer(RESEND_SECONDS, interrupt))
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


def exit_if_failed(count: int, noun: str = "fits") -> None:
    """Exit with code 1 if some of the work failed, after a line with the number of failures."""
    if count:
        print_line(f"\nfailed: {count} of the {noun}, see above; the same command tries them again")
        raise typer.Exit(1)
