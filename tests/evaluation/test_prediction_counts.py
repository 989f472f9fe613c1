"""Prediction counts against scikit-learn, their sums and serialization."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from genlabel.evaluation.prediction_counts import N_BINS, PredictionCounts


def predictions(k: int, seed: int, m: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.full(k, 0.7), m)), rng.integers(0, k, m)


for_several_classes = given(k=st.integers(2, 6), seed=st.integers(0, 10_000))


@for_several_classes
def test_confusion_recall_and_precision_equal_scikit_learn(k: int, seed: int) -> None:
    log_proba, y = predictions(k, seed)
    counts = PredictionCounts.of(log_proba, y, range(k))
    predicted, labels = log_proba.argmax(1), np.arange(k)
    np.testing.assert_array_equal(counts.confusion, confusion_matrix(y, predicted, labels=labels))
    recall = recall_score(y, predicted, labels=labels, average=None, zero_division=np.nan)
    precision = precision_score(y, predicted, labels=labels, average=None, zero_division=np.nan)
    np.testing.assert_allclose(counts.recall, recall)
    np.testing.assert_allclose(counts.precision, precision)


@for_several_classes
def test_reliability_equals_the_calibration_curve(k: int, seed: int) -> None:
    log_proba, y = predictions(k, seed)
    proba = np.exp(log_proba[:, 1]) if k == 2 else np.exp(log_proba.max(1))
    is_correct = y == 1 if k == 2 else y == log_proba.argmax(1)
    rows, mass, hits = PredictionCounts.of(log_proba, y, range(k)).reliability.T
    observed, predicted = calibration_curve(is_correct, proba, n_bins=N_BINS)
    assert rows.sum() == len(y)
    np.testing.assert_allclose(hits[rows > 0] / rows[rows > 0], observed)
    np.testing.assert_allclose(mass[rows > 0] / rows[rows > 0], predicted)


@for_several_classes
def test_counts_add_up_and_round_trip_through_json(k: int, seed: int) -> None:
    log_proba, y = predictions(k, seed)
    whole = PredictionCounts.of(log_proba, y, range(k))
    summed = PredictionCounts.of(log_proba[:30], y[:30], range(k)) + PredictionCounts.of(
        log_proba[30:], y[30:], range(k)
    )
    reloaded = PredictionCounts.from_dict(json.loads(json.dumps(whole.to_dict())))
    for counts in (summed, reloaded):
        assert counts.classes == whole.classes
        np.testing.assert_array_equal(counts.confusion, whole.confusion)
        np.testing.assert_allclose(counts.reliability, whole.reliability, atol=1e-4)


def test_counts_of_other_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="added"):
        PredictionCounts.of([[0.0, -9.0]], [0], "ab") + PredictionCounts.of([[0.0, -9.0]], [0], "ac")
