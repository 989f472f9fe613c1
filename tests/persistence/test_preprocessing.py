"""Preprocessing that is built from plain values makes the same numbers of every table."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from genlabel.data.tables import table_pipeline
from genlabel.persistence.objects import PersistenceError, build_preprocessing, preprocessing_state


def fitted(X: pd.DataFrame) -> ColumnTransformer:
    return table_pipeline(X, "passthrough")[:-1].fit(X).steps[0][1]


def again(columns: ColumnTransformer) -> ColumnTransformer:
    return build_preprocessing(json.loads(json.dumps(preprocessing_state(columns))))


NUMBERS = st.none() | st.floats(-1e300, 1e300) | st.integers(-5, 5)
TEXTS = st.none() | st.sampled_from(["a", "b", "2024-01-01", "1", "(missing)", "nan", ""]) | st.text(max_size=3)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS, TEXTS), min_size=1, max_size=30),
    st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS, TEXTS), min_size=1, max_size=5),
)
def test_any_table_is_prepared_the_same(rows: list[tuple[object, ...]], others: list[tuple[object, ...]]) -> None:
    names = ["n", "m", "t", "s"]
    X, new = pd.DataFrame(rows, columns=names, dtype=object), pd.DataFrame(others, columns=names, dtype=object)
    X[["n", "m"]], new[["n", "m"]] = X[["n", "m"]].astype(float), new[["n", "m"]].astype(float)
    original = fitted(X)
    restored = again(original)
    assert list(restored.get_feature_names_out()) == list(original.get_feature_names_out())
    for table in (X, new):
        np.testing.assert_array_equal(restored.transform(table), original.transform(table))


TABLES = {
    "many values": pd.DataFrame({"t": [f"v{n % 37}" for n in range(500)], "s": ["x", "y"] * 250}),
    "ties": pd.DataFrame({"t": [f"v{n}" for n in range(60)]}),
    "numbers alone": pd.DataFrame({"a": [1.5, np.nan, 3.0, 4.0], "b": [True, False, True, True]}),
    "nothing": pd.DataFrame({"a": [np.nan] * 3, "t": pd.Series([None] * 3, dtype=object)}),
    "categories": pd.DataFrame({"c": pd.Categorical([3, 1, 3]), "d": pd.Categorical(["u", None, "w"])}),
    "dates as categories": pd.DataFrame({"c": pd.Categorical(["2024-01-01", "2024-02-01", None])}),
    "dates between": pd.DataFrame({"a": [1, 2], "d": pd.date_range("2024-01-01", periods=2), "t": ["x", "y"]}),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_special_tables_are_prepared_the_same(name: str) -> None:
    X = TABLES[name]
    original = fitted(X)
    restored = again(original)
    assert list(restored.feature_names_in_) == list(X.columns)
    unseen = X.astype(object).where(X.notna() & (np.arange(len(X)) % 2 == 0)[:, None], None)
    unseen = unseen.astype({column: X[column].dtype for column in X if X[column].dtype.kind == "f"})
    for table in (X, unseen):
        np.testing.assert_array_equal(restored.transform(table), original.transform(table))


def test_other_preparations_are_refused() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "t": ["x", "y", "y"]})
    foreign = [
        ColumnTransformer([("numbers", StandardScaler(), ["a"])]),
        ColumnTransformer([("text", OneHotEncoder(drop="first"), ["t"])]),
        ColumnTransformer([("numbers", "passthrough", ["a"])], remainder="drop"),
        fitted(X).set_params(text__categoryencoder__min_frequency=2),
    ]
    for columns in foreign:
        with pytest.raises(PersistenceError, match="table_pipeline"):
            preprocessing_state(columns.fit(X))
    with pytest.raises(PersistenceError, match="names"):
        preprocessing_state(fitted(X.set_axis([0, 1], axis=1)))
