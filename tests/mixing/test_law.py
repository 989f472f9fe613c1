"""Test the distribution of weights and partners of every mixer and sampler, and their labels."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, kstest, uniform

import genlabel.mixing as mixing_package
from genlabel import GaussianDensity, GenLabel, GenLabelMixup, GenLabelSampler, GenMix, LinearLabel
from genlabel.densities import fixed_gaussians
from genlabel.mixing import (
    CutMix,
    FeatMix,
    HiddenGenMix,
    KMixup,
    LocalMixup,
    ManifoldMixup,
    Mixer,
    MixParams,
    Mixup,
    RandomChoice,
    RegMixup,
    SameClassMixup,
    Sampler,
    SimilarityMixup,
)
from genlabel.training.networks import MLP

MIN_P_VALUE = 1e-6
"""A run checks some hundred p-values; a correct program has none below this."""
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
    """1,000 independent weights: of one large batch, or of 1,000 batches that share one weight each."""
    if not batch:
        return np.asarray(draw(1000).lam)
    batches = [np.asarray(draw(2).lam) for _ in range(1000)]
    assert all(lam[0] == lam[1] for lam in batches)
    return np.array([lam[0] for lam in batches])


def cutmix_lam_cdf(alpha: float, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """The distribution function of the lam of CutMix, from 200,000 boxes clipped at the border of the image."""
    side = np.sqrt(1.0 - rng.beta(alpha, alpha, 200_000))
    sides = [
        np.minimum(1.0, center + side / 2) - np.maximum(0.0, center - side / 2) for center in rng.random((2, len(side)))
    ]
    sorted_lam = np.sort(1.0 - sides[0] * sides[1])
    return lambda lam: np.searchsorted(sorted_lam, lam, side="right") / len(sorted_lam)


@every
@given(alpha=alphas, seed=seeds)
@example(alpha=1.0, seed=0)
@example(alpha=2.0, seed=0)
@settings(max_examples=6)
def test_weights_have_the_distribution_of_alpha(make: Callable[[float], Mixer], alpha: float, seed: int) -> None:
    mixer, rng = make(alpha), np.random.default_rng(seed)
    cdf = (
        cutmix_lam_cdf(alpha, np.random.default_rng([seed, 1])) if isinstance(mixer, CutMix) else beta(alpha, alpha).cdf
    )
    lam = weights(partial(mixer.draw, rng=rng), mixer.get_params().get("lam_per") == "batch")
    assert kstest(lam, cdf).pvalue > MIN_P_VALUE


def test_other_distributions_are_rejected() -> None:
    for alpha in (0.3, 1.0, 2.0):
        lam = weights(partial(Mixup(alpha).draw, rng=np.random.default_rng(11)), batch=False)
        cutmix_lam = weights(partial(CutMix(alpha).draw, rng=np.random.default_rng(11)), batch=False)
        assert kstest(lam, beta(2.0 * alpha, 2.0 * alpha).cdf).pvalue < MIN_P_VALUE
        assert kstest(lam, beta(alpha, 1.4 * alpha).cdf).pvalue < MIN_P_VALUE
        assert kstest(cutmix_lam, beta(alpha, alpha).cdf).pvalue < MIN_P_VALUE


@every
@given(n=st.integers(2, 6), seed=seeds)
@settings(max_examples=6)
def test_partners_are_uniform_permutations(make: Callable[[float], Mixer], n: int, seed: int) -> None:
    rng, mixer = np.random.default_rng(seed), make(1.0)
    partners = np.array([mixer.draw(n, rng).partner for _ in range(600)])
    assert (np.sort(partners, axis=1) == np.arange(n)).all()
    for row in range(n):
        assert chisquare(np.bincount(partners[:, row], minlength=n)).pvalue > MIN_P_VALUE


@every
@given(n=st.integers(1, 30), k=st.integers(2, 5), alpha=alphas, seed=seeds)
def test_labels_have_the_weights_of_the_parents(
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
    """Row by row: lam for the class of the row, 1 - lam for the class of its partner."""
    labels = np.zeros((len(y), k))
    for i, (j, weight) in enumerate(zip(partner, lam, strict=True)):
        labels[i, y[i]] += weight
        labels[i, y[j]] += 1.0 - weight
    return labels


@given(alpha=alphas, seed=st.integers(0, 2**31))
@settings(max_examples=4)
def test_genlabel_mixup_has_the_same_weights_and_labels(alpha: float, seed: int) -> None:
    mixup = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed)
    lam = torch.cat([mixup.draw(100).lam for _ in range(10)]).double().numpy()
    assert kstest(lam, beta(alpha, alpha).cdf, method="asymp").pvalue > MIN_P_VALUE
    again = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed)
    x, y = torch.arange(12.0).reshape(12, 1), torch.arange(12) % 4
    mixed, labels = again(x, y)
    draw = GenLabelMixup(num_classes=4, mixer=Mixup(alpha), gamma=0.0, seed=seed).draw(12)
    expected = expected_labels(y, draw.partner.tolist(), draw.lam.double().tolist(), 4)
    np.testing.assert_allclose(labels.numpy(), expected, atol=1e-6)
    own, other = x[:, 0].numpy(), x[draw.partner, 0].numpy()
    np.testing.assert_allclose(mixed[:, 0].numpy(), other + draw.lam.numpy() * (own - other), atol=1e-5)


class Resampled(NamedTuple):
    """Two classes of 300 rows each at a distance of 4, and the points that a sampler adds."""

    X: np.ndarray
    y: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    sampler: Any


def resample(sampler: Sampler, seed: int) -> Resampled:
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 2)) + 4.0 * y[:, None] * [1.0, 0.0]
    points, labels = sampler.set_params(output="soft", random_state=rng).fit_resample(X, y)
    return Resampled(X, y, points[600:], labels[600:], sampler)


@given(alpha=alphas, seed=seeds)
@settings(max_examples=4)
def test_genlabel_sampler_has_the_weights_and_labels_of_mixup(alpha: float, seed: int) -> None:
    result = resample(GenLabelSampler(gamma=0.0, alpha=alpha), seed)
    first, second = result.sampler.parents_.T
    lam = 1.0 - result.sampler.lam_
    assert kstest(lam, beta(alpha, alpha).cdf).pvalue > MIN_P_VALUE
    assert sorted(first) == sorted(second) == list(range(600))
    mixed = lam[:, None] * result.X[first] + (1.0 - lam)[:, None] * result.X[second]
    np.testing.assert_allclose(result.points, mixed, atol=1e-12)
    np.testing.assert_array_equal(result.sampler.pair_, np.stack([result.y[first], result.y[second]], 1))
    expected = lam[:, None] * np.eye(2)[result.y[first]] + (1.0 - lam)[:, None] * np.eye(2)[result.y[second]]
    np.testing.assert_allclose(result.labels, expected, atol=1e-12)


def genmix(low: float, high: float) -> GenMix:
    return GenMix(fixed_gaussians([[0.0, 0.0], [4.0, 0.0]]), n_aug=600, lam=(low, high))


@given(low=st.floats(0.1, 0.5), width=st.floats(0.1, 0.4), seed=seeds)
@settings(max_examples=4)
def test_genmix_has_uniform_lam_and_matching_labels(low: float, width: float, seed: int) -> None:
    """All values of lam are reachable, so they are uniform."""
    result = resample(genmix(low, low + width), seed)
    lam = result.sampler.lam_
    assert kstest(lam, uniform(low, width).cdf).pvalue > MIN_P_VALUE
    np.testing.assert_array_equal(result.sampler.pair_, np.broadcast_to([0, 1], (600, 2)))
    np.testing.assert_allclose(result.labels, np.stack([1.0 - lam, lam], 1), atol=1e-5)
    odds = 4.0 * result.points[:, 0] - 8.0  # log p_1 - log p_0 of the two classes
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-odds)), lam, atol=1e-5)


def test_hidden_genmix_has_the_distribution_of_its_genmix() -> None:
    inner = GenMix("gaussian", n_aug=400, lam=(0.2, 0.8))
    result = resample(HiddenGenMix(MLP(2, 2, hidden=(3,), seed=0), depth=0, genmix=inner, steps=1), 0)
    lam = result.sampler.lam_
    assert kstest(lam, uniform(0.2, 0.6).cdf).pvalue > MIN_P_VALUE
    np.testing.assert_allclose(result.labels, np.stack([1.0 - lam, lam], 1), atol=1e-5)


def test_every_mixer_and_sampler_is_tested() -> None:
    exported = [getattr(mixing_package, name) for name in mixing_package.__all__]
    classes = {cls for cls in exported if isinstance(cls, type) and issubclass(cls, Mixer | Sampler)}
    concrete = {cls for cls in classes if not cls.__abstractmethods__}
    tested_elsewhere = {GenMix, HiddenGenMix, RegMixup, KMixup, SimilarityMixup, LocalMixup, SameClassMixup, FeatMix}
    assert concrete == {type(make(1.0)) for make in MIXERS.values()} | tested_elsewhere
