"""Tables by name: from a file, from scikit-learn, or one of the synthetic sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn import datasets as embedded

from genlabel.data.datasets.sources import EMBEDDED, find_source, openml_id
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.tables.files import check_columns
from genlabel.data.tables.reading import read_table
from genlabel.data.tables.table import Table, table_pipeline

__all__ = ["Table", "load_table", "table_pipeline"]


def load_table(
    source: str | Path, target: str | None = None, *, random_state: int = 0, drop: Iterable[str] = (), **reading: Any
) -> Table:
    """Load a table by the name of a built-in set or an OpenML set, or from a file.

    Parameters
    ----------
    source : str or Path
        "iris", "wine", "breast_cancer", "digits", a name of `SYNTHETIC`, an OpenML set ("openml:61"), or a file: CSV,
        TSV, Parquet, Feather, Excel or JSON lines.
    target : str, optional
        The column of a file that holds the labels.
    random_state : int
        Seed of a synthetic set.
    drop : iterable of str
        Columns that are not used.
    **reading
        Of a file: na_values, force_include, classes, bins, groups, time, as of `genlabel.data.tables.read_table`.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.X.shape, sorted(set(table.y))
    ((150, 4), ['setosa', 'versicolor', 'virginica'])
    """
    name, column = find_source(source, target)
    drop = list(drop)
    if column is not None:
        return read_table(Path(source), column, drop=drop, **reading)
    given = [option for option, value in reading.items() if value and option != "force_include"]
    if given:
        raise ValueError(f"{given[0]}={reading[given[0]]!r} is for files; leave it out for {name!r}")
    table = _named(name, openml_id(source), random_state)
    check_columns("drop", drop, table.X.columns, name)
    check_columns("force_include", reading.get("force_include", ()), table.X.columns, name)
    return replace(table, X=table.X.drop(columns=drop))


def _named(name: str, number: int | None, random_state: int) -> Table:
    if number is not None:
        from genlabel.data.datasets.openml import load_openml  # it imports tables

        return replace(load_openml(number), name=name)
    return _from_embedded(name) if name in EMBEDDED else _from_synthetic(name, random_state)


def _from_embedded(name: str) -> Table:
    bunch = getattr(embedded, f"load_{name}")(as_frame=True)
    y = bunch.target if name == "digits" else bunch.target.map(dict(enumerate(bunch.target_names.tolist())))
    return Table(name, bunch.data, y)


def _from_synthetic(name: str, random_state: int) -> Table:
    X, y = SYNTHETIC[name](random_state=random_state)
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(X.shape[1])])
    return Table(name, frame, pd.Series(y, name="class"), [f"{name} was drawn with random_state={random_state}"])
