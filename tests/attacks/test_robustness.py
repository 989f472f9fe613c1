"""Test robust_accuracy of every kind of classifier; linear models have a closed form."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from genlabel import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.attacks import FGSM, PGD, Boundary, margins, robust_accuracy

QUICK: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-4,
    "training__epochs": 30,
    "random_state": 0,
}
LINEAR = MixupClassifier.from_paper(mixer=None, **QUICK)
MODELS: list[Any] = [
    LINEAR,
    MixupClassifier((16,)).set_params(**QUICK),
    GenLabelClassifier(density="gaussian", pool_with_density=(0.5, 0.5), clean_fraction=0.5).set_params(**QUICK),
    GenerativeClassifier("kernel"),
    GenerativeClassifier(standardize=False),
    make_pipeline(StandardScaler(), MixupClassifier().set_params(**QUICK)),
    GridSearchCV(GenerativeClassifier(), {"standardize": [True]}, cv=2),
    LogisticRegression(max_iter=1000),
    make_pipeline(StandardScaler(), "passthrough", GaussianNB()),
    RandomForestClassifier(5, random_state=0),
]
every = pytest.mark.parametrize("model", MODELS, ids=[f"{i}-{type(m).__name__}" for i, m in enumerate(MODELS)])


def iris(binary: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["constant"] = 1.0
    rows = y > 0 if binary else y >= 0
    return X[rows], y[rows].map({0: "setosa", 1: "versicolor", 2: "virginica"})


@every
@pytest.mark.parametrize("binary", [False, True], ids=["3 classes", "2 classes"])
@pytest.mark.long
def test_reports_are_consistent_in_both_spaces(model: Any, binary: bool) -> None:
    X, y = iris(binary)
    model.fit(X, y)
    for space in ("standardized", "input"):
        report = robust_accuracy(model, X, y, ["fgsm", FGSM(targeted=True)], space=space)
        assert report.clean == pytest.approx(model.score(X, y))
        assert 0 < report.accuracy == min(report.by_attack.values()) < report.clean
        assert report.accuracy == pytest.approx(report.is_robust.mean())
        assert list(report.by_attack) == ["fgsm", "FGSM(targeted=True)"]
        assert report.skipped == {}
        assert report == robust_accuracy(model, X, y, ["fgsm", FGSM(targeted=True)], space=space)
        assert robust_accuracy(model, X, y, eps=1e-9, space=space).accuracy == report.clean
        arrays = (
            robust_accuracy(model, X.to_numpy(), y.tolist(), space=space)
            if not hasattr(model, "feature_names_in_")
            else None
        )
        assert arrays is None or arrays.accuracy == report.by_attack["fgsm"]


@pytest.mark.parametrize("space", ["standardized", "input"])
@pytest.mark.parametrize("binary", [False, True])
def test_the_closed_form_of_softmax_regression(space: str, binary: bool) -> None:
    """Robust iff (w_y - w_c) x + b_y - b_c > radius |w_y - w_c|_1 for all c, w in the coordinates of the attack."""
    X, y = iris(binary)
    model = LINEAR.fit(X, y)
    layer = model.network_.layers[0]
    W, b = (weights.detach().numpy() for weights in (layer.weight, layer.bias))
    scores = model.scaler_(X.to_numpy()) @ W.T + b
    unit = 1.0 if space == "standardized" else model.scaler_.scale[model.scaler_.mask]
    index = np.searchsorted(model.classes_, y)
    gap = np.stack([
        np.where(index == c, np.inf, scores[np.arange(len(X)), index] - scores[:, c]
                 - 0.2 * np.abs((W[index] - W[c]) / unit).sum(1))
        for c in range(len(b))
    ])  # fmt: skip
    expected = (gap > 0).all(0)
    for attack in (FGSM(targeted=True), PGD(steps=2)) + ((FGSM(),) if binary else ()):
        np.testing.assert_array_equal(robust_accuracy(model, X, y, attack, space=space).is_robust, expected)


def test_finite_differences_and_autograd_agree() -> None:
    """One softmax regression as our network and as scikit-learn's, whose gradients are finite differences."""
    X, y = iris()
    Z = pd.DataFrame(StandardScaler().fit_transform(X), columns=X.columns)
    model = MixupClassifier.from_paper(mixer=None, **QUICK).fit(X, y)
    logistic = LogisticRegression(max_iter=1000).fit(Z.drop(columns="constant"), y)
    layer = model.network_.layers[0]
    logistic.coef_, logistic.intercept_ = (weights.detach().numpy() for weights in (layer.weight, layer.bias))
    ours = robust_accuracy(model, X, y, ["fgsm", "pgd"], eps=0.3)
    theirs = robust_accuracy(logistic, Z.drop(columns="constant"), y, ["fgsm", "pgd"], eps=0.3, space="input")
    assert ours == theirs
    np.testing.assert_array_equal(ours.is_robust, theirs.is_robust)
    standardized = robust_accuracy(logistic, Z.drop(columns="constant"), y, ["fgsm", "pgd"], eps=0.3)
    assert standardized == ours


def test_a_pooled_classifier_is_attacked_with_its_density() -> None:
    X, y = iris()
    pool = (
        GenLabelClassifier(density="gaussian", pool_with_density=(0.3, 1.0), clean_fraction=0.5)
        .set_params(**QUICK)
        .fit(X, y)
    )
    np.testing.assert_array_equal(pool.predict_log_proba_scaled(pool.scaler_(X.to_numpy())), pool.predict_log_proba(X))
    report = robust_accuracy(pool, X, y, eps=0.3)
    alone = MixupClassifier().set_params(**QUICK).fit(X, y)
    alone.network_, alone.scaler_ = pool.network_, pool.scaler_
    assert (report.is_robust != robust_accuracy(alone, X, y, eps=0.3).is_robust).any()


@pytest.mark.parametrize(
    "sparse, last", [(0.0, MixupClassifier().set_params(**QUICK)), (1.0, LogisticRegression(max_iter=1000))]
)
def test_a_pipeline_with_categories_is_attacked_after_its_encoder(sparse: float, last: Any) -> None:
    X, y = iris()
    X = X.assign(colour=np.where(X.iloc[:, 0] > 5.5, "red", "blue")).drop(columns="constant")
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough", sparse_threshold=sparse)
    model = make_pipeline(encode, last).fit(X, y)
    report = robust_accuracy(model, X, y)
    assert report.accuracy < report.clean == pytest.approx(model.score(X, y))
    with pytest.raises(ValueError, match="text"):
        robust_accuracy(model, X, y, space="input")


def test_a_model_without_probabilities_needs_a_decision_attack() -> None:
    pytest.importorskip("foolbox", reason="needs foolbox", exc_type=ImportError)
    X, y = iris(binary=True)
    model = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    report = robust_accuracy(model, X, y, ["fgsm", Boundary(0.3, steps=100)])
    assert list(report.skipped) == ["fgsm"]
    assert report.accuracy < report.clean
    with pytest.raises(ValueError, match="gradients"):
        robust_accuracy(model, X, y, "pgd")


def test_robustness_refers_to_true_labels() -> None:
    X, y = iris()
    model = LINEAR.fit(X, y)
    shifted = y.map({"setosa": "virginica", "versicolor": "setosa", "virginica": "versicolor"})
    report = robust_accuracy(model, X, shifted, ["fgsm", "pgd"])
    assert report.clean < 0.2
    assert report.accuracy <= report.clean
    all_wrong = robust_accuracy(model, X[model.predict(X) != shifted], shifted[model.predict(X) != shifted], "pgd")
    assert (all_wrong.clean, all_wrong.accuracy) == (0, 0)


class NonePredictor(ClassifierMixin, BaseEstimator):
    """Predicts "a" where x_0 <= 0 and None elsewhere."""

    def fit(self, X: np.ndarray, y: Any) -> "NonePredictor":
        self.classes_ = np.array(["a", "b"])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0, None, "a")


class NaNPredictor(NonePredictor):
    """The same with probabilities, one of which is NaN where x_0 > 0."""

    def __init__(self, column: int) -> None:
        self.column = column

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        first = 0.75 - np.arctan(X[:, 0]) / 10
        proba = np.stack([first, 1 - first], 1)
        proba[X[:, 0] > 0, self.column] = np.nan
        return proba


@pytest.mark.parametrize(
    "model",
    [NaNPredictor(0), *(pytest.param(slow, marks=pytest.mark.long) for slow in (NaNPredictor(1), NonePredictor()))],
    ids=repr,
)
def test_points_with_nan_predictions_are_wrong(model: Any) -> None:
    pytest.importorskip("foolbox", reason="needs foolbox", exc_type=ImportError)
    X, y = np.random.default_rng(0).uniform(-1, 0.5, size=(30, 2)), ["a"] * 30
    for name in ("fgsm", "pgd", "boundary") if hasattr(model, "predict_proba") else ["boundary"]:
        report = robust_accuracy(model.fit(X, y), X, y, name, space="input")
        assert report.clean == pytest.approx((X[:, 0] <= 0).mean())
        assert not report.is_robust[X[:, 0] > -0.19].any()
        assert report.is_robust[X[:, 0] < -0.2].all()
    result = margins(model, X, y)
    np.testing.assert_array_equal(result.correct, X[:, 0] <= 0)
    np.testing.assert_allclose(result.distances, np.maximum(-X[:, 0], 0), rtol=0.03)


@pytest.mark.parametrize("change, match", [
    ({"y": ["daisy"] * 150}, "daisy"),
    ({"y": [0] * 150}, "labels"),
    ({"y": ["setosa"] * 3}, "y"),
    ({"X": np.ones((150, 2))}, "features"),
    ({"X": np.full((150, 5), np.nan)}, "NaN"),
    ({"eps": 0}, "eps="),
    ({"space": "latent"}, "space="),
    ({"attack": "fgms"}, "fgms"),
    ({"attack": 3}, "attack=3"),
    ({"attack": []}, "empty"),
    ({"model": LinearRegression().fit(np.eye(3), np.ones(3)), "X": np.eye(3)}, "classes_"),
    ({"model": GenerativeClassifier()}, "not fitted"),
])  # fmt: skip
def test_bad_input_raises(change: dict[str, Any], match: str) -> None:
    X, y = iris()
    arguments = {"model": LINEAR.fit(X.to_numpy(), y), "X": X.to_numpy(), "y": y, "attack": "fgsm"} | change
    with pytest.raises(Exception, match=match) as raised:
        robust_accuracy(**arguments)
    assert isinstance(raised.value, ValueError)


def test_a_function_raises() -> None:
    with pytest.raises(TypeError, match="function"):
        robust_accuracy(lambda x: x, np.zeros((2, 2)), np.array([0, 1]), "pgd")


def test_an_attack_is_independent_of_the_other_attacks() -> None:
    X, y = iris()
    model = MixupClassifier((16,)).set_params(**QUICK).fit(X, y)
    state = torch.random.get_rng_state()
    both = robust_accuracy(model, X, y, [PGD(0.3, steps=3), "fgsm"], eps=0.5, seed=3)
    alone = robust_accuracy(model, X, y, PGD(0.3, steps=3), eps=0.5, seed=3)
    assert both.by_attack["PGD(eps=0.5, steps=3)"] == alone.accuracy
    assert torch.equal(torch.random.get_rng_state(), state)
    assert str(alone).splitlines()[0].startswith("clean")


def test_attack_names_have_the_final_eps() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenerativeClassifier("gaussian").fit(X, y)
    report = robust_accuracy(model, X[::10], y[::10], [FGSM(0.1), "fgsm"], eps=0.5)
    assert list(report.by_attack) == ["FGSM(eps=0.5)", "fgsm"]
    assert report.by_attack["FGSM(eps=0.5)"] == report.by_attack["fgsm"]
