"""Tables as data frames: from a CSV, TSV or Parquet file, from scikit-learn, or one of the synthetic sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn import datasets as embedded
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from genlabel.datasets.synthetic import SYNTHETIC

__all__ = ["EMBEDDED", "Table", "load_table", "table_pipeline"]

EMBEDDED: dict[str, Callable[..., Any]] = {
    "iris": embedded.load_iris,
    "wine": embedded.load_wine,
    "breast_cancer": embedded.load_breast_cancer,
    "digits": embedded.load_digits,
}
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
MANY = 20
"""Columns that a text makes at most, and distinct values above which a target of fractions is no class."""


@dataclass(frozen=True)
class Table:
    """A labelled table."""

    name: str
    X: pd.DataFrame
    """Features: numbers and booleans, or text; missing values are NaN."""
    y: pd.Series[Any]
    """The label of each row: whole numbers or text, none missing."""
    notes: list[str] = field(default_factory=list)
    """What was changed on the way in, one line each."""


def load_table(source: str | Path, target: str | None = None, *, random_state: int = 0) -> Table:
    """Load a table by the name of a built-in set, or from a file.

    Parameters
    ----------
    source : str or Path
        "iris", "wine", "breast_cancer", "digits", a name of `SYNTHETIC`, or a file: .csv, .tsv, .parquet, .pq.
    target : str, optional
        The column of a file that holds the labels.
    random_state : int
        Seed of a synthetic set.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.X.shape, sorted(set(table.y))
    ((150, 4), ['setosa', 'versicolor', 'virginica'])
    """
    name, path = str(source), Path(source)
    if name not in EMBEDDED and name not in SYNTHETIC:
        return _from_file(path, target)
    if target is not None:
        raise ValueError(f"target={target!r} is for files; {name!r} has its own labels, leave it out")
    return _from_embedded(name) if name in EMBEDDED else _from_synthetic(name, random_state)


def table_pipeline(X: pd.DataFrame, estimator: Any) -> Pipeline:
    """Put the preparation of a table in front of an estimator, to be fitted together on the training rows only.

    Numbers and booleans: median imputation. Text and categories: a column for each value, a missing one being a
    value of its own; of more than 20, the 19 most frequent and a column for the rest. Dates and times: left out.

    Parameters
    ----------
    X : DataFrame (n, d)
        Tells the kind of each column; nothing is learned from it here.
    estimator : scikit-learn estimator
        Takes the numbers.

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, np.nan, 3.0], "colour": ["red", "blue", None]})
    >>> table_pipeline(X, "passthrough").fit_transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """
    numbers = make_pipeline(
        FunctionTransformer(_as_numbers, feature_names_out="one-to-one"),
        SimpleImputer(strategy="median", keep_empty_features=True),
    )
    text = make_pipeline(
        FunctionTransformer(_as_text, feature_names_out="one-to-one"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MANY, sparse_output=False),
    )
    kinds = {name: _kind(X[name]) for name in X.columns}
    parts = [
        (kind, part, [name for name in X.columns if kinds[name] == kind])
        for kind, part in (("numbers", numbers), ("text", text))
        if kind in kinds.values()
    ]
    return Pipeline([("columns", ColumnTransformer(parts)), ("estimator", estimator)])


def _from_embedded(name: str) -> Table:
    bunch = EMBEDDED[name](as_frame=True)
    y = bunch.target if name == "digits" else bunch.target.map(dict(enumerate(bunch.target_names.tolist())))
    return Table(name, bunch.data, y)


def _from_synthetic(name: str, random_state: int) -> Table:
    X, y = SYNTHETIC[name](random_state=random_state)
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(X.shape[1])])
    return Table(name, frame, pd.Series(y, name="class"), [f"{name} was drawn with random_state={random_state}"])


def _from_file(path: Path, target: str | None) -> Table:
    _check_path(path)
    frame = _read(path)
    if target is None:
        raise ValueError(
            f"target is not given; name the label column of {str(path)!r} with target=..., on the command line "
            f"--target: one of {_names(frame.columns)}"
        )
    if target not in frame.columns:
        raise ValueError(f"target={target!r} is no column of {str(path)!r}; its columns are {_names(frame.columns)}")
    notes: list[str] = []
    missing = frame[target].isna()
    if missing.any():
        frame = frame[~missing]
        notes.append(f"rows dropped because {target!r} is missing: {missing.sum()}")
    y = _read_labels(frame[target], path)
    X = _read_features(frame.drop(columns=target), path, notes)
    return Table(path.stem, X.reset_index(drop=True), y.reset_index(drop=True), notes)


def _check_path(path: Path) -> None:
    """Raise unless the path is a file that can be read: an unknown name, a missing file, another format."""
    formats = ", ".join(SUFFIXES)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return
    if path.is_file():
        raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; save it as one of {formats}")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it ({formats})")
    if path.suffix.lower() in SUFFIXES or len(path.parts) > 1:
        raise FileNotFoundError(
            f"there is no file {str(path)!r}; check the path, the current folder is {str(Path.cwd())!r}"
        )
    raise ValueError(
        f"{str(path)!r} is not a known table; choose one of {_names([*EMBEDDED, *SYNTHETIC])}, or give "
        f"the path of a file ({formats})"
    )


def _read(path: Path) -> pd.DataFrame:
    """Read a file into a frame whose columns have distinct names."""
    try:
        frame = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning, OSError) as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows; it needs a line of column names and the rows below it")
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"{str(path)!r} has several columns named {_names(twice)}; rename them")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    """Read the names by themselves: given as a header, pandas would rename those that occur twice."""
    sep = "\t" if path.suffix.lower() == ".tsv" else _separator(path)
    header = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(path, sep=sep, low_memory=False, index_col=False)
    names = header.iloc[0]
    frame.columns = pd.Index(
        [own if pd.isna(name) else str(name) for name, own in zip(names, frame.columns, strict=True)]
    )
    return frame


def _separator(path: Path) -> str:
    """A comma, or the semicolon of a spreadsheet in a language that writes 0,5."""
    with path.open(encoding="utf-8") as lines:
        first = lines.readline()
    return ";" if first.count(";") > first.count(",") else ","


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(f'{str(path)!r} needs pyarrow; install it with pip install "genlabel[parquet]"') from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error
    frame.columns = frame.columns.astype(str)
    return frame


def _read_labels(y: pd.Series[Any], path: Path) -> pd.Series[Any]:
    """Return labels as whole numbers or text; raise where they look like a quantity."""
    distinct, n = y.nunique(), len(y)
    fractions = types.is_float_dtype(y) and bool((y.astype(float) % 1 != 0).any())
    if distinct > (MANY if fractions else max(MANY, n // 2)):
        raise ValueError(
            f"target={y.name!r} of {str(path)!r} has {distinct} distinct values in {n} rows: it looks continuous, "
            "or like an identifier; name a column of classes"
        )
    if distinct < 2:
        raise ValueError(f"target={y.name!r} of {str(path)!r} has one class only; name a column with two or more")
    whole = types.is_numeric_dtype(y) and not types.is_bool_dtype(y) and not fractions
    return y.astype("int64") if whole else y.astype(str)


def _read_features(X: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    """Return the usable columns; add a note for those that are left out."""
    left_out = {
        "it has no values": [name for name in X.columns if X[name].isna().all()],
        "it numbers the rows": [name for name in X.columns if _is_index(X[name])],
        "dates and times are not used": [
            name for name in X.columns if X[name].notna().any() and _kind(X[name]) == "time"
        ],
    }
    for reason, names in left_out.items():
        notes += [f"left out column {name!r}: {reason}" for name in names]
    X = X.drop(columns=[name for names in left_out.values() for name in names])
    if not len(X.columns):
        raise ValueError(f"{str(path)!r} has no column of features; it needs at least one besides the target")
    return X.assign(**{name: _finite(X[name], notes) for name in X.columns if _kind(X[name]) == "numbers"})


def _finite(column: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Return the column with infinite values missing."""
    infinite = np.isinf(_floats(column).to_numpy())
    if not infinite.any():
        return column
    notes.append(f"infinite values of {column.name!r} that count as missing: {infinite.sum()}")
    return column.mask(infinite)


def _is_index(column: pd.Series[Any]) -> bool:
    """Is it the nameless row number that `DataFrame.to_csv` writes?"""
    nameless = str(column.name).startswith("Unnamed: ") and types.is_integer_dtype(column)
    return nameless and bool(column.is_unique)


def _kind(column: pd.Series[Any]) -> str:
    """Tell "numbers", "text" and "time" apart; text that reads 2024-05-31 throughout is a time."""
    kind = types.infer_dtype(column, skipna=True)
    if types.is_numeric_dtype(column) or kind in ("boolean", "decimal", "integer", "floating"):
        return "numbers"
    if kind.startswith(("date", "time", "period")):
        return "time"
    known = column.dropna().astype(str)
    dates = kind == "string" and len(known) > 0 and known.str.match(r"\d{4}-\d\d-\d\d").all()
    return "time" if dates else "text"


def _as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Numbers and booleans of every kind as floats, missing ones as NaN."""
    return X.apply(_floats)


def _floats(column: pd.Series[Any]) -> pd.Series[Any]:
    if types.is_object_dtype(column):
        column = column.map(float, na_action="ignore")
    return column.astype("Float64").astype("float64")


def _as_text(X: pd.DataFrame) -> pd.DataFrame:
    """Every value as text, a missing one as "(missing)"."""
    return X.astype(object).where(X.notna(), "(missing)").astype(str).astype(object)


def _names(names: Iterable[object], most: int = 30) -> str:
    shown = [repr(str(name)) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
