"""Test the posterior and the priors against scipy and Bayes' rule."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from genlabel.densities.posterior import log_posterior, log_priors

PRIOR = np.log([0.2, 0.3, 0.5])
NONE = [-np.inf] * 3


@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(3,), (7, 3), (4, 7, 3), (2, 1, 5, 3)]),
    temperature=st.sampled_from([None, 1, 1.0, 0.5, 8.0]),
    single=st.booleans(),
)
def test_equals_scipy_over_the_last_dimension(seed: int, shape: Any, temperature: float | None, single: bool) -> None:
    scores = np.random.default_rng(seed).normal(size=shape) * 30
    tensor = torch.from_numpy(scores).to(torch.float32 if single else torch.float64)
    result, undefined = log_posterior(tensor, PRIOR, temperature)
    assert result.dtype == tensor.dtype
    assert undefined.shape == (*shape[:-1], 1)
    assert not undefined.any()
    expected = log_softmax(scores / (temperature or 1) + PRIOR, axis=-1)
    np.testing.assert_allclose(result, expected, atol=1e-4 if single else 1e-12)
    np.testing.assert_array_equal(tensor, torch.from_numpy(scores).to(tensor))


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("offset", [0.0, 1e5, 1e6, 1e7, 1e12, 1e25])
def test_far_points_equal_scipy(shape: tuple[int, ...], offset: float) -> None:
    """Near and far rows are in one batch; rounding of large scores would hide the differences between classes."""
    scores = np.random.default_rng(1).normal(size=shape)
    np.atleast_2d(scores)[..., -1, :] -= offset  # a view
    expected = log_softmax(scores + PRIOR, axis=-1)
    result = log_posterior(torch.from_numpy(scores), PRIOR).log_proba
    np.testing.assert_allclose(result, expected, atol=1e-9)
    np.testing.assert_allclose(result.exp().sum(-1), 1.0, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("temperature", [None, 2.0])
def test_the_gradient_is_that_of_a_softmax(temperature: float | None, offset: float) -> None:
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 3)) - offset).requires_grad_()
    log_posterior(scores, PRIOR, temperature).log_proba[:, 0].sum().backward()
    divisor = temperature or 1.0
    proba = np.exp(log_softmax(scores.detach().numpy() / divisor + PRIOR, axis=-1))
    np.testing.assert_allclose(scores.grad, (np.eye(3)[0] - proba) / divisor, atol=1e-9)


def test_temperatures_broadcast() -> None:
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 8, 3)))
    temperatures = torch.tensor([1.0, 2.0, 8.0], dtype=torch.float64)
    together = log_posterior(scores, PRIOR, temperatures[:, None, None]).log_proba
    alone = [
        log_posterior(part, PRIOR, float(temperature)).log_proba
        for part, temperature in zip(scores, temperatures, strict=True)
    ]
    np.testing.assert_array_equal(together, torch.stack(alone))


@pytest.mark.parametrize("row", [NONE, [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [np.inf, np.inf, -np.inf]])
@pytest.mark.parametrize("temperature", [None, 1.0, 4.0])
@pytest.mark.parametrize("scale", [0.0, 1.5])
def test_undefined_rows_have_the_prior(row: Any, temperature: float | None, scale: float) -> None:
    """The prior is normalized first; other rows do not change."""
    scores = torch.tensor([[1.0, 2.0, 3.0], row], dtype=torch.float64)
    result, undefined = log_posterior(scores, PRIOR + scale, temperature)
    assert undefined[:, 0].tolist() == [False, True]
    np.testing.assert_allclose(result[1], PRIOR, atol=1e-15)
    np.testing.assert_array_equal(result[:1], log_posterior(scores[:1], PRIOR + scale, temperature).log_proba)


def test_the_last_digit_with_and_without_a_temperature() -> None:
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=(50, 3)) * 100)
    sums = scores + torch.from_numpy(PRIOR)
    assert torch.equal(log_posterior(scores, PRIOR).log_proba, sums - sums.logsumexp(-1, keepdim=True))
    assert torch.equal(log_posterior(scores, PRIOR, 1.0).log_proba, torch.log_softmax(sums, -1))
    assert not torch.equal(log_posterior(scores, PRIOR).log_proba, log_posterior(scores, PRIOR, 1.0).log_proba)


def test_a_single_nonzero_density_decides() -> None:
    result, undefined = log_posterior(torch.tensor([[-np.inf, -5000.0, -np.inf]], dtype=torch.float64), PRIOR)
    assert not undefined.any()
    assert result.tolist() == [[-np.inf, 0.0, -np.inf]]


@pytest.mark.parametrize("top", [1, 2, 3, 7])
def test_top_k_renormalizes_the_most_likely(top: int) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 20, 3)))
    p = log_posterior(scores, PRIOR, top_k=top).log_proba.exp()
    assert ((p > 0).sum(-1) == min(top, 3)).all()
    np.testing.assert_allclose(p.sum(-1), 1.0)
    full = log_posterior(scores, PRIOR).log_proba.exp()
    assert ((full * (p > 0)).amax(-1) == full.amax(-1)).all()
    assert ((full * (p == 0)).amax(-1) <= torch.where(p > 0, full, 1.0).amin(-1)).all()
    top_proba = torch.where(p > 0, full, torch.zeros_like(full))
    np.testing.assert_allclose(p, top_proba / top_proba.sum(-1, keepdim=True), rtol=1e-12)
    with pytest.raises(ValueError, match="top_k=0"):
        log_posterior(scores, PRIOR, top_k=0)


def test_results_on_the_gpu_do_not_synchronize(nothing_waits: Any) -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], NONE], dtype=torch.float64)
    prior = torch.from_numpy(PRIOR).cuda()
    gpu_scores = scores.cuda()
    with nothing_waits():
        result, undefined = log_posterior(gpu_scores, prior, 2.0, top_k=2)
    np.testing.assert_allclose(result.cpu(), log_posterior(scores, PRIOR, 2.0, top_k=2).log_proba, rtol=1e-12)
    assert undefined.is_cuda


CLASS_PRIOR = np.array([0.1, 0.3, 0.6])


@pytest.mark.parametrize("priors, default, expected", [
    ("uniform", "empirical", [1 / 3] * 3),
    ("empirical", "uniform", CLASS_PRIOR),
    ("auto", "uniform", [1 / 3] * 3),
    ("auto", "empirical", CLASS_PRIOR),
    ([2, 0, 2], "uniform", [0.5, 0.0, 0.5]),
])  # fmt: skip
def test_priors_and_class_weights_multiply(priors: Any, default: str, expected: Any) -> None:
    np.testing.assert_allclose(np.exp(log_priors(priors, CLASS_PRIOR, default)), expected, rtol=1e-15)
    weight = np.array([5.0, 0.0, 1.0])
    weighted = np.asarray(expected) * weight
    np.testing.assert_allclose(
        np.exp(log_priors(priors, CLASS_PRIOR, default, weight)), weighted / weighted.sum(), rtol=1e-15
    )


@pytest.mark.parametrize("priors", ["equal", [1.0, 2.0], [[1.0, 1.0, 1.0]], [0, 0, 0], [1, -1, 1], [np.nan, 1, 1], 3])
def test_bad_priors_raise(priors: Any) -> None:
    with pytest.raises(ValueError, match="priors="):
        log_priors(priors, CLASS_PRIOR)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_class_weights_are_relative(scale: float) -> None:
    weighted = CLASS_PRIOR * (weight := np.array([1.0, 2.0, 5.0]))
    result = log_priors("empirical", CLASS_PRIOR, class_weight=scale * weight)
    np.testing.assert_allclose(np.exp(result), weighted / weighted.sum(), rtol=1e-12)


def test_class_weights_must_be_positive_for_a_class() -> None:
    with pytest.raises(ValueError, match="class_weight"):
        log_priors([0, 1, 0], CLASS_PRIOR, class_weight=np.array([1.0, 0.0, 1.0]))
