"""scikit-learn's own checks, and what every classifier of ours must show beyond them."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from genlabel import (
    AdaMixupClassifier,
    GaussianDensity,
    GenerativeClassifier,
    GenLabel,
    GenLabelClassifier,
    KernelDensity,
    MixupClassifier,
)
from genlabel.densities import DiscriminantDensity, StackedDensity

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")  # small folds, dead ReLU units

CLASSIFIERS = [
    GenLabelClassifier(random_state=0),
    GenLabelClassifier.from_paper(random_state=0),
    GenLabelClassifier((8,), density="kernel", gamma=0.6, space="latent", random_state=0).set_params(
        training__learning_rate=0.02
    ),
    MixupClassifier(random_state=0),
    MixupClassifier(mixer=None, random_state=0),
    MixupClassifier.from_paper(mixer=None, search__scoring="log-loss", random_state=0),
    MixupClassifier((8,), mixer="manifold", labeler="logistic", random_state=0).set_params(
        training__learning_rate=0.02
    ),
    MixupClassifier(exclude_intrusion=True, labeler=GenLabel(GaussianDensity()), random_state=0).set_params(
        training__learning_rate=0.1
    ),
    AdaMixupClassifier(random_state=0),
    AdaMixupClassifier((8,), intrusion_weight=3.0, random_state=0).set_params(training__learning_rate=0.02),
    GenerativeClassifier(),
    GenerativeClassifier("kernel", priors="uniform"),
]


def is_plain(classifier: Any) -> bool:
    """Whether it is one network of all rows, and no point is mixed."""
    return (
        isinstance(classifier, MixupClassifier)
        and classifier.mixer is None
        and classifier.get_params()["search__ensemble"] == 1
    )


OTHERS = (1, 2, 4, 5, 6, 7, 9, 11)
"""Further settings of a class whose others are checked: for the long profile."""


def of_each_class(classifiers: list[Any], others: tuple[int, ...]) -> Any:
    """Further settings of a class are for the long profile."""
    kinds = [(one, [pytest.mark.long] if place in others else []) for place, one in enumerate(classifiers)]
    return pytest.mark.parametrize("classifier", [pytest.param(one, marks=marks) for one, marks in kinds], ids=repr)


every = of_each_class(CLASSIFIERS, OTHERS)
FEW = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
QUICK = [
    c.set_params(training__epochs=12, search__cv=2) if hasattr(c, "training") else c for c in map(clone, CLASSIFIERS)
]
QUICK[0].set_params(density=FEW, training__weight_decay=1e-3)  # all densities show no more of the rules
for given in (QUICK[0], *QUICK[2:5], *QUICK[6:8], QUICK[9]):  # the others show the rules where something is searched
    given.set_params(training__learning_rate=0.1, training__weight_decay=1e-3)
quick = of_each_class(QUICK, (2, 5, 7, 9, 11))
CHECKED = [whole if is_plain(whole) else few for whole, few in zip(CLASSIFIERS, QUICK, strict=True)]
"""Few epochs and folds show the rules as well; without mixing, weights agree with repeated rows once converged."""


def expected_failures(estimator: Any) -> dict[str, str]:
    """Each with its reason."""
    check = "check_sample_weight_equivalence_on_dense_data"
    if isinstance(estimator, GenerativeClassifier):
        if estimator.density == "kernel":
            return {check: "scipy's definition: the bandwidth follows the effective size (sum w)^2 / sum w^2"}
        return {}
    if is_plain(estimator):
        return {check: "the folds of a row of weight 2 and of two equal rows differ; given folds are tested below"}
    if isinstance(estimator, MixupClassifier) and estimator.mixer is None:
        return {check: "the networks of the folds predict: a row of weight 2 is in one fold, two equal rows in two"}
    return {check: "mixing draws pairs of rows: a row of weight 2 meets other partners than two equal rows do"}


@parametrize_with_checks(
    [one for place, one in enumerate(CHECKED) if place not in OTHERS], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_weights_agree_with_repeated_rows_where_nothing_is_mixed() -> None:
    (plain,) = filter(is_plain, CHECKED)
    X, y = make_blobs(60, centers=3, cluster_std=3.0, random_state=0)
    weight, fold = np.random.default_rng(0).integers(0, 4, 60), np.arange(60) % 3
    rows = np.repeat(np.arange(60), weight)

    def pairs(number: Any) -> list[Any]:
        return [(np.flatnonzero(number != f), np.flatnonzero(number == f)) for f in range(3)]

    weighted = clone(plain).set_params(search__cv=pairs(fold)).fit(X, y, weight)
    repeated = clone(plain).set_params(search__cv=pairs(fold[rows])).fit(X[rows], y[rows])
    assert weighted.best_params_ == repeated.best_params_
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-4)


@pytest.mark.parametrize(
    "classifier",
    [
        MixupClassifier(mixer=None, random_state=0),
        MixupClassifier((8,), mixer=None, search="grid", random_state=0),
        GenerativeClassifier("kernel", priors="empirical", standardize=True),
    ],
    ids=repr,
)
def test_class_weights_agree_with_equal_sample_weights_where_nothing_is_mixed(classifier: Any) -> None:
    """Batches have different shares of the rare class: weights that sum to 1 in each of them would be biased."""
    X, y = make_blobs([140, 40, 20], centers=None, n_features=4, cluster_std=5.0, random_state=0)
    class_weight = {0: 1.0, 1: 3.0, 2: 7.0}
    if hasattr(classifier, "training"):
        classifier.set_params(training__epochs=12, training__batch_size=32)
    by_class = clone(classifier).set_params(class_weight=class_weight).fit(X, y)
    by_row = clone(classifier).fit(X, y, sample_weight=np.array([class_weight[c] for c in y]))
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), rtol=1e-4, atol=1e-7)
    assert not np.allclose(by_row.predict_proba(X), clone(classifier).fit(X, y).predict_proba(X), atol=0.05)


@pytest.mark.long
@parametrize_with_checks([CHECKED[place] for place in OTHERS], expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_other_settings(estimator: Any, check: Any) -> None:
    test_scikit_learn_checks(estimator, check)


@quick
def test_labels_of_any_kind_and_frames_with_names(classifier: Any) -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    by_number = clone(classifier).fit(X.to_numpy(), y)
    by_name = clone(classifier).fit(X, names[y])
    apart = clone(classifier).fit(X, np.array([-7, 3, 1000])[y])
    assert by_name.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_allclose(by_name.predict_proba(X), by_number.predict_proba(X.to_numpy()), rtol=1e-12)
    assert (by_name.predict(X) == names[by_number.predict(X.to_numpy())]).all()
    assert set(apart.predict(X)) == {-7, 3, 1000}
    categorical = clone(classifier).fit(X, pd.Series(names[y], dtype="category"))
    assert (categorical.predict(X) == by_name.predict(X)).all()


@quick
def test_probabilities_do_not_depend_on_the_batch(classifier: Any) -> None:
    X, y = load_wine(return_X_y=True)
    fitted = clone(classifier).fit(X, y)
    whole = fitted.predict_proba(X)
    pieces = np.vstack([fitted.predict_proba(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(pieces, whole, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(whole.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), whole, atol=1e-14)


@quick
def test_the_same_seed_gives_the_same_numbers(classifier: Any) -> None:
    X, y = load_iris(return_X_y=True)
    first, second = clone(classifier).fit(X, y), clone(classifier).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(X), first.predict_proba(X))
    if hasattr(classifier, "random_state"):
        other = clone(classifier).set_params(random_state=1).fit(X, y)
        assert (other.predict_proba(X) != first.predict_proba(X)).any()


@every
def test_learns_wine(classifier: Any) -> None:
    X, y = load_wine(return_X_y=True)
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    assert cross_val_score(classifier, X, y, cv=folds).mean() > 0.94


@quick
def test_pipeline_and_grid_search(classifier: Any) -> None:
    X, y = load_iris(return_X_y=True)
    name = "training__standardize" if hasattr(classifier, "training") else "standardize"
    search = GridSearchCV(classifier, {name: [True, False]}, cv=2).fit(X, y)
    assert search.best_params_[name] in (True, False)
    assert len(search.cv_results_["params"]) == 2
    assert (search.cv_results_["mean_test_score"] > 0.6).all()
    pipe = make_pipeline(StandardScaler(), clone(classifier)).fit(X, y)
    assert pipe.score(X, y) > 0.8


@quick
def test_class_weight_moves_the_decision_and_balanced_undoes_imbalance(classifier: Any) -> None:
    X, y = make_blobs([150, 15], centers=[[0, 0], [1.5, 0]], random_state=0)

    def share(class_weight: Any, weight: Any = None) -> float:
        fitted = clone(classifier).set_params(class_weight=class_weight).fit(X, y, weight)
        return float(fitted.predict_proba(X)[:, 1].mean())

    uniform = getattr(classifier, "priors", None) == "uniform" and isinstance(classifier, GenerativeClassifier)
    if uniform:
        assert share({0: 1.0, 1: 10.0}) > share(None) + 0.1
        return
    balanced = share("balanced")
    assert balanced > share(None) + 0.05
    assert share({0: 1.0, 1: 10.0}) == pytest.approx(balanced, abs=0.02)
    even = np.where(y == 1, 10.0, 1.0)  # weights that even the classes out leave nothing to balance
    assert share("balanced", even) == pytest.approx(share(None, even), abs=1e-6)


@quick
def test_sample_weight_moves_the_decision_and_weight_zero_is_absence(classifier: Any) -> None:
    X, y = make_blobs(100, centers=[[0, 0], [1.5, 0]], random_state=0)
    weight = np.where(y == 1, 20.0, 1.0)
    if not isinstance(classifier, GenerativeClassifier) or classifier.priors == "empirical":
        moved = clone(classifier).fit(X, y, weight).predict(X).mean()
        assert moved > clone(classifier).fit(X, y).predict(X).mean()
    zero = np.where(np.arange(100) < 75, 1.0, 0.0)
    absent = clone(classifier).fit(X[:75], y[:75])
    np.testing.assert_allclose(clone(classifier).fit(X, y, zero).predict_proba(X), absent.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("density", [GaussianDensity(), KernelDensity()], ids=repr)
def test_generative_classifier_is_bayes_rule(density: Any) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], y[:120]
    model = GenerativeClassifier(density, standardize=False).fit(X, y)
    joint = np.exp(clone(density).fit(X, y).log_prob(X)) * (np.bincount(y) / len(y))
    np.testing.assert_allclose(model.predict_proba(X), joint / joint.sum(1, keepdims=True), rtol=1e-8, atol=1e-12)
