"""Test mixers that see the batch: partners, weights and masks against brute force, scipy and scikit-learn."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from sklearn.feature_selection import f_classif

from genlabel import GenLabelMixup, LinearLabel
from genlabel.mixing import FeatMix, KMixup, LocalMixup, Mixer, Mixup, RegMixup, SameClassMixup, SimilarityMixup
from genlabel.mixing.data_dependent import class_information

MIN_P_VALUE = 1e-6
seeds = st.integers(0, 2**31)
ALL: list[Mixer] = [KMixup(k=5), SimilarityMixup(), LocalMixup(), SameClassMixup(), FeatMix(), RegMixup()]
every = pytest.mark.parametrize("mixer", ALL, ids=lambda mixer: type(mixer).__name__)


def batch(n: int = 40, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, d)) + 2.0 * np.eye(3)[y, :d], y


@given(n=st.integers(2, 6), seed=seeds)
@settings(max_examples=10)
def test_k_mixup_finds_the_assignment_of_least_squared_distance(n: int, seed: int) -> None:
    x, _ = batch(n, seed=seed)
    draw = KMixup(k=n).draw(n, seed, x)
    costs = [
        sum(((x[i] - x[j]) ** 2).sum() for i, j in enumerate(order))
        for order in permutations(range(n))
        if all(i != j for i, j in enumerate(order))
    ]
    assert sorted(draw.partner) == list(range(n))
    assert ((x - x[draw.partner]) ** 2).sum() == pytest.approx(min(costs), rel=1e-6)


def test_larger_blocks_of_k_mixup_have_nearer_partners() -> None:
    x, _ = batch(200)
    distances = []
    for k in (1, 4, 16, 64):
        draws = [KMixup(k=k).draw(200, seed, x) for seed in range(20)]
        distances.append(np.mean([((x - x[draw.partner]) ** 2).sum() for draw in draws]))
    assert distances == sorted(distances, reverse=True)


@given(tau_max=st.floats(0.3, 3.0), seed=seeds)
@settings(max_examples=6)
def test_similarity_mixup_draws_lam_from_the_beta_distribution_of_the_distance(tau_max: float, seed: int) -> None:
    x, _ = batch(1000, seed=seed)
    draw = SimilarityMixup(tau_max, tau_std=1.0).draw(1000, seed, x)
    squares = np.array([((x[i] - x[j]) ** 2).sum() for i, j in enumerate(draw.partner)])
    tau = tau_max * np.exp(-(squares / squares.mean() - 1.0) / 2.0)
    assert kstest(beta(tau, tau).cdf(draw.lam), "uniform").pvalue > MIN_P_VALUE


def test_a_wide_similarity_kernel_is_mixup() -> None:
    x, _ = batch()
    wide, mixup = SimilarityMixup(tau_std=1e4).draw(40, 5, x), Mixup().draw(40, 5)
    np.testing.assert_array_equal(wide.partner, mixup.partner)
    np.testing.assert_allclose(wide.lam, mixup.lam, atol=1e-6)


def test_local_mixup_weights_pairs_by_their_distance() -> None:
    x, y = batch()
    draw, plain = LocalMixup(decay=1.5).draw(40, 5, x, y), Mixup().draw(40, 5)
    distance = np.linalg.norm(x - x[draw.partner], axis=1)
    np.testing.assert_array_equal(draw.partner, plain.partner)
    np.testing.assert_array_equal(draw.lam, plain.lam)
    np.testing.assert_allclose(draw.weight, np.exp(-1.5 * distance / distance.mean()), rtol=1e-12)


@given(n=st.integers(1, 30), seed=seeds)
def test_same_class_mixup_keeps_hard_labels(n: int, seed: int) -> None:
    x, y = batch(n, seed=seed)
    draw = SameClassMixup().draw(n, seed, x, y)
    assert sorted(draw.partner) == list(range(n))
    np.testing.assert_array_equal(y[draw.partner], y)
    one_hot = np.eye(3)[y]
    np.testing.assert_allclose(LinearLabel().label(x, one_hot, draw), one_hot, atol=1e-12)
    np.testing.assert_array_equal(SameClassMixup().draw(n, seed, x, one_hot).partner, draw.partner)


@given(seed=seeds, alpha=st.floats(0.3, 3.0))
@settings(max_examples=10)
def test_feat_mix_weights_labels_by_the_information_of_the_features(seed: int, alpha: float) -> None:
    x, y = batch(30, d=3, seed=seed)
    importance = np.array([0.0, 3.0, 1.0])
    mixer = FeatMix(alpha, importance)
    draw = mixer.draw(30, seed, x, y)
    kept = np.round(Mixup(alpha).draw(30, seed).lam * 3)
    np.testing.assert_array_equal((~draw.mask).sum(1), kept)
    mixed = mixer.mix(x, draw)
    for i, j in enumerate(draw.partner):
        own = sum(importance[f] for f in range(3) if not draw.mask[i, f])
        assert draw.lam[i] == pytest.approx(own / 4.0)
        np.testing.assert_array_equal(mixed[i], [x[j, f] if draw.mask[i, f] else x[i, f] for f in range(3)])


def test_class_information_is_that_of_the_f_statistic() -> None:
    x, y = batch(200)
    F, _ = f_classif(x, y)
    explained = 2.0 * F / (2.0 * F + 197.0)  # eta^2, with 2 and 197 degrees of freedom
    np.testing.assert_allclose(class_information(torch.from_numpy(x), y), -0.5 * np.log1p(-explained), rtol=1e-10)


def test_feat_mix_without_information_counts_features() -> None:
    x, y = np.ones((8, 4)), np.arange(8) % 2
    draw = FeatMix().draw(8, 0, x, y)
    np.testing.assert_allclose(draw.lam, 1.0 - draw.mask.mean(1))


@given(n=st.integers(1, 30), eta=st.floats(0.1, 4.0), seed=seeds)
def test_regmixup_leaves_half_of_the_batch_clean(n: int, eta: float, seed: int) -> None:
    draw = RegMixup(eta=eta).draw(n, seed)
    clean = draw.partner == np.arange(n)
    assert (draw.lam[draw.weight == 1.0] == 1.0).all() or eta == 1.0
    assert clean.sum() >= n // 2
    np.testing.assert_array_equal(np.unique(draw.weight[draw.lam < 1.0]), [eta] if (draw.lam < 1.0).any() else [])


@every
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_the_loss_in_any_loop_is_the_weighted_mean_over_the_rows(mixer: Mixer, gamma: float) -> None:
    x, y = (torch.as_tensor(part) for part in batch())
    x = x.float()
    network = torch.nn.Linear(3, 3)
    mixup = GenLabelMixup(network, num_classes=3, mixer=mixer, gamma=gamma)
    for _ in range(2):
        mixed = mixup.mix(x, y)
        scores = network(mixed.x)
        loss, target = mixed.loss(scores), mixed.target()
        rows = -(target * torch.log_softmax(scores, 1)).sum(1)
        weight = torch.ones(40) if mixed.draw.weight is None else mixed.draw.weight
        torch.testing.assert_close(loss, (weight * rows).sum() / weight.sum())
        torch.testing.assert_close(mixed.loss(scores, reduction="none"), weight * rows)
    assert bool((mixed.x != x).any())


@pytest.mark.parametrize("mixer", [LocalMixup(), RegMixup()], ids=lambda mixer: type(mixer).__name__)
def test_labels_without_weights_of_the_rows_are_refused(mixer: Mixer) -> None:
    x, y = (torch.as_tensor(part) for part in batch())
    with pytest.raises(RuntimeError, match="weights"):
        GenLabelMixup(num_classes=3, mixer=mixer, gamma=0.0)(x, y)


@pytest.mark.parametrize("mixer", ALL[:-1], ids=lambda mixer: type(mixer).__name__)
@pytest.mark.parametrize("n", [4, 6])
def test_a_draw_without_its_batch_is_refused(mixer: Mixer, n: int) -> None:
    x, y = batch(5)
    for given_batch in ((None, None), (x, y)):
        with pytest.raises(ValueError, match="batch"):
            mixer.draw(n, 0, *given_batch)


INVALID: list[tuple[Mixer, str]] = [
    (KMixup(k=0), "k"),
    (KMixup(lam_per="pair"), "lam_per"),
    (SimilarityMixup(tau_std=0.0), "tau_std"),
    (SimilarityMixup(tau_max=-1.0), "tau_max"),
    (LocalMixup(decay=0.0), "decay"),
    (SameClassMixup(alpha=0.0), "alpha"),
    (FeatMix(importance=[1.0, 2.0]), "importance"),
    (FeatMix(importance=[1.0, 2.0, -1.0]), "importance"),
    (RegMixup(eta=0.0), "eta"),
]


@pytest.mark.parametrize(("mixer", "parameter"), INVALID, ids=lambda value: repr(value))
def test_parameters_out_of_range_are_named(mixer: Any, parameter: str) -> None:
    x, y = batch(10)
    with pytest.raises(ValueError, match=parameter):
        mixer.draw(10, 0, x, y)
