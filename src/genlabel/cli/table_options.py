"""What the commands that take a table share: its options, standard input as a file, checks before the heavy imports."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

if TYPE_CHECKING:
    from genlabel.data.tables import Table


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file (CSV of any usual separator and encoding, also packed as .csv.gz, TSV, Parquet, Feather, Excel, "
        "JSON lines), - for standard input, or a name that `genlabel datasets` lists, such as iris or openml:61.",
    ),
]
TargetOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="The label column of the file.")]
NaValues = Annotated[
    list[str] | None,
    typer.Option(metavar="VALUE", help="A value that counts as missing, in every column; may be given several times."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column not to use; may be given several times.")
]
ForceInclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column to use even if it looks like an identifier or a leak; may be given several times.",
    ),
]
Classes = Annotated[bool, typer.Option("--classes", help="Take each number of the target as a class.")]
Bins = Annotated[
    int | None, typer.Option(min=2, metavar="N", help="Cut a target of numbers into N classes of about the same size.")
]
Groups = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Rows of equal values here stay on one side of every split.")
]
Time = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Dates or numbers: splits train on earlier rows, test on later ones."),
]


@final
@dataclass(frozen=True)
class ReadOptions:
    """How a file is read, as of `genlabel.data.tables.read_table`."""

    na_values: Sequence[str] = ()
    drop: Sequence[str] = ()
    force_include: Sequence[str] = ()
    classes: bool = False
    bins: int | None = None
    groups: str | None = None
    time: str | None = None

    def settings(self) -> dict[str, Any]:
        """Those that are given, plain."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple | list) else value for name, value in found.items() if value
        }


@contextmanager
def open_source(source: str) -> Iterator[str]:
    """Give the source, or for "-" a file with what stands on the standard input, gone afterwards."""
    if source != "-":
        yield source
        return
    if sys.stdin.isatty():
        raise ValueError("SOURCE is -, but nothing is piped into the standard input; cat data.csv | genlabel compare -")
    with TemporaryDirectory(prefix="genlabel-") as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)


def check_source(source: str, target: str | None, reading: ReadOptions) -> str:
    """Find out what is wrong before anything heavy is imported; return the name of the table."""
    from genlabel.data.datasets.catalog import find_source
    from genlabel.data.tables import check_columns, read_columns

    name, column = find_source(source, target)
    if column is None:
        return name
    columns = read_columns(source)
    named = {
        "drop": reading.drop,
        "force_include": reading.force_include,
        "groups": reading.groups,
        "time": reading.time,
    }
    for option, names in named.items():
        check_columns(option, [names] if isinstance(names, str) else names or (), columns, name)
    return name


def load_source(source: str, target: str | None, reading: ReadOptions, seed: int) -> Table:
    """Load a table, one from outside without columns that leak, and with equal rows on one side of a split."""
    from genlabel.data.datasets import load_table
    from genlabel.data.datasets.catalog import openml_id
    from genlabel.data.tables import drop_leaks, group_duplicates

    table = load_table(source, target, random_state=seed, **reading.settings())
    outside = target is not None or openml_id(source) is not None
    return drop_leaks(table, reading.force_include) if outside else group_duplicates(table)


def source_id(name: str, source: str) -> str:
    """Say where a table is: the path of its file, the hash of what was piped in, or its name."""
    path = Path(source)
    if not path.is_file():
        return name
    return sha256(path.read_bytes()).hexdigest() if path.name == "stdin" else str(path.resolve())


def describe_table(table: Table) -> str:
    """Say the name and the size of a table."""
    n, d = table.X.shape
    return f"{table.name}: {n} rows, {d} columns, {table.y.nunique()} classes"


def plain_table(table: Table) -> dict[str, Any]:
    """Return what is told of a table, for machines."""
    counts = {str(name): int(count) for name, count in table.y.value_counts().items()}
    columns = [asdict(column) for column in table.columns]
    features = [str(name) for name in table.X.columns]
    return {"table": table.name, "rows": len(table.X), "features": features, "columns": columns, "classes": counts}
