"""Numerical robustness: scales and widths of features, single precision, seeds, threads, batches and memory layouts."""

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

SMALL_STACK = StackedDensity([DiscriminantDensity(0.0, 0.1), KernelDensity(0.6, covariance="shared")])
SCALE_FREE: list[ClassDensity] = [
    GaussianDensity("ledoit-wolf", reg=0.0),
    KernelDensity("likelihood"),
    KernelDensity(0.5, covariance="shared"),
    DiscriminantDensity(0.0, 0.3, reg=0.0),
    DiscriminantDensity(0.5, 0.3, "diagonal", reg=0.0),
    ForestDensity(3),
    WeightedDensities([DiscriminantDensity(), KernelDensity(0.5)], [0.3, 0.7], [1.0, 2.0], standardize=True),
    SMALL_STACK,
]
"""Densities without a term that has a scale of its own."""
SLOW = [StackedDensity(), VAEDensity(hidden=(4,), epochs=2, n_samples=2, random_state=0)]
FAST = [KernelDensity(0.5, covariance="shared"), DiscriminantDensity(0.0, 0.3, reg=0.0), ForestDensity(3)]
"""Densities that are fast for 2,000 features."""
WIDTHS = [
    *((density, width) for density in SCALE_FREE for width in (3, 120)),
    *((density, 2000) for density in FAST),
    *(
        pytest.param(density, 2000, marks=pytest.mark.long)
        for density in SCALE_FREE
        if repr(density) not in map(repr, FAST)
    ),
    *(pytest.param(density, width, marks=pytest.mark.long) for density in SLOW for width in (3, 2000)),
]


def make_sample(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 50 rows of two classes, their labels, and 7 query rows."""
    rng = np.random.default_rng(0)
    y = np.arange(50) % 2
    return rng.normal(size=(50, d)) + y[:, None], y, rng.normal(size=(7, d))


@pytest.mark.parametrize("density, d", WIDTHS, ids=lambda value: repr(value)[:50])
def test_scaling_shifts_log_densities_by_a_constant(density: ClassDensity, d: int) -> None:
    """log p(s x) = log p(x) - d log s for s from 1e-12 to 1e12; differences between classes stay the same."""
    X, y, queries = make_sample(d)
    before = clone(density).fit(X, y).log_prob(queries)
    assert np.isfinite(before).all()
    for scale in (1e-12, 1e12):
        after = clone(density).fit(scale * X, y).log_prob(scale * queries)
        np.testing.assert_allclose(after, before - d * np.log(scale), rtol=1e-11)
        np.testing.assert_allclose(after[:, 0] - after[:, 1], before[:, 0] - before[:, 1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("density", SCALE_FREE[:2], ids=repr)
def test_features_may_have_different_scales(density: ClassDensity) -> None:
    X, y, queries = make_sample(4)
    free = clone(density).set_params(shrinkage=None) if "shrinkage" in density.get_params() else density
    scale = np.array([1e-12, 1e12, 1.0, 1e-5])
    before = clone(free).fit(X, y).log_prob(queries)
    after = clone(free).fit(scale * X, y).log_prob(scale * queries)
    np.testing.assert_allclose(after, before - np.log(scale).sum(), rtol=1e-9)


def test_power_transform_of_tiny_features_is_linear() -> None:
    X, y, queries = make_sample(5)
    density = PowerTransformedDensity(DiscriminantDensity(0.3, 0.1, reg=0.0))
    near, far = (clone(density).fit(scale * X, y).log_prob(scale * queries) for scale in (1e-9, 1e-12))
    np.testing.assert_allclose(far, near + 5 * np.log(1e3), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("d", [3, 2000])
def test_labels_of_mixed_samples_are_scale_invariant(scale: float, d: int) -> None:
    X, y, _ = make_sample(d)
    draw = Mixup(1.0).draw(50, 0)
    labels = []
    for unit in (1.0, scale):
        points = unit * X
        labeler = GenLabel(DiscriminantDensity(0.0, 0.3, reg=0.0), 0.8).fit(points, y)
        labels.append(labeler.label(Mixup().mix(points, draw), y, draw))
    np.testing.assert_allclose(labels[1], labels[0], atol=1e-7)
    np.testing.assert_allclose(labels[0].sum(1), 1.0, atol=1e-12)


# Single precision

BOUND = 1e-4
"""Largest difference of log-probabilities, as stated in docs/benchmarks.md."""


Q = torch.from_numpy(2.0 * np.random.default_rng(9).normal(size=(100, 4)))


def mixed_task() -> TrainingTask:
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 1.5 * np.eye(4)[y]
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return TrainingTask(X, y, 3, labelers, Mixup(), seed=[0, 1])


def trained_mlp(task: TrainingTask, hidden: tuple[int, ...], moved: float = 0.0, **settings: Any) -> MLP:
    """Train a network in double precision from the initial weights of a fleet, perturbed by the share `moved`."""
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
def test_single_precision_fleet_equals_a_double_precision_network(
    hidden: tuple[int, ...], epochs: int, rule: Any
) -> None:
    task, settings = mixed_task(), {"optimizer": rule, "epochs": epochs, "batch_size": 30}
    fleet = train_fleet([task], [CANDIDATE], hidden=hidden, **settings)
    actual, expected = (
        network(Q).log_softmax(1).detach().numpy()
        for network in (fleet.network(), trained_mlp(task, hidden, **settings))
    )
    np.testing.assert_allclose(actual, expected, atol=BOUND)


@pytest.mark.long
def test_long_single_precision_run_errs_like_a_perturbed_start() -> None:
    task, settings = mixed_task(), {"optimizer": Adam(), "epochs": 100, "batch_size": 30}
    fleet = train_fleet([task], [CANDIDATE], hidden=(64, 64), **settings).network()
    exact, moved = (trained_mlp(task, (64, 64), size, **settings) for size in (0.0, 1e-7))
    error, perturbation = (
        (network(Q).softmax(1) - exact(Q).softmax(1)).detach().abs().max() for network in (fleet, moved)
    )
    assert float(error) < 10.0 * float(perturbation) + BOUND


# Seeds, threads and batches

SHORT: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-3,
    "training__epochs": 3,
    "search__cv": 2,
    "random_state": 3,
}
MODELS = [
    GenLabelClassifier((5,), SMALL_STACK).set_params(**SHORT),
    MixupClassifier((5,), "manifold").set_params(**SHORT),
    GenerativeClassifier(SMALL_STACK),
]
BLOBS = make_blobs(60, 3, centers=3, cluster_std=3.0, random_state=0)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_seed_fixes_the_result_for_any_threads_and_batches(model: Any) -> None:
    X, y = BLOBS
    before = torch.get_num_threads()
    fitted = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            np.random.seed(threads)  # noqa: NPY002 - the global state must not matter
            torch.manual_seed(threads)
            fitted.append(clone(model).fit(X, y))
        finally:
            torch.set_num_threads(before)
    expected = fitted[0].predict_log_proba(X)
    np.testing.assert_array_equal(fitted[1].predict_log_proba(X), expected)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(fitted[0].predict_log_proba(X[order]), expected[order], rtol=1e-9, atol=1e-12)
    batches = [fitted[0].predict_log_proba(chunk) for chunk in np.array_split(X, [1, 8, 9, 40])]
    np.testing.assert_allclose(np.concatenate(batches), expected, rtol=1e-9, atol=1e-12)


# Memory layouts

LAYOUTS: dict[str, Any] = {
    "columns first": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "back to front": lambda X: X[::-1].copy()[::-1],
    "a frame": lambda X: pd.DataFrame({f"c{index}": column for index, column in enumerate(X.T)}),
    "a frame of one block": lambda X: pd.DataFrame(np.asfortranarray(X), columns=[f"c{i}" for i in range(X.shape[1])]),
}


def outputs_of(model: Any, X: Any, y: Any) -> np.ndarray:
    """Fit a fresh copy to a table and return its outputs."""
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
        *SCALE_FREE,
        GenMix(GaussianDensity(), n_aug=40, lam="uniform", standardize=True, random_state=0),
        GenLabelSampler(random_state=0),
        Typicality(random_state=0),
    ],
    ids=lambda model: repr(model)[:50],
)
def test_memory_layout_changes_no_bit(model: Any) -> None:
    X, y = BLOBS
    expected = outputs_of(model, X, y)
    for layout in LAYOUTS.values():
        np.testing.assert_array_equal(outputs_of(model, layout(X), y), expected)
