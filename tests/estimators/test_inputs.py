"""Inputs of other packages, and input that is refused: the error names the column or the row."""

import builtins
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from genlabel import (
    GaussianDensity,
    GenerativeClassifier,
    GenLabelSampler,
    GenMix,
    MixupClassifier,
    SoftLabelClassifier,
    TrainingOptions,
    Typicality,
    load_model,
    save_model,
)

CLASSIFIERS: dict[str, Any] = {
    "network": MixupClassifier("logistic", training=TrainingOptions(epochs=2), random_state=0),
    "densities": GenerativeClassifier(),
}
SAMPLERS: dict[str, Any] = {
    "GenMix": GenMix(n_aug=4, random_state=0).fit_resample,
    "GenLabelSampler": GenLabelSampler(n_aug=4, random_state=0).fit_resample,
    "SoftLabelClassifier": SoftLabelClassifier(LogisticRegression(), GenMix(n_aug=4), random_state=0).fit,
}
TAKES_X_AND_Y = {**{name: model.fit for name, model in CLASSIFIERS.items()}, **SAMPLERS}
X, Y = np.random.default_rng(0).normal(size=(60, 3)), np.array(["u", "v"] * 30)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"size": rng.normal(size=60), "floor": rng.integers(0, 9, 60)})
    table["view"], table["lift"] = rng.choice(["sea", "yard"], 60), rng.random(60) < 0.5
    table.loc[[3, 4], ["size", "view"]] = None
    return table


def polars_frame(table: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars", reason="needs polars")
    return polars.DataFrame(
        {name: table[name].astype(object).where(table[name].notna(), None).tolist() for name in table}
    )


def arrow_table(table: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(table)


@pytest.mark.parametrize("convert", [polars_frame, arrow_table])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_frames_of_other_packages_are_taken_as_those_of_pandas(name: str, convert: Any, tmp_path: Any) -> None:
    table, model = frame(), CLASSIFIERS[name]
    expected = model.fit(table, Y).predict_proba(table)
    other = convert(table)
    np.testing.assert_array_equal(model.fit(other, Y).predict_proba(other), expected)
    np.testing.assert_array_equal(model.predict_proba(table), expected)
    assert model.feature_names_in_.tolist() == list(table)
    loaded = load_model(save_model(model, tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict_proba(other), expected)
    numbers = table[["size", "floor"]].dropna()
    X_all, _ = GenMix(n_aug=4, random_state=0).fit_resample(convert(numbers), Y[numbers.index])
    assert len(X_all) == len(numbers) + 4


def test_polars_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    table, importer = frame(), builtins.__import__
    other = polars_frame(table)

    def without_pyarrow(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ImportError("no pyarrow")
        return importer(name, *args, **kwargs)

    expected = GenerativeClassifier().fit(table, Y).predict_proba(table)
    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    monkeypatch.setattr(type(other), "to_pandas", lambda self: __import__("pyarrow"))
    np.testing.assert_array_equal(GenerativeClassifier().fit(other, Y).predict_proba(other), expected)


def test_a_lazy_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="collect"):
        GenerativeClassifier().fit(polars_frame(frame()).lazy(), Y)


@pytest.mark.parametrize("name", TAKES_X_AND_Y)
def test_a_sparse_matrix_is_refused(name: str) -> None:
    for matrix in (sparse.csr_matrix(X), sparse.coo_array(X)):
        with pytest.raises(TypeError, match="toarray"):
            TAKES_X_AND_Y[name](matrix, Y)


def test_a_sparse_query_is_refused() -> None:
    for call in (GenerativeClassifier().fit(X, Y).predict, SoftLabelClassifier(LogisticRegression()).fit(X, Y).predict):
        with pytest.raises(TypeError, match="toarray"):
            call(sparse.csr_matrix(X))
    for fit in (GaussianDensity().fit, Typicality().fit):
        with pytest.raises(TypeError, match="toarray"):
            fit(sparse.csr_matrix(X), Y)


MISSING: dict[str, Any] = {
    "NaN": np.where(np.arange(60) % 10 == 3, np.nan, np.arange(60) % 2),
    "None": np.where(np.arange(60) % 10 == 3, None, Y.astype(object)),
    "NA": pd.Series(np.arange(60) % 2, dtype="Int64").mask(np.arange(60) % 10 == 3),
    "NaN among strings": pd.Series(Y).mask(np.arange(60) % 10 == 3),
}


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.parametrize("name", TAKES_X_AND_Y)
def test_missing_labels_are_counted_and_the_first_is_named(name: str, case: str) -> None:
    for features in (X, pd.DataFrame(X, columns=list("abc"))):
        with pytest.raises(ValueError, match=r"6 missing labels .*row 3;"):
            TAKES_X_AND_Y[name](features, MISSING[case])


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("value", ["red", None, np.nan])
def test_samplers_name_the_column_that_is_no_number(name: str, value: Any) -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"]).astype({"b": object})
    table.loc[5, "b"] = value
    with pytest.raises(ValueError, match="'b'"):
        SAMPLERS[name](table, Y)
    with pytest.raises(ValueError, match="column 1"):
        SAMPLERS[name](table.to_numpy(), Y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_an_empty_column_of_numbers_is_left_out_with_a_warning(name: str) -> None:
    table = pd.DataFrame(X, columns=list("abc"))
    with pytest.warns(UserWarning, match="'empty'"):
        model = CLASSIFIERS[name].fit(table.assign(empty=np.nan), Y)
    expected = model.predict_proba(table.assign(empty=7.0))
    np.testing.assert_allclose(expected, CLASSIFIERS[name].fit(table, Y).predict_proba(table))
