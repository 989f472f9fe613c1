"""Groups: rows that belong together are held out together, wherever an estimator or a comparison holds rows out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from genlabel import GenerativeClassifier, GenLabelClassifier, KernelDensity, MixupClassifier
from genlabel.data.tables import Table, make_splits
from genlabel.densities import StackedDensity
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.evaluation.comparison import as_results, run_comparison

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(30), 4)
X = RNG.normal(size=(30, 2))[GROUP]
Y = np.array(["no", "yes"])[RNG.integers(0, 2, 30)[GROUP]]
"""Each row stands four times, and nothing tells its class: only its copies do."""

MODEL = StackedDensity({"narrow": KernelDensity(0.05), "wide": KernelDensity(2.0)}, cv=3)
SMALL: dict[str, Any] = {"network": "logistic", "training__epochs": 3, "random_state": 0}
KNOWING = {
    "GenLabel": GenLabelClassifier(density=MODEL).set_params(**SMALL),
    "stacked density": GenerativeClassifier(MODEL),
}
knowing = pytest.mark.parametrize("model", KNOWING.values(), ids=KNOWING)


def promised(model: Any) -> float:
    """What held-out rows promise of the log-loss."""
    density = model.density_
    return float(density.report_["log_loss"])


@knowing
def test_held_out_scores_do_not_profit_from_grouped_copies(model: ProbabilityClassifier) -> None:
    assert promised(model.fit(X, Y)) < 0.2
    assert promised(model.fit(X, Y, groups=GROUP)) > 0.6
    assert promised(model.fit(X, Y, groups=[f"id {number}" for number in GROUP])) > 0.6


def test_networks_are_scored_on_unseen_groups() -> None:
    model = MixupClassifier(mixer=None, network=(64,), random_state=0).set_params(
        training__epochs=60, training__learning_rate=0.1
    )
    apart = model.fit(X, Y).cv_results_["mean_test_log_loss"].min()
    assert model.fit(X, Y, groups=GROUP).cv_results_["mean_test_log_loss"].min() > apart + 0.1


@knowing
def test_rows_of_weight_zero_are_dropped_with_their_groups(model: ProbabilityClassifier) -> None:
    weight = (GROUP % 5 > 0).astype(float)
    used = weight > 0
    left = model.fit(X, Y, weight, groups=GROUP).predict_log_proba(X)
    np.testing.assert_array_equal(left, model.fit(X[used], Y[used], groups=GROUP[used]).predict_log_proba(X))


@knowing
def test_a_row_without_a_group_is_a_group_of_its_own(model: ProbabilityClassifier) -> None:
    none = np.full(len(X), np.nan)
    log_proba = model.fit(X, Y, groups=none).predict_log_proba(X)
    np.testing.assert_array_equal(log_proba, model.fit(X, Y, groups=np.arange(len(X))).predict_log_proba(X))


@knowing
def test_a_group_for_each_row(model: ProbabilityClassifier) -> None:
    with pytest.raises(ValueError, match=r"groups has shape \(7,\)"):
        model.fit(X, Y, groups=np.arange(7))


def test_a_comparison_passes_the_groups_to_its_methods() -> None:
    table = Table("twice", pd.DataFrame(X, columns=["a", "b"]), pd.Series(Y), groups=pd.Series(GROUP))
    losses = as_results(run_comparison(table, {"stacked density": KNOWING["stacked density"]}, 2, 0.3, 0).frame)[
        "log_loss"
    ]
    expected = []
    for train, test in make_splits(table, 2, 0.3, 0):
        points, queries = (np.asarray(scaled) for scaled in _scaled(X[train], X[test]))
        model = KNOWING["stacked density"].fit(points, Y[train], groups=GROUP[train])
        expected.append(log_loss(Y[test], model.predict_proba(queries)))
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def _scaled(points: Any, queries: Any) -> Any:
    scaler = StandardScaler().fit(points)
    return scaler.transform(points), scaler.transform(queries)
