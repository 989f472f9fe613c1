"""Staged networks: any depth gives the same function."""

import numpy as np
import pytest
import torch

from genlabel.training.networks import MLP
from genlabel.training.networks.staged import Ensemble, draw_weights, log_proba_of


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4, 3)])
def test_decode_after_encode_equals_the_network(hidden: tuple[int, ...]) -> None:
    net = MLP(3, 2, hidden, seed=0)
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    assert net.depth == len(hidden)
    for depth in range(net.depth + 1):
        torch.testing.assert_close(net.decode(net.encode(x, depth), depth), net(x))
        continued = net.encode(net.encode(x, depth), net.depth, start=depth)
        assert torch.equal(continued, net.encode(x, net.depth))
    torch.testing.assert_close(net.encode(x, 0), x)
    with pytest.raises(ValueError, match="depth=9"):
        net.encode(x, 9)


def test_mlp_equals_matrix_algebra() -> None:
    (W1, b1), (W2, b2) = draw_weights((3, 4, 2), np.random.default_rng(5))
    net = MLP(3, 2, (4,), seed=5, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(6, 3))
    expected = np.maximum(x @ W1 + b1, 0) @ W2 + b2
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-12)
    assert np.abs(W1).max() <= 3**-0.5


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)])
def test_with_input_affine_equals_scaled_inputs(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    net = MLP(3, 2, hidden, seed=0, dtype=torch.float64)
    z, scale, shift = rng.normal(size=(9, 3)), rng.uniform(0.1, 30.0, 3), rng.normal(size=3) * 10.0
    before = [part.clone() for part in net.parameters()]
    expected = net(torch.from_numpy(z * scale + shift)).detach().numpy()
    scores = net.with_input_affine(scale, shift)(torch.from_numpy(z)).detach().numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))  # the network does not change


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize("members", [1, 4])
def test_an_ensemble_is_the_mean_of_its_members_and_the_priors(members: int, weight: float) -> None:
    x = np.random.default_rng(0).normal(size=(7, 3))
    networks = [MLP(3, 4, (5,), seed=seed, dtype=torch.float64) for seed in range(members)]
    scores = [network(torch.from_numpy(x)).detach().numpy() for network in networks]
    mean = np.mean([np.exp(s) / np.exp(s).sum(1, keepdims=True) for s in scores], axis=0)
    np.testing.assert_allclose(np.exp(log_proba_of(Ensemble(networks), x)), mean, rtol=1e-10)
    priors = np.array([0.1, 0.2, 0.3, 0.4])
    powers = priors * (mean / priors) ** weight
    weighted = Ensemble(networks, weight, torch.from_numpy(np.log(priors)))
    expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(log_proba_of(weighted, x)), expected, rtol=1e-10)
    with_prior = Ensemble(networks, weight, torch.from_numpy(np.log(priors)), prior_weight=0.2)
    np.testing.assert_allclose(np.exp(log_proba_of(with_prior, x)), 0.8 * expected + 0.2 * priors, rtol=1e-10)


def test_chunks_of_rows_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = MLP(3, 2, (4,), seed=0, dtype=torch.float64), np.random.default_rng(0).normal(size=(11, 3))
    whole = log_proba_of(net, x)
    monkeypatch.setattr("genlabel.training.networks.staged.MAX_CHUNK_ROWS", 4)
    np.testing.assert_allclose(log_proba_of(net, x), whole, rtol=1e-12)
    np.testing.assert_allclose(np.exp(whole).sum(1), 1.0)


def test_bad_sizes_raise() -> None:
    with pytest.raises(ValueError, match="size=0"):
        MLP(3, 2, (0,))
