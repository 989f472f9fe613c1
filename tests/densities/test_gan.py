"""Test GANDensity: projections against dense grids, distances to known curves, and collapsed generators."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from genlabel.data.datasets.synthetic import make_circle
from genlabel.densities import DensityWarning, GANDensity
from genlabel.densities.gan.density import CollapsedGeneratorError
from genlabel.densities.gan.generators import (
    NORMS,
    Bank,
    Charts,
    ConvNetwork,
    Generators,
    Inverter,
    Latents,
    Perceptron,
    StackedNetwork,
    apply,
    linearize,
    log_likelihood,
)
from genlabel.densities.gan.training import (
    CURVE_POINTS,
    ClassRows,
    EvenLatents,
    GANSchedule,
    GANSettings,
    ScoredGenerator,
    draw_evenly,
    is_not_clearly_worse,
    refine_curves,
    select_generator,
    smooth_is_not_clearly_worse,
    take_step,
)

QUICK: dict[str, Any] = {"hidden": (8,), "steps": 20, "min_coverage": 0.0, "random_state": 0}


def stack(network: StackedNetwork, members: int, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    drawn = [network.draw(rng) for _ in range(members)]
    return [torch.cat(same).double() for same in zip(*drawn, strict=True)]


NETWORKS: list[tuple[StackedNetwork, int]] = [
    (Perceptron((3, 7, 5, 4)), 3),
    (Perceptron((3, 2)), 3),
    (ConvNetwork((1, 8, 8), 2, 3, 4), 66),
]


@pytest.mark.parametrize("network, n_in", NETWORKS, ids=repr)
def test_the_jacobian_equals_autograd_and_members_are_independent(network: StackedNetwork, n_in: int) -> None:
    weights = stack(network, 2)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 5, n_in)))
    points, jacobian = linearize(network, weights, x, 2)
    torch.testing.assert_close(points, apply(network, weights, x))
    for s, n in ((0, 1), (1, 4)):
        alone = [part[s : s + 1] for part in weights]
        expected = torch.autograd.functional.jacobian(
            lambda v, alone=alone: apply(network, alone, v[None, None])[0, 0], x[s, n]
        )
        torch.testing.assert_close(jacobian[s, n], expected[:, :2])


def test_a_step_uses_the_gradient_of_each_weight() -> None:
    gradient = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 4)))
    weights = [torch.zeros(2, 4, 5, dtype=torch.float64).requires_grad_() for _ in range(2)]
    for weight, fused in zip(weights, (True, False), strict=True):
        optimizer = torch.optim.Adam([weight], 0.1, fused=fused)
        for scale in (1.0, -3.0):
            take_step(optimizer, scale * (weight.mT * gradient).sum())  # this gradient is transposed in memory
    torch.testing.assert_close(*weights)


def generators(dim: int, charts: int, d: int, k: int = 2) -> Generators:
    network, latents = Perceptron((dim + charts, 12, d)), Latents(dim, charts)
    shares = torch.full((k, charts), 1 / charts, dtype=torch.float64)
    weights = [2 * part for part in stack(network, k)]
    return Generators(network, latents, weights, torch.zeros(k, 1, d, dtype=torch.float64), shares)


def dense(result: Generators, c: int, per_side: int) -> torch.Tensor:
    """Return points of a manifold on a fine grid of its latents."""
    dim, charts = result.latents
    side = torch.linspace(-1, 1, per_side, dtype=torch.float64)
    z = torch.cartesian_prod(*[side] * dim).reshape(-1, dim)
    w = [torch.cat([z, torch.eye(charts).double()[j].expand(len(z), -1)], 1) for j in range(charts)]
    return result.select(torch.tensor([c]))(torch.cat(w)[None])[0]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "dim, charts, per_side, d", [(1, 1, 20001, 3), (1, 3, 20001, 3), (2, 2, 301, 3), (1, 1, 20001, 40)]
)
def test_the_inversion_is_as_close_as_a_fine_grid(norm: str, dim: int, charts: int, per_side: int, d: int) -> None:
    manifolds = generators(dim, charts, d)
    rng = np.random.default_rng(0)
    unit = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64).repeat(d)[:d]
    bank = Bank.draw(manifolds, 512, rng)
    X = torch.from_numpy(rng.normal(size=(60, d)))
    result = Inverter(manifolds, bank, norm, 4, 16, unit)(X)
    distance = torch.linalg.vector_norm((result - X) * unit, NORMS[norm], -1)
    for c in range(2):
        nearest = torch.cdist(X * unit, dense(manifolds, c, per_side) * unit, NORMS[norm]).min(1).values
        excess = (distance[c] - nearest) / nearest.mean()
        assert float(excess.mean()) < 1e-3
        assert float(excess.quantile(0.95)) < (1e-2 if norm == "linf" else 1e-3)
        assert float(excess.min()) > -2e-2  # the grid is not exact either


def test_the_likelihood_is_the_mean_over_points() -> None:
    rng = np.random.default_rng(0)
    X, points, b = rng.normal(size=(4, 3)), rng.normal(size=(6, 3)), 0.7
    distances = np.linalg.norm(X[:, None] - points, axis=-1)
    log_noise = torch.full((1, 1, 3), np.log(b * 2.0), dtype=torch.float64)  # variance (d + 1) b^2 in each coordinate
    result = log_likelihood(torch.from_numpy(X)[None], torch.from_numpy(points)[None], log_noise)[0]
    np.testing.assert_allclose(result, np.log(np.exp(-distances / b).mean(1) / b**3), rtol=1e-9)


def test_draw_evenly_draws_rows_by_their_weights() -> None:
    rows = ClassRows.split(torch.arange(12.0)[:, None], torch.ones(12), 0)
    drawn = draw_evenly([rows, rows._replace(weight=torch.eye(12)[3])], 12, np.random.default_rng(0))
    assert sorted(drawn[0, :, 0].tolist()) == list(range(12))
    assert (drawn[1] == rows.train[3]).all()


@pytest.mark.parametrize("end", [(0.0, 1.0), (1.0, 1.0)], ids=str)
def test_a_learned_segment_has_the_ends_of_the_true_one(end: tuple[float, float]) -> None:
    """With separate noise for each feature, the stem of Y would be a sixth too short at both ends."""
    rng = np.random.default_rng(0)
    X = (np.arange(200)[:, None] / 100 - 0.995) * np.array(end) + rng.laplace(0, 0.03, (200, 2))
    fitted = GANDensity(hidden=(32, 32), steps=400, charts=1, encoder=None, random_state=0).fit(X, np.zeros(200))
    ends = np.array([[1.0], [-1.0]]) * np.array(end)
    result = fitted.project(1.5 * ends)[:, 0]
    np.testing.assert_allclose(result, ends, atol=0.06)
    assert abs(fitted.noise_[0, 0] - 0.03 * 2**0.5) < 0.01
    assert fitted.noise_[0, 0] == pytest.approx(fitted.noise_[0, 1])


def walk(direction: np.ndarray, plane: np.ndarray) -> torch.Tensor:
    """CURVE_POINTS points (1, n, d) at an even pace, with steps in some directions of a plane (2, d)."""
    steps = np.c_[np.cos(direction), np.sin(direction)] @ plane
    return torch.from_numpy(np.cumsum(np.vstack([np.zeros(plane.shape[1]), steps]), 0) * 0.01)[None]


@pytest.mark.parametrize("change", [0.0, 0.4, -3.0])
@pytest.mark.parametrize("bend", [0.0, 2.0])
def test_roughness_is_the_squared_change_of_curvature(bend: float, change: float) -> None:
    z = np.linspace(-1, 1, CURVE_POINTS + 1)[1:-1]
    plane = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0].T
    points = walk(bend * z + 0.5 * change * z**2, plane)
    one_chart = EvenLatents.draw(generators(1, 1, 3, 1), np.random.default_rng(0))
    assert float(one_chart.roughness(points)) == pytest.approx(change**2, rel=1e-3, abs=1e-4)
    two_charts = one_chart._replace(chart=torch.arange(CURVE_POINTS)[None] // (CURVE_POINTS // 2))
    separated = torch.where(two_charts.chart[..., None] == 0, points, points + 1.0)  # a gap between two charts
    assert float(two_charts.roughness(separated)) == pytest.approx(change**2, rel=0.02, abs=1e-4)


def test_corners_stay_and_arcs_are_smoothed() -> None:
    rng, t = np.random.default_rng(0), np.linspace(-1, 1, CURVE_POINTS)
    log_noise = torch.full((2, 1, 2), float(np.log(0.05)), dtype=torch.float64)
    corner, arc = np.c_[t, np.abs(t)], np.c_[np.sin(t), np.cos(t)]
    rounded = np.c_[t, np.where(np.abs(t) < 0.4, 0.2 + t**2 / 0.8, np.abs(t))]
    wiggly = arc * (1 + 0.004 * np.sin(9 * t))[:, None]
    everywhere, without_corner = np.ones(CURVE_POINTS), (np.abs(t) > 0.5).astype(float)
    for true, free, smooth, weight, expected in (
        (corner, corner, rounded, everywhere, False),
        (corner, corner, rounded, without_corner, True),  # rows of weight 0 are ignored
        (arc, wiggly, arc, everywhere, True),
    ):
        rows = torch.from_numpy(true + rng.laplace(0, 0.03, true.shape))
        curves = torch.from_numpy(np.stack([free, smooth]))
        assert is_not_clearly_worse(ClassRows(rows, torch.from_numpy(weight), rows), curves, log_noise) is expected


def test_curves_are_refined_on_the_rows_of_their_class() -> None:
    rng = np.random.default_rng(0)
    means, unit = torch.tensor([[2.0, 0.0], [-2.0, 0.0]], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    points = [mean + 0.1 * torch.from_numpy(rng.normal(size=(40, 2))) for mean in means]
    rows = [ClassRows(part, torch.ones(40, dtype=torch.float64), part) for part in points]
    schedule = GANSchedule(600, 40, 0.1, torch.device("cpu"), unit)
    result = refine_curves(generators(1, 1, 2, k=4), rows, schedule, rng)  # two classes, two trials
    near = torch.stack([torch.cdist(dense(result, member, 101).mean(0)[None], means).argmin() for member in range(4)])
    assert near.tolist() == [0, 0, 1, 1]
    swapped = result.select(torch.tensor([2, 3, 0, 1]))
    assert smooth_is_not_clearly_worse(Generators.join([swapped, result]), rows).tolist() == [True] * 4
    assert smooth_is_not_clearly_worse(Generators.join([result, swapped]), rows).tolist() == [False] * 4


def test_charts_are_fitted_to_clusters() -> None:
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(np.r_[rng.normal(0, 0.1, (30, 2)), rng.normal(5, 0.1, (10, 2))]).float()
    charts = Charts.fit(rows, torch.ones(40), Latents(1, 3), 2, 0)
    order = charts.shares[0].argsort(descending=True)
    torch.testing.assert_close(charts.shares[0, order], torch.tensor([0.75, 0.25, 0.0]))
    torch.testing.assert_close(charts.centers[0, order[0]], rows[:30].mean(0), atol=1e-6, rtol=1e-5)
    w = Latents(1, 3).draw(4000, charts.shares, rng)
    assert set(w[0, :, 1:].argmax(1).tolist()) == set(order[:2].tolist())
    assert float((charts(w)[0].std(0) - rows.std(0)).abs().max()) < 0.1


def test_fewer_charts_are_selected_unless_more_are_clearly_better() -> None:
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.normal(size=40))

    def scored(charts: int, coverage: float, gain: float) -> ScoredGenerator:
        return ScoredGenerator(generators(1, 4, 2, 1), GANSettings(0.05, charts), coverage, 1.0, gain + noise * charts)

    shift = float(noise.mean()) * 3
    assert select_generator([scored(4, 1.0, 0.1 - shift), scored(1, 1.0, 0.0)], 0.5).settings.charts == 1
    assert select_generator([scored(1, 1.0, 0.0), scored(4, 1.0, 9.0)], 0.5).settings.charts == 4
    assert select_generator([scored(1, 0.4, 9.0), scored(4, 0.6, 0.0)], 0.5).settings.charts == 4
    assert select_generator([scored(1, 0.4, 9.0), scored(4, 0.3, 0.0)], 0.5).settings.charts == 1


@pytest.fixture(scope="module")
def circle() -> GANDensity:
    X, y = make_circle(600, random_state=0)
    return GANDensity(
        hidden=(32, 32), steps=400, charts=2, penalty=0.05, batch_size=64, restarts=2, random_state=0
    ).fit(X, y)


def test_distances_to_two_circles_are_accurate(circle: GANDensity) -> None:
    X, y = make_circle(600, random_state=1)
    assert np.mean(circle.log_prob(X).argmax(1) == y) >= 0.97
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    for radius in (0.5, 0.9, 1.3):
        points = radius * np.c_[np.cos(angle), np.sin(angle)]
        distance = np.linalg.norm(points[:, None] - circle.project(points), axis=-1)
        true = np.abs(radius - np.array([1.0, 0.8]))
        assert np.median(np.abs(distance - true), 0).max() < 0.15 * 0.2  # 15 % of the gap between the circles
    assert circle.coverage_.min() > 0.9


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_log_prob_is_the_negative_scaled_norm(circle: GANDensity, norm: str, scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    density = clone(circle).set_params(norm=norm)
    vars(density).update({name: value for name, value in vars(circle).items() if name.endswith("_")})
    density.scale_ = scale
    points = density.project(X)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    np.testing.assert_allclose(
        density.log_prob(X), -np.linalg.norm(X[:, None] - points, order, axis=-1) / scale, rtol=1e-12
    )
    assert points.shape == (20, 2, 2)


def test_the_gradient_with_fixed_projections_is_that_of_the_distance(circle: GANDensity) -> None:
    """At the nearest point, the distance changes as if that point stood still (the envelope theorem)."""
    X = torch.from_numpy(np.random.default_rng(1).uniform(-1.2, 1.2, size=(30, 2))).requires_grad_()
    circle._log_prob(X).sum(0)[0].backward()
    assert X.grad is not None
    step = 1e-5
    for j in range(2):
        shift = step * torch.eye(2, dtype=torch.float64)[j]
        difference = (circle.log_prob(X.detach() + shift) - circle.log_prob(X.detach() - shift))[:, 0] / (2 * step)
        assert float((difference - X.grad[:, j]).abs().median()) < 1e-3 / circle.scale_


def test_samples_follow_the_class_and_the_seed(circle: GANDensity) -> None:
    for c, radius in ((0, 1.0), (1, 0.8)):
        points = circle.sample(500, c, 3)
        np.testing.assert_array_equal(points, circle.sample(500, c, 3))
        assert abs(np.median(np.hypot(*points.T)) - radius) < 0.05
    assert circle.noise_.shape == (2, 2)
    assert not GANDensity.normalized


def test_a_collapsed_generator_raises() -> None:
    X, y = make_circle(200, random_state=0)
    untrained = GANDensity(hidden=(8,), steps=1, retries=0, random_state=0)
    with pytest.raises(CollapsedGeneratorError, match="collapsed"):
        untrained.fit(10 * X, np.where(y == 1, "in", "out"))
    assert not hasattr(untrained, "classes_")
    assert (clone(untrained).set_params(min_coverage=0.0).fit(X, y).coverage_ < 0.5).any()


def test_a_blurred_class_warns_and_more_charts_fix_it() -> None:
    rng = np.random.default_rng(0)
    modes = np.stack(np.meshgrid(*[np.arange(3.0)] * 2), -1).reshape(-1, 2)
    X = np.repeat(modes, 30, 0) + rng.normal(0, 0.01, (270, 2))
    one_chart = GANDensity(hidden=(16,), steps=300, charts=1, random_state=0)
    with pytest.warns(DensityWarning, match="blurred"):
        one_chart.fit(X, ["a"] * 270)
    nine_charts = GANDensity(hidden=(16,), steps=300, charts=9, random_state=0).fit(X, ["a"] * 270)
    distance = np.linalg.norm(nine_charts.sample(900, 0, 0)[:, None] - modes, axis=-1)
    assert (
        np.bincount(distance.argmin(1)[distance.min(1) < 0.2], minlength=9) >= 20
    ).all()  # a fifth of the expected number


def test_a_class_of_few_rows_warns() -> None:
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(30, 2)), rng.normal(3, 1, size=(7, 2))]
    with pytest.warns(DensityWarning, match="'few'"):
        fitted = GANDensity(**QUICK).fit(X, ["many"] * 30 + ["few"] * 7)
    assert np.isfinite(fitted.log_prob(X)).all()


def test_rows_are_drawn_by_their_weights() -> None:
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(0, 0.1, (50, 2)), rng.normal(5, 0.1, (50, 2))]
    weight = np.repeat([9.0, 1.0], 50)
    fitted = GANDensity(hidden=(16,), steps=150, charts=2, random_state=0).fit(X, np.zeros(100), weight)
    assert abs((fitted.sample(1000, 0, 0)[:, 0] < 2.5).mean() - 0.9) < 0.05
    assert ClassRows.split(torch.zeros(100, 2), torch.ones(100), 0).train.shape == (90, 2)


@pytest.mark.parametrize("parameters, match", [
    ({"norm": "l3"}, "norm='l3'"),
    ({"charts": 0}, "charts=0"),
    ({"shape": (1, 3, 4)}, "shape="),
    ({"scale": "unit"}, "scale='unit'"),
    ({"scale": -1.0}, "scale=-1.0"),
    ({"encoder": "vae"}, "encoder='vae'"),
    ({"min_coverage": 2.0}, "min_coverage=2.0"),
])  # fmt: skip
def test_bad_parameters_raise_before_the_training(
    parameters: dict[str, Any], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("genlabel.densities.gan.training.train_and_score")
    with pytest.raises(ValueError, match=match):
        GANDensity(**{**QUICK, **parameters}).fit(np.random.default_rng(0).normal(size=(40, 2)), [0, 1] * 20)


def test_flat_images_use_convolutions_and_one_scale() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 64)) * np.repeat([[1.0], [0.2]], 30, 0)
    fitted = GANDensity(shape=(1, 8, 8), latent_dim=2, batch_size=16, **{**QUICK, "hidden": (4,)}).fit(
        X, np.repeat([0, 1], 30)
    )
    assert isinstance(fitted.generators_.encoder, ConvNetwork)
    assert np.mean(fitted.log_prob(X).argmax(1) == np.repeat([0, 1], 30)) > 0.9
    assert np.unique(fitted.scaler_.scale).size == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_on_the_gpu_gives_plain_arrays_on_the_cpu() -> None:
    X, y = make_circle(200, random_state=0)
    fitted = GANDensity(**{**QUICK, "device": "cuda"}).fit(X, y)
    on_cpu = fitted.log_prob(X)
    on_gpu = fitted.log_prob(torch.from_numpy(X).cuda())
    assert on_gpu.is_cuda
    np.testing.assert_allclose(on_gpu.cpu().numpy(), on_cpu, rtol=1e-6)
