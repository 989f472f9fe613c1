"""The support of rows, as the classifiers tell it."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import AdaMixupClassifier, GaussianDensity, GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.data.datasets.synthetic import make_moon
from genlabel.densities import DiscriminantDensity, KernelDensity, StackedDensity

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

QUICK: dict[str, Any] = {
    "training__epochs": 3,
    "search__cv": 2,
    "training__learning_rate": 0.1,
    "training__weight_decay": 1e-3,
    "random_state": 0,
}
FEW = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
MODELS = [
    GenLabelClassifier(density=FEW).set_params(**QUICK),
    GenLabelClassifier((8,), "gaussian", space="latent", clean_fraction=0.5).set_params(**QUICK),
    GenerativeClassifier(),
    GenerativeClassifier("kernel", standardize=False),
    MixupClassifier().set_params(**QUICK),
]
SETS = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "cancer": load_breast_cancer(return_X_y=True),
    "moon": make_moon(random_state=0),
}
models = pytest.mark.parametrize("model", MODELS, ids=repr)
on_sets = pytest.mark.parametrize("name", list(SETS))


def cut(name: str) -> tuple[Any, Any, Any]:
    X, y = SETS[name]
    rows = np.random.default_rng(0).permutation(len(X))
    train, test = rows[: 2 * len(X) // 3], rows[2 * len(X) // 3 :]
    return X[train], y[train], X[test]


def most_flagged(rate: float, n: int, m: int) -> int:
    """So many of `m` rows have a rank of at most `rate` among `n` others of their kind, but for one time in 1,000."""
    rank = int(rate * (n + 1))
    return int(betabinom(m, rank, n + 1 - rank).ppf(0.999)) if rank else 0


def fit(model: Any, X: Any, y: Any) -> Any:
    fitted = clone(model).fit(X, y)
    return fitted if hasattr(fitted, "typicality_") else fitted.fit_typicality(X, y)


@models
@on_sets
def test_held_out_rows_are_not_flagged_and_wild_values_are(model: Any, name: str) -> None:
    X, y, test = cut(name)
    fitted = fit(model, X, y)
    values = fitted.typicality(test)
    assert values.shape == (len(test),)
    for rate in (0.01, 0.05, 0.1, 0.2):
        assert (values <= rate).sum() <= most_flagged(rate, len(X), len(test)), rate
    wild = test[: len(test) // 2].copy()
    column = np.random.default_rng(1).integers(0, X.shape[1], len(wild))
    wild[np.arange(len(wild)), column] = (2 * X.max(0) - X.min(0))[column]
    assert (fitted.typicality(wild) <= 0.05).mean() >= 0.95


@models
def test_predict_returns_typicality_on_request(model: Any) -> None:
    X, y, test = cut("iris")
    fitted = fit(model, X, y)
    classes, support = fitted.predict(test, return_typicality=True)
    np.testing.assert_array_equal(classes, fitted.predict(test))
    np.testing.assert_array_equal(support, fitted.typicality(test))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.typicality(test), support)
    filled = np.where(test > 6, np.median(X, axis=0), test)  # a gap counts as the median
    np.testing.assert_array_equal(fitted.typicality(np.where(test > 6, np.nan, test)), fitted.typicality(filled))
    with pytest.raises(ValueError, match="infinity"):
        fitted.typicality(np.where(test > 6, np.inf, test))
    with pytest.raises(ValueError, match="4 features"):
        fitted.typicality(test[:, :3])


def test_a_pipeline_passes_typicality_on() -> None:
    X, y, test = cut("wine")
    pipeline = make_pipeline(StandardScaler(), GenerativeClassifier()).fit(X, y)
    _, support = pipeline.predict(test, return_typicality=True)
    np.testing.assert_array_equal(support, pipeline[-1].typicality(pipeline[0].transform(test)))


def test_another_value_of_a_constant_column_is_atypical() -> None:
    X, y, test = cut("iris")
    fitted = GenerativeClassifier().fit(np.column_stack([X, np.ones(len(X))]), y)
    same, other = (np.column_stack([test, np.full(len(test), value)]) for value in (1.0, 2.0))
    np.testing.assert_array_equal(fitted.predict_proba(same), fitted.predict_proba(other))
    assert (fitted.typicality(same) <= 0.05).mean() < 0.2
    assert (fitted.typicality(other) <= 0.05).all()


@pytest.mark.parametrize(
    "model", [MixupClassifier().set_params(**QUICK), AdaMixupClassifier().set_params(**QUICK)], ids=repr
)
def test_fit_typicality_lasts_until_the_next_fit(model: Any) -> None:
    X, y, test = cut("iris")
    fitted = clone(model)
    with pytest.raises(NotFittedError):
        fitted.fit_typicality(X, y)
    fitted.fit(X, y)
    with pytest.raises(NotFittedError, match="fit_typicality"):
        fitted.typicality(test)
    before = fitted.predict_proba(test)
    assert fitted.fit_typicality(X, y, density=GaussianDensity()) is fitted
    assert fitted.typicality_.report_["weights"] == {"GaussianDensity": 1.0}
    np.testing.assert_array_equal(fitted.predict_proba(test), before)
    assert not hasattr(fitted.fit(X, y), "typicality_")


def test_typicality_has_the_sample_weights_and_subsets_share_it() -> None:
    X, y, _ = cut("iris")
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    fitted = GenerativeClassifier().fit(X, y, weight)
    assert fitted.typicality_.report_["rows"] == (weight > 0).sum()
    assert fitted.typicality([[99.0] * 4])[0] == pytest.approx(1 / (1 + weight.sum() ** 2 / (weight**2).sum()))
    variants = (
        GenLabelClassifier(density=FEW)
        .set_params(**QUICK)
        .fit_subsets(X, y, {"a": lambda params: True, "b": lambda params: True})
    )
    assert variants["a"].typicality_ is variants["b"].typicality_
