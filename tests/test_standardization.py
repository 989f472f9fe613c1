"""Standardization against scikit-learn's, there and back, and its rule for constant features."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from genlabel._arrays import Standardization

KINDS: dict[str, Any] = {"numpy": np.asarray, "torch": torch.as_tensor}
kinds = pytest.mark.parametrize("kind", KINDS)


def points(seed: int = 0, n: int = 40, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-4, 9, d) + rng.normal(size=d), rng.uniform(0.1, 3, n)


@kinds
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_standardization_equals_scikit_learn_and_is_inverted(kind: str, seed: int, weighted: bool) -> None:
    X, weight = points(seed)
    used = weight if weighted else None
    oracle = StandardScaler().fit(X, sample_weight=used)
    fitted = Standardization.fit(KINDS[kind](X), None if used is None else KINDS[kind](used))
    assert all(isinstance(part, type(KINDS[kind](X))) for part in fitted)
    found = fitted(KINDS[kind](X))
    np.testing.assert_allclose(found, oracle.transform(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fitted.inverse(found), X, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    assert fitted.log_volume == pytest.approx(np.log(oracle.scale_).sum())


CONSTANT = {
    "equal": np.full(40, 1e6),
    "zero": np.zeros(40),
    "rounding": 1e6 + 1e-10 * np.arange(40),
    "a mean that is not exact": np.full(40, 0.1),
}
VARIES = {
    "tiny": 1e-300 * np.arange(40),
    "huge": 1e300 * np.linspace(-1, 1, 40),
    "small beside its mean": 1e6 + 1e-4 * np.arange(40),
    "once": np.r_[np.zeros(39), 1e-12],
}


@kinds
@pytest.mark.parametrize("case", CONSTANT)
def test_a_constant_feature_is_left_out_or_kept_as_it_is(kind: str, case: str) -> None:
    X = np.column_stack([points()[0], CONSTANT[case]])
    given_points = KINDS[kind](X)
    fitted = Standardization.fit(given_points)
    assert fitted.mask.tolist() == [True] * 3 + [False]
    assert fitted(given_points).shape == (40, 3)
    np.testing.assert_allclose(fitted.inverse(fitted(given_points)), X, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    everything = Standardization.fit(given_points, keep_constant=True)
    assert everything.mask.all()
    assert float(everything.scale[3]) == 1.0
    np.testing.assert_array_equal(everything(given_points)[:, :3], fitted(given_points))
    assert everything.log_volume == pytest.approx(fitted.log_volume)


@kinds
@pytest.mark.parametrize("case", VARIES)
def test_a_feature_that_varies_at_any_scale_has_deviation_one(kind: str, case: str) -> None:
    fitted = Standardization.fit(KINDS[kind](VARIES[case][:, None]))
    assert fitted.mask.tolist() == [True]
    standardised = fitted(KINDS[kind](VARIES[case][:, None]))
    np.testing.assert_allclose([float(standardised.mean()), float((standardised**2).mean())], [0, 1], atol=1e-6)


def test_a_fold_has_the_features_of_the_whole_and_its_scale_of_constant_ones() -> None:
    X = np.column_stack([points()[0], np.r_[np.zeros(20), np.ones(20)], np.ones(40)])
    whole = Standardization.fit(X)
    fold = Standardization.fit(X[:20], whole=whole)
    assert fold.mask.tolist() == whole.mask.tolist() == [True] * 4 + [False]
    assert fold.scale[3] == whole.scale[3] == 0.5
    np.testing.assert_allclose(fold.scale[:3], X[:20, :3].std(0), rtol=1e-12)
    np.testing.assert_allclose(fold(X[20:])[:, 3], 2.0)


@kinds
def test_the_identity_changes_nothing(kind: str) -> None:
    X = np.column_stack([points()[0], np.ones(40)])
    identity = Standardization.identity(KINDS[kind](X))
    np.testing.assert_array_equal(identity(KINDS[kind](X)), X)
    np.testing.assert_array_equal(identity.inverse(KINDS[kind](X)), X)
    assert identity.log_volume == 0.0


def test_a_query_is_converted_to_the_precision_of_the_fit() -> None:
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))
    fitted = Standardization.fit(X)
    assert fitted(X.float()).dtype == torch.float64
    single = Standardization.fit(X.float())
    assert single(X).dtype == torch.float32
    np.testing.assert_allclose(single(X), fitted(X), rtol=1e-5, atol=1e-5)


def test_standardization_on_a_gpu(nothing_waits: Any) -> None:
    X = torch.from_numpy(points()[0])
    there = X.cuda()
    fitted = Standardization.fit(there, keep_constant=True)
    with nothing_waits():
        found = fitted(there)
    assert found.is_cuda
    np.testing.assert_allclose(found.cpu(), Standardization.fit(X)(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fitted.inverse(found).cpu(), X, rtol=1e-9)
