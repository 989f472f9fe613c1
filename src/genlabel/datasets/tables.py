"""Tables as data frames: from a CSV, TSV or Parquet file, from scikit-learn, or one of the synthetic sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn import datasets as embedded
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from genlabel.datasets.columns import MANY, as_numbers, as_text, kind_of, read_features, read_labels
from genlabel.datasets.files import read_frame
from genlabel.datasets.sources import EMBEDDED, find_source
from genlabel.datasets.synthetic import SYNTHETIC

__all__ = ["Table", "load_table", "table_pipeline"]


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
    name, column = find_source(source, target)
    if column is not None:
        return _from_file(Path(source), column)
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
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
    >>> table_pipeline(X, "passthrough").fit_transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """
    numbers = make_pipeline(
        FunctionTransformer(as_numbers, feature_names_out="one-to-one"),
        SimpleImputer(strategy="median", keep_empty_features=True),
    )
    text = make_pipeline(
        FunctionTransformer(as_text, feature_names_out="one-to-one"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MANY, sparse_output=False),
    )
    kinds = {name: kind_of(X[name]) for name in X.columns}
    named = all(isinstance(name, str) for name in X.columns)  # a number would be taken for a place
    parts = [
        (kind, part, [name if named else place for place, name in enumerate(X.columns) if kinds[name] == kind])
        for kind, part in (("numbers", numbers), ("text", text))
        if kind in kinds.values()
    ]
    return Pipeline([("columns", ColumnTransformer(parts)), ("estimator", estimator)])


def _from_embedded(name: str) -> Table:
    bunch = getattr(embedded, f"load_{name}")(as_frame=True)
    y = bunch.target if name == "digits" else bunch.target.map(dict(enumerate(bunch.target_names.tolist())))
    return Table(name, bunch.data, y)


def _from_synthetic(name: str, random_state: int) -> Table:
    X, y = SYNTHETIC[name](random_state=random_state)
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(X.shape[1])])
    return Table(name, frame, pd.Series(y, name="class"), [f"{name} was drawn with random_state={random_state}"])


def _from_file(path: Path, target: str) -> Table:
    frame = read_frame(path)
    notes: list[str] = []
    missing = frame[target].isna()
    if missing.any():
        frame = frame[~missing]
        notes.append(f"rows dropped because {target!r} is missing: {missing.sum()}")
    y = read_labels(frame[target], str(path))
    X = read_features(frame.drop(columns=target), str(path), notes)
    return Table(path.stem, X.reset_index(drop=True), y.reset_index(drop=True), notes)
