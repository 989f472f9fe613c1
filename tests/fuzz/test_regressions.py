"""Test single inputs for which the fuzz tests once failed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from genlabel import (
    ForestDensity,
    GaussianDensity,
    GenerativeClassifier,
    GenLabelClassifier,
    GenLabelSampler,
    GenMix,
    KernelDensity,
    MixtureDensity,
    MixupClassifier,
    SoftLabelClassifier,
    StackedDensity,
    Typicality,
    diagnose,
)
from genlabel.densities import DiscriminantDensity
from genlabel.densities.covariance import Gaussians
from genlabel.densities.gan.generators import Charts, Latents
from genlabel.densities.posterior import log_posterior

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), np.arange(20) % 2
FRAME = pd.DataFrame(X, columns=["a", "b"])
SAME_NAMES = pd.DataFrame(X, columns=["a", "a"])
HALF_SURROGATE = FRAME.assign(b=pd.Series(["\ud800", "u"] * 10, dtype=object))
DATES = FRAME.assign(b=pd.date_range("2024-05-31", periods=20))
HUGE = np.where(np.arange(40).reshape(20, 2) == 7, np.finfo(float).max, X)
NUL_NAME, SURROGATE_NAME = (FRAME.set_axis(pd.Index(["a", name], dtype=object), axis=1) for name in ("b\0", "\ud800"))
ONE_CLASS_PER_ROW = np.arange(20)
FIXED: dict[str, Any] = {"training__learning_rate": 0.05, "training__weight_decay": 1e-3, "random_state": 0}
network = MixupClassifier((3,), random_state=0).set_params(training__epochs=1)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "classifier": network.fit,
    "soft": SoftLabelClassifier(LogisticRegression()).fit,
    "sampler": GenLabelSampler().fit_resample,
    "density": GaussianDensity().fit,
    "typicality": Typicality().fit,
    "diagnosis": diagnose,
}
BAD_INPUT = [
    *((call, SAME_NAMES, Y, "'a'") for call in ("classifier", "soft", "sampler")),
    ("diagnosis", SAME_NAMES, Y, "'a'"),
    *((call, X, None, "y") for call in ("classifier", "soft", "sampler")),
    *((call, FRAME[[]], Y, "feature") for call in ("classifier", "soft", "sampler")),
    ("typicality", X[:0], Y[:0], "rows"),
    *((call, X[:, :0], Y, "feature") for call in ("density", "typicality")),
    *((call, HUGE, Y, "overflow") for call in CALLS),
    *((call, DATES, Y, "'b'") for call in ("soft", "sampler")),
    ("classifier", HALF_SURROGATE, Y, "Unicode"),
    ("classifier", NUL_NAME, Y, "x00"),
    ("sampler", SURROGATE_NAME, Y, "ud800"),
    ("classifier", X, ONE_CLASS_PER_ROW, "class"),
    *((call, X, np.array([1, "a"] * 10, object), "int and str") for call in ("density", "typicality")),
    ("density", X, np.array([None, *([0], [1]) * 10], object)[1:], "list"),
    ("density", sparse.csr_array(X), Y, "toarray"),
    ("density", [["u", "v"]] * 20, Y, "convert string"),
    ("density", torch.from_numpy(X + 1j), Y, "complex128"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:class.* a single row")
@pytest.mark.parametrize("call, points, labels, match", BAD_INPUT, ids=[*range(len(BAD_INPUT))])
def test_bad_input_raises(call: str, points: Any, labels: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        CALLS[call](points, labels)


def test_complex_columns_are_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="complex"):
        model = GenerativeClassifier().fit(FRAME.assign(b=X[:, 1] + 1j), Y)
    assert np.isfinite(model.predict_proba(FRAME.assign(b=1j))).all()


def test_points_that_overflow_float16_are_finite() -> None:
    half = (6e4 * np.sign(X)).astype(np.float16) + X.astype(np.float16)
    resampled, _ = GenMix(GaussianDensity(), n_aug=40, random_state=0).fit_resample(pd.DataFrame(half), Y)
    assert np.isfinite(resampled.to_numpy(dtype=float)).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e140])
@pytest.mark.parametrize("covariance", ["tied", "diagonal"])
def test_a_mixture_of_few_points_in_many_features_is_finite(scale: float, covariance: str) -> None:
    wide = np.random.default_rng(1).normal(size=(20, 40))
    values = MixtureDensity(2, covariance).fit(scale * wide, Y).log_prob(scale * wide) + 40 * np.log(scale)
    assert np.isfinite(values).all()
    assert (values > -1e6).all()  # the floor of the variance bounds 40 features


def test_an_ill_conditioned_covariance_is_finite() -> None:
    covariance = torch.diag(torch.tensor([1.0, 1e-40, 1.0], dtype=torch.float64))
    covariance[0, 1] = covariance[1, 0] = 1e-3
    gaussians, singular = Gaussians.of(torch.zeros(1, 3, dtype=torch.float64), covariance[None])
    assert singular.all()
    assert torch.isfinite(gaussians.log_prob(torch.zeros(2, 3, dtype=torch.float64))).all()


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_charts_of_points_equal_up_to_rounding_are_finite() -> None:
    rows = torch.tensor([[1.0, 1e8], [1.0, 1e8 + 8.0], [1.0, 1e8 + 16.0]] * 4)
    rows = rows / 1e8
    charts = Charts.fit(rows, torch.ones(12), Latents(1, 3), 3, seed=0)
    assert float(charts.shares.sum()) == pytest.approx(1.0)
    assert all(bool(torch.isfinite(part).all()) for part in charts)


@pytest.mark.parametrize("total", [-1e5, -1e7, -1e42, -1e299])
def test_posteriors_of_far_points_sum_to_one(total: float) -> None:
    scores = torch.tensor([[total, total, total], [total, total + 0.5, total]], dtype=torch.float64)
    proba = log_posterior(scores, np.log([0.2, 0.3, 0.5])).log_proba.exp()
    torch.testing.assert_close(proba.sum(1), torch.ones(2, dtype=torch.float64), rtol=0.0, atol=1e-9)


def test_a_far_row_has_probabilities() -> None:
    model = GenerativeClassifier(StackedDensity([DiscriminantDensity(), KernelDensity(0.6, covariance="shared")]))
    far = model.fit(X * [1.0, 1e-12], Y).predict_proba([[0.0, -1e9], [1e300, np.finfo(float).max]])
    np.testing.assert_allclose(far.sum(1), 1.0)


def test_a_stacked_density_of_more_classes_than_search_rows() -> None:
    """510 classes of two rows: one row is held out, the other trained on."""
    y = np.arange(1020) % 510
    points = np.random.default_rng(0).normal(size=(1020, 1)) + y[:, None]
    model = StackedDensity([KernelDensity(0.6, covariance="shared")], cv=2).fit(points, y)
    assert model.log_prob(points[:5]).shape == (5, 510)
    assert model.report_["rows"] == 1020


MANY = [
    GenerativeClassifier(DiscriminantDensity(0.3, 0.1)),
    GenerativeClassifier(KernelDensity(0.6, covariance="shared")),
    GenLabelClassifier("logistic", DiscriminantDensity(0.3, 0.1), 1.0).set_params(
        training__epochs=2, search__cv=2, **FIXED
    ),
    MixupClassifier((8,)).set_params(training__epochs=2, search__cv=2, **FIXED),
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning", "ignore:class.* two rows")
@pytest.mark.parametrize("model", MANY, ids=[*range(len(MANY))])
def test_two_thousand_classes_of_two_rows(model: Any) -> None:
    """As above, with 2,000 classes."""
    rng, y = np.random.default_rng(0), np.arange(4000) % 2000
    points = rng.normal(size=(2000, 3))[y] + 0.01 * rng.normal(size=(4000, 3))
    proba = clone(model).fit(points, y).predict_proba(points[:50])
    assert proba.shape == (50, 2000)
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(1), 1.0, atol=1e-6)


def test_a_forest_of_the_largest_float32_values_is_finite() -> None:
    points = np.sign(X) * np.finfo(np.float32).max
    assert np.isfinite(ForestDensity(3).fit(points, Y).log_prob(points)).all()


WEIGHTS = [
    (np.full(20, 1e-300), "sample_weight"),
    (np.full(20, np.finfo(float).max), "rescale"),
    (np.ones(20) + 1j, "complex"),
    (["heavy"] * 20, "'heavy'"),
]


@pytest.mark.parametrize("weight, match", WEIGHTS, ids=[*range(len(WEIGHTS))])
def test_bad_weights_raise(weight: Any, match: str) -> None:
    for fit in (network.fit, GaussianDensity().fit, Typicality().fit):
        with pytest.raises(ValueError, match=match):
            fit(X, Y, weight)


@pytest.mark.parametrize("unit", [1e-100, 1e98])
def test_typicality_is_invariant_to_the_scale_of_weights(unit: float) -> None:
    weight = np.arange(1.0, 21.0)
    expected, rescaled = (Typicality(random_state=0).fit(X, Y, by * weight)(X) for by in (1.0, unit))
    np.testing.assert_allclose(expected, rescaled, rtol=1e-9)
