"""What every mixer must show, over one list of instances."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from sklearn.base import clone

from genlabel.mixing import ManifoldMixup, Mix, Mixer, Mixup, blend

MIXERS: list[Mixer] = [
    Mixup(),
    Mixup(alpha=0.3),
    Mixup(alpha=2.0, per="batch"),
    ManifoldMixup(),
    ManifoldMixup(alpha=1.0, depths=(1,), per="sample"),
]
every = pytest.mark.parametrize("mixer", MIXERS, ids=repr)


@every
@given(n=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_a_draw_is_a_permutation_with_weights_in_the_unit_interval(mixer: Mixer, n: int, seed: int) -> None:
    draw = mixer.draw(n, seed)
    assert sorted(draw.partner.tolist()) == list(range(n))
    assert draw.lam.shape == (n,)
    assert ((draw.lam >= 0) & (draw.lam <= 1)).all()
    assert draw.depth in getattr(mixer, "depths", (0,))


@every
def test_the_same_seed_draws_the_same_and_a_generator_goes_on(mixer: Mixer) -> None:
    first, again = mixer.draw(20, 7), clone(mixer).draw(20, 7)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    rng = np.random.default_rng(7)
    assert np.array_equal(mixer.draw(20, rng).lam, first.lam)
    assert not np.array_equal(mixer.draw(20, rng).lam, first.lam)


@every
def test_mixing_is_the_same_in_numpy_and_torch_and_by_hand(mixer: Mixer) -> None:
    X = np.random.default_rng(0).normal(size=(15, 4))
    draw = mixer.draw(15, 1)
    by_hand = np.array([draw.lam[i] * X[i] + (1 - draw.lam[i]) * X[j] for i, j in enumerate(draw.partner)])
    np.testing.assert_allclose(mixer.mix(X, draw), by_hand, rtol=1e-14)
    np.testing.assert_allclose(mixer.mix(torch.from_numpy(X), draw).numpy(), by_hand, rtol=1e-14)
    assert mixer.mix(torch.from_numpy(X).float(), draw).dtype == torch.float32


@every
def test_lam_follows_its_beta_distribution(mixer: Mixer) -> None:
    rng = np.random.default_rng(0)
    alpha = mixer.get_params()["alpha"]
    if mixer.get_params()["per"] == "sample":
        lam = mixer.draw(4000, rng).lam
    else:
        draws = [mixer.draw(3, rng).lam for _ in range(4000)]
        assert all(len(set(d)) == 1 for d in draws)
        lam = np.array([d[0] for d in draws])
    assert kstest(lam, beta(alpha, alpha).cdf).pvalue > 1e-3


@every
@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_bad_alpha_is_named(mixer: Mixer, alpha: object) -> None:
    with pytest.raises(ValueError, match=r"alpha=.* must be a finite number above 0"):
        clone(mixer).set_params(alpha=alpha).draw(3, 0)


def test_unknown_words_and_wrong_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="per='row' is not known; choose one of 'sample', 'batch'"):
        Mixup(per="row").draw(3, 0)
    with pytest.raises(ValueError, match="depths is empty"):
        ManifoldMixup(depths=()).draw(3, 0)
    with pytest.raises(ValueError, match="the draw is for 3 rows, but 5 were given"):
        Mixup().mix(np.zeros((5, 1)), Mixup().draw(3, 0))


def test_manifold_mixup_draws_every_depth() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([ManifoldMixup().draw(2, rng).depth for _ in range(600)])
    assert len(counts) == 3
    assert (np.abs(counts - 200) < 5 * np.sqrt(600 * 2 / 9)).all()


def test_lam_one_is_the_point_itself() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_array_equal(blend(X, Mix(np.arange(6)[::-1].copy(), np.ones(6))), X)
