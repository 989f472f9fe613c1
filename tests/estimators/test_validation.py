"""Tables as they come: missing values, text, categories; the same as with the pipeline that prepares them in front."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from genlabel import AdaMixupClassifier, GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.attacks import robust_accuracy
from genlabel.data.tables import table_pipeline
from genlabel.densities import DiscriminantDensity, ForestDensity, StackedDensity

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

SHORT: dict[str, Any] = {"training__epochs": 3, "search__cv": 3, "random_state": 0}
CLASSIFIERS = [
    GenLabelClassifier((8,), StackedDensity([DiscriminantDensity(), ForestDensity(3)])).set_params(
        training__learning_rate=0.1, **SHORT
    ),
    MixupClassifier((8,)).set_params(training__learning_rate=0.1, **SHORT),
    AdaMixupClassifier().set_params(training__learning_rate=0.1, **SHORT),
    GenerativeClassifier(),
]
every = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda classifier: type(classifier).__name__)


def frame(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Every kind of column, with gaps; the class hangs on a number and on a text."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": rng.normal(size=n),
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "kind": pd.Categorical(rng.choice(["u", "v"], n)),
            "flag": rng.random(n) < 0.5,
            "place": rng.choice([f"place {i}" for i in range(40)], n),
        }
    )
    y = pd.Series(np.where((X["size"] > 0) ^ (X["colour"] == "red"), "yes", "no"))
    for place, name in enumerate(["colour", "size", "count", "kind"]):
        X.loc[X.index[place::11], name] = None
    return X, y


def new_rows() -> pd.DataFrame:
    """Unseen values and gaps, in columns that had none as well."""
    X, _ = frame(30, seed=1)
    X["flag"] = X["flag"].astype(object)
    X.loc[3, ["flag", "place"]] = None
    X.loc[4, "colour"] = "violet"
    X["kind"] = X["kind"].astype(object)
    X.loc[5, "kind"] = "w"
    return X


@every
def test_a_frame_is_encoded_as_by_the_pipeline(classifier: Any) -> None:
    X, y = frame()
    own, piped = clone(classifier).fit(X, y), table_pipeline(X, clone(classifier)).fit(X, y)
    for rows in (X, new_rows()):
        np.testing.assert_allclose(own.predict_proba(rows), piped.predict_proba(rows))
        np.testing.assert_array_equal(own.predict(rows), piped.predict(rows))
        np.testing.assert_array_equal(own.encode(rows), piped[:-1].transform(rows))
    assert own.n_features_in_ == 6
    assert own.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(own)).predict_proba(X), own.predict_proba(X))


@every
def test_missing_values_of_an_array_are_medians(classifier: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 4)) + y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan
    filled = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), clone(classifier)).fit(X, y)
    for given in (X, pd.DataFrame(X, columns=list("abcd"))):
        with pytest.warns(UserWarning, match="'d' is left out" if given is not X else "3 is left out"):
            own = clone(classifier).fit(given, y)
        np.testing.assert_allclose(own.predict_proba(given), filled.predict_proba(X))
    whole = clone(classifier).fit(np.nan_to_num(X), y)
    medians = np.median(np.nan_to_num(X), axis=0)
    np.testing.assert_array_equal(whole.predict_proba(np.full((1, 4), np.nan)), whole.predict_proba(medians[None]))


@every
def test_rows_of_weight_zero_do_not_fit_the_encoder(classifier: Any) -> None:
    X, y = frame()
    more, other = frame(40, seed=2)
    more = more.assign(colour="violet", size=1e3)
    both, weight = pd.concat([X, more], ignore_index=True), np.repeat([1.0, 0.0], [120, 40])
    own = clone(classifier).fit(both, pd.concat([y, other], ignore_index=True), weight)
    np.testing.assert_array_equal(own.predict_proba(X), clone(classifier).fit(X, y).predict_proba(X))
    gaps, labels = X[["size"]].to_numpy(), y.to_numpy()
    weighted = clone(classifier).fit(np.r_[gaps, np.full((40, 1), 1e3)], np.r_[labels, other], weight)
    np.testing.assert_array_equal(weighted.predict_proba(gaps), clone(classifier).fit(gaps, labels).predict_proba(gaps))


@every
def test_a_frame_is_cross_validated_and_has_typicality(classifier: Any) -> None:
    X, y = frame()
    assert np.isfinite(cross_val_score(classifier, X, y, cv=3)).all()
    fitted = clone(classifier).fit(X, y)
    if not hasattr(fitted, "typicality_"):
        fitted.fit_typicality(X, y)
    wild = X[:5].assign(size=1e6)
    assert (fitted.typicality(wild) < 0.1).all()
    assert (fitted.typicality(X) > 0.05).mean() > 0.9
    assert (fitted.predict(new_rows(), return_typicality=True)[1] > 0).all()


def test_an_attack_changes_the_encoded_values_of_a_frame() -> None:
    X, y = frame()
    model = CLASSIFIERS[1]
    own, piped = clone(model).fit(X, y), table_pipeline(X, clone(model)).fit(X, y)
    direct, same = robust_accuracy(own, X, y, eps=0.3), robust_accuracy(piped, X, y, eps=0.3)
    assert direct == same
    assert direct.accuracy < direct.clean == pytest.approx(own.score(X, y))
    with pytest.raises(ValueError, match="space="):
        robust_accuracy(own, X, y, space="input")


OTHER_TABLES = {
    "an array": (lambda X: X.to_numpy(), "DataFrame"),
    "a column less": (lambda X: X.drop(columns="kind"), "missing"),
    "another order": (lambda X: X[X.columns[::-1]], "order"),
    "infinity": (lambda X: X.assign(size=np.inf), "infinity"),
    "text among numbers": (lambda X: X.assign(size="large"), "'large'"),
}


@pytest.mark.parametrize("case", OTHER_TABLES)
def test_rows_of_another_table_are_an_error(case: str) -> None:
    X, y = frame()
    change, match = OTHER_TABLES[case]
    model = GenerativeClassifier().fit(X, y)
    with pytest.raises(ValueError, match=match):
        model.predict(change(X))


@every
def test_an_unreadable_table_sets_no_attribute(classifier: Any) -> None:
    X, y = frame()
    fresh = clone(classifier)
    for bad, match in (
        (X.assign(size=np.inf), "infinity"),
        (pd.concat([X, X[["kind"]]], axis=1), "'kind'"),
        (pd.DataFrame({"day": pd.date_range("2020-01-01", periods=120)}), "'day'"),
    ):
        with pytest.raises(ValueError, match=match):
            fresh.fit(bad, y)
        assert not [name for name in vars(fresh) if name.endswith("_")]


NO_FEATURES = {
    "day": (pd.date_range("2020-01-01", periods=120), "dates"),
    "key": ([f"row {i}" for i in range(120)], "identifier"),
    "void": ([None] * 120, "no values"),
    "Unnamed: 0": (np.arange(120), "row number"),
}


@pytest.mark.parametrize("name", NO_FEATURES)
def test_a_column_that_is_no_feature_is_left_out_with_a_warning(name: str) -> None:
    X, y = frame()
    values, reason = NO_FEATURES[name]
    more = X.copy()
    more.insert(1, name, values)
    with pytest.warns(UserWarning, match=f"'{name}'.*{reason}"):
        model = GenerativeClassifier().fit(more, y)
    assert model.n_features_in_ == 7
    np.testing.assert_array_equal(model.predict_proba(more), GenerativeClassifier().fit(X, y).predict_proba(X))
    with pytest.raises(ValueError, match="'day': dates"):
        GenerativeClassifier().fit(pd.DataFrame({name: values, "day": NO_FEATURES["day"][0]}), y)


def test_a_fit_forgets_the_table_before() -> None:
    X, y = frame()
    numbers = X[["flag", "size"]].to_numpy(dtype=float)
    model = clone(CLASSIFIERS[1]).fit(X, y).fit(numbers, y)
    assert model.n_features_in_ == 2
    assert model.predict(numbers[:3].tolist()).shape == (3,)


def test_columns_named_by_numbers_are_not_positions() -> None:
    X, y = frame()
    numbered = X.rename(columns=dict(zip(X.columns, [7, 3, 0, 1, 12, 2], strict=True)))
    prepared = table_pipeline(numbered, "passthrough").fit_transform(numbered)
    np.testing.assert_array_equal(prepared, table_pipeline(X, "passthrough").fit_transform(X))
    fitted = GenerativeClassifier().fit(numbered, y)
    np.testing.assert_array_equal(fitted.predict_proba(numbered), GenerativeClassifier().fit(X, y).predict_proba(X))
