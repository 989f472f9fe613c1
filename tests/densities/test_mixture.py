"""Test Gaussian mixtures against scikit-learn, and the monotonicity of EM."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from genlabel.densities import MixtureDensity
from genlabel.densities.mixture import fit_mixtures
from genlabel.densities.samples import Groups

KINDS = {"tied": "tied", "diagonal": "diag"}
kinds = pytest.mark.parametrize("covariance", KINDS)


def data(seed: int, n: int = 120, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    centers = rng.normal(size=(4, d)) * 3
    return centers[rng.integers(0, 4, n)] + rng.normal(size=(n, d)) + y[:, None], y


def oracle(density: MixtureDensity, c: int) -> GaussianMixture:
    """Return a mixture of scikit-learn with the parameters of one class."""
    used = density.weights_[c] > 0
    result = GaussianMixture(int(used.sum()), covariance_type=KINDS[density.covariance])
    result.weights_, result.means_ = density.weights_[c][used], density.means_[c][used]
    S = density.covariances_[c]
    tied = density.covariance == "tied"
    result.covariances_ = S if tied else S[used]
    result.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(S)) if tied else 1 / np.sqrt(S[used])
    return result


@kinds
@given(seed=st.integers(0, 10**6), components=st.integers(1, 7), weighted=st.booleans())
def test_equals_scikit_learn_given_the_parameters(covariance: str, seed: int, components: int, weighted: bool) -> None:
    X, y = data(seed)
    X = X * [1.0, 10.0, 0.3] + [0.0, 1000.0, 0.0]
    weight = np.random.default_rng(seed).uniform(0.2, 2, len(X)) if weighted else None
    fitted = MixtureDensity(components, covariance, reg=1e-2).fit(X, y, weight)
    for c in (0, 1):
        expected = oracle(fitted, c).score_samples(X)
        np.testing.assert_allclose(fitted.log_prob(X)[:, c], expected, rtol=1e-6, atol=1e-6)


@kinds
@given(seed=st.integers(0, 10**6))
def test_an_em_step_equals_scikit_learn(covariance: str, seed: int) -> None:
    """One step from the same parameters; reg is negligible."""
    X, y = data(seed)
    before, after = (MixtureDensity(3, covariance, reg=1e-12, max_iter=m).fit(X, y) for m in (1, 2))
    for c in (0, 1):
        mixture = oracle(before, c)
        inside = X[y == c]
        _, log_responsibility = mixture._e_step(inside)
        mixture.reg_covar = 1e-12
        mixture._m_step(inside, log_responsibility)
        converged = np.allclose(before.means_[c], after.means_[c])  # the class had converged before
        assert converged or np.allclose(mixture.means_, after.means_[c], atol=1e-6)
        assert converged or np.allclose(mixture.weights_, after.weights_[c], atol=1e-6)
        assert converged or np.allclose(mixture.covariances_, after.covariances_[c], atol=1e-6)


@kinds
@given(seed=st.integers(0, 10**6), reg=st.sampled_from([1e-6, 0.05, 1.0]))
def test_em_never_lowers_the_likelihood(covariance: str, seed: int, reg: float) -> None:
    X, y = data(seed)
    groups = Groups.by_class(torch.from_numpy(X), torch.from_numpy(y), torch.ones(1, 120, dtype=torch.float64))
    regs, trace = torch.full((3,), reg, dtype=torch.float64), []
    fit_mixtures(groups, [1, 2, 5], covariance == "tied", regs, 40, np.random.default_rng(seed).random(5), trace)
    assert all((likelihoods.diff(dim=0) >= -1e-9).all() for likelihoods in trace)
    if reg == 1e-6:  # the penalty is negligible: the trace is the mean log-density
        last = fit_mixtures(groups, [5], covariance == "tied", regs, 1, np.random.default_rng(seed).random(5), trace)
        values = last.select(slice(None), 0, 0).terms().log_prob(torch.from_numpy(X))
        inside = [values[torch.from_numpy(y) == c, c].mean() for c in (0, 1)]
        assert (torch.stack(inside) >= trace[-1][0, :, 0] - 1e-4).all()


def test_clusters_and_likelihood_equal_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    X = centers[np.arange(150) % 3] + 0.5 * rng.normal(size=(150, 2))
    fitted = MixtureDensity(3).fit(X, np.zeros(150))
    gaps = np.abs(fitted.means_[0][:, None] - centers[None]).max(-1).min(0)
    assert gaps.max() < 0.3
    best = GaussianMixture(3, covariance_type="tied", reg_covar=0.05, random_state=0).fit(X).score(X)
    assert fitted.log_prob(X).mean() > best - 0.01


def test_a_small_class_has_few_components() -> None:
    X, y = data(0)
    y = np.where(np.arange(120) < 100, 0, 1)
    fitted = MixtureDensity(6).fit(X, y)
    assert (fitted.weights_ > 0).sum(1).tolist() == [6, 2]
    np.testing.assert_allclose(fitted.weights_.sum(1), 1.0)
    single_row = MixtureDensity(6).fit(X, np.arange(120) < 1)
    assert np.isfinite(single_row.log_prob(X)).all()


@kinds
def test_groups_are_independent(covariance: str) -> None:
    X, y = data(3)
    weight = torch.ones(4, 120, dtype=torch.float64)
    for f in range(4):
        weight[f, f::4] = 0
    groups = Groups.by_class(torch.from_numpy(X), torch.from_numpy(y), weight)
    reg, draws = torch.full((3,), 0.05, dtype=torch.float64), np.random.default_rng(0).random(6)
    together = fit_mixtures(groups, [2, 6], covariance == "tied", reg, 40, draws)
    for f in range(4):
        rows = weight[f].numpy() > 0
        for s, components in enumerate((2, 6)):
            alone = MixtureDensity(components, covariance).fit(X[rows], y[rows])
            values = together.select(slice(None), f, s).terms().log_prob(torch.from_numpy(X))
            np.testing.assert_allclose(values.numpy(), alone.log_prob(X), rtol=1e-8)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"n_components": 0}, "n_components=0"),
        ({"covariance": "full"}, "'full'"),
        ({"reg": 0.0}, "reg=0.0"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_raise(params: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        MixtureDensity(**params).fit(*data(0))  # type: ignore[arg-type]
