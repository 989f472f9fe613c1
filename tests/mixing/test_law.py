"""The law of everything that mixes, by machine: how weights and partners fall, and that both parents give the label."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, kstest, uniform

import genlabel.mixing as room
from genlabel import GaussianDensity, GenLabel, GenLabelMixup, GenLabelSampler, GenMix, LinearLabel
from genlabel.densities import fixed_gaussians
from genlabel.mixing import CutMix, HiddenGenMix, ManifoldMixup, Mixer, MixParams, Mixup, RandomChoice, Sampler
from genlabel.training.networks import MLP

PLAUSIBLE = 1e-6
"""Of some hundred p-values that are looked at in a run, none is below this but by a fault."""
MIXERS: dict[str, Callable[[float], Mixer]] = {
    "mixup": lambda alpha: Mixup(alpha),
    "mixup, batch": lambda alpha: Mixup(alpha, lam_per="batch"),
    "mixup, set": lambda alpha: Mixup(alpha, pairs="set"),
    "choice": lambda alpha: RandomChoice([Mixup(alpha), ManifoldMixup(alpha, lam_per="sample")]),
    "manifold": lambda alpha: ManifoldMixup(alpha, lam_per="sample"),
    "manifold, batch": lambda alpha: ManifoldMixup(alpha),
    "cutmix": lambda alpha: CutMix(alpha),
    "cutmix, batch": lambda alpha: CutMix(alpha, lam_per="batch"),
}
every = pytest.mark.parametrize("make", MIXERS.values(), ids=MIXERS)
alphas, seeds = st.floats(0.2, 8.0), st.integers(0, 2**32 - 1)


def weights(draw: Callable[[int], MixParams], batch: bool) -> np.ndarray:
    """1,000 weights that are independent: of one large batch, or of as many batches."""
    if not batch:
        return np.asarray(draw(1000).lam)
    drawn = [np.asarray(draw(2).lam) for _ in range(1000)]
    assert all(lam[0] == lam[1] for lam in drawn)
    return np.array([lam[0] for lam in drawn])


def uncut(alpha: float, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """The law of CutMix's lam, from 200,000 boxes that are cut at the image's border one side at a time."""
    side = np.sqrt(1.0 - rng.beta(alpha, alpha, 200_000))
    sides = [np.minimum(1.0, at + side / 2) - np.maximum(0.0, at - side / 2) for at in rng.random((2, len(side)))]
    known = np.sort(1.0 - sides[0] * sides[1])
    return lambda lam: np.searchsorted(known, lam, side="right") / len(known)


@every
@given(alpha=alphas, seed=seeds)
@example(alpha=1.0, seed=0)
@example(alpha=2.0, seed=0)
@settings(max_examples=6)
def test_weights_follow_the_law_that_alpha_names(make: Callable[[float], Mixer], alpha: float, seed: int) -> None:
    mixer, rng = make(alpha), np.random.default_rng(seed)
    law = uncut(alpha, np.random.default_rng([seed, 1])) if isinstance(mixer, CutMix) else beta(alpha, alpha).cdf
    found = weights(partial(mixer.draw, rng=rng), mixer.get_params().get("lam_per") == "batch")
    assert kstest(found, law).pvalue > PLAUSIBLE


def test_another_law_would_be_seen() -> None:
    for alpha in (0.3, 1.0, 2.0):
        found = weights(partial(Mixup(alpha).draw, rng=np.random.default_rng(11)), batch=False)
        boxes = weights(partial(CutMix(alpha).draw, rng=np.random.default_rng(11)), batch=False)
        assert kstest(found, beta(2.0 * alpha, 2.0 * alpha).cdf).pvalue < PLAUSIBLE
        assert kstest(found, beta(alpha, 1.4 * alpha).cdf).pvalue < PLAUSIBLE
        assert kstest(boxes, beta(alpha, alpha).cdf).pvalue < PLAUSIBLE


@every
@given(n=st.integers(2, 6), seed=seeds)
@settings(max_examples=6)
def test_every_row_is_a_partner_once_and_of_any_other_as_often(
    make: Callable[[float], Mixer], n: int, seed: int
) -> None:
    rng, mixer = np.random.default_rng(seed), make(1.0)
    partners = np.array([mixer.draw(n, rng).partner for _ in range(600)])
    assert (np.sort(partners, axis=1) == np.arange(n)).all()
    for row in range(n):
        assert chisquare(np.bincount(partners[:, row], minlength=n)).pvalue > PLAUSIBLE


@every
@given(n=st.integers(1, 30), k=st.integers(2, 5), alpha=alphas, seed=seeds)
def test_the_label_has_the_share_of_each_parent(
    make: Callable[[float], Mixer], n: int, k: int, alpha: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat(np.arange(k), 5), rng.integers(0, k, n)])
    draw = make(alpha).draw(len(y), rng)
    points, expected = rng.normal(size=(len(y), 2)), expected_labels(y, draw.partner, draw.lam, k)
    np.testing.assert_allclose(LinearLabel().label(points, y, draw), expected, atol=1e-12)
    generative = GenLabel(GaussianDensity(shrinkage=0.1), gamma=0.25).fit(points, y).label(points, y, draw)
    assert (generative >= 0.75 * expected - 1e-12).all()
    np.testing.assert_allclose(generative.sum(1), 1.0, atol=1e-12)


def expected_labels(y: Any, partner: Any, lam: Any, k: int) -> np.ndarray:
    """Row by row: lam for the row's own class, the rest for that of its partner."""
    made = np.zeros((len(y), k))
    for i, (j, share) in enumerate(zip(partner, lam, strict=True)):
        made[i, y[i]] += share
        made[i, y[j]] += 1.0 - share
    return made


@given(alpha=alphas, seed=st.integers(0, 2**31))
@settings(max_examples=4)
def test_the_loop_mixes_by_the_same_law_and_labels(alpha: float, seed: int) -> None:
    mixup = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed)
    lam = torch.cat([mixup.draw(100).lam for _ in range(10)]).double().numpy()
    assert kstest(lam, beta(alpha, alpha).cdf, method="asymp").pvalue > PLAUSIBLE
    again = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed)
    x, y = torch.arange(12.0).reshape(12, 1), torch.arange(12) % 4
    mixed, labels = again(x, y)
    draw = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed).draw(12)
    expected = expected_labels(y, draw.partner.tolist(), draw.lam.double().tolist(), 4)
    np.testing.assert_allclose(labels.numpy(), expected, atol=1e-6)
    own, other = x[:, 0].numpy(), x[draw.partner, 0].numpy()
    np.testing.assert_allclose(mixed[:, 0].numpy(), other + draw.lam.numpy() * (own - other), atol=1e-5)


class Made(NamedTuple):
    """What a sampler made of two clouds of 300 rows each, apart by 4."""

    X: np.ndarray
    y: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    sampler: Any


def made_by(sampler: Sampler, seed: int) -> Made:
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 2)) + 4.0 * y[:, None] * [1.0, 0.0]
    points, labels = sampler.set_params(output="soft", random_state=rng).fit_resample(X, y)
    return Made(X, y, points[600:], labels[600:], sampler)


@given(alpha=alphas, seed=seeds)
@settings(max_examples=4)
def test_a_sampler_of_blends_has_the_law_and_both_parents(alpha: float, seed: int) -> None:
    found = made_by(GenLabelSampler(gamma=0.0, alpha=alpha), seed)
    first, second = found.sampler.parents_.T
    lam = 1.0 - found.sampler.lam_
    assert kstest(lam, beta(alpha, alpha).cdf).pvalue > PLAUSIBLE
    assert sorted(first) == sorted(second) == list(range(600))
    blended = lam[:, None] * found.X[first] + (1.0 - lam)[:, None] * found.X[second]
    np.testing.assert_allclose(found.points, blended, atol=1e-12)
    np.testing.assert_array_equal(found.sampler.pair_, np.stack([found.y[first], found.y[second]], 1))
    expected = lam[:, None] * np.eye(2)[found.y[first]] + (1.0 - lam)[:, None] * np.eye(2)[found.y[second]]
    np.testing.assert_allclose(found.labels, expected, atol=1e-12)


def genmix(low: float, high: float) -> GenMix:
    return GenMix(fixed_gaussians([[0.0, 0.0], [4.0, 0.0]]), n_aug=600, lam=(low, high))


@given(low=st.floats(0.1, 0.5), width=st.floats(0.1, 0.4), seed=seeds)
@settings(max_examples=4)
def test_genmix_draws_its_shares_evenly_and_its_labels_are_they(low: float, width: float, seed: int) -> None:
    """Where every share can be had, none is preferred."""
    found = made_by(genmix(low, low + width), seed)
    lam = found.sampler.lam_
    assert kstest(lam, uniform(low, width).cdf).pvalue > PLAUSIBLE
    np.testing.assert_array_equal(found.sampler.pair_, np.broadcast_to([0, 1], (600, 2)))
    np.testing.assert_allclose(found.labels, np.stack([1.0 - lam, lam], 1), atol=1e-5)
    odds = 4.0 * found.points[:, 0] - 8.0  # log p_1 - log p_0 of the two clouds
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-odds)), lam, atol=1e-5)


def test_genmix_of_features_has_the_law_of_its_genmix() -> None:
    within = GenMix("gaussian", n_aug=400, lam=(0.2, 0.8))
    found = made_by(HiddenGenMix(MLP(2, 2, hidden=(3,), seed=0), depth=0, genmix=within, steps=1), 0)
    lam = found.sampler.lam_
    assert kstest(lam, uniform(0.2, 0.6).cdf).pvalue > PLAUSIBLE
    np.testing.assert_allclose(found.labels, np.stack([1.0 - lam, lam], 1), atol=1e-5)


def test_everything_that_mixes_is_here() -> None:
    offered = [getattr(room, name) for name in room.__all__]
    parts = {one for one in offered if isinstance(one, type) and issubclass(one, Mixer | Sampler)}
    final = {one for one in parts if not one.__abstractmethods__}
    assert final == {type(make(1.0)) for make in MIXERS.values()} | {GenMix, HiddenGenMix}
