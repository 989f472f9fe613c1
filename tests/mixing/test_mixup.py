"""Test mixup and manifold mixup: partners, weights of a batch, and depths; test_law.py tests the weights."""

import numpy as np
import pytest
from sklearn.base import clone

from genlabel.mixing import CutMix, ManifoldMixup, Mixer, MixParams, Mixup
from genlabel.mixing.base import blend

MIXUPS: list[Mixer] = [
    Mixup(),
    Mixup(alpha=0.3),
    Mixup(alpha=2.0, lam_per="batch"),
    ManifoldMixup(),
    ManifoldMixup(alpha=1.0, depths=(1,), lam_per="sample"),
]
every = pytest.mark.parametrize("mixer", MIXUPS, ids=repr)


@every
def test_partners_are_a_permutation(mixer: Mixer) -> None:
    draw = mixer.draw(17, 0)
    assert sorted(draw.partner.tolist()) == list(range(17))
    assert draw.depth in getattr(mixer, "depths", (0,))
    assert draw.box is None


@pytest.mark.parametrize("mixer", [*MIXUPS, CutMix()], ids=repr)
@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_bad_alpha_is_named(mixer: Mixer, alpha: object) -> None:
    with pytest.raises(ValueError, match="alpha="):
        clone(mixer).set_params(alpha=alpha).draw(3, 0)


def test_unknown_options_raise() -> None:
    for mixer in (Mixup(lam_per="row"), CutMix(lam_per="row")):
        with pytest.raises(ValueError, match="lam_per="):
            mixer.draw(3, 0)
    with pytest.raises(ValueError, match="pairs="):
        assert Mixup(pairs="all").pairs_across_batches
    with pytest.raises(ValueError, match="depths"):
        ManifoldMixup(depths=()).draw(3, 0)


def test_manifold_mixup_draws_every_depth() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([ManifoldMixup().draw(2, rng).depth for _ in range(600)])
    assert len(counts) == 3
    assert (np.abs(counts - 200) < 5 * np.sqrt(600 * 2 / 9)).all()


def test_lam_one_returns_the_point() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_array_equal(blend(X, MixParams(np.arange(6)[::-1].copy(), np.ones(6))), X)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_lam_per_batch_or_sample(n: int, alpha: float) -> None:
    for seed in range(5):
        assert len(np.unique(Mixup(alpha, lam_per="batch").draw(n, seed).lam)) == 1
        assert len(np.unique(Mixup(alpha, lam_per="sample").draw(n, seed).lam)) == n


def test_max_depth_is_the_deepest_stage() -> None:
    assert [ManifoldMixup(depths=depths).max_depth for depths in ((), (0,), (2, 0, 1))] == [0, 0, 2]
