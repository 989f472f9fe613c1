"""Staged networks: any depth gives the same function."""

import numpy as np
import pytest
import torch

from genlabel.networks import MLP, draw_weights


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4, 3)])
def test_decode_after_encode_is_the_network_at_every_depth(hidden: tuple[int, ...]) -> None:
    net = MLP(3, 2, hidden, rng=0)
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    assert net.depth == len(hidden)
    for depth in range(net.depth + 1):
        torch.testing.assert_close(net.decode(net.encode(x, depth), depth), net(x))
        onwards = net.encode(net.encode(x, depth), net.depth, start=depth)
        assert torch.equal(onwards, net.encode(x, net.depth))
    torch.testing.assert_close(net.encode(x, 0), x)
    with pytest.raises(ValueError, match="depth=9 from start=0 is outside"):
        net.encode(x, 9)


def test_equals_plain_matrix_algebra_and_the_seed_fixes_it() -> None:
    (W1, b1), (W2, b2) = draw_weights((3, 4, 2), np.random.default_rng(5))
    net = MLP(3, 2, (4,), rng=5, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(6, 3))
    expected = np.maximum(x @ W1 + b1, 0) @ W2 + b2
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-12)
    assert np.abs(W1).max() <= 3**-0.5


def test_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="size=0"):
        MLP(3, 2, (0,))
