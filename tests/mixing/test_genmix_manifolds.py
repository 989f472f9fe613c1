"""Test GenMix between manifolds of known distance: parallel lines in every norm, circles in the plane."""

import numpy as np
import pytest
import torch
from torch import Tensor

from genlabel import GenMix
from genlabel.densities import ClassDensity, GANDensity

NORMS = {"l1": 1, "l2": 2, "linf": torch.inf}


class LineDensity(ClassDensity):
    """log p_c = -d(x, M_c), where M_c is the horizontal line at height c * gap."""

    def __init__(self, norm: str, gap: float = 2.0) -> None:
        self.norm = norm
        self.gap = gap

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.heights_ = self.gap * torch.arange(len(self.classes_), dtype=torch.float64)

    def manifolds(self) -> "LineDensity":
        return self

    def project(self, X: Tensor) -> Tensor:
        nearest = X[:, None].repeat(1, len(self.heights_), 1)
        nearest[..., 1] = self.heights_
        return nearest

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        return -torch.linalg.vector_norm(X[:, None] - points, NORMS[self.norm], -1)

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.log_prob_near(X, self.project(X))


class CircleDensity(LineDensity):
    """The same density with circles of given centers and radii."""

    def __init__(self, centers: tuple[tuple[float, float], ...], radii: tuple[float, ...]) -> None:
        self.centers = centers
        self.radii = radii
        self.norm = "l2"

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.circles_ = torch.tensor(self.centers).double(), torch.tensor(self.radii).double()

    def project(self, X: Tensor) -> Tensor:
        centers, radii = self.circles_
        offset = X[:, None] - centers
        return centers + radii[:, None] * offset / offset.norm(dim=-1, keepdim=True)


def on_circles(density: CircleDensity, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(density.radii)
    angle = rng.uniform(0, 2 * np.pi, n)
    points = np.array(density.radii)[y, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.array(density.centers)[y] + points, y


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("lam", [0.5, 0.3, (0.2, 0.8)], ids=str)
def test_points_between_parallel_lines_have_the_exact_height(norm: str, lam: float) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = np.column_stack([rng.uniform(-1, 1, 60), 2.0 * y])
    genmix = GenMix(LineDensity(norm), n_aug=40, lam=lam, random_state=0)
    points = genmix.fit_resample(X, y)[0][60:]
    height = 1.0 + 0.5 * np.log(genmix.lam_ / (1 - genmix.lam_))  # d_j - d_i = (2 - h) - h = log(1/lam - 1)
    np.testing.assert_allclose(points[:, 1], height, atol=1e-5)


CIRCLES = [
    CircleDensity(((0.0, 0.0), (0.0, 0.0)), (1.0, 2.0)),
    CircleDensity(((0.0, 0.0), (0.3, 0.0)), (1.0, 2.5)),
    CircleDensity(((0.0, 0.0), (4.0, 0.0)), (1.0, 1.5)),
    CircleDensity(((0.0, 0.0), (1.0, 0.0)), (1.0, 1.0)),  # they cross
    CircleDensity(((0.0, 0.0), (5.0, 0.0), (2.5, 4.0)), (1.0, 1.0, 1.0)),
]


@pytest.mark.parametrize("density", CIRCLES, ids=repr)
@pytest.mark.parametrize("lam", [0.5, 0.4])
def test_points_between_circles_have_the_exact_difference_of_distances(density: CircleDensity, lam: float) -> None:
    X, y = on_circles(density, 90)
    genmix = GenMix(density, n_aug=60, lam=lam, random_state=0)
    points = genmix.fit_resample(X, y)[0][90:]
    centers, radii = np.array(density.centers), np.array(density.radii)
    distances = np.abs(np.linalg.norm(points[:, None] - centers, axis=-1) - radii)
    rows = np.arange(60)
    difference = distances[rows, genmix.pair_[:, 1]] - distances[rows, genmix.pair_[:, 0]]
    np.testing.assert_allclose(difference, np.log(1 / lam - 1), atol=5e-6)
    assert (np.sort(distances, 1)[:, 1] >= distances[rows[:, None], genmix.pair_].max(1) - 1e-9).all()  # no third class


def test_few_projections_suffice() -> None:
    """Frozen distances are exact to first order, so the steps converge like Newton steps."""
    density = CircleDensity(((0.0, 0.0), (0.3, 0.0)), (1.0, 2.5))
    X, y = on_circles(density, 60)
    calls: list[int] = []

    class Counting(CircleDensity):
        def project(self, X: Tensor) -> Tensor:
            calls.append(len(X))
            return super().project(X)

    GenMix(Counting(density.centers, density.radii), n_aug=100, random_state=0).fit_resample(X, y)
    assert sum(calls) < 100 * 12


def test_an_inexact_inversion_needs_a_larger_eps() -> None:
    class Rough(CircleDensity):
        def project(self, X: Tensor) -> Tensor:
            return (
                super().project(X) + 1e-3 * torch.sin(1e9 * X)[:, None]
            )  # the error of an inversion that stops too early

    density = Rough(((0.0, 0.0), (0.3, 0.0)), (1.0, 2.5))
    X, y = on_circles(density, 60)
    with pytest.raises(ValueError, match="eps"):
        GenMix(density, n_aug=30, eps=1e-12, random_state=0).fit_resample(X, y)
    points, _ = GenMix(density, n_aug=30, eps=0.02, random_state=0).fit_resample(X, y)
    assert len(points) == 90


@pytest.mark.parametrize("norm", NORMS)
def test_points_between_gan_manifolds_are_equidistant(norm: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = np.column_stack([rng.normal(size=80), 2.0 * y + 0.1 * rng.normal(size=80)])
    density = GANDensity(norm, hidden=(16,), steps=100, penalty=0.05, min_coverage=0.0, random_state=0).fit(X, y)
    genmix = GenMix(density, n_aug=20, eps=1e-3, prefit=True, random_state=0)
    points = genmix.fit_resample(X, y)[0][80:]
    distance = -density.scale_ * density.log_prob(points)
    np.testing.assert_allclose(distance[:, 0], distance[:, 1], atol=0.01)
