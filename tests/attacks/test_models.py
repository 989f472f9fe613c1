"""Test attacked models: gradients against autograd and closed forms, and errors."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from genlabel.attacks import FGSM
from genlabel.attacks.models import AttackedFleet, AttackedModel, AttackedNetwork, DecisionModel, FunctionModel
from genlabel.densities import GaussianDensity
from genlabel.densities.posterior import log_posterior
from genlabel.training.fleet import Fleet
from genlabel.training.networks import MLP


def autograd_gradient(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(cross_entropy(net(x), y, reduction="sum"), x)[0]


def loss_gradient(target: AttackedModel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Gradient of the cross-entropy: 1 - p_y times that of the log-odds."""
    error = 1.0 - target.log_proba(x).gather(-1, y[..., None]).exp()
    return error * target.log_odds_gradient(x, y)


def sample(m: int = 25, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(m, 4))), torch.from_numpy(rng.integers(0, k, m))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6)])
def test_log_odds_gradient_equals_autograd_of_the_cross_entropy(k: int, hidden: tuple[int, ...]) -> None:
    net = MLP(4, k, hidden, seed=1, dtype=torch.float64)
    x, y = sample(k=k)

    def log_proba(X: np.ndarray) -> np.ndarray:
        return net(torch.from_numpy(X)).log_softmax(-1).detach().numpy()

    expected = autograd_gradient(net, x, y)
    torch.testing.assert_close(loss_gradient(AttackedNetwork(net), x, y), expected)
    torch.testing.assert_close(loss_gradient(FunctionModel(log_proba), x, y), expected, atol=1e-7, rtol=1e-6)
    assert all(weights.grad is None for weights in net.parameters())
    fleet = Fleet((4, *hidden, k), [0, 1, 2], 5, torch.float32, torch.device("cpu"))
    fleet.theta += torch.from_numpy(np.random.default_rng(0).normal(size=fleet.theta.shape)).float()
    expected_by_model = torch.stack([autograd_gradient(fleet.network(2, c), x, y) for c in range(5)])
    target = AttackedFleet(fleet, 2)
    torch.testing.assert_close(loss_gradient(target, x.expand(5, -1, -1), y.expand(5, -1)), expected_by_model)
    twice = torch.stack([x.expand(5, -1, -1), -x.expand(5, -1, -1)])
    np.testing.assert_allclose(target.log_proba(twice)[0].numpy(), fleet.log_proba(2, x.numpy()), rtol=1e-10)


@pytest.mark.parametrize("target", [
    AttackedNetwork(MLP(4, 3, (8,), seed=1, dtype=torch.float64)),
    AttackedFleet(Fleet((4, 8, 3), [0], 2, torch.float64, torch.device("cpu"))),
], ids=["network", "fleet"])  # fmt: skip
def test_blocks_of_points_equal_one_block(target: AttackedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = sample()
    x, y = x.expand(*target.batch_shape, -1, -1), y.expand(*target.batch_shape, -1)
    whole = target.log_proba(x), target.log_odds_gradient(x, y)
    monkeypatch.setattr("genlabel.attacks.models.MAX_BLOCK_VALUES", 40)
    torch.testing.assert_close((target.log_proba(x), target.log_odds_gradient(x, y)), whole)


def test_log_odds_gradient_of_a_given_class_equals_autograd() -> None:
    net = MLP(4, 3, (8,), seed=1, dtype=torch.float64)
    x, y = sample()
    target, other = AttackedNetwork(net), (y + 1) % 3
    error = 1 - target.log_proba(x).exp().gather(1, y[:, None])
    torch.testing.assert_close(target.log_odds_gradient(x, y) * error, autograd_gradient(net, x, y))
    point = x.clone().requires_grad_()
    scores = net(point)
    gap = (scores.gather(1, other[:, None]) - scores.gather(1, y[:, None])).sum()
    torch.testing.assert_close(target.log_odds_gradient(x, y, other), torch.autograd.grad(gap, point)[0])


def test_finite_differences_of_a_density_equal_the_closed_form() -> None:
    """A fully shrunk Gaussian has mean mu and covariance s I; its score is (mu - x) / s."""
    rng = np.random.default_rng(0)
    y = np.arange(2).repeat(100)
    X = (1 + y[:, None]) * rng.normal(size=(200, 4)) + y[:, None]
    density = GaussianDensity(shrinkage=1.0, reg=0.0).fit(X, y)

    def log_proba(Z: np.ndarray) -> np.ndarray:
        return log_posterior(density.log_prob(torch.from_numpy(Z)), np.log([0.5, 0.5]))[0].numpy()

    slopes = [(X[y == c].mean(0) - X) / X[y == c].var(0).mean() for c in (0, 1)]
    exact = np.where(y[:, None] == 0, slopes[1] - slopes[0], slopes[0] - slopes[1])
    slope = FunctionModel(log_proba).log_odds_gradient(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_allclose(slope.numpy(), exact, atol=1e-6)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-8), (np.float32, 1e-2)])
def test_finite_differences_adapt_to_scale_and_precision(dtype: Any, tolerance: float) -> None:
    scale = np.array([1e-6, 1.0, 1e6])
    W = np.random.default_rng(0).normal(size=(3, 3)) / scale[:, None]

    def log_proba(X: np.ndarray) -> np.ndarray:
        return torch.from_numpy(X @ W).log_softmax(-1).numpy().astype(dtype)

    x = torch.from_numpy(np.random.default_rng(1).normal(size=(10, 3)) * scale)
    y = torch.arange(10) % 3
    exact = (W[:, (y + 1) % 3] - W[:, y]).T * scale
    slope = FunctionModel(log_proba, scale).log_odds_gradient(x, y, (y + 1) % 3).numpy() * scale
    np.testing.assert_allclose(slope, exact, atol=tolerance)


def test_finite_differences_widen_for_a_step_function() -> None:
    def stump(X: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.where(X[:, :1] > 0.5, [[0.0, 1.0]], [[1.0, 0.0]]))

    target, x = FunctionModel(stump), torch.tensor([[0.45, 0.0], [0.1, 0.0]]).double()
    y = torch.tensor([0, 0])
    slope = target.log_odds_gradient(x, y)
    assert slope[0, 0] > 0
    assert (slope[1] == 0).all()
    adversarial = FGSM(0.2)(target, x, y)
    assert target.log_proba(adversarial).argmax(-1).tolist() == [1, 0]


def test_a_decision_model_has_no_gradient() -> None:
    target = DecisionModel(lambda X: (X[:, 0] > 0).astype(int), 2)
    x, y = torch.zeros(2, 1), torch.tensor([0, 1])
    assert target.log_proba(x).argmax(-1).tolist() == [0, 0]
    with pytest.raises(TypeError, match="gradient"):
        target.log_odds_gradient(x, y)
    with pytest.raises(TypeError, match="gradients"):
        FGSM()(target, x, y)


def test_bad_models_raise() -> None:
    with pytest.raises(ValueError, match="Dropout"):
        AttackedNetwork(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    AttackedNetwork(nn.Sequential(nn.Linear(2, 2), nn.Dropout()).eval())
    with pytest.raises(ValueError, match="scores"):
        AttackedNetwork(nn.Linear(2, 1)).log_proba(torch.zeros(3, 2))
