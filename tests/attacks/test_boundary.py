"""Test the boundary attack of foolbox against the closed form of linear models and without foolbox."""

import sys

import numpy as np
import pytest
import torch

from genlabel.attacks import FGSM, Boundary, robust_accuracy
from genlabel.attacks.models import AttackedNetwork, DecisionModel
from genlabel.training.networks import MLP

needs_foolbox = pytest.mark.usefixtures("foolbox")


@pytest.fixture
def foolbox() -> None:
    pytest.importorskip("foolbox", reason="needs foolbox", exc_type=ImportError)


@needs_foolbox
@pytest.mark.parametrize("k, d", [(2, 2), (3, 5)])
def test_fools_a_linear_model_only_within_the_radius(k: int, d: int) -> None:
    rng = np.random.default_rng(0)
    W, b, X = rng.normal(size=(d, k)), rng.normal(size=k), rng.normal(size=(150, d))
    target = AttackedNetwork(MLP(d, k, seed=0, dtype=torch.float64).load([(W, b)]))
    scores = X @ W + b
    y = scores.argmax(1)
    gaps = (scores[np.arange(150), y][:, None] - scores) / np.maximum(
        np.linalg.norm(W[:, y].T[:, None] - W.T, axis=-1), 1e-12
    )
    distance = np.where(np.arange(k) == y[:, None], np.inf, gaps).min(1)
    adversarial = torch.from_numpy(Boundary(0.4, steps=300)(target, X, y, seed=0))
    fooled = target.log_proba(adversarial).argmax(-1).numpy() != y
    assert (distance[fooled] <= 0.4 + 1e-9).all()
    assert fooled[distance < 0.35].mean() > 0.97
    assert fooled.sum() > 10
    untouched = (adversarial.numpy() == X).all(1)
    np.testing.assert_array_equal(untouched, ~fooled)


@needs_foolbox
def test_needs_only_classes_and_keeps_misclassified_points() -> None:
    target = DecisionModel(lambda X: (X[:, 0] > 0).astype(int), 2)
    X, y = np.array([[0.1, 5.0], [-0.1, 0.0], [3.0, 0.0], [0.1, 0.0]]), np.array([1, 0, 1, 0])
    adversarial = Boundary(0.2, steps=50)(target, X, y, seed=0)
    assert ((adversarial[:, 0] > 0) != y).tolist() == [True, True, False, True]
    np.testing.assert_array_equal(adversarial[2:], X[2:])


@needs_foolbox
def test_bounds_of_different_widths_hold() -> None:
    target = DecisionModel(lambda X: (X.sum(1) > 1).astype(int), 2)
    X = np.random.default_rng(0).uniform(size=(40, 2)) * [1.0, 0.1]
    y = (X.sum(1) > 1).astype(int)
    adversarial = Boundary(0.3, steps=60, bounds=(0, [1.0, 0.1]))(target, X, y, seed=0)
    assert (adversarial >= 0).all()
    assert (adversarial <= [1.0, 0.1]).all()
    assert (adversarial != X).any()


def test_the_attack_is_skipped_without_foolbox(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setitem(sys.modules, "foolbox", None)
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(ImportError, match="foolbox"):
        Boundary()(AttackedNetwork(torch.nn.Linear(2, 2)), X, y)
    model = LogisticRegression().fit(X, y)
    report = robust_accuracy(model, X, y, [FGSM(), "boundary"])
    assert list(report.by_attack) == ["FGSM()"]
    assert "foolbox" in report.skipped["boundary"]
    assert "skipped" in str(report)
    with pytest.raises(ValueError, match="foolbox"):
        robust_accuracy(model, X, y, "boundary")
