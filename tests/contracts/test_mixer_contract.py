"""What every mixer must show, over one list of instances: a draw that is whole, and a mix that follows it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel.mixing import (
    BatchInfo,
    CutMix,
    LinearMixer,
    ManifoldMixup,
    Mixer,
    MixParams,
    Mixup,
    blend,
    identity_params,
)
from genlabel.mixing.base import check_within_batch, draw_to_device, mix_batch, stack_draws


class FirstPartner(LinearMixer):
    """A mixer whose partners are no permutation: every row meets the first."""

    def draw(self, n: int, rng: object = None) -> MixParams:
        return MixParams(np.zeros(n, dtype=np.int64), np.random.default_rng(rng).random(n))


class Halfway(Mixer):
    """A mixer with a mix of its own: no blend, but the parent of the larger share."""

    def draw(self, n: int, rng: object = None) -> MixParams:
        drawn = Mixup().draw(n, rng)
        return drawn._replace(lam=drawn.lam.round())

    def mix(self, X: object, draw: MixParams) -> object:
        return blend(X, draw._replace(lam=draw.lam.round()))


MIXERS: list[tuple[Mixer, tuple[int, ...]]] = [
    (Mixup(), (4,)),
    (Mixup(alpha=0.3), (3, 5, 4)),
    (Mixup(alpha=2.0, lam_per="batch"), (4,)),
    (ManifoldMixup(), (4,)),
    (ManifoldMixup(alpha=1.0, depths=(1,), lam_per="sample"), (4,)),
    (CutMix(), (3, 7, 5)),
    (CutMix(alpha=0.5, lam_per="batch"), (1, 6, 6)),
    (CutMix(pixels=8), (2, 8, 8)),
    (FirstPartner(), (2,)),
    (Halfway(), (2,)),
]
"""Mixers, and the shape of a point that each can mix."""
every = pytest.mark.parametrize(
    "mixer, shape", MIXERS, ids=lambda value: repr(value) if isinstance(value, Mixer) else ""
)


def points(n: int, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n, *shape))


def same(first: MixParams, second: MixParams) -> bool:
    return all(np.array_equal(a, b) if a is not None else b is None for a, b in zip(first, second, strict=True))


@every
@given(n=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_a_draw_names_rows_weights_and_a_depth(mixer: Mixer, shape: tuple[int, ...], n: int, seed: int) -> None:
    draw = mixer.draw(n, seed)
    assert draw.partner.shape == draw.lam.shape == (n,)
    assert set(draw.partner.tolist()) <= set(range(n))
    assert ((draw.lam >= 0) & (draw.lam <= 1)).all()
    assert 0 <= draw.depth <= mixer.max_depth
    if draw.box is not None:
        top, bottom, left, right = draw.box.T
        assert ((top >= 0) & (top <= bottom) & (bottom <= 1) & (left >= 0) & (left <= right) & (right <= 1)).all()


@every
def test_the_same_seed_draws_the_same_and_a_generator_goes_on(mixer: Mixer, shape: tuple[int, ...]) -> None:
    first = mixer.draw(20, 7)
    assert same(first, clone(mixer).draw(20, 7))
    rng = np.random.default_rng(7)
    assert same(mixer.draw(20, rng), first)
    assert not same(mixer.draw(20, rng), first)


@every
def test_mixing_is_the_same_in_numpy_and_torch(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X, draw = points(15, shape), mixer.draw(15, 1)
    mixed = mixer.mix(X, draw)
    assert mixed.shape == X.shape
    np.testing.assert_allclose(mixer.mix(torch.from_numpy(X), draw).numpy(), mixed, rtol=1e-14, atol=1e-15)
    single = mixer.mix(torch.from_numpy(X).float(), draw)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), mixed, atol=1e-5)
    as_tensors = MixParams(*(None if part is None else torch.as_tensor(part) for part in draw))
    np.testing.assert_allclose(mixer.mix(torch.from_numpy(X), as_tensors).numpy(), mixed, rtol=1e-14, atol=1e-15)


@every
def test_whole_numbers_are_mixed_as_numbers(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X, draw = np.random.default_rng(0).integers(-9, 9, (12, *shape)), mixer.draw(12, 2)
    expected = mixer.mix(X.astype(np.float64), draw)
    for whole in (X, X.tolist(), torch.from_numpy(X), torch.from_numpy(X).to(torch.int8)):
        np.testing.assert_allclose(np.asarray(mixer.mix(whole, draw)), expected, atol=1e-12)


def test_a_matrix_of_numpy_is_mixed_row_by_row() -> None:
    X, draw = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Mixup().draw(3, 0)
    with pytest.warns(PendingDeprecationWarning):
        old = np.matrix(X)
    found = Mixup().mix(old, draw)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, Mixup().mix(X, draw))


@every
def test_a_row_depends_on_itself_and_its_partner_only(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X, draw = points(12, shape), mixer.draw(12, 3)
    mixed = mixer.mix(X, draw)
    for i, j in enumerate(draw.partner):
        other = points(12, shape, seed=1)
        other[[i, j]] = X[[i, j]]
        np.testing.assert_array_equal(mixer.mix(other, draw)[i], mixed[i])


@every
def test_lam_is_the_share_of_the_row_itself(mixer: Mixer, shape: tuple[int, ...]) -> None:
    """So that labels may follow it: of points that are constant, the mean is the blend."""
    values = np.arange(9.0) ** 2
    draw = mixer.draw(9, 5)
    X = np.broadcast_to(values.reshape(-1, *[1] * len(shape)), (9, *shape))
    found = mixer.mix(X, draw).reshape(9, -1).mean(1)
    np.testing.assert_allclose(found, blend(values, draw), atol=1e-9)


@every
def test_it_is_the_blend_exactly_where_it_says_so(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X, draw = points(30, shape), mixer.draw(30, 2)
    by_hand = np.array([draw.lam[i] * X[i] + (1 - draw.lam[i]) * X[j] for i, j in enumerate(draw.partner)])
    close = np.allclose(mixer.mix(X, draw), by_hand, rtol=1e-13)
    assert close == (mixer.linear or isinstance(mixer, Halfway))


@every
def test_rows_that_are_kept_stay_as_they_are(mixer: Mixer, shape: tuple[int, ...]) -> None:
    X, draw = points(10, shape), mixer.draw(10, 4)
    kept = draw.leave_clean(4)
    mixed = mixer.mix(X, kept)
    np.testing.assert_array_equal(mixed[:4], X[:4])
    np.testing.assert_array_equal(mixed[4:], mixer.mix(X, draw)[4:])
    assert same(draw.leave_clean(0), draw)
    assert (kept.partner[:4] == np.arange(4)).all()
    assert (kept.lam[:4] == 1.0).all()
    nothing = identity_params(10, like=draw)
    assert nothing.depth == 0
    assert (nothing.box is None) == (draw.box is None)
    np.testing.assert_array_equal(mixer.mix(X, nothing), X)
    clean = np.arange(10) % 3 == 0
    part = mix_batch(mixer, torch.from_numpy(X), draw, BatchInfo(clean=clean)).numpy()
    np.testing.assert_array_equal(part, np.where(clean.reshape(-1, *[1] * len(shape)), X, mixer.mix(X, draw)))
    np.testing.assert_array_equal(mix_batch(None, torch.from_numpy(X), draw, BatchInfo()).numpy(), X)


@every
def test_a_stretch_is_its_batches_and_nothing_of_a_draw_is_lost(mixer: Mixer, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    sizes = (6, 7, 7, 5)
    draws = [mixer.draw(n, rng) for n in sizes]
    stack = stack_draws(draws)
    assert stack.partner.shape == stack.lam.shape == (4, 7)
    for t, (n, draw) in enumerate(zip(sizes, draws, strict=True)):
        assert same(stack.batch(t, n), draw)
        assert (stack.partner[t, n:] == np.arange(n, 7)).all()
        assert (stack.lam[t, n:] == 1.0).all()
    assert stack.flatten().depth == 0
    X = points(28, shape).reshape(4, 7, *shape)
    together = mixer.mix(X.reshape(28, *shape), stack.flatten()).reshape(X.shape)
    for t, (n, draw) in enumerate(zip(sizes, draws, strict=True)):
        np.testing.assert_array_equal(together[t, :n], mixer.mix(X[t, :n], draw))
        np.testing.assert_array_equal(together[t, n:], X[t, n:])


@every
def test_a_draw_on_a_device_is_the_draw_in_the_precision_of_the_points(mixer: Mixer, shape: tuple[int, ...]) -> None:
    draw = mixer.draw(11, 6)
    for dtype, kept in ((torch.float64, torch.float64), (torch.float32, torch.float32), (torch.float16, torch.float32)):
        there = draw_to_device(draw, torch.zeros(1, dtype=dtype))
        assert there.lam.dtype == kept
        np.testing.assert_array_equal(there.lam.numpy(), draw.lam.astype(str(kept).removeprefix("torch.")))
        np.testing.assert_array_equal(there.partner.numpy(), draw.partner)
        assert there.depth == draw.depth
        assert (there.box is None) == (draw.box is None)


def test_partners_of_other_batches_are_refused_where_one_batch_is_seen() -> None:
    assert [mixer.pairs_across_batches for mixer, _ in MIXERS] == [False] * len(MIXERS)
    for mixer, _ in MIXERS:
        check_within_batch(mixer)
    with pytest.raises(ValueError, match=r"Mixup\(pairs='set'\) pairs rows of different batches"):
        check_within_batch(Mixup(pairs="set"))


@every
def test_a_draw_for_another_number_of_rows_is_named(mixer: Mixer, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the draw is for 3 rows, but X has 5"):
        mixer.mix(points(5, shape), mixer.draw(3, 0))
