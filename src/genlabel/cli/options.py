"""Options of the commands that take a table or write a report, their checks, and how they are read."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from genlabel.cli.console import check_not_overwriting_input, check_outputs

if TYPE_CHECKING:
    from genlabel.data.tables import Table


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file (CSV with any common separator and encoding, also compressed as .csv.gz, TSV, Parquet, Feather, "
        "Excel, JSON lines), - for standard input, or a name that `genlabel datasets` lists, such as iris or "
        "openml:61.",
    ),
]
TargetOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the class labels of a file.")]
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
Seed = Annotated[int, typer.Option(min=0, help="Seed of splits, training and synthetic tables.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ReportPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="Also write a self-contained HTML report; its values go to FILE.json.",
    ),
]


@final
@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a file, as in `genlabel.data.tables.read_table`."""

    na_values: Sequence[str] = ()
    drop: Sequence[str] = ()
    force_include: Sequence[str] = ()
    classes: bool = False
    bins: int | None = None
    groups: str | None = None
    time: str | None = None

    def settings(self) -> dict[str, Any]:
        """Return those that are given, as plain values."""
        values = {name: value for name, value in vars(self).items() if value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


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
        yield str(path)


def check_source(source: str, target: str | None, options: ReadOptions) -> str:
    """Return the name of the table; raise if it or a column does not exist, before any heavy import."""
    from genlabel.data.datasets.catalog import find_source
    from genlabel.data.tables import check_columns, read_columns

    name, column = find_source(source, target)
    if column is None:
        return name
    columns = read_columns(source)
    for option in ("drop", "force_include", "groups", "time"):
        names = getattr(options, option) or ()
        check_columns(option, [names] if isinstance(names, str) else names, columns, name)
    return name


def load_source(source: str, target: str | None, options: ReadOptions, seed: int) -> Table:
    """Load a table; one of the user's without leaks, all with equal rows on one side of a split."""
    from genlabel.data.datasets import load_table
    from genlabel.data.datasets.catalog import openml_id
    from genlabel.data.tables import drop_leaks, group_duplicates

    table = load_table(source, target, random_state=seed, **options.settings())
    external = target is not None or openml_id(source) is not None
    return drop_leaks(table, options.force_include) if external else group_duplicates(table)


def source_id(name: str, source: str) -> str:
    """Return the identity of a table: the path of its file, the hash of standard input, or its name."""
    path = Path(source)
    if not path.is_file():
        return name
    return sha256(path.read_bytes()).hexdigest() if path.name == "stdin" else str(path.resolve())


def check_report(path: Path | None, source: str) -> None:
    """Raise unless the report and its values can be written without overwriting the table."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"report={str(path)!r} ends in {path.suffix!r}; end it in .html or .htm")
    for file in (path, json_path(path)):
        check_not_overwriting_input(source, report=file)
        check_outputs(report=file)


def json_path(report: Path) -> Path:
    """Return the file of the values of a report.

    >>> json_path(Path("out.html")).name
    'out.json'
    """
    return report.with_suffix(".json")


def command_line(context: typer.Context) -> str:
    """Return the running command as it can be typed again: what was given, without defaults."""
    words = ["genlabel", str(context.info_name)]
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[str(parameter.name)]
        values = [
            str(one.value if isinstance(one, Enum) else one) for one in (value if isinstance(value, list) else [value])
        ]
        if parameter.param_type_name == "argument":
            words += values
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [word for text in values for word in (parameter.opts[0], text)]
    return shlex.join(words)
