"""Standardization against scikit-learn, its inverse, and its rule for constant features."""

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
    weight_or_none = weight if weighted else None
    oracle = StandardScaler().fit(X, sample_weight=weight_or_none)
    fitted = Standardization.fit(KINDS[kind](X), None if weight_or_none is None else KINDS[kind](weight_or_none))
    assert all(isinstance(part, type(KINDS[kind](X))) for part in fitted)
    standardized = fitted(KINDS[kind](X))
    np.testing.assert_allclose(standardized, oracle.transform(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fitted.inverse(standardized), X, rtol=1e-12, atol=1e-12 * np.abs(X).max())
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
def test_constant_feature_is_dropped_or_kept(kind: str, case: str) -> None:
    X = np.column_stack([points()[0], CONSTANT[case]])
    array = KINDS[kind](X)
    fitted = Standardization.fit(array)
    assert fitted.mask.tolist() == [True] * 3 + [False]
    assert fitted(array).shape == (40, 3)
    np.testing.assert_allclose(fitted.inverse(fitted(array)), X, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    everything = Standardization.fit(array, keep_constant=True)
    assert everything.mask.all()
    assert float(everything.scale[3]) == 1.0
    np.testing.assert_array_equal(everything(array)[:, :3], fitted(array))
    assert everything.log_volume == pytest.approx(fitted.log_volume)


@kinds
@pytest.mark.parametrize("case", VARIES)
def test_varying_feature_of_any_scale_has_unit_deviation(kind: str, case: str) -> None:
    fitted = Standardization.fit(KINDS[kind](VARIES[case][:, None]))
    assert fitted.mask.tolist() == [True]
    standardized = fitted(KINDS[kind](VARIES[case][:, None]))
    np.testing.assert_allclose([float(standardized.mean()), float((standardized**2).mean())], [0, 1], atol=1e-6)


def test_fold_has_the_features_of_the_whole_sample() -> None:
    X = np.column_stack([points()[0], np.r_[np.zeros(20), np.ones(20)], np.ones(40)])
    whole = Standardization.fit(X)
    fold = Standardization.fit(X[:20], whole=whole)
    assert fold.mask.tolist() == whole.mask.tolist() == [True] * 4 + [False]
    assert fold.scale[3] == whole.scale[3] == 0.5
    np.testing.assert_allclose(fold.scale[:3], X[:20, :3].std(0), rtol=1e-12)
    np.testing.assert_allclose(fold(X[20:])[:, 3], 2.0)


@kinds
def test_identity_changes_nothing(kind: str) -> None:
    X = np.column_stack([points()[0], np.ones(40)])
    identity = Standardization.identity(KINDS[kind](X))
    np.testing.assert_array_equal(identity(KINDS[kind](X)), X)
    np.testing.assert_array_equal(identity.inverse(KINDS[kind](X)), X)
    assert identity.log_volume == 0.0


def test_query_is_converted_to_the_precision_of_the_fit() -> None:
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))
    fitted = Standardization.fit(X)
    assert fitted(X.float()).dtype == torch.float64
    single = Standardization.fit(X.float())
    assert single(X).dtype == torch.float32
    np.testing.assert_allclose(single(X), fitted(X), rtol=1e-5, atol=1e-5)


def test_standardization_on_a_gpu_does_not_synchronize(nothing_waits: Any) -> None:
    X = torch.from_numpy(points()[0])
    X_gpu = X.cuda()
    fitted = Standardization.fit(X_gpu, keep_constant=True)
    with nothing_waits():
        standardized = fitted(X_gpu)
    assert standardized.is_cuda
    np.testing.assert_allclose(standardized.cpu(), Standardization.fit(X)(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fitted.inverse(standardized).cpu(), X, rtol=1e-9)
