"""Synthetic datasets against closed-form geometry, scipy's distributions and the points printed in the paper."""

import inspect
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from genlabel.data.datasets.synthetic import (
    CUBE_2D_CENTERS,
    CUBE_3D_CENTERS,
    NINE_CENTERS,
    SYNTHETIC,
    make_circle,
    make_circle_3d,
    make_cube_2d,
    make_cube_3d,
    make_four_gaussians,
    make_moon,
    make_nine_gaussians,
    make_strokes,
    make_two_circle,
)


class Case(NamedTuple):
    make: Callable[..., Any]
    size: str  # the name of its size argument
    default: int  # the size of the paper, or ours if it gives none
    low: int  # the smallest size that fills every class
    factor: int  # rows per unit of size
    d: int
    k: int
    noise: Any  # the Laplace scale of the paper, or ours; None without noise


CASES = {
    "circle": Case(make_circle, "n_samples", 1000, 2, 1, 2, 2, 0.02),
    "moon": Case(make_moon, "n_samples", 1000, 2, 1, 2, 2, 0.1),
    "two-circle": Case(make_two_circle, "n_per_circle", 1000, 2, 2, 2, 2, 0.01),
    "cube-2d": Case(make_cube_2d, "n_per_class", 20, 1, 2, 2, 2, None),
    "cube-3d": Case(make_cube_3d, "n_per_class", 20, 1, 8, 3, 8, None),
    "nine-gaussians": Case(make_nine_gaussians, "n_per_class", 5000, 1, 9, 2, 9, None),
    "v": Case(SYNTHETIC["v"], "n_per_class", 300, 1, 2, 2, 2, 0.03),
    "ket": Case(SYNTHETIC["ket"], "n_per_class", 300, 1, 2, 2, 2, 0.03),
    "y": Case(SYNTHETIC["y"], "n_per_class", 300, 1, 3, 2, 3, 0.03),
    "four-gaussians": Case(make_four_gaussians, "n_per_class", 250, 1, 4, 2, 4, None),
    "circle-3d": Case(make_circle_3d, "n_samples", 1000, 2, 1, 3, 2, 0.02),
}
NOISY = [name for name, case in CASES.items() if case.noise is not None]

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
noisy = pytest.mark.parametrize("case", [CASES[name] for name in NOISY], ids=NOISY)
cubes = pytest.mark.parametrize(
    "make, centers", [(make_cube_2d, CUBE_2D_CENTERS), (make_cube_3d, CUBE_3D_CENTERS)], ids=["2d", "3d"]
)


def sorted_rows(X: NDArray[np.float64]) -> NDArray[np.float64]:
    X = X.round(9) + 0.0
    return X[np.lexsort(X.T)]


def assert_plausible(p_value: Any) -> None:
    assert p_value > 1e-4


def test_the_registry_has_every_random_dataset() -> None:
    assert {name: case.make for name, case in CASES.items()} == SYNTHETIC


def test_an_unknown_letter_is_an_error() -> None:
    with pytest.raises(ValueError, match="letter='x'"):
        make_strokes("x")


@every
def test_default_size_and_types(case: Case) -> None:
    X, y = case.make(random_state=0)
    assert X.shape == (case.factor * case.default, case.d)
    assert (X.dtype, y.dtype) == (np.dtype(np.float64), np.dtype(np.int64))
    assert np.isfinite(X).all()
    assert np.bincount(y).tolist() == [len(X) // case.k] * case.k


@every
def test_the_defaults_are_the_papers(case: Case) -> None:
    parameters = inspect.signature(case.make).parameters
    assert parameters[case.size].default == case.default
    assert "noise" not in parameters if case.noise is None else parameters["noise"].default == case.noise


@every
@pytest.mark.parametrize("more", [0, 1, 5])
def test_any_size_fills_every_class(case: Case, more: int) -> None:
    X, y = case.make(np.int32(case.low + more), random_state=0)
    assert len(X) == len(y) == case.factor * (case.low + more)
    counts = np.bincount(y, minlength=case.k)
    assert counts.min() >= 1
    assert np.ptp(counts) <= 1


def test_an_odd_circle_or_moon_gives_the_extra_point_to_class_1() -> None:
    assert np.bincount(make_circle(7, random_state=0)[1]).tolist() == [3, 4]
    assert np.bincount(make_moon(7, random_state=0)[1]).tolist() == [3, 4]
    assert np.bincount(make_two_circle(7, random_state=0)[1]).tolist() == [7, 7]


@every
def test_a_seed_determines_the_dataset(case: Case) -> None:
    X, y = case.make(random_state=3)
    for seed in (3, np.random.default_rng(3)):
        X_again, y_again = case.make(random_state=seed)
        np.testing.assert_array_equal(X, X_again)
        np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, case.make(random_state=4)[0])
    assert not np.array_equal(case.make()[0], case.make()[0])


@every
def test_a_generator_moves_on_and_the_global_one_stays(case: Case) -> None:
    rng = np.random.default_rng(0)
    before = str(np.random.get_state())  # noqa: NPY002
    assert not np.array_equal(case.make(random_state=rng)[0], case.make(random_state=rng)[0])
    assert before == str(np.random.get_state())  # noqa: NPY002


@every
def test_rows_are_shuffled(case: Case) -> None:
    _, y = case.make(200, random_state=0)
    changes, n = np.count_nonzero(np.diff(y)), len(y)
    share = 1 - 1 / case.k  # neighbors in a random order differ with probability share * n / (n - 1)
    assert abs(changes - share * n) < 5 * np.sqrt(n * share * (1 - share))


@every
@pytest.mark.parametrize("bad", [0, -3, 2.5, "7", True, None])
def test_a_bad_size_is_an_error(case: Case, bad: object) -> None:
    with pytest.raises(ValueError, match=f"{case.size}={bad!r}"):
        case.make(bad)


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.low == 2], ids=lambda case: case.make.__name__
)
def test_one_point_does_not_fill_two_circles_or_moons(case: Case) -> None:
    with pytest.raises(ValueError, match=f"{case.size}=1"):
        case.make(1)


@noisy
@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_a_bad_noise_is_an_error(case: Case, bad: float) -> None:
    with pytest.raises(ValueError, match=f"noise={bad!r}"):
        case.make(noise=bad)


def test_circle_without_noise_lies_on_its_two_radii() -> None:
    X, y = make_circle(noise=0, random_state=0)
    np.testing.assert_allclose(np.hypot(*X.T), np.where(y == 0, 1.0, 0.8), rtol=1e-12)
    for c in range(2):  # evenly spaced: the first 499 harmonics of the angles vanish
        z = X[y == c] @ [1, 1j] / (1.0, 0.8)[c]
        assert max(abs((z**m).mean()) for m in range(1, 500)) < 1e-9


def test_moon_without_noise_is_two_half_circles() -> None:
    X, y = make_moon(noise=0, random_state=0)
    center = np.where(y[:, None] == 0, [0.0, 0.0], [1.0, 0.5])
    np.testing.assert_allclose(np.hypot(*(X - center).T), 1.0, rtol=1e-12)
    above = (X - center)[:, 1] * np.where(y == 0, 1, -1)
    assert above.min() > -1e-12
    t = np.linspace(0, np.pi, 500)
    np.testing.assert_allclose(sorted_rows(X[y == 1]), sorted_rows(np.c_[1 - np.cos(t), 0.5 - np.sin(t)]))


def test_two_circle_without_noise_flips_the_left_one() -> None:
    X, y = make_two_circle(noise=0, random_state=0)
    right = X[:, 0] > 0
    assert np.count_nonzero(right) == 1000
    radius = np.hypot(X[:, 0] - np.where(right, 1.2, -1.2), X[:, 1])
    outer = np.where(right, y == 0, y == 1)
    np.testing.assert_allclose(radius, np.where(outer, 1.0, 0.8), rtol=1e-12)
    assert X[right].min(axis=0).tolist() == pytest.approx([0.2, -1.0])
    assert X[~right].max(axis=0).tolist() == pytest.approx([-0.2, 1.0])
    moved = sorted_rows(X[~right & (y == 1)] + np.array([2.4, 0.0]))
    np.testing.assert_allclose(moved, sorted_rows(X[right & (y == 0)]))


@noisy
@pytest.mark.parametrize("noise", [None, 0.3], ids=["paper", "0.3"])
def test_the_noise_is_laplace_and_independent(case: Case, noise: float | None) -> None:
    scale = case.noise if noise is None else noise
    X, y = case.make(4000, random_state=5, **({} if noise is None else {"noise": noise}))
    clean, y_clean = case.make(4000, random_state=5, noise=0)
    np.testing.assert_array_equal(y, y_clean)
    residual = X - clean
    for column in residual.T:
        assert_plausible(stats.kstest(column, stats.laplace(scale=scale).cdf).pvalue)
        assert_plausible(stats.ks_2samp(column[y == 0], column[y == 1]).pvalue)
    for first, second in combinations(residual.T, 2):
        assert_plausible(stats.spearmanr(first, second).pvalue)
        assert_plausible(stats.spearmanr(np.abs(first), np.abs(second)).pvalue)
    assert_plausible(stats.spearmanr(residual[:, 0], clean[:, 0]).pvalue)


CENTERS: Any = {
    "circle": [[(1, 0)], [(0.8, 0)]],
    "moon": [[(1, 0)], [(0, 0.5)]],
    "two-circle": [[(2.2, 0), (-0.4, 0)], [(2.0, 0), (-0.2, 0)]],
    "v": [[(-0.575, 0.1)], [(0.575, 0.1)]],
    "ket": [[(-0.8, 0)], [(0.8, 0)]],
    "y": [[(-0.625, 0.625)], [(0.625, 0.625)], [(0, -0.825)]],
}
"""Points of the smallest datasets without noise: a class has one on each curve."""


@pytest.mark.parametrize("name", CENTERS)
def test_a_pair_of_points_scatters_around_its_known_center(name: str) -> None:
    """With one point a circle, moon or stroke the points without noise are known by hand."""
    case, centers = CASES[name], CENTERS[name]
    rng, residual = np.random.default_rng(1), []
    for _ in range(500):
        X, y = case.make(case.low, random_state=rng)
        for c in range(case.k):
            gaps = X[y == c][:, None] - np.array(centers[c])
            residual += [g[np.abs(g).sum(axis=1).argmin()] for g in gaps]
    assert_plausible(stats.kstest(np.ravel(residual), stats.laplace(scale=case.noise).cdf).pvalue)


def test_centers_are_in_lexicographic_order() -> None:
    assert CUBE_2D_CENTERS.tolist() == [[-1, 0], [1, 0]]
    binary = [[2 * int(b) - 1 for b in f"{c:03b}"] for c in range(8)]
    assert CUBE_3D_CENTERS.tolist() == binary
    assert NINE_CENTERS.tolist() == [[10 * (c // 3) - 10, 10 * (c % 3) - 10] for c in range(9)]
    for centers in (CUBE_2D_CENTERS, CUBE_3D_CENTERS, NINE_CENTERS):
        assert centers.dtype == np.float64
        assert sorted(centers.tolist()) == centers.tolist()


@cubes
def test_cube_points_fill_the_ball_of_their_center(make: Callable[..., Any], centers: NDArray[np.float64]) -> None:
    X, y = make(2000, random_state=0)
    inside = X - centers[y]
    assert np.abs(inside).max() <= 1
    assert min(-inside.min(axis=0).max(), inside.max(axis=0).min()) > 0.99
    for c in range(len(centers)):
        for column in inside[y == c].T:
            assert_plausible(stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue)
    for i in range(1, inside.shape[1]):
        assert_plausible(stats.pearsonr(inside[:, 0], inside[:, i]).pvalue)


@cubes
def test_cube_classes_follow_from_signs(make: Callable[..., Any], centers: NDArray[np.float64]) -> None:
    X, y = make(random_state=1)
    distance = np.abs(X[:, None] - centers).max(axis=2)
    np.testing.assert_array_equal(distance.argmin(axis=1), y)


def test_nine_gaussians_have_the_papers_means_and_covariance() -> None:
    X, y = make_nine_gaussians(random_state=0)
    n = 5000
    for c, centre in enumerate(NINE_CENTERS):
        z = (X[y == c] - centre) / np.sqrt(0.1)
        np.testing.assert_allclose(z.mean(axis=0), 0, atol=5 / np.sqrt(n))
        np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=5 * np.sqrt(2 / n))
        assert_plausible(stats.kstest((z**2).sum(axis=1), stats.chi2(2).cdf).pvalue)
        assert_plausible(stats.kstest(np.arctan2(*z.T), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue)
