"""Test estimators on any table: finite results, or a documented error."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from genlabel import (
    AdaMixupClassifier,
    FlowDensity,
    ForestDensity,
    GANDensity,
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
    VAEDensity,
    diagnose,
)
from genlabel.densities import DiscriminantDensity, PowerTransformedDensity
from genlabel.densities.stacked import WeightedDensities

SMALL_STACK = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
SHORT: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-3,
    "training__epochs": 2,
    "search__cv": 2,
    "random_state": 0,
}
CLASSIFIERS = [
    GenLabelClassifier((4,), SMALL_STACK).set_params(**SHORT),
    GenLabelClassifier((4,), "gaussian", 1.0, pool_with_density=None).set_params(**SHORT),
    GenLabelClassifier("logistic", "kernel").set_params(training__standardize=False, **SHORT),
    MixupClassifier((4,)).set_params(**SHORT),
    MixupClassifier((4,), "manifold", calibrate=False, class_weight="balanced").set_params(search__ensemble=1, **SHORT),
    AdaMixupClassifier((4,), policy_hidden=4).set_params(**SHORT),
    GenerativeClassifier(),
    GenerativeClassifier(SMALL_STACK),
    SoftLabelClassifier(LogisticRegression(max_iter=20, tol=1.0), GenLabelSampler(n_aug=0.5), random_state=0),
]
QUICK: dict[str, Any] = {"hidden": (4,), "epochs": 1, "random_state": 0}
DENSITIES = [
    GaussianDensity(),
    GaussianDensity(shrinkage="ledoit-wolf"),
    KernelDensity(),
    KernelDensity("likelihood"),
    DiscriminantDensity(),
    MixtureDensity(2),
    ForestDensity(2),
    PowerTransformedDensity(GaussianDensity()),
    WeightedDensities([DiscriminantDensity(), KernelDensity(0.5)], [0.3, 0.7], [1.0, 2.0], standardize=True),
    SMALL_STACK,
    VAEDensity(n_samples=2, **QUICK),
    *([FlowDensity(transforms=1, bins=4, **QUICK)] if find_spec("zuko") else []),
    GANDensity("l2", hidden=(4,), steps=2, min_coverage=0.0, random_state=0),
    Typicality(random_state=0),
]
SAMPLERS = [
    GenMix(n_aug=0.3, random_state=0),
    GenMix("kernel", n_aug=0.3, output="soft", standardize=True, random_state=0),
    GenLabelSampler(n_aug=0.3, output="weighted", random_state=0),
    GenLabelSampler(SMALL_STACK, n_aug=0.3, output="soft", random_state=0),
]
TryCall = Callable[[Callable[[], Any]], Any]


def numbered(subjects: list[Any]) -> Any:
    return pytest.mark.parametrize("number, subject", list(enumerate(subjects)), ids=lambda value: repr(value)[:60])


def assert_on_simplex(proba: Any, rows: int) -> None:
    """Check that rows are non-negative and sum to 1."""
    values = np.asarray(proba, dtype=np.float64)
    assert len(values) == rows
    assert np.isfinite(values).all()
    assert (values >= 0.0).all()
    np.testing.assert_allclose(values.sum(1), 1.0, atol=1e-6)


def rows_of(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def far_rows(X: Any) -> Any:
    """Return rows far from all training rows; None if there are none for this kind of table."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64:
        return np.vstack(
            [np.full(X.shape[1], value) for value in (0.0, -1e9, 1e30, 1e300, np.finfo(float).max, np.nan)]
        )
    return X[:3].mask(X[:3].notna()) if isinstance(X, pd.DataFrame) else None


def check_classifier(classifier: Any, try_call: TryCall, table: Any) -> None:
    model = clone(classifier)
    if try_call(lambda: model.fit(table.X, table.y)) is None:
        assert [name for name in vars(model) if name.endswith("_")] == []
        return
    assert_on_simplex(try_call(lambda: model.predict_proba(table.X)), rows_of(table.X))
    assert set(model.predict(table.X).tolist()) <= set(model.classes_.tolist())
    if hasattr(model, "typicality_"):
        typicality = model.typicality(table.X)
        assert ((typicality > 0.0) & (typicality <= 1.0)).all()
    far = far_rows(table.X)
    if far is not None:
        far_proba = try_call(lambda: model.predict_proba(far))
        if far_proba is not None:
            assert_on_simplex(far_proba, len(far))


@numbered(CLASSIFIERS)
def test_a_classifier_predicts_probabilities_or_raises(
    number: int, subject: Any, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    check_examples(tables(), partial(check_classifier, subject, try_call), number)


def check_density(density: Any, try_call: TryCall, table: Any) -> None:
    fitted = try_call(lambda: clone(density).fit(table.X, table.y))
    if fitted is None:
        return
    predict = fitted if isinstance(density, Typicality) else fitted.log_prob
    values = np.asarray(try_call(lambda: predict(table.X)))
    assert len(values) == rows_of(table.X)
    assert not np.isnan(values).any()
    assert not np.isposinf(values).any()


@numbered(DENSITIES)
def test_a_density_is_finite_or_raises(
    number: int, subject: Any, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    share = 0.25 if isinstance(subject, GANDensity) else 1.0  # its training takes seconds
    check_examples(tables(arrays=True), partial(check_density, subject, try_call), number, share)


def check_sampler(sampler: Any, try_call: TryCall, table: Any) -> None:
    fresh = clone(sampler)
    resampled = try_call(lambda: fresh.fit_resample(table.X, table.y))
    if resampled is None:
        assert [name for name in vars(fresh) if name.endswith("_")] == []
        return
    points, labels = resampled
    assert np.isfinite(np.asarray(points, dtype=np.float64)).all()
    assert len(points) == len(fresh.is_synthetic_)
    if sampler.output == "soft":
        assert_on_simplex(labels, len(points))
    else:
        assert set(labels) <= set(fresh.classes_.tolist())


@numbered(SAMPLERS)
def test_a_sampler_adds_finite_rows_or_raises(
    number: int, subject: Any, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    check_examples(tables(arrays=True), partial(check_sampler, subject, try_call), number)


def check_diagnosis(try_call: TryCall, table: Any) -> None:
    diagnosis = try_call(partial(diagnose, table.X, table.y, cv=2, n_mixed=20))
    assert diagnosis is None or diagnosis.verdict.sentence


def test_a_diagnosis_has_a_verdict_or_raises(tables: Any, check_examples: Any, try_call: TryCall) -> None:
    check_examples(tables(), partial(check_diagnosis, try_call), 0, share=0.25)
