"""Test GenMix: the likelihood ratio of its points, intrusion, and pairs of classes without a point."""

import time
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import binomtest, gaussian_kde, multivariate_normal
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons

from genlabel import DensityWarning, GaussianDensity, GenMix, KernelDensity, StackedDensity
from genlabel.densities import (
    DiscriminantDensity,
    FlowDensity,
    MixtureDensity,
    PowerTransformedDensity,
    VAEDensity,
    fixed_gaussians,
)
from genlabel.densities.covariance import Gaussians
from genlabel.mixing.finders import QuadricFinder, bracketed_roots, roots_on_segment
from genlabel.mixing.genmix import share_out


def blobs(n: int, k: int, d: int, seed: int = 0, spread: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes with different covariances, on a circle or on the axes; any two of three are neighbors."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    angle = 2 * np.pi * np.arange(k) / k
    means = np.column_stack([np.cos(angle), np.sin(angle)]) if d == 2 else np.eye(k, d)
    roots = np.eye(d) + 0.1 * rng.normal(size=(k, d, d))
    return spread * means[y] + np.einsum("nd,nde->ne", rng.normal(size=(n, d)), roots[y]), y


def ratio_and_lead(log_prob: np.ndarray, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return p_j / (p_i + p_j), and the log-density lead of the pair over every other class."""
    rows = np.arange(len(pair))[:, None]
    inside = log_prob[rows, pair]
    others = log_prob.copy()
    others[rows, pair] = -np.inf
    return 1.0 / (1.0 + np.exp(inside[:, 0] - inside[:, 1])), inside.min(1) - others.max(1)


flows = pytest.mark.skipif(find_spec("zuko") is None, reason="needs zuko")
DENSITIES: list[Any] = [
    GaussianDensity(),
    DiscriminantDensity(0.3, 0.1),
    DiscriminantDensity(1.0),  # one covariance for all: the quadric is a plane
    KernelDensity(),
    KernelDensity(leave_one_out=True),
    MixtureDensity(2),
    PowerTransformedDensity(MixtureDensity(2, "diagonal")),
    StackedDensity([DiscriminantDensity(), KernelDensity(0.5)], cv=3),
    VAEDensity(1, hidden=(16,), epochs=20, n_samples=8, random_state=0),
    pytest.param(FlowDensity(transforms=2, bins=4, hidden=(16,), epochs=60, random_state=0), marks=flows),
]


@pytest.mark.parametrize("density", DENSITIES, ids=repr)
@pytest.mark.parametrize("lam", [0.5, 0.9, (0.1, 0.3), "uniform"], ids=str)
def test_points_have_their_ratio_and_do_not_intrude(density: Any, lam: Any) -> None:
    X, y = blobs(150, 3, 2)
    genmix = GenMix(density, n_aug=90, lam=lam, output="soft", random_state=0)
    points, labels = genmix.fit_resample(X, y)
    share, lead = ratio_and_lead(genmix.density_.log_prob(points[150:]), genmix.pair_)
    assert np.abs(share - genmix.lam_).max() <= 1e-6
    assert (lead >= 0).all()
    rows = np.arange(90)
    np.testing.assert_allclose(labels[150 + rows, genmix.pair_[:, 1]], share, atol=1e-9)
    np.testing.assert_allclose(labels[150 + rows, genmix.pair_[:, 0]], 1 - share, atol=1e-9)
    assert [tuple(pair) for pair in np.unique(genmix.pair_, axis=0)] == [(0, 1), (0, 2), (1, 2)]
    assert (np.unique(genmix.pair_, axis=0, return_counts=True)[1] == 30).all()
    low, high = {"uniform": (0.0, 1.0)}.get(str(lam), lam if isinstance(lam, tuple) else (lam, lam))
    assert low <= genmix.lam_.min() <= genmix.lam_.max() <= high
    assert lam != "uniform" or np.ptp(genmix.lam_) > 0.8


def test_gaussian_points_agree_with_scipy_to_nine_digits() -> None:
    """The oracle shares no code with the closed form."""
    X, y = blobs(300, 2, 5)
    genmix = GenMix(GaussianDensity(reg=0.0), lam="uniform", output="soft", random_state=0)
    points = genmix.fit_resample(X, y)[0][300:]
    p = [multivariate_normal(X[y == c].mean(0), np.cov(X[y == c].T, bias=True)).pdf(points) for c in (0, 1)]
    np.testing.assert_allclose(p[1] / (p[0] + p[1]), genmix.lam_, atol=1e-9)


def test_kernel_points_agree_with_scipy() -> None:
    X, y = make_moons(200, noise=0.1, random_state=0)
    genmix = GenMix("kernel", output="soft", random_state=0)
    points = genmix.fit_resample(X, y)[0][200:]
    p = [gaussian_kde(X[y == c].T).pdf(points.T) for c in (0, 1)]
    np.testing.assert_allclose(p[1] / (p[0] + p[1]), 0.5, atol=1e-6)


def test_points_between_fixed_gaussians_lie_on_a_plane() -> None:
    X, y = blobs(60, 2, 2)
    density = fixed_gaussians([[-1.0, 0.0], [1.0, 0.0]])
    points = GenMix(density, n_aug=30, random_state=0).fit_resample(X, y)[0][60:]
    np.testing.assert_allclose(points[:, 0], 0.0, atol=1e-5)
    lam = 0.8
    points = GenMix(density, n_aug=30, lam=lam, random_state=0).fit_resample(X, y)[0][60:]
    np.testing.assert_allclose(points[:, 0], 0.5 * np.log(lam / (1 - lam)), atol=1e-5)


def test_points_lie_between_two_circles() -> None:
    X, y = make_circles(600, noise=0.03, factor=0.4, random_state=0)
    points = GenMix(KernelDensity("likelihood"), n_aug=200, random_state=0).fit_resample(X, y)[0][600:]
    radius = np.linalg.norm(points, axis=1)
    assert ((radius > 0.5) & (radius < 0.9)).all()


def test_ten_classes_in_twenty_dimensions_take_less_than_two_seconds() -> None:
    X, y = blobs(5000, 10, 20)
    genmix = GenMix(GaussianDensity(), n_aug=10_000, output="soft", random_state=0)
    start = time.process_time()
    points = genmix.fit_resample(X, y)[0][5000:]
    assert time.process_time() - start < 2.0
    share, lead = ratio_and_lead(genmix.density_.log_prob(points), genmix.pair_)
    assert np.abs(share - 0.5).max() <= 1e-9
    assert (lead >= 0).all()
    assert len(np.unique(genmix.pair_, axis=0)) == 45


def test_pairs_without_a_point_warn_and_their_count_is_redistributed() -> None:
    X = np.concatenate([np.random.default_rng(c).normal(3.0 * c, 0.3, size=(50, 1)) for c in range(3)])
    y = np.repeat(["left", "middle", "right"], 50)
    for density in (GaussianDensity(), KernelDensity()):
        genmix = GenMix(density, n_aug=100, random_state=0)
        with pytest.warns(DensityWarning, match="'left'") as caught:
            points, _ = genmix.fit_resample(X, y)
        assert len(caught) == 1
        assert len(points) == 250
        assert [tuple(pair) for pair in np.unique(genmix.pair_, axis=0)] == [(0, 1), (1, 2)]


def test_no_pair_with_a_point_raises() -> None:
    X, y = blobs(40, 2, 2)
    same = fixed_gaussians([[0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="0 and 1"):
        GenMix(same, lam=0.7, random_state=0).fit_resample(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"lam": 0.0}, "lam=0.0"),
        ({"lam": 1}, "lam=1"),
        ({"lam": "half"}, "half"),
        ({"lam": (0.6, 0.2)}, "lam="),
        ({"lam": np.array([0.6, 0.2])}, "lam="),
        ({"lam": (0.2, 0.4, 0.6)}, "lam="),
        ({"eps": 0.0}, "eps="),
        ({"prefit": True, "density": GaussianDensity()}, "not fitted"),
        ({"prefit": True, "standardize": True}, "prefit"),
    ],
)
def test_bad_parameters_raise(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GenMix(**params).fit_resample(*blobs(40, 2, 2))


def test_prefit_uses_the_given_density() -> None:
    X, y = blobs(100, 2, 2)
    density = GaussianDensity().fit(X + 5.0, y)
    genmix = GenMix(density, prefit=True, n_aug=20, random_state=0)
    points = genmix.fit_resample(X, y)[0][100:]
    assert genmix.density_ is density
    share, _ = ratio_and_lead(density.log_prob(points), genmix.pair_)
    np.testing.assert_allclose(share, 0.5, atol=1e-9)
    with pytest.raises(ValueError, match="classes"):
        genmix.fit_resample(X, y + 1)
    cloned = clone(genmix)
    assert cloned.density is density
    np.testing.assert_array_equal(cloned.fit_resample(X, y)[0][100:], points)
    assert not hasattr(clone(genmix.set_params(prefit=False)).density, "classes_")


def test_standardize_makes_points_independent_of_units() -> None:
    X, y = blobs(100, 2, 2)
    units = np.array([1e-3, 1e4])
    plain = GenMix("kernel", standardize=True, random_state=0).fit_resample(X, y)[0]
    scaled = GenMix("kernel", standardize=True, random_state=0).fit_resample(units * X + 7.0, y)[0]
    np.testing.assert_allclose((scaled - 7.0) / units, plain, rtol=1e-6, atol=1e-6)
    constant = np.column_stack([X, np.full(100, 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = GenMix(standardize=True, random_state=0).fit_resample(constant, y)[0]
    assert (points[:, 2] == 3.0).all()


def test_more_pairs_than_points() -> None:
    X, y = blobs(240, 12, 2)
    genmix = GenMix(GaussianDensity(), n_aug=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        assert len(genmix.fit_resample(X, y)[0]) == 260
    shares = share_out(20, 66, np.random.default_rng(0))
    assert (shares.sum(), shares.max(), shares.min()) == (20, 1, 0)


def test_roots_of_quadratics_agree_with_numpy() -> None:
    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=(3, 200))
    coefficients[0, :5] = 0.0
    result = roots_on_segment(*torch.from_numpy(coefficients), rng).numpy()
    for t, column in zip(result, coefficients.T, strict=True):
        roots = np.roots(column)
        inside = [root.real for root in roots if abs(root.imag) < 1e-12 and 0 <= root.real <= 1]
        assert np.isnan(t) == (not inside)
        assert not inside or min(abs(t - root) for root in inside) < 1e-9


def test_a_newton_step_corrects_inexact_coefficients() -> None:
    """Gaussians with an error of 1e-5 have roots with the same error; one Newton step squares it."""
    X, y = blobs(200, 2, 2)
    density = GaussianDensity().fit(X, y)
    mean, matrix, log_det = density.gaussians()
    inexact = QuadricFinder(density, Gaussians(mean + 1e-5, matrix * (1 + 1e-5), log_det + 1e-5))
    pair, height = np.tile([0, 1], (200, 1)), np.linspace(-2, 2, 200)
    result = inexact.find(pair, height, np.random.default_rng(0))
    valid = np.isfinite(result.log_prob).all(1)
    assert valid.sum() > 100
    np.testing.assert_allclose(np.diff(result.log_prob)[valid, 0], height[valid], atol=2e-8)


def test_two_roots_on_a_segment_are_equally_likely() -> None:
    square, linear, constant = (torch.full((2000,), value, dtype=torch.float64) for value in (16.0, -16.0, 3.0))
    roots = roots_on_segment(square, linear, constant, np.random.default_rng(0)).numpy().round(12)
    values, counts = np.unique(roots, return_counts=True)
    assert values.tolist() == [0.25, 0.75]
    assert binomtest(int(counts[0]), 2000).pvalue > 1e-3


def test_bracketed_roots_agree_with_brent_in_few_calls() -> None:
    rng = np.random.default_rng(0)
    location, steepness = rng.uniform(0.05, 0.95, 50), rng.uniform(0.5, 300.0, 50)
    calls = []

    def function(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        calls.append(len(which))
        return np.tanh(steepness[which] * (t - location[which])) + (t - location[which]) ** 3

    indices = np.arange(50)
    low, high = np.zeros(50), np.ones(50)
    ends = function(low, indices), function(high, indices)
    roots = bracketed_roots(function, low, high, *ends, lambda value, which: np.abs(value) < 1e-13)
    expected = [brentq(lambda t, i=i: float(function(np.array([t]), np.array([i]))[0]), 0, 1) for i in range(50)]
    np.testing.assert_allclose(roots, expected, atol=1e-10)
    assert sum(calls[2:22]) < 50 * 20
