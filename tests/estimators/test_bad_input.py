"""Bad input: an error that names the value and the way out, or a sound answer; never half a fit."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.model_selection import GroupKFold

from genlabel import (
    AdaMixupClassifier,
    DensityWarning,
    GaussianDensity,
    GenerativeClassifier,
    GenLabel,
    GenLabelClassifier,
    GridSearch,
    KernelDensity,
    ManifoldMixup,
    Mixup,
    MixupClassifier,
)
from genlabel.densities import DiscriminantDensity, StackedDensity

FEW = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
CLASSIFIERS = [
    GenLabelClassifier(random_state=0).set_params(training__epochs=20),
    GenLabelClassifier(density="auto", random_state=0).set_params(training__epochs=20),
    MixupClassifier(random_state=0).set_params(training__epochs=20),
    MixupClassifier(mixer=None, random_state=0).set_params(training__epochs=20),
    AdaMixupClassifier(random_state=0).set_params(training__epochs=20),
    GenerativeClassifier(),
    GenerativeClassifier("kernel"),
]
FULL = [
    GenLabelClassifier("logistic", FEW, random_state=0).set_params(
        search="grid", search__ensemble=1, search__cv=6, training__epochs=20
    ),
    GenLabelClassifier.from_paper(training__epochs=20, random_state=0),
    MixupClassifier.from_paper(training__epochs=20, random_state=0),
    MixupClassifier.from_paper(mixer=None, training__epochs=20, random_state=0),
    CLASSIFIERS[4],
]
"""Searches that train every candidate to the end."""
OTHERS = (1, 3)
"""Further settings of a class that is there already: for the long profile."""
every = pytest.mark.parametrize(
    "classifier",
    [pytest.param(one, marks=[pytest.mark.long] if place in OTHERS else []) for place, one in enumerate(CLASSIFIERS)],
    ids=repr,
)


def fit_quietly(classifier: Any, X: Any, y: Any) -> Any:
    """Fit; only our own warnings about densities and folds may be raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DensityWarning)
        warnings.filterwarnings("ignore", message=r"cv=\d+ folds")
        return clone(classifier).fit(X, y)


@cache
def proba_of_iris(number: int) -> Any:
    """What a classifier of the list says of iris, without anything bad."""
    return fit_quietly(CLASSIFIERS[number], IRIS_X, IRIS_Y).predict_proba(IRIS_X)


def proba_in_peace(classifier: Any) -> Any:
    return proba_of_iris(next(number for number, one in enumerate(CLASSIFIERS) if one is classifier))


def state(classifier: Any) -> list[str]:
    return [name for name in vars(classifier) if name.endswith("_")]


IRIS_X, IRIS_Y = load_iris(return_X_y=True)
INF = IRIS_X.copy()
INF[4, 2] = np.inf
ERRORS = {
    "infinity": (INF, IRIS_Y, "infinity"),
    "one class": (IRIS_X[:50], ["only"] * 50, "only"),
    "continuous target": (IRIS_X, IRIS_X[:, 0] + 0.05, "continuous"),
    "all constant": (np.ones((20, 3)), np.arange(20) % 2, "constant"),
    "lengths": (IRIS_X, IRIS_Y[:10], "inconsistent"),
    "no rows": (IRIS_X[:0], IRIS_Y[:0], "0 sample"),
    "text": (np.array([["a"], ["b"]] * 10), np.arange(20) % 2, "string"),
}


@every
@pytest.mark.parametrize("case", ERRORS)
def test_an_error_names_the_problem_and_sets_no_attribute(classifier: Any, case: str) -> None:
    X, y, match = ERRORS[case]
    fresh = clone(classifier)
    with pytest.raises(ValueError, match=match):
        fresh.fit(X, y)
    assert state(fresh) == []


@every
def test_a_failed_refit_keeps_the_earlier_fit(classifier: Any) -> None:
    fitted = fit_quietly(classifier, IRIS_X, IRIS_Y)
    before = fitted.predict_proba(IRIS_X)
    with pytest.raises(ValueError, match="infinity"):
        fitted.fit(INF[:, :3], IRIS_Y)
    np.testing.assert_array_equal(fitted.predict_proba(IRIS_X), before)


@pytest.mark.parametrize("classifier", FULL, ids=repr)
def test_a_grid_search_names_a_class_with_one_sample(classifier: Any) -> None:
    y = np.where(np.arange(150) == 7, "rare", np.array(["a", "b", "c"])[IRIS_Y])
    with pytest.raises(ValueError, match="'rare'"):
        clone(classifier).fit(IRIS_X, y)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("classifier", CLASSIFIERS[:4], ids=repr)
def test_a_halving_search_trains_on_a_class_with_one_sample_with_a_warning(classifier: Any) -> None:
    y = np.where(np.arange(150) == 7, "rare", np.array(["a", "b", "c"])[IRIS_Y])
    with pytest.warns(UserWarning, match="'rare' has a single row"):
        model = clone(classifier).fit(IRIS_X, y)
    assert model.classes_.tolist() == ["a", "b", "c", "rare"]
    proba = model.predict_proba(IRIS_X)
    assert np.isfinite(proba).all()
    assert (proba > 0).all()
    assert model.score(IRIS_X, y) > 0.8


def test_a_class_of_one_sample_has_the_common_covariance() -> None:
    y = np.where(np.arange(150) == 7, "rare", np.array(["a", "b", "c"])[IRIS_Y])
    with pytest.warns(DensityWarning, match="'rare' has 1 sample"):
        model = GenerativeClassifier().fit(IRIS_X, y)
    assert np.isfinite(model.predict_proba(IRIS_X)).all()


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("classifier", CLASSIFIERS[:4], ids=repr)
def test_a_small_class_does_not_reduce_the_folds_of_a_halving_search(classifier: Any) -> None:
    rows = np.r_[0:40, 50:90, 100:103]
    model = clone(classifier).fit(IRIS_X[rows], IRIS_Y[rows])  # in peace: a warning would be an error
    assert "split5_test_score" in model.cv_results_
    assert "split6_test_score" not in model.cv_results_


@pytest.mark.parametrize("classifier", FULL, ids=repr)
def test_too_many_folds_are_reduced_with_a_warning(classifier: Any) -> None:
    rows = np.r_[0:40, 50:90, 100:103]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = clone(classifier).fit(IRIS_X[rows], IRIS_Y[rows])
    messages = [str(w.message) for w in caught if "folds" in str(w.message)]
    assert messages == ["cv=6 folds, but class 2 has only 3 samples; using 3 folds"]
    assert "split2_test_score" in model.cv_results_
    assert "split3_test_score" not in model.cv_results_


@every
def test_constant_columns_are_left_out(classifier: Any) -> None:
    X = np.hstack([IRIS_X[:, :2], np.full((150, 1), 1e6), IRIS_X[:, 2:]])
    odd = fit_quietly(classifier, X, IRIS_Y)
    np.testing.assert_allclose(odd.predict_proba(X), proba_in_peace(classifier), rtol=1e-9)


@every
def test_more_features_than_rows(classifier: Any) -> None:
    X, y = make_blobs(24, 60, centers=2, random_state=0)
    model = fit_quietly(classifier, X, y)
    assert model.score(X, y) > 0.9


@every
def test_duplicates_with_conflicting_labels(classifier: Any) -> None:
    X, y = np.vstack([IRIS_X, IRIS_X]), np.r_[IRIS_Y, (IRIS_Y + 1) % 3]
    model = fit_quietly(classifier, X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1.0)
    assert proba.max() < 0.95  # no class can be certain


@every
def test_features_of_scale_1e_minus_12_and_1e12(classifier: Any) -> None:
    scale = np.array([1e-12, 1e12, 1.0, 1e-6])
    model = fit_quietly(classifier, IRIS_X * scale, IRIS_Y)
    np.testing.assert_allclose(model.predict_proba(IRIS_X * scale), proba_in_peace(classifier), atol=1e-3)


@every
def test_extreme_scales_without_standardization_give_finite_values(classifier: Any) -> None:
    name = "training__standardize" if hasattr(classifier, "training") else "standardize"
    wild = clone(classifier).set_params(**{name: False})
    X = IRIS_X * [1e-12, 1e12, 1.0, 1.0]
    proba = fit_quietly(wild, X, IRIS_Y).predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(1), 1.0)


WILD = {
    "training__optimizer": "sgd",
    "training__standardize": False,
    "training__epochs": 30,
    "search__cv": 3,
    "random_state": 0,
}
DIVERGING = [
    MixupClassifier((8,)).set_params(training__learning_rate=100.0, **WILD),
    MixupClassifier((8,)).set_params(training__learning_rate=100.0, search__ensemble=2, **WILD),
    MixupClassifier((8,), calibrate=False).set_params(
        search="grid", training__learning_rate=100.0, search__ensemble=1, **WILD
    ),
    GenLabelClassifier((8,), "gaussian", 1.0, pool_with_density="cv").set_params(training__learning_rate=100.0, **WILD),
]


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("classifier", DIVERGING, ids=repr)
def test_diverged_training_is_an_error(classifier: Any) -> None:
    fresh = clone(classifier)
    with pytest.raises(ValueError, match="diverged"):
        fresh.fit(IRIS_X * 1e30, IRIS_Y)
    assert state(fresh) == []


@pytest.mark.parametrize("select", ["log-loss", "accuracy"])
@pytest.mark.parametrize("search", ["halving", "grid"])
def test_a_diverging_candidate_is_dropped(search: str, select: str) -> None:
    model = MixupClassifier((8,), mixer=None).set_params(
        search=search, search__scoring=select, training__learning_rate=(1e3, 0.01), **WILD
    )
    model.set_params(training__weight_decay=1.0, training__standardize=True).fit(
        IRIS_X, IRIS_Y
    )  # a step of 1e3 makes the weights 1e3 times
    results = model.cv_results_
    wild = np.array([p["learning_rate"] == 1e3 for p in results["params"]])
    assert np.isinf(results["mean_test_log_loss"][wild]).any()
    assert np.isfinite(results["mean_test_log_loss"][~wild]).all()
    assert model.best_params_["learning_rate"] == 0.01
    assert np.isfinite(model.predict_proba(IRIS_X)).all()


PARAMETERS = [
    (GenLabelClassifier(mixer=Mixup(0)), "alpha=0"),
    (GenLabelClassifier(mixer=Mixup(-1.0)), "alpha=-1.0"),
    (GenLabelClassifier(gamma=1.5), "gamma=1.5"),
    (GenLabelClassifier(gamma=-0.5), "gamma=-0.5"),
    (GenLabelClassifier(gamma="best"), "gamma='best'"),
    (GenLabelClassifier(gamma=[]), r"gamma=\[\]"),
    (GenLabelClassifier(density="gauss"), "density='gauss'"),
    (GenLabelClassifier(network="mpl"), "network='mpl'"),
    (GenLabelClassifier(network=128), "network=128"),
    (GenLabelClassifier(network=(64, 0)), "network=0"),
    (GenLabelClassifier(space="hidden"), "space='hidden'"),
    (GenLabelClassifier(search="quick"), "search='quick'"),
    (GenLabelClassifier().set_params(search__ensemble="fold"), "ensemble='fold'"),
    (GenLabelClassifier().set_params(search__ensemble=0), "ensemble=0"),
    (GenLabelClassifier().set_params(training__epochs="few"), "epochs='few'"),
    (GenLabelClassifier("logistic", space="latent"), "space='latent'"),
    (GenLabelClassifier(mixer=Mixup(0.3, "row")), "lam_per='row'"),
    (GenLabelClassifier().set_params(training__learning_rate=0.0), "learning_rate=0.0"),
    (GenLabelClassifier().set_params(training__learning_rate="cv"), "learning_rate='cv'"),
    (GenLabelClassifier().set_params(training__epochs=0), "epochs=0"),
    (GenLabelClassifier().set_params(training__batch_size=2.5), "batch_size=2.5"),
    (GenLabelClassifier().set_params(training__weight_decay=-1), "weight_decay=-1"),
    (GenLabelClassifier().set_params(training__optimizer="rmsprop"), "optimizer='rmsprop'"),
    (GenLabelClassifier().set_params(training__device="tpu3"), "device='tpu3'"),
    (GenLabelClassifier(priors="equal").set_params(training__learning_rate=0.1), "priors='equal'"),
    (GenLabelClassifier(class_weight="balance"), "class_weight"),
    (MixupClassifier(mixer="mixpu"), "mixer='mixpu'"),
    (MixupClassifier("logistic", mixer="manifold"), "mixer='manifold'"),
    (MixupClassifier((8,), mixer=ManifoldMixup(depths=(0, 2))), "depth 2"),
    (MixupClassifier(labeler="liner"), "labeler='liner'"),
    (MixupClassifier(mixer=None, exclude_intrusion=True), "exclude_intrusion=True"),
    (MixupClassifier(mixer=None, labeler="logistic"), "labeler='logistic'"),
    (MixupClassifier(mixer=None, labeler=GenLabel(GaussianDensity())), "labeler=GenLabel"),
    (MixupClassifier(mixer=[]), "empty"),
    (GenLabelClassifier(mixer="manifold"), "mixer='manifold'"),
    (GenLabelClassifier(mixer=ManifoldMixup()), "mixes hidden layers"),
    (GenLabelClassifier(search="full"), "search='full'"),
    (GenLabelClassifier(search=GridSearch(restore_best="yes")), "restore_best='yes'"),
    (GenLabelClassifier(training={"epochs": 3}), "training="),
    (AdaMixupClassifier(search="halving"), "search='halving'"),
    (AdaMixupClassifier(search=GridSearch(ensemble="cv")), "ensemble"),
    (MixupClassifier().set_params(training__standardize="yes"), "standardize='yes'"),
    (MixupClassifier().set_params(training__device="mps"), "device='mps'"),
    (MixupClassifier().set_params(search__cv=[(np.arange(10, 150), np.array([0, 999]))]), "999"),
    (MixupClassifier().set_params(search__cv=[(np.arange(150), np.array([], dtype=int))]), "holds out no row"),
    (MixupClassifier().set_params(search__cv=GroupKFold(3)), "groups"),
    (MixupClassifier("mlp", mixer="manifold", exclude_intrusion=True), "mixes hidden layers"),
    (MixupClassifier("mlp", mixer="manifold", labeler=GenLabel(GaussianDensity())), "mixes hidden layers"),
    (MixupClassifier(mixer=Mixup(0.0)), "alpha=0.0"),
    (MixupClassifier(mixer=Mixup(alpha=-2)), "alpha=-2"),
    (AdaMixupClassifier(policy_hidden=0), "policy_hidden=0"),
    (AdaMixupClassifier(intrusion_weight=-1), "intrusion_weight=-1"),
    (GenerativeClassifier("auto"), "density='auto'"),
    (GenerativeClassifier("gmm"), "density='gmm'"),
    (GenerativeClassifier(priors=[1.0]), "3 non-negative"),
]


@pytest.mark.parametrize("classifier, match", PARAMETERS, ids=[repr(c) for c, _ in PARAMETERS])
def test_bad_parameters_are_named(classifier: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        classifier.fit(IRIS_X, IRIS_Y)
    assert state(classifier) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_an_error() -> None:
    with pytest.raises(ValueError, match="device='cuda'"):
        MixupClassifier().set_params(training__device="cuda").fit(IRIS_X, IRIS_Y)


@pytest.mark.parametrize(
    "weight, match",
    [
        (np.ones(10), r"\(10,\)"),
        (-np.ones(150), "non-negative"),
        (np.zeros(150), "zero"),
        (np.full(150, np.nan), "finite"),
    ],
)
@every
def test_bad_sample_weights_are_named(classifier: Any, weight: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        clone(classifier).fit(IRIS_X, IRIS_Y, weight)


@pytest.mark.parametrize("density", [GaussianDensity(), KernelDensity()], ids=repr)
def test_a_warning_of_every_fold_is_given_once_a_class(density: Any) -> None:
    X, y = make_blobs(45, 30, centers=3, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GenLabelClassifier(density=density, random_state=0).set_params(
            training__learning_rate=0.1, training__epochs=2
        ).fit(X, y)
    messages = sorted(str(w.message) for w in caught)
    assert len(messages) == 3
    for c, message in enumerate(messages):
        assert f"class {c} has 15 samples for 30 features" in message  # of the whole sample, not of a fold
    assert all(w.filename == __file__ for w in caught)


def test_a_warning_about_a_class_is_given_once() -> None:
    with pytest.warns(DensityWarning) as caught:
        KernelDensity().fit(np.ones((5, 2)), [0, 0, 1, 1, 1])
    assert len(caught) == 2


def test_warnings_survive_fits_in_threads_and_fits_that_fail() -> None:
    X, y = make_blobs(24, 30, centers=2, random_state=0)

    def fit(seed: int) -> None:
        MixupClassifier(labeler=GenLabel(GaussianDensity()), random_state=seed).set_params(
            training__learning_rate=0.1, training__epochs=2
        ).fit(X, y)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fit, range(12)))
        assert list(warnings.filters) == before
        warnings.warn("still heard", UserWarning, stacklevel=1)
    assert len(caught) == 12 * 2 + 1
    rows = np.r_[0:40, 50:90, 100:103]
    wild = GenLabelClassifier((8,), GaussianDensity(), 0.5).set_params(
        training__learning_rate=100.0, training__optimizer="sgd", training__standardize=False, training__epochs=30
    )
    wild.set_params(training__weight_decay=1e-4, clean_fraction=0.0)
    with pytest.warns(DensityWarning, match="class 2 has 3 samples"), pytest.raises(ValueError, match="diverged"):
        wild.set_params(random_state=0).fit(IRIS_X[rows] * 1e30, IRIS_Y[rows])


def test_a_failed_fit_of_a_density_restores_its_attributes() -> None:
    density = GaussianDensity(reg=-1.0)
    with pytest.raises(ValueError, match="reg=-1"):
        density.fit(IRIS_X, IRIS_Y)
    assert state(density) == []
    density.set_params(reg=0.1).fit(IRIS_X, IRIS_Y)
    before = density.log_prob(IRIS_X)
    with pytest.raises(ValueError, match="reg=-2"):
        density.set_params(reg=-2.0).fit(IRIS_X[:100, :2], IRIS_Y[:100])
    np.testing.assert_array_equal(density.log_prob(IRIS_X), before)
