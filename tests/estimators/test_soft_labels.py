"""Any classifier on soft labels: scikit-learn's checks, the loss that it stands for, and pipelines."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from genlabel import GaussianDensity, GenLabelSampler, GenMix, SoftLabelClassifier

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

MODELS: list[Any] = [
    LogisticRegression(max_iter=2000),
    HistGradientBoostingClassifier(max_iter=30),
    RandomForestClassifier(20),
]
SAMPLERS: list[Any] = [GenMix(), GenLabelSampler(n_aug=0.5)]
CLASSIFIERS = [SoftLabelClassifier(model, sampler, random_state=0) for model in MODELS for sampler in SAMPLERS]
every = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
CHECKED = [
    SoftLabelClassifier(LogisticRegression(max_iter=2000), GenLabelSampler()),
    SoftLabelClassifier(LogisticRegression(max_iter=2000), GenLabelSampler("kernel", gamma=0.5, standardize=True)),
    SoftLabelClassifier(HistGradientBoostingClassifier(max_iter=5), GenLabelSampler(n_aug=0.3)),
    SoftLabelClassifier(LinearSVC()),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@every
def test_learns_wine_with_labels_of_any_kind(classifier: Any) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = make_pipeline(StandardScaler(), classifier)
    assert cross_val_score(model, X, y, cv=folds).mean() > 0.93
    names = np.array(["red", "rose", "white"])
    X = (X - X.mean()) / X.std()
    fitted = clone(classifier).fit(X, pd.Series(names[y]))
    assert fitted.classes_.tolist() == names.tolist()
    assert fitted.feature_names_in_.tolist() == X.columns.tolist()
    assert set(fitted.predict(X)) <= set(names)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1.0, atol=1e-9)


@every
def test_the_same_seed_gives_the_same_numbers_and_a_pickle_too(classifier: Any) -> None:
    X, y = load_iris(return_X_y=True)
    first, second = clone(classifier).fit(X, y), clone(classifier).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(X), first.predict_proba(X))
    other = clone(classifier).set_params(random_state=1).fit(X, y)
    assert (other.predict_proba(X) != first.predict_proba(X)).any()


def test_the_fit_minimizes_the_cross_entropy_of_the_soft_labels() -> None:
    """An oracle that knows of no weighted rows: the soft-target loss, minimised directly."""
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    sampler = GenLabelSampler(gamma=0.5, n_aug=1.0, random_state=3)
    model = SoftLabelClassifier(LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000), sampler).fit(X, y)
    points, labels = clone(sampler).set_params(output="soft").fit_resample(X, y)

    def loss(parameters: np.ndarray) -> float:
        matrix = parameters.reshape(3, 5)
        scores = points @ matrix[:, :4].T + matrix[:, 4]
        return float(-(labels * log_softmax(scores, 1)).sum() + 0.5 * (matrix[:, :4] ** 2).sum())

    best = minimize(loss, np.zeros(15), method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9})
    weights = best.x.reshape(3, 5)
    expected = np.exp(log_softmax(X @ weights[:, :4].T + weights[:, 4], 1))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=2e-3)


def test_a_small_synthetic_weight_leaves_the_given_rows() -> None:
    X, y = make_moons(100, noise=0.2, random_state=0)
    alone = LogisticRegression().fit(X, y).predict_proba(X)

    def apart(weight: float) -> float:
        mixup = GenLabelSampler(gamma=0.0)
        model = SoftLabelClassifier(LogisticRegression(), mixup, synthetic_weight=weight, random_state=0).fit(X, y)
        return float(np.abs(model.predict_proba(X) - alone).max())

    assert apart(1e-6) < 1e-4 < 0.01 < apart(1.0)


def test_missing_methods_of_the_estimator_are_missing() -> None:
    assert not hasattr(SoftLabelClassifier(LinearSVC()), "predict_proba")
    assert hasattr(SoftLabelClassifier(LinearSVC()), "decision_function")
    assert not hasattr(SoftLabelClassifier(RandomForestClassifier()), "decision_function")


def test_grid_search_goes_through_estimator_and_sampler() -> None:
    X, y = load_iris(return_X_y=True)
    grid = {"estimator__C": [0.1, 10.0], "sampler__lam": [0.5, "uniform"], "synthetic_weight": [0.2]}
    model = SoftLabelClassifier(LogisticRegression(max_iter=2000), GenMix(GaussianDensity()), random_state=0)
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert len(search.cv_results_["params"]) == 4


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"estimator": KNeighborsClassifier()}, "sample_weight"),
        ({"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, "pipeline"),
        ({"sampler": "smote"}, "smote"),
        ({"synthetic_weight": 0.0}, "synthetic_weight"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], match: str) -> None:
    X, y = load_iris(return_X_y=True)
    model = SoftLabelClassifier(LogisticRegression()).set_params(**params)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_weighted_rows_pass_a_pipeline_of_imbalanced_learn(sampler: Any, model: Any) -> None:
    pipeline = pytest.importorskip("imblearn.pipeline", reason="needs imbalanced-learn")
    X, y = load_wine(return_X_y=True)
    steps = pipeline.make_pipeline(StandardScaler(), clone(sampler).set_params(random_state=0), clone(model))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    assert cross_val_score(steps, X, y, cv=folds).mean() > 0.93
    fitted = steps.fit(X, y)
    more = round(len(X) * (1.0 + sampler.n_aug))
    assert len(fitted[1].is_synthetic_) == more
    assert fitted.predict(X).shape == y.shape
