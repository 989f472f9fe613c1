"""Venn-Abers intervals: the fast way against isotonic regressions one by one, and what the classifiers make of them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from genlabel import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    MixupClassifier,
    load_model,
    save_model,
)
from genlabel.attacks import FGSM
from genlabel.densities import DiscriminantDensity, KernelDensity, StackedDensity
from genlabel.estimators.classifier import Calibration, venn_abers
from genlabel.metrics import log_loss
from genlabel.model_selection.scoring import pool
from genlabel.training.networks.staged import log_proba_of

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

QUICK: dict[str, Any] = {
    "training__epochs": 3,
    "search__cv": 3,
    "training__learning_rate": 0.03,
    "training__weight_decay": 1e-3,
    "random_state": 0,
}
FEW = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
MODELS = [
    GenLabelClassifier(density=FEW).set_params(**QUICK),
    GenLabelClassifier((8,), "gaussian", space="latent").set_params(**QUICK),
    GenLabelClassifier.from_paper("logistic", "gaussian", **{**QUICK, "training__learning_rate": "auto"}),
    MixupClassifier().set_params(**QUICK),
    MixupClassifier().set_params(search__ensemble=2, **QUICK),
    GenLabelClassifier(density=FEW, pool_with_density=(0.5, 0.3, 0.1)).set_params(**QUICK),
]
models = pytest.mark.parametrize("model", MODELS, ids=repr)


def one_by_one(scores: Any, hits: Any, new: Any, weight: Any, added: tuple[float, float]) -> np.ndarray:
    """An isotonic regression for each new score and label, (2, m); of ranks, lest near scores are taken for equal."""
    fits, ranks = np.empty((2, len(new))), np.unique(np.append(scores, new), return_inverse=True)[1]
    scores, new = ranks[: len(scores)], ranks[len(scores) :]
    for place, score in enumerate(new):
        for label in (0, 1):
            x, y, w = np.append(scores, score), np.append(hits, label), np.append(weight, added[label])
            fitted = IsotonicRegression().fit(x, y.astype(float), sample_weight=w)
            fits[label, place] = fitted.predict([score])[0]
    return fits


def rows(seed: int) -> dict[str, Any]:
    """Known and new scores: with ties or without, weights or not; of any number, also none."""
    rng = np.random.default_rng(seed)
    n, ties, weighted = int(rng.integers(0, 60)), seed % 2, seed % 3
    scores, new = rng.normal(size=n), 1.5 * rng.normal(size=8)
    if ties:
        scores, new = scores.round(1), new.round(1)
    return {
        "hits": rng.random(n) < expit(rng.choice([-2.0, 0.0, 3.0]) * scores + rng.normal()),
        "scores": scores,
        "new": new,
        "weight": rng.uniform(0.1, 3.0, n) if weighted else np.ones(n),
        "added": tuple(rng.uniform(0.2, 2.0, 2)) if weighted == 2 else (1.0, 1.0),
    }


@pytest.mark.parametrize("seed", range(30))
def test_bounds_are_isotonic_regressions_with_each_row_and_label(seed: int) -> None:
    given = rows(seed)
    np.testing.assert_allclose(venn_abers(**given), one_by_one(**given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_intervals_increase_with_the_score_and_contain_the_fit_of_the_known_rows(seed: int) -> None:
    given = rows(seed)
    order = np.sort(given["new"])
    lower, upper = venn_abers(**{**given, "new": order})
    assert ((lower >= 0.0) & (lower <= upper) & (upper <= 1.0)).all()
    assert (np.diff([lower, upper]) >= -1e-12).all()
    if len(given["scores"]):
        known = IsotonicRegression(out_of_bounds="clip")
        known.fit(given["scores"], given["hits"].astype(float), sample_weight=given["weight"])
        seen = np.unique(given["scores"])
        lower, upper = venn_abers(**{**given, "new": seen})
        fit = known.predict(seen)
        assert ((lower <= fit + 1e-12) & (fit <= upper + 1e-12)).all()


def test_rows_of_weight_zero_are_absent_and_no_rows_give_the_widest_interval() -> None:
    given = rows(6)
    more = {name: np.append(given[name], value) for name, value in (("scores", 0.0), ("hits", True), ("weight", 0.0))}
    np.testing.assert_array_equal(venn_abers(**{**given, **more}), venn_abers(**given))
    assert np.array(venn_abers([], [], [0.3, -0.3])).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_the_guarantee_of_venn_abers_holds_over_many_samples() -> None:
    """The one of the two probabilities that the label selects is the frequency, on average over samples."""
    rng = np.random.default_rng(0)
    selected, hits = [], []
    for _ in range(600):
        scores = rng.normal(size=31)
        true = rng.random(31) < expit(3.0 * scores + 1.0)  # the scores are no probabilities: they only rise
        lower, upper = venn_abers(scores[1:], true[1:], scores[:1])
        selected.append(upper[0] if true[0] else lower[0])
        hits.append(true[0])
    chosen, truth = np.array(selected), np.array(hits)
    for some in (chosen < 0.3, (chosen >= 0.3) & (chosen < 0.8), chosen >= 0.8):
        noise = 3.5 * np.sqrt(0.25 / some.sum())
        assert abs(chosen[some].mean() - truth[some].mean()) < noise


@pytest.mark.parametrize("k", [2, 3, 5])
def test_each_class_is_compared_with_all_others(k: int) -> None:
    rng = np.random.default_rng(k)
    known, new = (log_softmax(2 * rng.normal(size=(n, k)), axis=1) for n in (40, 9))
    y = rng.integers(0, k, 40)
    lower, upper = Calibration.of(known, y)(new)
    for c in range(k):
        scores, queries = known[:, c].astype(np.float32), new[:, c].astype(np.float32)
        alone = one_by_one(scores, y == c, queries, np.ones(40), (1.0, 1.0))
        np.testing.assert_allclose([lower[:, c], upper[:, c]], alone, rtol=0, atol=1e-12)
    if k == 2:
        np.testing.assert_allclose(lower[:, 0], 1 - upper[:, 1], rtol=0, atol=1e-15)


def test_a_class_of_weight_two_counts_twice_and_the_scale_of_weights_does_not() -> None:
    rng = np.random.default_rng(1)
    log_proba, y = log_softmax(rng.normal(size=(30, 3)), axis=1), rng.integers(0, 3, 30)
    weight, tilt = rng.uniform(0.5, 1.5, 30), np.array([2.0, 1.0, 0.5])
    lower, upper = Calibration.of(log_proba, y, weight=weight, class_weight=tilt)(log_proba[:5])
    c, mean = 0, weight.mean()
    others = (weight * tilt[y])[y != c].sum() / weight[y != c].sum()
    scores = log_proba[:, c].astype(np.float32)
    alone = one_by_one(scores, y == c, scores[:5], weight * tilt[y], (mean * others, mean * 2.0))
    np.testing.assert_allclose([lower[:, c], upper[:, c]], alone, rtol=0, atol=1e-12)
    again = Calibration.of(log_proba, y, weight=1000 * weight, class_weight=tilt)(log_proba[:5])
    np.testing.assert_allclose(again, (lower, upper), rtol=0, atol=1e-12)


@models
def test_held_out_rows_have_the_log_probabilities_of_their_fold(model: Any) -> None:
    """Of a fit with given folds: the classes in the order of the folds, and log-probabilities of just these rows."""
    X, y = load_wine(return_X_y=True)
    pairs = list(StratifiedKFold(3, shuffle=True, random_state=1).split(X, y))
    fitted = clone(model).set_params(search__cv=pairs).fit(X, y)
    known = fitted.venn_abers_
    held = np.concatenate([valid for _, valid in pairs])
    np.testing.assert_array_equal(known.y, y[held])
    np.testing.assert_array_equal(known.fold, np.repeat(np.arange(3), [len(valid) for _, valid in pairs]))
    np.testing.assert_allclose(np.exp(known.log_proba).sum(1), 1.0, atol=1e-5)
    losses = [log_loss(known.log_proba[known.fold == f], known.y[known.fold == f]) for f in range(3)]
    given = model.get_params().get("pool_with_density")
    if fitted.pool_weights_ is None or isinstance(given, tuple):  # as the search has judged it
        name = "mean_test_log_loss" if given is None else "mean_test_pooled_log_loss"
        assert np.mean(losses) == pytest.approx(fitted.cv_results_[name][fitted.best_index_], abs=1e-5)
    elif fitted.predicts_by_network and fitted.get_params()["search__ensemble"] == "cv":
        networks = [log_proba_of(network, fitted.scaler_(X)) for network in fitted.network_.networks]
        for f, (_, valid) in enumerate(pairs):
            pooled = pool(networks[f][valid], None, fitted.log_prior_, fitted.pool_weights_)
            np.testing.assert_allclose(known.log_proba[known.fold == f], pooled, atol=1e-4)


@models
def test_intervals_follow_the_probabilities_and_are_saved_with_the_model(model: Any, tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    fitted = clone(model).fit(X[::2], y[::2])
    lower, upper = fitted.predict_proba_interval(X[1::2])
    assert lower.shape == upper.shape == (75, 3)
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()
    test_log_proba = fitted.predict_log_proba(X[1::2])
    known = fitted.venn_abers_
    assert known.crossed == (model.get_params().get("search__ensemble") == "cv")
    if known.crossed:  # by hand: each network with the rows that it has not seen, pooled as it is predicted
        points, pooling = fitted.scaler_(X[1::2]), fitted.pool_weights_
        density = None if fitted.predicts_by_network else fitted.labeler_.log_posterior(points, None)
        each = [log_proba_of(network, points) for network in fitted.network_.networks]
        pooled = [pool(one, density, fitted.log_prior_, pooling) for one in each]
        rows = [known.fold == f for f in range(3)]
        parts = [Calibration.of(known.log_proba[r], known.y[r])(one) for r, one in zip(rows, pooled, strict=True)]
        alone = np.mean(parts, axis=0)
    else:
        alone = np.array(known(test_log_proba))
        order = test_log_proba[:, 0].astype(np.float32).argsort(kind="stable")
        assert (np.diff(lower[order, 0]) >= -1e-12).all()
    proba = fitted.predict_proba(X[1::2])
    assert ((lower <= proba) & (proba <= upper)).all()
    widened = np.minimum(alone[0], proba), np.maximum(alone[1], proba)
    np.testing.assert_allclose((lower, upper), widened, rtol=0, atol=1e-12)
    for again in (pickle.loads(pickle.dumps(fitted)), load_model(save_model(fitted, tmp_path / "model"))):
        np.testing.assert_array_equal(again.predict_proba_interval(X[1::2]), (lower, upper))


@pytest.mark.parametrize(
    "model",
    [
        MixupClassifier().set_params(search__scoring=FGSM(0.1), **QUICK),
        MixupClassifier(calibrate=False, clean_fraction=0.5).set_params(search__ensemble=1, **QUICK),
        GenerativeClassifier(),
    ],
    ids=repr,
)
def test_a_classifier_without_held_out_rows_needs_fit_interval(model: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = clone(model).fit(X[:300], y[:300])
    with pytest.raises(NotFittedError, match=r"call fit_interval"):
        fitted.predict_proba_interval(X)
    before = fitted.predict_proba(X)
    lower, upper = fitted.fit_interval(X[300:], y[300:]).predict_proba_interval(X[:10])
    alone = fitted.predict_log_proba(X).astype(np.float32)[:, 0]
    expected = one_by_one(alone[300:], y[300:] == 0, alone[:10], np.ones(len(X) - 300), (1.0, 1.0))
    widened = np.minimum(expected[0], before[:10, 0]), np.maximum(expected[1], before[:10, 0])
    np.testing.assert_allclose([lower[:, 0], upper[:, 0]], widened, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict_proba(X), before)
    assert not hasattr(fitted.fit(X[:300], y[:300]), "venn_abers_")


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.0])
def test_an_interval_contains_the_probability_of_a_model_that_is_far_off(shift: float) -> None:
    """The densities of one half are calibrated by labels that do not depend on the columns."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 2
    model = GenerativeClassifier("gaussian").fit(X + np.outer(y, [4.0, 0.0]), y)
    model.fit_interval(X, rng.permutation(y))
    X[:, 0] += shift
    proba = model.predict_proba(X)
    lower, upper = model.predict_proba_interval(X)
    assert ((lower >= 0) & (lower <= proba) & (proba <= upper) & (upper <= 1)).all()
    calibrated = np.array(model.venn_abers_(np.log(proba)))
    assert ((lower <= calibrated[0]) & (calibrated[1] <= upper)).all()
    assert ((proba < calibrated[0]) | (proba > calibrated[1])).mean() > 0.5


def test_adamixup_has_the_held_out_rows_of_its_search() -> None:
    X, y = load_iris(return_X_y=True)
    fitted = (
        AdaMixupClassifier(random_state=0)
        .set_params(training__epochs=2, search__cv=3, training__learning_rate=(0.1, 0.01))
        .fit(X, y)
    )
    assert fitted.venn_abers_.log_proba.shape == (150, 3)


def test_intervals_are_the_mean_of_those_of_the_folds() -> None:
    rng = np.random.default_rng(2)
    log_proba, y, fold = log_softmax(rng.normal(size=(40, 3)), axis=1), rng.integers(0, 3, 40), np.arange(40) % 3
    weight, new = rng.uniform(0.5, 2.0, 40), log_softmax(rng.normal(size=(6, 3)), axis=1)
    parts = [Calibration.of(log_proba[fold == f], y[fold == f], weight=weight[fold == f])(new) for f in range(3)]
    np.testing.assert_allclose(
        Calibration.of(log_proba, y, fold, weight)(new), np.mean(parts, axis=0), rtol=0, atol=1e-12
    )


def test_rows_with_undefined_predictions_are_left_out() -> None:
    log_proba, y = np.log([[0.2, 0.8], [np.nan, 0.5], [0.6, 0.4]]), np.array([0, 1, 1])
    known = Calibration.of(log_proba, y)
    assert known.y.tolist() == [0, 1]
    lower, upper = Calibration.of(log_proba[:0], y[:0])(log_proba[:1])
    assert (lower.tolist(), upper.tolist()) == ([[0.0, 0.0]], [[1.0, 1.0]])


def test_a_row_may_be_held_out_in_several_folds() -> None:
    X, y = load_iris(return_X_y=True)
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    known = MixupClassifier().set_params(**{**QUICK, "search__cv": cv}).fit(X, y).venn_abers_
    assert np.bincount(known.fold).tolist() == [50] * 6


def test_sample_weights_and_class_weights_are_those_of_the_fit() -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    pairs = list(StratifiedKFold(3).split(X, y))
    fitted = (
        MixupClassifier(class_weight={0: 3.0, 1: 1.0, 2: 1.0})
        .set_params(**{**QUICK, "search__cv": pairs})
        .fit(X, y, weight)
    )
    held = np.concatenate([valid for _, valid in pairs])
    np.testing.assert_allclose(fitted.venn_abers_.weight, weight[held])
    np.testing.assert_array_equal(fitted.venn_abers_.class_weight, fitted.class_weight_)


@pytest.mark.parametrize(
    "y, sample_weight, message",
    [
        ([0] * 9, None, r"\(9,\)"),
        ([0] * 9 + [7], None, "labels"),
        ([0] * 10, [-1.0] * 10, "sample_weight"),
    ],
)
def test_bad_rows_of_intervals_are_an_error(y: Any, sample_weight: Any, message: str) -> None:
    X, labels = load_iris(return_X_y=True)
    fitted = GenerativeClassifier().fit(X, labels)
    with pytest.raises(ValueError, match=message):
        fitted.fit_interval(X[:10], y, sample_weight)
