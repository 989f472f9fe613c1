"""The preparation of a table as plain values: medians and categories, from which it is fitted again.

Nothing of scikit-learn's inner state is kept, so that a model can be loaded with another version of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from genlabel.data.tables import table_pipeline

OTHER = "the ColumnTransformer is none of genlabel.data.table_pipeline; other preparations cannot be kept"


class PersistenceError(ValueError):
    """Something that a model is made of cannot be written without pickle."""


def plain_preparation(columns: ColumnTransformer) -> dict[str, Any]:
    """Return what a fitted preparation of `genlabel.data.table_pipeline` has learned, or raise.

    The names of all columns; the median of each of numbers; of each of text the values that have a column of their own,
    and the rare ones that share one.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
    >>> plain_preparation(table_pipeline(X, "passthrough")[:-1].fit(X)[0])
    {'names': ['size', 'colour'], 'numbers': {'size': 2.0}, 'text': {'colour': [['(missing)', 'blue', 'red'], []]}}
    """
    found = {"names": list(getattr(columns, "feature_names_in_", ())), "numbers": {}, "text": {}}
    if not found["names"]:
        raise PersistenceError("the columns of the table have no names; fit with X.columns = X.columns.astype(str)")
    for kind, part, names in columns.transformers_:
        if kind in ("numbers", "text") and isinstance(part, Pipeline) and len(names):
            read = _medians if kind == "numbers" else _values
            found[kind] = dict(zip(map(str, names), read(part.steps[-1][1]), strict=True))
    again = prepare_again(found)
    if repr(again.get_params(deep=False)) != repr(columns.get_params(deep=False)) or not _equal(again, columns):
        raise PersistenceError(OTHER)
    return found


def prepare_again(plain: Mapping[str, Any]) -> ColumnTransformer:
    """Return a preparation with what one has learned: it is fitted to a table that tells the same.

    A column of numbers has its median once; one of text its values twice, and the rare ones once.
    """
    texts = {name: [*common, *common, *rare] for name, (common, rare) in plain["text"].items()}
    n = max([1, *map(len, texts.values())])
    made: dict[str, Any] = {}
    for name in plain["names"]:
        if name in plain["numbers"]:
            made[name] = np.r_[float(plain["numbers"][name]), np.full(n - 1, np.nan)]
        elif name in texts:
            # Categories are text, whatever they look like.
            made[name] = pd.Categorical([*texts[name], *texts[name][:1] * (n - len(texts[name]))])
        else:
            made[name] = pd.Series(pd.Timestamp(0)).repeat(n).to_numpy()  # a date, which is left out
    frame = pd.DataFrame(made)
    fitted: ColumnTransformer = table_pipeline(frame, "passthrough")[:-1].fit(frame).steps[0][1]
    return fitted


def _medians(imputer: Any) -> list[float]:
    return [float(median) for median in getattr(imputer, "statistics_", ())]


def _values(encoder: Any) -> list[list[list[str]]]:
    """For each column, the values that stand alone and those that do not, in the encoder's order."""
    rare = getattr(encoder, "infrequent_categories_", [None] * len(getattr(encoder, "categories_", ())))
    pairs = zip(getattr(encoder, "categories_", ()), rare, strict=True)
    together = [(every.tolist(), [] if few is None else few.tolist()) for every, few in pairs]
    return [[[value for value in every if value not in set(few)], few] for every, few in together]


def _equal(one: ColumnTransformer, other: ColumnTransformer) -> bool:
    """Whether two preparations of the same steps have learned the same."""
    names = one.get_feature_names_out().tolist() == other.get_feature_names_out().tolist()
    return names and _learned(one) == _learned(other)


def _learned(columns: ColumnTransformer) -> list[Any]:
    parts = [part.steps[-1][1] for _, part, _ in columns.transformers_ if isinstance(part, Pipeline)]
    return [(_medians(part), _values(part)) for part in parts]
