"""Prediction counts against scikit-learn; they add up and survive JSON."""

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


several = given(k=st.integers(2, 6), seed=st.integers(0, 10_000))


@several
def test_confusion_recall_and_precision_equal_scikit_learn(k: int, seed: int) -> None:
    logs, y = predictions(k, seed)
    tally = PredictionCounts.of(logs, y, range(k))
    log_proba, labels = logs.argmax(1), np.arange(k)
    np.testing.assert_array_equal(tally.confusion, confusion_matrix(y, log_proba, labels=labels))
    recall = recall_score(y, log_proba, labels=labels, average=None, zero_division=np.nan)
    precision = precision_score(y, log_proba, labels=labels, average=None, zero_division=np.nan)
    np.testing.assert_allclose(tally.recall, recall)
    np.testing.assert_allclose(tally.precision, precision)


@several
def test_reliability_is_the_calibration_curve(k: int, seed: int) -> None:
    logs, y = predictions(k, seed)
    proba = np.exp(logs[:, 1]) if k == 2 else np.exp(logs.max(1))
    true = y == 1 if k == 2 else y == logs.argmax(1)
    rows, mass, hits = PredictionCounts.of(logs, y, range(k)).reliability.T
    came, gave = calibration_curve(true, proba, n_bins=N_BINS)
    assert rows.sum() == len(y)
    np.testing.assert_allclose(hits[rows > 0] / rows[rows > 0], came)
    np.testing.assert_allclose(mass[rows > 0] / rows[rows > 0], gave)


@several
def test_counts_add_up_and_survive_json(k: int, seed: int) -> None:
    logs, y = predictions(k, seed)
    whole = PredictionCounts.of(logs, y, range(k))
    parts = PredictionCounts.of(logs[:30], y[:30], range(k)) + PredictionCounts.of(logs[30:], y[30:], range(k))
    again = PredictionCounts.from_dict(json.loads(json.dumps(whole.to_dict())))
    for one in (parts, again):
        assert one.classes == whole.classes
        np.testing.assert_array_equal(one.confusion, whole.confusion)
        np.testing.assert_allclose(one.reliability, whole.reliability, atol=1e-4)


def test_counts_of_other_classes_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="cannot be added"):
        PredictionCounts.of([[0.0, -9.0]], [0], "ab") + PredictionCounts.of([[0.0, -9.0]], [0], "ac")
