"""Numbers to be trusted: at any scale and width, in single precision, in any company, and by the laws of chance."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_blobs

from genlabel import (
    CutMix,
    ForestDensity,
    GaussianDensity,
    GenerativeClassifier,
    GenLabel,
    GenLabelClassifier,
    GenLabelSampler,
    GenMix,
    KernelDensity,
    LabelModel,
    ManifoldMixup,
    Mixup,
    MixupClassifier,
    VAEDensity,
)
from genlabel.densities import ClassDensity, DiscriminantDensity, StackDensity, WarpedDensity
from genlabel.labeling import LinearLabel
from genlabel.mixing import Mixer
from genlabel.networks import MLP
from genlabel.training import SGD, Adam, Candidate, Task, train_fleet, train_task
from genlabel.training.fleet import weight_rng

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

# Scales and widths

FEW = LabelModel([DiscriminantDensity(0.0, 0.1), KernelDensity(0.6, covariance="shared")])
FREE: list[ClassDensity] = [
    GaussianDensity("ledoit-wolf", reg=0.0),
    KernelDensity("likelihood"),
    KernelDensity(0.5, covariance="shared"),
    DiscriminantDensity(0.0, 0.3, reg=0.0),
    DiscriminantDensity(0.5, 0.3, "diagonal", reg=0.0),
    ForestDensity(3),
    StackDensity([DiscriminantDensity(), KernelDensity(0.5)], [0.3, 0.7], [1.0, 2.0], standardize=True),
    FEW,
]
"""Densities to which nothing is added that has a size of its own."""
DEAR = [LabelModel(), VAEDensity(hidden=(4,), epochs=2, n_samples=2, random_state=0)]
QUICK = [KernelDensity(0.5, covariance="shared"), DiscriminantDensity(0.0, 0.3, reg=0.0), ForestDensity(3)]
"""Those that take no time for 2,000 features."""
WIDTHS = [
    *((density, width) for density in FREE for width in (3, 120)),
    *((density, 2000) for density in QUICK),
    *(pytest.param(density, 2000, marks=pytest.mark.long) for density in FREE if repr(density) not in map(repr, QUICK)),
    *(pytest.param(density, width, marks=pytest.mark.long) for density in DEAR for width in (3, 2000)),
]


def fifty(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """50 rows of two classes, and a few more."""
    rng = np.random.default_rng(0)
    y = np.arange(50) % 2
    return rng.normal(size=(50, d)) + y[:, None], y, rng.normal(size=(7, d))


@pytest.mark.parametrize("density, d", WIDTHS, ids=lambda value: repr(value)[:50])
def test_a_unit_of_the_features_moves_log_densities_by_a_constant(density: ClassDensity, d: int) -> None:
    """log p of s x is log p of x minus d log s, from 1e-12 to 1e12; what a posterior compares stays the same."""
    X, y, asked = fifty(d)
    before = clone(density).fit(X, y).log_prob(asked)
    assert np.isfinite(before).all()
    for scale in (1e-12, 1e12):
        after = clone(density).fit(scale * X, y).log_prob(scale * asked)
        np.testing.assert_allclose(after, before - d * np.log(scale), rtol=1e-11)
        np.testing.assert_allclose(after[:, 0] - after[:, 1], before[:, 0] - before[:, 1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("density", FREE[:2], ids=repr)
def test_each_feature_may_have_a_unit_of_its_own(density: ClassDensity) -> None:
    X, y, asked = fifty(4)
    free = clone(density).set_params(shrinkage=None) if "shrinkage" in density.get_params() else density
    scale = np.array([1e-12, 1e12, 1.0, 1e-5])
    before = clone(free).fit(X, y).log_prob(asked)
    after = clone(free).fit(scale * X, y).log_prob(scale * asked)
    np.testing.assert_allclose(after, before - np.log(scale).sum(), rtol=1e-9)


def test_a_map_of_tiny_features_is_linear_and_knows_no_unit_either() -> None:
    X, y, asked = fifty(5)
    density = WarpedDensity(DiscriminantDensity(0.3, 0.1, reg=0.0))
    near, far = (clone(density).fit(scale * X, y).log_prob(scale * asked) for scale in (1e-9, 1e-12))
    np.testing.assert_allclose(far, near + 5 * np.log(1e3), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("d", [3, 2000])
def test_labels_of_blends_know_no_units(scale: float, d: int) -> None:
    X, y, _ = fifty(d)
    draw = Mixup(1.0).draw(50, 0)
    found = []
    for unit in (1.0, scale):
        points = unit * X
        labeler = GenLabel(DiscriminantDensity(0.0, 0.3, reg=0.0), 0.8).fit(points, y)
        found.append(labeler.label(Mixup().mix(points, draw), y, draw))
    np.testing.assert_allclose(found[1], found[0], atol=1e-7)
    np.testing.assert_allclose(found[0].sum(1), 1.0, atol=1e-12)


# Single precision

BOUND = 1e-4
"""Of log-probabilities; docs/measuring.md says so."""


Q = torch.from_numpy(2.0 * np.random.default_rng(9).normal(size=(100, 4)))


def mixed_task() -> Task:
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 1.5 * np.eye(4)[y]
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return Task(X, y, 3, labelers, Mixup(), seed=[0, 1])


def trained(task: Task, hidden: tuple[int, ...], moved: float = 0.0, **settings: Any) -> MLP:
    """One network in double precision, from the start that a fleet has, or one that is moved by a share of itself."""
    network = MLP(4, 3, hidden, rng=weight_rng(task.seed), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            weight *= 1.0 + moved * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    train_task(network, task, CANDIDATE, **settings)
    return network


CANDIDATE = Candidate(0.03, 1e-3, (0.4, 0.6))


@pytest.mark.parametrize("hidden, epochs", [((), 30), ((8,), 30), ((64, 64), 12)])
@pytest.mark.parametrize("rule", [Adam(), SGD()], ids=["Adam", "SGD"])
def test_a_fleet_in_single_precision_is_a_network_in_double_precision(
    hidden: tuple[int, ...], epochs: int, rule: Any
) -> None:
    task, settings = mixed_task(), {"optimizer": rule, "epochs": epochs, "batch_size": 30}
    fleet = train_fleet([task], [CANDIDATE], hidden=hidden, **settings)
    found, expected = (
        one(Q).log_softmax(1).detach().numpy() for one in (fleet.network(), trained(task, hidden, **settings))
    )
    np.testing.assert_allclose(found, expected, atol=BOUND)


@pytest.mark.long
def test_in_the_long_run_single_precision_is_no_further_off_than_a_start_that_is_hardly_moved() -> None:
    task, settings = mixed_task(), {"optimizer": Adam(), "epochs": 100, "batch_size": 30}
    fleet = train_fleet([task], [CANDIDATE], hidden=(64, 64), **settings).network()
    exact, moved = (trained(task, (64, 64), share, **settings) for share in (0.0, 1e-7))
    off, usual = ((one(Q).softmax(1) - exact(Q).softmax(1)).detach().abs().max() for one in (fleet, moved))
    assert float(off) < 10.0 * float(usual) + BOUND


# Seeds, threads and batches

SHORT: dict[str, Any] = {"learning_rate": 0.05, "weight_decay": 1e-3, "epochs": 3, "cv": 2, "random_state": 3}
MODELS = [
    GenLabelClassifier((5,), FEW, **SHORT),
    MixupClassifier((5,), "manifold", **SHORT),
    GenerativeClassifier(FEW),
]
BLOBS = make_blobs(60, 3, centers=3, cluster_std=3.0, random_state=0)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_seed_fixes_every_bit_whatever_the_threads_and_the_batches(model: Any) -> None:
    X, y = BLOBS
    before = torch.get_num_threads()
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            np.random.seed(threads)  # noqa: NPY002 - the state that others share is no matter
            torch.manual_seed(threads)
            found.append(clone(model).fit(X, y))
        finally:
            torch.set_num_threads(before)
    expected = found[0].predict_log_proba(X)
    np.testing.assert_array_equal(found[1].predict_log_proba(X), expected)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(found[0].predict_log_proba(X[order]), expected[order], rtol=1e-9, atol=1e-12)
    batches = [found[0].predict_log_proba(part) for part in np.array_split(X, [1, 8, 9, 40])]
    np.testing.assert_allclose(np.concatenate(batches), expected, rtol=1e-9, atol=1e-12)


# The laws of chance

DRAWS = 4000
SURE = 1e-3
"""A p-value that speaks against a law; seeds are fixed, so that it is the same each time."""
BETA: list[tuple[Mixer, float]] = [
    (Mixup(), 1.0),
    (Mixup(0.3), 0.3),
    (Mixup(2.0, "batch"), 2.0),
    (ManifoldMixup(), 2.0),
    (ManifoldMixup(0.5, (1, 2), "sample"), 0.5),
]


def weights(mixer: Mixer) -> np.ndarray:
    """Independent weights of a mixer: all rows of one draw, or one row of many."""
    if getattr(mixer, "per", "sample") == "sample":
        return np.asarray(mixer.draw(DRAWS, 11).lam)
    rng = np.random.default_rng(11)
    draws = [mixer.draw(3, rng).lam for _ in range(DRAWS)]
    assert all((lam == lam[0]).all() for lam in draws)
    return np.array([lam[0] for lam in draws])


@pytest.mark.parametrize("mixer, alpha", BETA, ids=repr)
def test_lam_has_the_beta_law(mixer: Mixer, alpha: float) -> None:
    lam = weights(mixer)
    assert stats.kstest(lam, stats.beta(alpha, alpha).cdf).pvalue > SURE
    assert stats.kstest(lam, stats.beta(1.5 * alpha, 1.5 * alpha).cdf).pvalue < SURE  # the test would see it
    assert stats.kstest(lam, stats.beta(alpha, 1.2 * alpha).cdf).pvalue < SURE


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_share_that_a_box_leaves_has_the_law_of_yun_et_al(alpha: float) -> None:
    """Against boxes that are drawn here: sides sqrt(1 - lam), a centre anywhere, cut off at the border."""
    rng = np.random.default_rng(5)
    half = np.sqrt(1.0 - rng.beta(alpha, alpha, DRAWS)) / 2.0
    sides = [np.minimum(c + half, 1.0) - np.maximum(c - half, 0.0) for c in rng.random((2, DRAWS))]
    expected = 1.0 - sides[0] * sides[1]
    assert stats.ks_2samp(CutMix(alpha).draw(DRAWS, 11).lam, expected).pvalue > SURE
    assert stats.ks_2samp(CutMix(3.0 * alpha).draw(DRAWS, 11).lam, expected).pvalue < SURE


@pytest.mark.parametrize("mixer", [mixer for mixer, _ in BETA] + [CutMix()], ids=repr)
def test_partners_are_a_permutation_in_which_each_row_is_as_likely(mixer: Mixer) -> None:
    rng = np.random.default_rng(2)
    partners = np.array([mixer.draw(6, rng).partner for _ in range(1200)])
    assert (np.sort(partners, axis=1) == np.arange(6)).all()
    for row in range(6):
        assert stats.chisquare(np.bincount(partners[:, row], minlength=6)).pvalue > SURE / 6


@pytest.mark.parametrize("mixer", [mixer for mixer, _ in BETA] + [CutMix()], ids=repr)
def test_a_blend_has_the_labels_of_both_parents_by_their_shares(mixer: Mixer) -> None:
    y = np.random.default_rng(3).integers(0, 4, 30)
    draw = mixer.draw(30, 4)
    points = np.random.default_rng(3).normal(size=(30, 2))
    labels = LinearLabel().fit(points, y).label(points, y, draw)
    by_hand = np.zeros((30, 4))
    for i, j in enumerate(draw.partner):
        by_hand[i, y[i]] += draw.lam[i]
        by_hand[i, y[j]] += 1.0 - draw.lam[i]
    np.testing.assert_allclose(labels, by_hand, atol=1e-12)
    generative = GenLabel(GaussianDensity(), 0.25).fit(points, y).label(points, y, draw)
    assert (generative >= 0.75 * by_hand - 1e-12).all()
    np.testing.assert_allclose(generative.sum(1), 1.0, atol=1e-12)


def test_a_samplers_weights_have_their_law_and_its_points_are_blends_of_the_parents_it_names() -> None:
    X, y = BLOBS
    sampler = GenLabelSampler(GaussianDensity(), alpha=0.4, n_aug=DRAWS, random_state=0)
    points, _ = sampler.fit_resample(X, y)
    assert stats.kstest(sampler.lam_, stats.beta(0.4, 0.4).cdf).pvalue > SURE
    lam, (first, second) = sampler.lam_[:, None], sampler.parents_.T
    np.testing.assert_allclose(points[len(X) :], (1.0 - lam) * X[first] + lam * X[second], atol=1e-12)
    np.testing.assert_array_equal(sampler.pair_, np.stack([y[first], y[second]], 1))


def test_genmix_keeps_the_law_of_lam_where_every_trial_finds_a_point() -> None:
    """Of two classes far apart: near ones have no ratio close to 0 or 1 between many of their draws."""
    X, y = make_blobs(60, centers=[[-10.0, 0.0], [10.0, 0.0]], random_state=0)
    sampler = GenMix(DiscriminantDensity(pooling=1.0), lam="uniform", n_aug=1500, random_state=0)
    sampler.fit_resample(X, y)
    assert stats.kstest(sampler.lam_, "uniform").pvalue > SURE
