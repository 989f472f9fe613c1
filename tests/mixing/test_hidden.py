"""Test GenMix in a hidden space, with its points inverted to inputs."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits

from genlabel import GaussianDensity, GenMix
from genlabel.attacks import PGD, train_robust
from genlabel.attacks.models import AttackedNetwork
from genlabel.attacks.robustness import AttackedBatches
from genlabel.mixing import HiddenGenMix, Sampler
from genlabel.mixing.genmix import invert_features
from genlabel.training import Adam, train_network
from genlabel.training.networks import MLP


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Sevens and nines of 8 x 8 pixels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    rows = np.isin(y, (7, 9))
    return X[rows] / 16.0, y[rows]


def loader(X: np.ndarray, y: np.ndarray) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, index = torch.from_numpy(X).float(), torch.from_numpy((y == 9).astype(np.int64))
    return list(zip(x.split(64), index.split(64), strict=True))


@pytest.fixture(scope="module")
def robust() -> MLP:
    network = MLP(64, 2, hidden=(32,), seed=0)
    attack = PGD(0.1, steps=3, bounds=(0.0, 1.0))
    train_robust(network, loader(*digits()), attack, seed=0, epochs=25, learning_rate=0.01, optimizer=Adam())
    return network.eval()


def test_inverted_points_have_the_hidden_features(robust: MLP) -> None:
    X, y = digits()
    genmix = GenMix(GaussianDensity("ledoit-wolf"), n_aug=20, standardize=True)
    hidden = HiddenGenMix(robust, genmix=genmix, bounds=(0.0, 1.0), steps=300, output="soft", random_state=0)
    assert isinstance(hidden, Sampler)
    points, labels = hidden.fit_resample(X, y)
    points, labels = points[len(X) :], labels[len(X) :]
    assert points.min() >= 0.0
    assert points.max() <= 1.0
    features = robust.encode(torch.from_numpy(points).float(), 1).detach().numpy()
    misfit = np.linalg.norm(features - hidden.features_, axis=1) / np.linalg.norm(hidden.features_, axis=1)
    np.testing.assert_allclose(misfit, hidden.misfit_, atol=1e-5)
    assert np.median(misfit) < 0.1
    np.testing.assert_allclose(labels, 0.5, atol=1e-6)
    density = hidden.genmix_.density_.log_prob(hidden.genmix_.scaler_(hidden.features_))
    np.testing.assert_allclose(density[:, 0], density[:, 1], atol=1e-6)  # lam = 0.5 in the hidden space


def test_images_reach_the_network_in_their_shape() -> None:
    class Flat(torch.nn.Module):
        depth = 1

        def __init__(self) -> None:
            super().__init__()
            self.inner = MLP(64, 2, hidden=(12,), seed=0)

        def encode(self, x: torch.Tensor, depth: int) -> torch.Tensor:
            assert x.shape[1:] == (1, 8, 8)
            return self.inner.encode(x.flatten(1), depth)

    X, y = digits()
    network = Flat().train()
    hidden = HiddenGenMix(network, genmix=GenMix(n_aug=6), shape=(1, 8, 8), steps=5, random_state=0)
    first = hidden.fit_resample(X, y)[0]
    assert first.shape == (len(X) + 6, 64)
    assert network.training
    again = clone(hidden)
    assert again.network is network
    np.testing.assert_array_equal(again.fit_resample(X, y)[0], first)


def test_an_invertible_map_is_inverted() -> None:
    network = MLP(3, 2, hidden=(24,), seed=1, dtype=torch.float64)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(10, 3)))
    z = network.encode(x, 1).detach().numpy()
    inverted, misfit = invert_features(network, 1, z, torch.zeros_like(x), None, steps=2000, learning_rate=0.02)
    assert misfit.max() < 0.02
    np.testing.assert_allclose(inverted, x, atol=0.1)


def test_robust_training_raises_accuracy_under_attack(robust: MLP) -> None:
    X, y = digits()
    plain = MLP(64, 2, hidden=(32,), seed=0)
    train_network(plain, loader(X, y), seed=0, epochs=25, learning_rate=0.01, optimizer=Adam())
    attack = PGD(0.2, steps=10, bounds=(0.0, 1.0))
    index = (y == 9).astype(int)
    accuracies = [float((predict_attacked(network, attack, X, index) == index).mean()) for network in (plain, robust)]
    assert accuracies[1] > accuracies[0] + 0.05


def predict_attacked(network: MLP, attack: PGD, X: np.ndarray, index: np.ndarray) -> np.ndarray:
    moved = attack(AttackedNetwork(network.eval()), X, index, seed=0)
    return network(torch.from_numpy(moved).float()).argmax(1).numpy()


def test_every_epoch_attacks_the_current_network() -> None:
    X, y = digits()
    network = MLP(64, 2, hidden=(8,), seed=0).train()
    batches = AttackedBatches(network, loader(X, y), PGD(0.1, steps=2, random_start=False))
    before = [x for x, _ in batches]
    same = [x for x, _ in batches]
    assert all(torch.equal(a, b) for a, b in zip(before, same, strict=True))
    assert network.training
    with torch.no_grad():
        for weight in network.parameters():
            weight.neg_()
    assert any(not torch.equal(a, b) for a, b in zip(before, [x for x, _ in batches], strict=True))
    for (clean, _), moved in zip(loader(X, y), before, strict=True):
        assert float((moved - clean).abs().max()) <= 0.1 + 1e-6
