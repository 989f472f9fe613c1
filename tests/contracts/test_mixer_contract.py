"""Contract of mixers: `check_mixer` for every mixer of genlabel, and properties of their draws."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from genlabel.mixing import CutMix, ManifoldMixup, Mixer, MixParams, Mixup, RandomChoice
from genlabel.mixing.base import blend, check_within_batch, draw_to_device
from genlabel.registry import MIXERS as REGISTRY
from genlabel.testing import check_mixer


class FirstPartner(Mixer):
    """A mixer whose partners are not a permutation: every row is paired with the first."""

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return MixParams(np.zeros(n, dtype=np.int64), np.random.default_rng(rng).random(n))


class HeavierParent(Mixer):
    """A mixer that returns the parent of larger weight."""

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        drawn = Mixup().draw(n, rng)
        return drawn._replace(lam=drawn.lam.round())

    def mix(self, X: object, draw: MixParams) -> object:
        return blend(X, draw._replace(lam=draw.lam.round()))


MIXERS: list[tuple[Mixer, tuple[int, ...]]] = [
    *((REGISTRY.create(name), (4,) if name == "feat-mix" else (3, 7, 5)) for name in REGISTRY.names()),
    (Mixup(), (4,)),
    (Mixup(alpha=0.3), (3, 5, 4)),
    (Mixup(alpha=2.0, lam_per="batch"), (4,)),
    (ManifoldMixup(), (4,)),
    (ManifoldMixup(alpha=1.0, depths=(1,), lam_per="sample"), (4,)),
    (CutMix(alpha=0.5, lam_per="batch"), (1, 6, 6)),
    (CutMix(pixels=8), (2, 8, 8)),
    (Mixup(alpha=0.5, lam_per="pair"), (4,)),
    (CutMix(lam_per="pair"), (1, 6, 6)),
    (RandomChoice(p=(1.0, 0.0)), (1, 6, 6)),
    (RandomChoice([Mixup(0.2), ManifoldMixup(depths=(1,))]), (4,)),
    (FirstPartner(), (2,)),
    (HeavierParent(), (2,)),
]
"""Mixers, and the shape of a point that each can mix."""
every = pytest.mark.parametrize(
    "mixer, shape", MIXERS, ids=lambda value: repr(value) if isinstance(value, Mixer) else ""
)


@every
def test_mixer_contract(mixer: Mixer, shape: tuple[int, ...]) -> None:
    check_mixer(mixer, shape)


class LossyMixer(Mixer):
    """A mixer that ignores its generator."""

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return MixParams(np.arange(n)[::-1].copy(), np.full(n, 0.5))


class ShiftedMixer(Mixer):
    """A mixer whose lam is not the weight of the row itself."""

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return Mixup().draw(n, rng)

    def mix(self, X: object, draw: MixParams) -> object:
        return blend(X, draw._replace(lam=1.0 - draw.lam))


@pytest.mark.parametrize(("mixer", "match"), [(LossyMixer(), "twice"), (ShiftedMixer(), "weight")])
def test_broken_mixers_fail_the_check(mixer: Mixer, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        check_mixer(mixer)


@every
@given(n=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_a_draw_has_rows_weights_and_a_depth(mixer: Mixer, shape: tuple[int, ...], n: int, seed: int) -> None:
    draw = mixer.draw(n, seed, points(n, shape), np.arange(n) % 3)
    assert draw.partner.shape == draw.lam.shape == (n,)
    assert set(draw.partner.tolist()) <= set(range(n))
    assert ((draw.lam >= 0) & (draw.lam <= 1)).all()
    assert 0 <= draw.depth <= mixer.max_depth
    if draw.box is not None:
        top, bottom, left, right = draw.box.T
        assert ((top >= 0) & (top <= bottom) & (bottom <= 1) & (left >= 0) & (left <= right) & (right <= 1)).all()


def points(n: int, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n, *shape))


@every
def test_mixers_are_linear_exactly_if_they_declare_it(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X = points(30, shape)
    draw = mixer.draw(30, 2, X, np.arange(30) % 3)
    by_hand = np.array([draw.lam[i] * X[i] + (1 - draw.lam[i]) * X[j] for i, j in enumerate(draw.partner)])
    close = np.allclose(mixer.mix(X, draw), by_hand, rtol=1e-13)
    assert close == (mixer.linear or isinstance(mixer, HeavierParent | RandomChoice))  # which may draw a blend


def test_a_numpy_matrix_is_mixed_row_by_row() -> None:
    X, draw = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Mixup().draw(3, 0)
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(X)
    mixed = Mixup().mix(matrix, draw)
    assert type(mixed) is np.ndarray
    np.testing.assert_array_equal(mixed, Mixup().mix(X, draw))


@every
def test_draw_to_device_uses_the_precision_of_the_points(mixer: Mixer, shape: tuple[int, ...]) -> None:
    draw = mixer.draw(11, 6, points(11, shape), np.arange(11) % 3)
    float16, float32, float64 = torch.float16, torch.float32, torch.float64
    for dtype, expected in ((float64, float64), (float32, float32), (float16, float32)):
        moved = draw_to_device(draw, torch.zeros(1, dtype=dtype))
        assert moved.lam.dtype == expected
        np.testing.assert_array_equal(moved.lam.numpy(), draw.lam.astype(str(expected).removeprefix("torch.")))
        np.testing.assert_array_equal(moved.partner.numpy(), draw.partner)
        assert moved.depth == draw.depth
        assert moved.row_fields().keys() == draw.row_fields().keys()


def test_mixers_that_pair_across_batches_raise() -> None:
    assert [mixer.pairs_across_batches for mixer, _ in MIXERS] == [False] * len(MIXERS)
    for mixer, _ in MIXERS:
        check_within_batch(mixer)
    with pytest.raises(ValueError, match="batches"):
        check_within_batch(Mixup(pairs="set"))
