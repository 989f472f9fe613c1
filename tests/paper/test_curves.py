"""Datasets of GenMix lie on their true curves; distances to the curves equal a search and closed forms."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from genlabel.data.datasets.synthetic import (
    FOUR_CENTERS,
    FOUR_DEVIATIONS,
    SPHERES,
    SYNTHETIC,
    make_circle_3d,
    make_four_gaussians,
)
from genlabel_paper.runs.curves import NORMS, curve_distances, equidistance_error, true_curves

PLANE_DATASETS = ["circle", "moon", "two-circle", "v", "ket", "y"]
LENGTHS = {
    "circle": [2 * np.pi, 1.6 * np.pi],
    "moon": [np.pi, np.pi],
    "two-circle": [3.6 * np.pi, 3.6 * np.pi],
    "v": [np.hypot(0.85, 1.8)] * 2,
    "ket": [2.0, 2 * np.hypot(0.8, 1.0)],
    "y": [np.hypot(0.75, 0.75)] * 2 + [0.95],
}
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}


def random_points(n: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (n, 2))


@pytest.mark.parametrize("name", PLANE_DATASETS)
def test_points_without_noise_lie_on_their_curve(name: str) -> None:
    X, y = SYNTHETIC[name](noise=0, random_state=0)
    for norm in NORMS:
        own = curve_distances(X, name, norm)[np.arange(len(y)), y]
        np.testing.assert_allclose(own, 0.0, atol=3e-6)
    others = curve_distances(X, name)
    others[np.arange(len(y)), y] = np.inf
    assert others.min() > 0.05  # the classes do not touch


@pytest.mark.parametrize("name", PLANE_DATASETS)
def test_curves_have_the_lengths_of_their_segments(name: str) -> None:
    lengths = [
        sum(np.linalg.norm(np.diff(curve, axis=0), axis=1).sum() for curve in curves) for curves in true_curves(name)
    ]
    np.testing.assert_allclose(lengths, LENGTHS[name], rtol=1e-5)


@pytest.mark.parametrize("name", PLANE_DATASETS)
@pytest.mark.parametrize("norm", NORMS)
def test_distance_equals_brute_force(name: str, norm: str) -> None:
    X = random_points()
    distances = curve_distances(X, name, norm)
    for c, curves in enumerate(true_curves(name)):
        dense = np.vstack([_fill(curve) for curve in curves])
        brute_force = np.linalg.norm(X[:, None] - dense, ord=ORDERS[norm], axis=2).min(axis=1)
        assert (brute_force >= distances[:, c] - 1e-9).all()
        np.testing.assert_allclose(brute_force, distances[:, c], atol=2e-3)


def _fill(corners: np.ndarray) -> np.ndarray:
    """Return many points along straight segments."""
    pieces = max(2, 4000 // len(corners))
    parts = [np.linspace(begin, end, pieces) for begin, end in pairwise(corners)]
    return np.vstack(parts)


@pytest.mark.parametrize("norm", NORMS)
def test_distance_to_a_segment_equals_a_search(norm: str) -> None:
    begin, end = true_curves("v")[0][0]
    X = random_points(20, seed=1)
    for x, distance in zip(X, curve_distances(X, "v", norm)[:, 0], strict=True):
        search = minimize_scalar(
            lambda t, x=x: np.linalg.norm(x - begin - t * (end - begin), ord=ORDERS[norm]),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert distance == pytest.approx(search.fun, abs=1e-6)


def test_distance_to_circles_and_spheres_equals_the_closed_form() -> None:
    X = random_points()
    np.testing.assert_allclose(curve_distances(X, "circle"), np.abs(np.hypot(*X.T)[:, None] - [1.0, 0.8]), atol=3e-6)
    Z = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(curve_distances(Z, "circle-3d"), np.abs(np.linalg.norm(Z, axis=1)[:, None] - SPHERES))
    with pytest.raises(ValueError, match="norm='l1'"):
        curve_distances(Z, "circle-3d", "l1")


def test_unknown_name_and_norm_are_refused() -> None:
    with pytest.raises(ValueError, match="name='cube-2d'"):
        curve_distances(random_points(), "cube-2d")
    with pytest.raises(ValueError, match="norm='l3'"):
        curve_distances(random_points(), "v", "l3")


def test_equidistance_error_is_0_halfway_and_1_on_a_curve() -> None:
    X = np.array([[0.0, 0.5], [-1.0, 1.0], [0.0, -3.0], [0.9, 0.0]])
    np.testing.assert_allclose(equidistance_error(X, "v", np.array([[0, 1]] * 4))[:3], [0.0, 1.0, 0.0], atol=1e-12)
    pairs = np.array([[0, 1], [1, 0]])
    ring = np.array([[0.96, 0.0], [0.0, 0.96]])
    np.testing.assert_allclose(equidistance_error(ring, "circle", pairs), 0.75, atol=1e-4)  # 0.04 and 0.16


def test_circle_3d_fills_two_spheres_evenly() -> None:
    X, y = make_circle_3d(4000, noise=0, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), np.array(SPHERES)[y], rtol=1e-12)
    for c, radius in enumerate(SPHERES):  # heights on a sphere are uniform (Archimedes), along every axis
        for column in X[y == c].T:
            assert stats.kstest(column, stats.uniform(-radius, 2 * radius).cdf).pvalue > 1e-4


def test_four_gaussians_are_normal_around_their_centers() -> None:
    X, y = make_four_gaussians(2000, random_state=0)
    z = (X - FOUR_CENTERS[y]) / FOUR_DEVIATIONS[y]
    for c in range(4):
        for column in z[y == c].T:
            assert stats.kstest(column, "norm").pvalue > 1e-4
        assert stats.spearmanr(*z[y == c].T).pvalue > 1e-4


def test_class_0_of_the_four_gaussians_wins_between_classes_1_and_2() -> None:
    line = np.column_stack([np.zeros(2001), np.linspace(-50.0, 50.0, 2001)])
    logs = [
        stats.multivariate_normal(centre, np.diag(deviations**2)).logpdf(line)
        for centre, deviations in zip(FOUR_CENTERS, FOUR_DEVIATIONS, strict=True)
    ]
    np.testing.assert_allclose(logs[1], logs[2], rtol=1e-9)
    assert (logs[0] > logs[1]).all()
