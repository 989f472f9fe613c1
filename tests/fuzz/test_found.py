"""What the machine has found, each by itself: the error that names it, or the numbers that are right now."""

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
from genlabel.densities.gan.generators import Charts
from genlabel.densities.posterior import log_posterior

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), np.arange(20) % 2
FRAME = pd.DataFrame(X, columns=["a", "b"])
TWINS = pd.DataFrame(X, columns=["a", "a"])
HALF = FRAME.assign(b=pd.Series(["\ud800", "u"] * 10, dtype=object))
DATES = FRAME.assign(b=pd.date_range("2024-05-31", periods=20))
HUGE = np.where(np.arange(40).reshape(20, 2) == 7, np.finfo(float).max, X)
NUL, NAMED = (FRAME.set_axis(pd.Index(["a", name], dtype=object), axis=1) for name in ("b\0", "\ud800"))
ALONE = np.arange(20)
FIXED: dict[str, Any] = {"training__learning_rate": 0.05, "training__weight_decay": 1e-3, "random_state": 0}
network = MixupClassifier((3,), random_state=0).set_params(training__epochs=1)
doors: dict[str, Callable[[Any, Any], Any]] = {
    "classifier": network.fit,
    "soft": SoftLabelClassifier(LogisticRegression()).fit,
    "sampler": GenLabelSampler().fit_resample,
    "density": GaussianDensity().fit,
    "support": Typicality().fit,
    "diagnosis": diagnose,
}
REFUSED = [
    *((door, TWINS, Y, "several columns named 'a'; rename them") for door in ("classifier", "soft", "sampler")),
    ("diagnosis", TWINS, Y, "several columns named 'a'; rename them"),
    *((door, X, None, "requires y to be passed, but .* is None") for door in ("classifier", "soft", "sampler")),
    *((door, FRAME[[]], Y, "no columns; it needs at least one feature") for door in ("classifier", "soft", "sampler")),
    ("support", X[:0], Y[:0], "0 rows"),
    *((door, X[:, :0], Y, "needs at least one feature") for door in ("density", "support")),
    *((door, HUGE, Y, r"size 1.8e\+308, whose squares overflow") for door in doors),
    *((door, DATES, Y, "column 'b' of X holds dates or durations") for door in ("soft", "sampler")),
    ("classifier", HALF, Y, r"'\\ud800', which is not valid Unicode"),
    ("classifier", NUL, Y, "a column named 'b.*x00', which has an invalid character"),
    ("sampler", NAMED, Y, "a column named '.*ud800', which has an invalid character"),
    ("classifier", X, ALONE, "each of 20 rows has a class of its own"),
    *((door, X, np.array([1, "a"] * 10, object), "labels of the type int and str") for door in ("density", "support")),
    ("density", X, np.array([None, *([0], [1]) * 10], object)[1:], "labels of the type list, which cannot be sorted"),
    ("density", sparse.csr_array(X), Y, "could not be read as an array of numbers .* call X.toarray"),
    ("density", [["u", "v"]] * 20, Y, "could not be read as an array of numbers .*convert strings"),
    ("density", torch.from_numpy(X + 1j), Y, r"its values are torch.complex128"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:class 0 has a single row")
@pytest.mark.parametrize("door, points, labels, match", REFUSED, ids=[*range(len(REFUSED))])
def test_it_is_refused_in_words(door: str, points: Any, labels: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        doors[door](points, labels)


def test_complex_columns_are_left_out_and_named() -> None:
    with pytest.warns(UserWarning, match="column 'b' is left out: complex numbers are not used"):
        model = GenerativeClassifier().fit(FRAME.assign(b=X[:, 1] + 1j), Y)
    assert np.isfinite(model.predict_proba(FRAME.assign(b=1j))).all()


def test_points_beyond_the_given_precision_are_in_a_wider_one() -> None:
    given = (6e4 * np.sign(X)).astype(np.float16) + X.astype(np.float16)
    more, _ = GenMix(GaussianDensity(), n_aug=40, random_state=0).fit_resample(pd.DataFrame(given), Y)
    assert np.isfinite(more.to_numpy(dtype=float)).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e140])
@pytest.mark.parametrize("covariance", ["tied", "diagonal"])
def test_a_mixture_of_few_points_in_many_features_is_regular_at_every_scale(scale: float, covariance: str) -> None:
    wide = np.random.default_rng(1).normal(size=(20, 40))
    values = MixtureDensity(2, covariance).fit(scale * wide, Y).log_prob(scale * wide) + 40 * np.log(scale)
    assert np.isfinite(values).all()
    assert (values > -1e6).all()  # 40 features within 1e-4 of their variance


def test_a_covariance_of_eigenvalues_far_apart_has_its_root() -> None:
    covariance = torch.diag(torch.tensor([1.0, 1e-40, 1.0], dtype=torch.float64))
    covariance[0, 1] = covariance[1, 0] = 1e-3
    found, singular = Gaussians.of(torch.zeros(1, 3, dtype=torch.float64), covariance[None])
    assert singular.all()
    assert torch.isfinite(found.log_prob(torch.zeros(2, 3, dtype=torch.float64))).all()


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_charts_of_points_that_differ_by_rounding_alone() -> None:
    rows = torch.tensor([[1.0, 1e8], [1.0, 1e8 + 8.0], [1.0, 1e8 + 16.0]] * 4)
    rows = rows / 1e8
    charts = Charts.fit(rows, torch.ones(12), (1, 3), 3, seed=0)
    assert float(charts.shares.sum()) == pytest.approx(1.0)
    assert all(bool(torch.isfinite(part).all()) for part in charts)


@pytest.mark.parametrize("total", [-1e5, -1e7, -1e42, -1e299])
def test_far_from_everything_probabilities_are_still_1_together(total: float) -> None:
    scores = torch.tensor([[total, total, total], [total, total + 0.5, total]], dtype=torch.float64)
    proba = log_posterior(scores, np.log([0.2, 0.3, 0.5])).log_proba.exp()
    torch.testing.assert_close(proba.sum(1), torch.ones(2, dtype=torch.float64), rtol=0.0, atol=1e-9)


def test_a_row_beyond_all_others_has_probabilities() -> None:
    model = GenerativeClassifier(StackedDensity([DiscriminantDensity(), KernelDensity(0.6, covariance="shared")]))
    far = model.fit(X * [1.0, 1e-12], Y).predict_proba([[0.0, -1e9], [1e300, np.finfo(float).max]])
    np.testing.assert_allclose(far.sum(1), 1.0)


def test_a_label_model_of_more_classes_than_rows_that_judge() -> None:
    """510 classes of two rows: each is held out once, and trained on once."""
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
@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning", "ignore:class 0 has two rows")
@pytest.mark.parametrize("model", MANY, ids=[*range(len(MANY))])
def test_thousands_of_classes_of_two_rows(model: Any) -> None:
    """What 510 classes show above: 2,000."""
    rng, y = np.random.default_rng(0), np.arange(4000) % 2000
    points = rng.normal(size=(2000, 3))[y] + 0.01 * rng.normal(size=(4000, 3))
    proba = clone(model).fit(points, y).predict_proba(points[:50])
    assert proba.shape == (50, 2000)
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(1), 1.0, atol=1e-6)


def test_trees_of_the_largest_numbers_in_single_precision() -> None:
    points = np.sign(X) * np.finfo(np.float32).max
    assert np.isfinite(ForestDensity(3).fit(points, Y).log_prob(points)).all()


WEIGHTS = [
    (np.full(20, 1e-300), "sample_weight goes from 1e-300 to 1e-300, and must be 0 or in"),
    (np.full(20, np.finfo(float).max), "rescale the weights"),
    (np.ones(20) + 1j, "sample_weight could not be read as numbers .they are complex.; give one number"),
    (["heavy"] * 20, "sample_weight could not be read as numbers .*'heavy'"),
]


@pytest.mark.parametrize("weight, match", WEIGHTS, ids=[*range(len(WEIGHTS))])
def test_weights_that_cannot_be_weighed_are_refused_in_words(weight: Any, match: str) -> None:
    for fit in (network.fit, GaussianDensity().fit, Typicality().fit):
        with pytest.raises(ValueError, match=match):
            fit(X, Y, weight)


@pytest.mark.parametrize("unit", [1e-100, 1e98])
def test_weights_of_any_unit_leave_support_as_it_is(unit: float) -> None:
    weight = np.arange(1.0, 21.0)
    one, other = (Typicality(random_state=0).fit(X, Y, by * weight)(X) for by in (1.0, unit))
    np.testing.assert_allclose(one, other, rtol=1e-9)
