"""Test mixup and manifold mixup: partners, weights of a batch, and depths; test_law.py tests the weights."""

import numpy as np
import pytest
from sklearn.base import clone

from genlabel.mixing import CutMix, ManifoldMixup, Mixer, MixParams, Mixup, RandomChoice
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


@pytest.mark.parametrize(
    "mixer", [Mixup(0.7, lam_per="pair"), CutMix(lam_per="pair"), CutMix(lam_per="pair", pixels=9)], ids=repr
)
@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_rows_of_a_pair_are_partners_with_one_weight(mixer: Mixer, n: int) -> None:
    draw, rows = mixer.draw(n, 3), np.arange(n)
    assert (draw.partner[draw.partner] == rows).all()
    assert (draw.partner == rows).sum() == n % 2
    assert (draw.lam[draw.partner] == draw.lam).all()
    assert draw.box is None or (draw.box[draw.partner] == draw.box).all()


def test_each_mixer_of_a_choice_has_its_probability() -> None:
    mixers, p = [Mixup(), CutMix(), ManifoldMixup(depths=(2,))], [0.2, 0.5, 0.3]
    mixer, rng = RandomChoice(mixers, p), np.random.default_rng(0)
    draws = [mixer.draw(5, rng) for _ in range(2000)]
    shares = [
        np.mean([draw.depth == 0 and not draw.box.any() for draw in draws]),
        np.mean([bool(draw.box.any()) for draw in draws]),
        np.mean([draw.depth == 2 for draw in draws]),
    ]
    np.testing.assert_allclose(shares, p, atol=4 * (0.25 / 2000) ** 0.5)
    X = rng.normal(size=(5, 2, 6, 6))
    for draw in draws[:50]:
        expected = CutMix().mix(X, draw) if draw.box.any() else blend(X, draw)
        np.testing.assert_allclose(mixer.mix(X, draw), expected, rtol=1e-12)


@pytest.mark.parametrize("mixer", [RandomChoice([]), RandomChoice(p=(0.5, 0.6)), RandomChoice(p=(1.0,))], ids=repr)
def test_a_choice_needs_mixers_and_their_probabilities(mixer: RandomChoice) -> None:
    with pytest.raises(ValueError, match=r"mixers|probabilities"):
        mixer.draw(3)
