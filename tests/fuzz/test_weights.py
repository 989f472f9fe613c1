"""Test estimators with any sample weights: finite results, or a documented error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from sklearn.base import clone

from genlabel import (
    AdaMixupClassifier,
    ForestDensity,
    GaussianDensity,
    GenerativeClassifier,
    GenLabel,
    GenLabelClassifier,
    KernelDensity,
    MixtureDensity,
    MixupClassifier,
    StackedDensity,
    Typicality,
    VAEDensity,
)
from genlabel.densities import DiscriminantDensity, PowerTransformedDensity

Rng = np.random.Generator
TryCall = Callable[[Callable[[], Any]], Any]
WEIGHTS: dict[str, Callable[[int, Rng], Any]] = {
    "any": lambda n, rng: rng.random(n),
    "zero for some": lambda n, rng: (rng.random(n) < 0.7) * 1.0,
    "zero for a class": lambda n, rng: (np.arange(n) % 2) * 1.0,
    "one row": lambda n, rng: (np.arange(n) == 3) * 1.0,
    "a row of each class": lambda n, rng: (np.arange(n) < 3) * 1.0,
    "two rows of each class": lambda n, rng: (np.arange(n) < 6) * 1.0,
    "wide range": lambda n, rng: 10.0 ** rng.integers(-12, 12, n),
    "very wide range": lambda n, rng: 10.0 ** rng.integers(-100, 101, n),
    "too wide range": lambda n, rng: 10.0 ** rng.integers(-300, 300, n),
    "tiny": lambda n, rng: np.full(n, 1e-100),
    "too tiny": lambda n, rng: np.full(n, 1e-300),
    "the smallest": lambda n, rng: np.full(n, 5e-324),
    "huge": lambda n, rng: np.full(n, 1e100),
    "too huge": lambda n, rng: np.full(n, 1e300),
    "overflowing sum": lambda n, rng: np.full(n, np.finfo(float).max),
    "one dominates": lambda n, rng: np.where(np.arange(n) == 0, 1e12, 1.0),
    "all zero": lambda n, rng: np.zeros(n),
    "zeros of both signs": lambda n, rng: np.where(np.arange(n) % 3, 1.0, -0.0),
    "negative": lambda n, rng: np.where(np.arange(n) == 2, -1.0, 1.0),
    "missing values": lambda n, rng: np.where(np.arange(n) == 2, np.nan, 1.0),
    "infinite": lambda n, rng: np.where(np.arange(n) == 2, np.inf, 1.0),
    "a number": lambda n, rng: 2.0,
    "nothing": lambda n, rng: None,
    "too few": lambda n, rng: np.ones(n - 1),
    "a column": lambda n, rng: np.ones((n, 1)),
    "booleans": lambda n, rng: np.arange(n) % 3 > 0,
    "integers": lambda n, rng: rng.integers(0, 4, n),
    "single precision": lambda n, rng: rng.random(n).astype(np.float32),
    "a list": lambda n, rng: rng.random(n).tolist(),
    "a series": lambda n, rng: pd.Series(rng.random(n), index=np.arange(n)[::-1]),
    "nullable": lambda n, rng: pd.Series(pd.array([1.0, None] * (n // 2), dtype="Float64")),
    "numbers as strings": lambda n, rng: np.array(["1.5"] * n, dtype=object),
    "strings": lambda n, rng: ["heavy"] * n,
    "complex": lambda n, rng: np.ones(n) + 1j,
}
LABELS = {"two": np.arange(24) % 2, "three": np.arange(24) % 3, "a class of one row": np.maximum(np.arange(24) % 3, 1)}
LABELS["a class of one row"][0] = 0
SHORT: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-3,
    "training__epochs": 2,
    "search__cv": 2,
    "random_state": 0,
}
SMALL_STACK = StackedDensity([DiscriminantDensity(0.3, 0.1), KernelDensity(0.6, covariance="shared")])
CLASSIFIERS = [
    GenLabelClassifier((4,), SMALL_STACK).set_params(**SHORT),
    GenLabelClassifier("logistic", "kernel", pool_with_density=None, class_weight="balanced").set_params(**SHORT),
    MixupClassifier((4,), "manifold").set_params(search__ensemble=1, **SHORT),
    AdaMixupClassifier((4,), policy_hidden=4).set_params(**SHORT),
    GenerativeClassifier(SMALL_STACK),
]
DENSITIES = [
    GaussianDensity(),
    GaussianDensity(shrinkage="ledoit-wolf"),
    KernelDensity("likelihood"),
    DiscriminantDensity(),
    MixtureDensity(2),
    ForestDensity(2),
    PowerTransformedDensity(GaussianDensity()),
    SMALL_STACK,
    VAEDensity(n_samples=2, hidden=(4,), epochs=1, random_state=0),
    GenLabel(GaussianDensity()),
    Typicality(random_state=0),
]


class Weighted:
    """A table with sample weights; its repr describes how it was drawn."""

    def __init__(self, weight: str, labels: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X, self.y = rng.normal(size=(24, 2)), LABELS[labels]
        self.weight, self.description = WEIGHTS[weight](24, rng), f"weights {weight!r}, labels {labels!r}, seed {seed}"

    def __repr__(self) -> str:
        return self.description


def weighted() -> st.SearchStrategy[Weighted]:
    return st.builds(Weighted, st.sampled_from([*WEIGHTS]), st.sampled_from([*LABELS]), st.integers(0, 9))


def numbered(subjects: list[Any]) -> Any:
    return pytest.mark.parametrize("number, subject", list(enumerate(subjects)), ids=lambda value: repr(value)[:60])


def check_classifier(classifier: Any, try_call: TryCall, table: Weighted) -> None:
    model = clone(classifier)
    if try_call(lambda: model.fit(table.X, table.y, table.weight)) is None:
        assert [name for name in vars(model) if name.endswith("_")] == []
        return
    proba = try_call(lambda: model.predict_proba(table.X))
    assert np.isfinite(proba).all()
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(1), 1.0, atol=1e-6)


@numbered(CLASSIFIERS)
def test_a_classifier_fits_weights_or_raises(number: int, subject: Any, check_examples: Any, try_call: TryCall) -> None:
    check_examples(weighted(), partial(check_classifier, subject, try_call), number)


def check_density(density: Any, try_call: TryCall, table: Weighted) -> None:
    fitted = try_call(lambda: clone(density).fit(table.X, table.y, table.weight))
    if fitted is None:
        return
    model = fitted.density_ if isinstance(density, GenLabel) else fitted
    predict = model if isinstance(model, Typicality) else model.log_prob
    values = np.asarray(try_call(lambda: predict(table.X)))
    assert len(values) == 24
    assert not np.isnan(values).any()
    assert not np.isposinf(values).any()


@numbered(DENSITIES)
def test_a_density_fits_weights_or_raises(number: int, subject: Any, check_examples: Any, try_call: TryCall) -> None:
    check_examples(weighted(), partial(check_density, subject, try_call), 20 + number)
