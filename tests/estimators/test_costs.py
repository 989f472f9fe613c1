"""Costs and thresholds: predictions have the lowest expected cost, and probabilities stay as they are."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import FixedThresholdClassifier

from genlabel import GenerativeClassifier, MixupClassifier, TrainingOptions, load_model, save_model


def rows(k: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs([240, 60, 30][:k], 3, cluster_std=9.0, random_state=0)
    return X, np.array(["no", "yes", "perhaps"])[y]


MODELS: dict[str, Any] = {
    "network": MixupClassifier("logistic", training=TrainingOptions(epochs=3), random_state=0),
    "weighted network": MixupClassifier(
        "logistic", class_weight="balanced", training=TrainingOptions(epochs=3), random_state=0
    ),
    "densities": GenerativeClassifier(),
}


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest) -> list[Any]:
    """The model of two classes, and that of three."""
    return [pickle.loads(pickle.dumps(MODELS[request.param])).fit(*rows(k)) for k in (2, 3)]


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("pos_label", ["no", "yes"])
def test_thresholds_are_those_of_scikit_learn(pair: list[Any], threshold: float, pos_label: str) -> None:
    X, y = rows(2)
    expected = FixedThresholdClassifier(FrozenEstimator(pair[0]), threshold=threshold, pos_label=pos_label)
    before = pair[0].predict_proba(X)
    labels = expected.fit(X, y).predict(X)
    assert (pair[0].set_threshold(threshold, pos_label).predict(X) == labels).all()
    np.testing.assert_array_equal(pair[0].predict_proba(X), before)
    pair[0].set_costs(None)


def test_numbers_need_no_positive_label() -> None:
    X, y = rows(2)
    model = GenerativeClassifier().fit(X, y == "yes").set_threshold(0.2)
    assert (model.predict(X) == (model.predict_proba(X)[:, 1] >= 0.2)).all()


@pytest.mark.parametrize("k", [2, 3])
def test_predictions_have_the_lowest_expected_cost(pair: list[Any], k: int) -> None:
    X, model = rows(k)[0], pair[k - 2]
    proba = model.predict_proba(X)
    for seed in range(5):
        costs = np.random.default_rng(seed).uniform(0.1, 10, k)
        wrong = costs[:, None] * (1 - np.eye(k))  # of a row of one class that is predicted as another
        model.set_costs(dict(zip(model.classes_, costs, strict=True)))
        assert (model.predict(X) == model.classes_[(proba @ wrong).argmin(1)]).all()
    model.set_costs({"yes": 1.0})
    assert (model.predict(X) == model.classes_[proba.argmax(1)]).all()
    model.set_costs(None)


def test_balanced_costs_raise_the_balanced_accuracy(pair: list[Any]) -> None:
    X, y = rows(3)
    plain = balanced_accuracy_score(y, pair[1].set_costs(None).predict(X))
    balanced = balanced_accuracy_score(y, pair[1].set_costs("balanced").predict(X))
    if pair[1].class_weight is None:
        assert balanced > plain + 0.05
    else:  # training is balanced already
        assert balanced == plain
    pair[1].set_costs(None)


def test_saved_models_keep_their_costs_and_fits_forget_them(pair: list[Any], tmp_path: Path) -> None:
    X, y = rows(3)
    model = pickle.loads(pickle.dumps(pair[1])).set_costs({"perhaps": 30})
    changed = model.predict(X) != pair[1].predict(X)
    assert changed.any()
    assert (load_model(save_model(model, tmp_path / "m")).predict(X) == model.predict(X)).all()
    assert (model.fit(X, y).predict(X) == pair[1].predict(X)).all()


@pytest.mark.parametrize(
    "costs, match",
    [({"maybe": 2}, "maybe"), ({"yes": 0}, "above 0"), ({"yes": np.nan}, "above 0"), ("equal", "balanced")],
)
def test_wrong_costs_are_errors(pair: list[Any], costs: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        pair[1].set_costs(costs)


@pytest.mark.parametrize(
    "k, threshold, pos_label, match",
    [(2, 0.2, None, "pos_label"), (2, 0.2, "maybe", "maybe"), (2, 1.2, "yes", "threshold"), (3, 0.2, "yes", "costs")],
)
def test_wrong_thresholds_are_errors(pair: list[Any], k: int, threshold: float, pos_label: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        pair[k - 2].set_threshold(threshold, pos_label)
