"""Accuracy, log-loss, Brier score and calibration against scikit-learn and plain loops."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from genlabel.metrics import accuracy, brier_score, calibration_error, index_labels, log_loss, score

ALL_NAN = np.full((4, 2), np.nan)


def make_predictions(
    seed: int, k: int, n: int, weighted: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    rng = np.random.default_rng(seed)
    proba, y = rng.dirichlet(np.ones(k), size=(3, n)), rng.integers(0, k, n)
    return proba, y, rng.uniform(0.1, 1, n) if weighted else None


def loop_calibration_error(proba: Any, y: Any, weight: Any, bins: int) -> float:
    """Compute the calibration error point by point, bin by bin."""
    points = sorted(zip(proba.max(1), proba.argmax(1) == y, np.ones(len(y)) if weight is None else weight, strict=True))
    short, longer = divmod(len(points), min(bins, len(points)))
    total, start = 0.0, 0
    for part in range(min(bins, len(points))):
        stop = start + short + (part < longer)
        inside = points[start:stop]
        mass = sum(w for _, _, w in inside)
        confidence = sum(w * c for c, _, w in inside) / mass
        right = sum(w for _, hit, w in inside if hit) / mass
        total += mass * abs(right - confidence)
        start = stop
    return total / sum(w for _, _, w in points)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), weighted=st.booleans())
def test_accuracy_and_log_loss_equal_scikit_learn(seed: int, k: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(k), size=(3, 20))
    y = rng.integers(0, k, 20)
    weight = rng.uniform(0.1, 1, 20) if weighted else None
    hits, losses = accuracy(np.log(proba), y, weight), log_loss(np.log(proba), y, weight)
    for model in range(3):
        expected = sk.accuracy_score(y, proba[model].argmax(1), sample_weight=weight)
        np.testing.assert_allclose(hits[model], expected)
        loss = sk.log_loss(y, proba[model], labels=range(k), sample_weight=weight)
        np.testing.assert_allclose(losses[model], loss, rtol=1e-9)
        assert accuracy(np.log(proba[model]), y, weight) == hits[model]


def test_nan_predictions_have_the_worst_scores() -> None:
    assert accuracy(ALL_NAN, [0, 0, 0, 0]) == 0
    assert log_loss(ALL_NAN, [0, 0, 0, 0]) == np.inf
    assert brier_score(ALL_NAN, [0, 0, 0, 0]) == 2
    assert calibration_error(ALL_NAN, [0, 0, 0, 0]) == 1


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), n=st.integers(1, 40), weighted=st.booleans())
def test_brier_score_is_the_sum_over_the_classes(seed: int, k: int, n: int, weighted: bool) -> None:
    proba, y, weight = make_predictions(seed, k, n, weighted)
    scores = brier_score(np.log(proba), y, weight)
    assert scores.shape == (3,)
    for model in range(3):
        one = [sk.brier_score_loss(y == c, proba[model][:, c], sample_weight=weight, pos_label=True) for c in range(k)]
        np.testing.assert_allclose(scores[model], sum(one))
        if k == 2:
            np.testing.assert_allclose(scores[model], 2 * one[0])


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(2, 5),
    n=st.integers(1, 40),
    bins=st.integers(1, 20),
    weighted=st.booleans(),
)
def test_calibration_error_equals_a_naive_loop(seed: int, k: int, n: int, bins: int, weighted: bool) -> None:
    proba, y, weight = make_predictions(seed, k, n, weighted)
    errors = calibration_error(np.log(proba), y, weight, bins)
    assert errors.shape == (3,)
    for model in range(3):
        np.testing.assert_allclose(errors[model], loop_calibration_error(proba[model], y, weight, bins))
        np.testing.assert_allclose(calibration_error(np.log(proba[model]), y, weight, bins), errors[model])


@given(seed=st.integers(0, 10**6), bins=st.integers(1, 6), a_bin=st.integers(2, 8))
def test_calibration_error_equals_the_curve_of_scikit_learn(seed: int, bins: int, a_bin: int) -> None:
    """Quantile bins, where every bin has the same count and a cut that falls between two points."""
    proba, y, _ = make_predictions(seed, 3, bins * a_bin, weighted=False)
    confidence, hit = proba[0].max(1), proba[0].argmax(1) == y
    edges = np.percentile(confidence, np.linspace(0, 100, bins + 1))
    counts = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=bins)
    right, mean = calibration_curve(hit, confidence, n_bins=bins, strategy="quantile")
    if (counts == a_bin).all():
        np.testing.assert_allclose(calibration_error(np.log(proba[0]), y, bins=bins), np.abs(right - mean).mean())


@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_scores_are_independent_of_the_order_of_points(seed: int, weighted: bool) -> None:
    proba, y, weight = make_predictions(seed, 3, 25, weighted)
    order = np.random.default_rng(seed).permutation(25)
    permuted_weight = None if weight is None else weight[order]
    for measure in (brier_score, calibration_error):
        expected = measure(np.log(proba[:, order]), y[order], permuted_weight)
        np.testing.assert_allclose(measure(np.log(proba), y, weight), expected)


def test_scores_of_a_perfect_and_a_wrong_model() -> None:
    y = np.arange(20) % 4
    with np.errstate(divide="ignore"):
        right, wrong = np.log(np.eye(4)[y]), np.log(np.eye(4)[(y + 1) % 4])
    assert brier_score(right, y) == calibration_error(right, y) == 0
    assert brier_score(wrong, y) == 2
    assert calibration_error(wrong, y) == 1


def test_calibrated_model_has_a_small_error() -> None:
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=100_000)
    y = (proba.cumsum(1) < rng.uniform(size=(100_000, 1))).sum(1)
    assert calibration_error(np.log(proba), y) < 0.01
    sharper = proba**2 / (proba**2).sum(1, keepdims=True)
    assert calibration_error(np.log(sharper), y) > 0.05


def test_weights_equal_repeated_rows() -> None:
    proba, y, _ = make_predictions(3, 3, 12, weighted=False)
    twice = np.log(np.repeat(proba, 2, axis=1))
    for measure in (brier_score, lambda p, y, w=None: calibration_error(p, y, w, bins=4)):
        np.testing.assert_allclose(measure(np.log(proba), y, np.full(12, 2.0)), measure(twice, y.repeat(2)))


def test_bins_must_be_positive() -> None:
    with pytest.raises(ValueError, match="bins=0"):
        calibration_error(np.log([[0.5, 0.5]]), [0], bins=0)


@pytest.mark.parametrize("measure", [accuracy, log_loss, brier_score, calibration_error])
def test_invalid_predictions_are_errors(measure: Any) -> None:
    logs = np.log([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    for y in ([0], [0, 1], 0, [[0], [1], [1]]):
        with pytest.raises(ValueError, match="y"):
            measure(logs, y)
    for y in ([0, 1, 2], [0, 1, -1], ["a", "b", "b"], [0.5, 1, 1]):
        with pytest.raises(ValueError, match="indices"):
            measure(logs, y)
    with pytest.raises(ValueError, match="log-probabilities"):
        measure(np.exp(logs), [0, 1, 1])
    with pytest.raises(ValueError, match="rows"):
        measure(logs[:0], [])


class Model:
    """Model with fixed probabilities."""

    def __init__(self, proba: Any, classes: Any) -> None:
        self.proba, self.classes_ = np.asarray(proba), np.asarray(classes)

    def predict_proba(self, X: Any) -> Any:
        return self.proba


class LogModel(Model):
    """Model whose log-probabilities differ from its probabilities."""

    def predict_log_proba(self, X: Any) -> Any:
        return np.log(self.proba) - 1.0


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5))
def test_score_equals_the_metrics_of_the_probabilities(seed: int, k: int) -> None:
    (proba, *_), y, _ = make_predictions(seed, k, 20, False)
    names = np.array(list("vwxyz"))[:k]
    scores = score(Model(proba, names), None, names[y])
    assert scores["accuracy"] == pytest.approx(sk.accuracy_score(names[y], names[proba.argmax(1)]))
    assert scores["log_loss"] == pytest.approx(sk.log_loss(y, proba, labels=np.arange(k)))
    assert scores["brier"] == brier_score(np.log(proba), y)
    assert scores["calibration_error"] == calibration_error(np.log(proba), y)


LABELS = [
    (["a", "c"], np.array(["c", "a", "c"], dtype=object)),
    ([0, 1], [1.0, 0.0]),
    ([0, 1], [True, False]),
    ([False, True], [True, False]),
    ([False, True], [1, 0, 1]),
    ([-1.5, 2.5], np.array([2.5, -1.5], dtype=np.float32)),
    (np.array([3, 7], dtype=np.int8), np.array([7, 3], dtype=np.uint64)),
]


@pytest.mark.parametrize("classes, y", LABELS)
def test_label_indices_equal_searchsorted(classes: Any, y: Any) -> None:
    indices = index_labels(y, classes)
    assert indices.dtype == np.int64
    assert indices.tolist() == np.searchsorted(classes, y).tolist()
    assert index_labels(y, classes[::-1]).tolist() == (1 - indices).tolist()


@pytest.mark.parametrize(
    "classes, y, unknown",
    [(["a", "c"], ["b", "a"], r"\['b'\]"), ([0, 1], [1, 2, -1], r"\[2, -1\]"), (["1", "2"], [1, 2], r"\[1, 2\]")],
)
def test_unknown_label_is_refused(classes: Any, y: Any, unknown: str) -> None:
    model = Model(np.tile([0.1, 0.9], (len(y), 1)), classes)
    with pytest.raises(ValueError, match=unknown):
        score(model, None, y)


def test_probabilities_are_clipped_and_logarithms_preferred() -> None:
    certain = Model([[1.0, 0.0], [0.0, 1.0]], ["no", "yes"])
    assert score(certain, None, ["no", "no"])["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
    assert score(LogModel([[0.5, 0.5]], [0, 1]), None, [1])["log_loss"] == pytest.approx(1.0 + np.log(2.0))
    assert score(Model([[np.nan, np.nan]], [0, 1]), None, [1])["log_loss"] == np.inf


@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_calibration_error_with_ties_is_independent_of_row_order(rate: float) -> None:
    y = (np.arange(60) >= 60 * rate).astype(int)
    constant = np.log(np.tile([rate, 1 - rate], (60, 1)))
    assert float(calibration_error(constant, y)) == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    proba = rng.choice([0.6, 0.7, 0.9], 60)
    weight, order = rng.uniform(0.5, 2.0, 60), rng.permutation(60)
    few = np.log(np.stack([proba, 1 - proba], axis=1))
    np.testing.assert_allclose(calibration_error(few[order], y[order]), calibration_error(few, y))
    hits = [abs(np.average((y == 0)[proba == p], weights=weight[proba == p]) - p) for p in np.unique(proba)]
    mass = [weight[proba == p].sum() for p in np.unique(proba)]
    stacked = calibration_error(np.stack([few, constant]), y, weight, bins=60)
    assert float(stacked[0]) == pytest.approx(np.average(hits, weights=mass))
