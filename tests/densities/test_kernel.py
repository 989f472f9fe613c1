"""The kernel density against scipy."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal
from sklearn.covariance import ledoit_wolf_shrinkage

from genlabel.densities import DensityWarning, GaussianDensity, KernelDensity, kernel
from genlabel.densities.samples import CrossValSample
from genlabel.densities.stacking import held_out_log_prob


def data(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5) + y[:, None], y


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    bandwidth=st.sampled_from(["scott", "silverman", 0.3, 1.7]),
    weighted=st.booleans(),
)
def test_equals_scipy(seed: int, d: int, bandwidth: object, weighted: bool) -> None:
    X, y = data(seed, 60, d)
    weight = np.random.default_rng(seed).uniform(0.1, 2, 60) if weighted else None
    fitted = KernelDensity(bandwidth).fit(X, y, weight)
    queries = X[:20] * 1.5
    for c in (0, 1):
        inside = None if weight is None else weight[y == c]
        oracle = gaussian_kde(X[y == c].T, bw_method=bandwidth, weights=inside).logpdf(queries.T)
        np.testing.assert_allclose(fitted.log_prob(queries)[:, c], oracle, rtol=1e-9, atol=1e-9)


def test_far_log_densities_are_finite_and_exact() -> None:
    X, y = data(1, 60, 2)
    query = np.array([[400.0, -300.0]])
    value = KernelDensity().fit(X, y).log_prob(query)
    assert (value < -800).all()  # the density itself underflows
    for c in (0, 1):
        S = gaussian_kde(X[y == c].T).covariance
        terms = [multivariate_normal(x, S).logpdf(query[0]) for x in X[y == c]]
        np.testing.assert_allclose(value[0, c], logsumexp(terms) - np.log(30), rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_excludes_the_own_kernel(weighted: bool) -> None:
    X, y = data(2, 40, 2)
    weight = np.random.default_rng(0).uniform(0.5, 2, 40) if weighted else np.ones(40)
    fitted = KernelDensity(leave_one_out=True).fit(X, y, weight)
    values = fitted.log_prob(X)
    for c in (0, 1):
        inside = np.flatnonzero(y == c)
        S = gaussian_kde(X[inside].T, weights=weight[inside]).covariance
        for i in range(40):
            others = inside[inside != i]
            terms = [multivariate_normal(X[j], S).logpdf(X[i]) for j in others]
            expected = logsumexp(terms, b=weight[others] / weight[others].sum())
            np.testing.assert_allclose(values[i, c], expected, rtol=1e-9)


def test_leave_one_out_excludes_one_of_equal_points() -> None:
    X, y = data(3, 40, 2)
    plain, left_out = KernelDensity().fit(X, y), KernelDensity(leave_one_out=True).fit(X, y)
    between = X + 0.01
    np.testing.assert_array_equal(left_out.log_prob(between), plain.log_prob(between))
    X[2] = X[0]  # one of two equal points is not left out
    twice = KernelDensity(leave_one_out=True).fit(X, y)
    single = KernelDensity().fit(X, y)
    density = np.exp(single.log_prob(X[:1])[0, 0])
    S = gaussian_kde(X[y == 0].T).covariance
    peak = multivariate_normal(np.zeros(2), S).pdf(np.zeros(2))
    np.testing.assert_allclose(np.exp(twice.log_prob(X[:1])[0, 0]), (20 * density - peak) / 19, rtol=1e-9)


def test_leave_one_out_of_a_single_point_is_minus_infinity() -> None:
    X = np.array([[0.0], [1.0], [3.0], [9.0]])
    with pytest.warns(UserWarning, match="sample"):
        fitted = KernelDensity(leave_one_out=True).fit(X, [0, 0, 0, 1])
    assert np.isneginf(fitted.log_prob(X)[3, 1])
    assert np.isfinite(fitted.log_prob(X)[:3]).all()


def test_the_likelihood_bandwidth_fits_a_ring_and_a_cluster() -> None:
    """On a ring the held-out log-likelihood is far above the rule of Scott; on a cluster both are good."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 600)
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.02 * rng.normal(size=(600, 2))
    cluster = rng.normal(size=(600, 2))
    for X, gain in ((ring, 0.5), (cluster, -0.03)):
        train, test = X[:300], X[300:]
        values = {b: KernelDensity(b).fit(train, np.zeros(300)).log_prob(test).mean() for b in ("scott", "likelihood")}
        assert values["likelihood"] - values["scott"] > gain
    chosen = KernelDensity("likelihood").fit(ring, np.zeros(600))
    h, scott = chosen.models_[0].h, 600 ** (-1 / 6)
    factors = scott * 2.0 ** (1 - np.arange(13) / 2)
    assert np.isclose(factors, h).any()
    by_hand = [KernelDensity(f, leave_one_out=True).fit(ring, np.zeros(600)).log_prob(ring).mean() for f in factors]
    assert h == pytest.approx(factors[int(np.argmax(by_hand))])


def test_single_precision_is_close() -> None:
    X, y = data(4, 200, 5)
    fitted = KernelDensity().fit(X, y)
    exact, fast = fitted.log_prob(torch.from_numpy(X)), fitted.log_prob(torch.from_numpy(X).float())
    np.testing.assert_allclose(fast.numpy(), exact.numpy(), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("h", [0.3, 0.02, 0.002])
def test_narrow_kernels_are_evaluated_in_double_precision(h: float) -> None:
    """In float32 the exponents of narrow kernels lose all digits; only the rounding of the query remains."""
    X, y = data(4, 200, 4)
    fitted = KernelDensity(h).fit(X, y)
    queries = torch.from_numpy(X).float()
    np.testing.assert_allclose(fitted.log_prob(queries).numpy(), fitted.log_prob(queries.double()).numpy(), rtol=1e-4)
    assert fitted.models_[0].single == (h == 0.3)


@pytest.mark.parametrize(
    "bandwidth, match",
    [("scot", "'scot'"), (0.0, "bandwidth=0.0"), (-1, "-1")],
)
def test_bad_bandwidths_raise(bandwidth: object, match: str) -> None:
    X, y = data(0, 20, 2)
    with pytest.raises(ValueError, match=match):
        KernelDensity(bandwidth).fit(X, y)


def test_memory_stays_bounded() -> None:
    """9,000 x 9,000 points would be 650 MB as one matrix; the extra memory stays under a half of that."""
    script = (
        "import resource, numpy as np; from genlabel.densities import KernelDensity\n"
        "X = np.random.default_rng(0).normal(size=(9000, 4)); d = KernelDensity().fit(X, np.zeros(9000))\n"
        "d.log_prob(X[:10]); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "d.log_prob(X); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(process.stdout) * unit < 300e6


@pytest.mark.parametrize("covariance", ["shrunk", "shared"])
def test_other_covariances_follow_their_definition(covariance: str) -> None:
    X, y = data(5, 60, 3)
    fitted = KernelDensity(0.4, covariance=covariance).fit(X, y)
    within = sum(np.cov(X[y == c].T, bias=True) for c in (0, 1)) / 2
    for c in (0, 1):
        inside = X[y == c]
        s = ledoit_wolf_shrinkage(inside)
        S = np.cov(inside.T)
        shrunk = (1 - s) * S + s * np.trace(S) / 3 * np.eye(3)
        kernel = 0.4**2 * (shrunk if covariance == "shrunk" else np.diag(np.diag(within)))
        terms = np.stack([multivariate_normal(x, kernel).logpdf(X) for x in inside])
        np.testing.assert_allclose(fitted.log_prob(X)[:, c], logsumexp(terms, axis=0) - np.log(30), rtol=1e-9)
    with pytest.raises(ValueError, match="covariance='full'"):
        KernelDensity(covariance="full").fit(X, y)


@pytest.mark.parametrize("covariance", ["class", "shrunk", "shared"])
def test_max_points_keeps_the_covariance_of_all_points(covariance: str) -> None:
    X, y = data(6, 80, 3)
    fitted = KernelDensity(0.5, covariance=covariance, max_points=15).fit(X, y)
    all_points = KernelDensity(0.5, covariance=covariance).fit(X, y)
    for subsampled, full in zip(fitted.models_, all_points.models_, strict=True):
        assert len(subsampled.points) == 15
        assert all((row == full.points[:, :3]).all(1).any() for row in subsampled.points[:, :3])
        assert subsampled.log_norm == full.log_norm
    np.testing.assert_array_equal(
        KernelDensity(0.5, covariance=covariance, max_points=40).fit(X, y).log_prob(X), all_points.log_prob(X)
    )
    other_seed = KernelDensity(0.5, covariance=covariance, max_points=15, random_state=1).fit(X, y)
    assert not np.allclose(other_seed.log_prob(X), fitted.log_prob(X))
    with pytest.raises(ValueError, match="max_points=0"):
        KernelDensity(max_points=0).fit(X, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance, max_points", [("class", None), ("shared", 12)])
def test_batched_bandwidths_equal_single_fits(
    covariance: str, max_points: int | None, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in blocks of a few rows, and at a far point, where only the nearest kernel counts."""
    X, y = data(3, 48, 3)
    X[5] += 80.0
    weight = np.random.default_rng(1).uniform(0.1, 2, 48) if weighted else np.ones(48)
    valid = np.array_split(np.random.default_rng(2).permutation(48), 3)
    train = np.stack([~np.isin(np.arange(48), rows) for rows in valid])
    folds = CrossValSample(
        *map(torch.from_numpy, (X, y, weight, train)), [torch.from_numpy(np.sort(rows)) for rows in valid]
    )
    densities = [KernelDensity(h, covariance=covariance, max_points=max_points) for h in (0.2, 1.0, 3.0)]
    monkeypatch.setattr(kernel, "CHUNK_KERNELS", 100)
    result = densities[0].held_out_log_prob(folds, densities)
    silverman = KernelDensity(
        "silverman", covariance=covariance, max_points=max_points
    )  # no family: its bandwidth depends on the data
    result = torch.cat([result, next(held_out_log_prob([silverman], None, folds))[1]])
    densities = [*densities, silverman]
    for rows, inside in zip(folds.valid, train, strict=True):
        for density, values in zip(densities, result, strict=True):
            alone = density.fit(X[inside], y[inside], weight[inside]).log_prob(X[rows])
            np.testing.assert_allclose(values[rows], alone, rtol=1e-9, atol=1e-9)


def test_cv_families_share_distances() -> None:
    assert KernelDensity(0.5).cv_family == KernelDensity(2.0).cv_family is not None
    others = [
        KernelDensity(0.5, max_points=9),
        KernelDensity(0.5, covariance="shared"),
        KernelDensity(0.5, random_state=1),
    ]
    assert len({density.cv_family for density in (KernelDensity(0.5), *others)}) == 4
    without_family = [KernelDensity(), KernelDensity(0.5, leave_one_out=True), KernelDensity(0.5, random_state=None)]
    assert [density.cv_family for density in without_family] == [None] * 3
    assert KernelDensity().min_stack_weight == pytest.approx(2.5 * GaussianDensity().min_stack_weight)


def test_chunks_and_gradients_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(4, 60, 3)
    density = KernelDensity().fit(X, y)
    whole = density.log_prob(X)
    monkeypatch.setattr(kernel, "CHUNK_KERNELS", 210)  # 7 rows of 30 kernels
    np.testing.assert_allclose(density.log_prob(X), whole, rtol=1e-12)
    x = torch.from_numpy(X).requires_grad_()
    density.log_prob(x)[:, 0].sum().backward()
    step = 1e-6 * np.eye(3)[0]
    expected = (density.log_prob(X + step) - density.log_prob(X - step))[:, 0] / 2e-6
    np.testing.assert_allclose(x.grad[:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_smallest_classes_equal_scipy(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    X, y = np.append(x, [50.0, 51.0, 52.5])[:, None], np.repeat([0, 1], [n, 3])
    queries = np.linspace(-3, 3, 9)
    oracle = gaussian_kde(x).logpdf(queries)
    np.testing.assert_allclose(KernelDensity().fit(X, y).log_prob(queries[:, None])[:, 0], oracle, rtol=1e-9)
    scott, sigma = n ** (-1 / 5), x.std(ddof=1)
    factors = scott * 2.0 ** (1 - np.arange(13) / 2)
    gaps = (x[:, None] - x)[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    log_likelihoods = [logsumexp(-0.5 * (gaps / (h * sigma)) ** 2, axis=1).mean() - np.log(h) for h in factors]
    best = factors[int(np.argmax(log_likelihoods))]
    oracle = gaussian_kde(x, bw_method=best).logpdf(queries)
    np.testing.assert_allclose(
        KernelDensity("likelihood").fit(X, y).log_prob(queries[:, None])[:, 0], oracle, rtol=1e-9
    )


def test_a_single_point_has_the_bandwidth_of_scott() -> None:
    X, y = np.array([[0.0], [4.0], [5.0], [7.0]]), np.array([0, 1, 1, 1])
    with pytest.warns(DensityWarning, match="spread"):
        result, plain = (KernelDensity(bandwidth).fit(X, y).models_[0].h for bandwidth in ("likelihood", "scott"))
    assert result == plain


def test_equal_rows_give_the_smallest_bandwidth_of_the_grid() -> None:
    x = np.repeat(np.random.default_rng(0).normal(size=20), 2)
    model = KernelDensity("likelihood").fit(np.append(x, x)[:, None], np.repeat([0, 1], 40)).models_[0]
    assert model.h == pytest.approx(40 ** (-1 / 5) / 32)


def test_minus_zero_equals_zero_in_leave_one_out() -> None:
    X, y = np.array([[0.0], [1.0], [2.5], [9.0], [10.0], [12.0]]), np.repeat([0, 1], 3)
    density = KernelDensity(0.5, leave_one_out=True).fit(X, y)
    own, minus, near = density.log_prob(np.array([[0.0], [-0.0], [1e-20]]))[:, 0]
    assert own == minus
    assert near == pytest.approx(KernelDensity(0.5).fit(X, y).log_prob([[0.0]])[0, 0])
    assert near > own + 0.1
