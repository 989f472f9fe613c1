"""Numbers to be trusted: at any scale and width, in single precision, in any company, however they lie in memory."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs

from genlabel import (
    ForestDensity,
    GaussianDensity,
    GenerativeClassifier,
    GenLabel,
    GenLabelClassifier,
    GenLabelSampler,
    GenMix,
    KernelDensity,
    Mixup,
    MixupClassifier,
    StackedDensity,
    Typicality,
    VAEDensity,
)
from genlabel.densities import ClassDensity, DiscriminantDensity, PowerTransformedDensity
from genlabel.densities.stacked import WeightedDensities
from genlabel.labeling import LinearLabel
from genlabel.training import SGD, Adam
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet import weight_rng
from genlabel.training.fleet_trainer import train_fleet
from genlabel.training.networks import MLP
from genlabel_paper.runs.genmix import train_task

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

# Scales and widths

FEW = StackedDensity([DiscriminantDensity(0.0, 0.1), KernelDensity(0.6, covariance="shared")])
FREE: list[ClassDensity] = [
    GaussianDensity("ledoit-wolf", reg=0.0),
    KernelDensity("likelihood"),
    KernelDensity(0.5, covariance="shared"),
    DiscriminantDensity(0.0, 0.3, reg=0.0),
    DiscriminantDensity(0.5, 0.3, "diagonal", reg=0.0),
    ForestDensity(3),
    WeightedDensities([DiscriminantDensity(), KernelDensity(0.5)], [0.3, 0.7], [1.0, 2.0], standardize=True),
    FEW,
]
"""Densities to which nothing is added that has a size of its own."""
DEAR = [StackedDensity(), VAEDensity(hidden=(4,), epochs=2, n_samples=2, random_state=0)]
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
    density = PowerTransformedDensity(DiscriminantDensity(0.3, 0.1, reg=0.0))
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
"""Of log-probabilities; docs/benchmarks.md says so."""


Q = torch.from_numpy(2.0 * np.random.default_rng(9).normal(size=(100, 4)))


def mixed_task() -> TrainingTask:
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 1.5 * np.eye(4)[y]
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return TrainingTask(X, y, 3, labelers, Mixup(), seed=[0, 1])


def trained(task: TrainingTask, hidden: tuple[int, ...], moved: float = 0.0, **settings: Any) -> MLP:
    """One network in double precision, from the start that a fleet has, or one that is moved by a share of itself."""
    network = MLP(4, 3, hidden, seed=weight_rng(task.seed), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            weight *= 1.0 + moved * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    train_task(network, task, CANDIDATE, **settings)
    return network


CANDIDATE = Hyperparameters(0.03, 1e-3, (0.4, 0.6))


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

SHORT: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-3,
    "training__epochs": 3,
    "search__cv": 2,
    "random_state": 3,
}
MODELS = [
    GenLabelClassifier((5,), FEW).set_params(**SHORT),
    MixupClassifier((5,), "manifold").set_params(**SHORT),
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


# The same numbers, however they lie in memory

LAYOUTS: dict[str, Any] = {
    "columns first": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "back to front": lambda X: X[::-1].copy()[::-1],
    "a frame": lambda X: pd.DataFrame({f"c{place}": column for place, column in enumerate(X.T)}),
    "a frame of one block": lambda X: pd.DataFrame(np.asfortranarray(X), columns=[f"c{i}" for i in range(X.shape[1])]),
}


def told(model: Any, X: Any, y: Any) -> np.ndarray:
    """Numbers that a fresh copy of a part makes of a table."""
    fresh = clone(model)
    if isinstance(model, GenMix | GenLabelSampler):
        return np.asarray(fresh.fit_resample(X, y)[0])
    fresh.fit(X, y)
    return np.asarray(
        fresh.log_prob(X)
        if isinstance(model, ClassDensity)
        else fresh(X)
        if isinstance(model, Typicality)
        else fresh.predict_log_proba(X)
    )


@pytest.mark.parametrize(
    "model",
    [
        *MODELS,
        *FREE,
        GenMix(GaussianDensity(), n_aug=40, lam="uniform", standardize=True, random_state=0),
        GenLabelSampler(random_state=0),
        Typicality(random_state=0),
    ],
    ids=lambda model: repr(model)[:50],
)
def test_every_bit_is_the_same_however_a_table_lies_in_memory(model: Any) -> None:
    X, y = BLOBS
    expected = told(model, X, y)
    for layout in LAYOUTS.values():
        np.testing.assert_array_equal(told(model, layout(X), y), expected)
