"""AdaMixup at the scikit-learn door: its policy, its search, and that it learns."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_blobs
from sklearn.model_selection import StratifiedKFold, cross_val_score

from genlabel import AdaMixupClassifier

IRIS_X, IRIS_Y = load_iris(return_X_y=True)
SHORT: dict[str, Any] = {"training__epochs": 20, "random_state": 0}


@pytest.mark.parametrize("network", ["logistic", (16,)], ids=repr)
def test_learns_iris(network: Any) -> None:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = AdaMixupClassifier(network, random_state=0).set_params(
        training__learning_rate=(0.1, 0.01), training__weight_decay=1e-4
    )
    assert cross_val_score(model, IRIS_X, IRIS_Y, cv=folds).mean() > 0.93


def test_the_search_is_that_of_every_method() -> None:
    model = AdaMixupClassifier("logistic").set_params(**SHORT).fit(IRIS_X, IRIS_Y)
    assert sorted(model.best_params_) == ["learning_rate", "weight_decay"]
    assert len(model.cv_results_["params"]) == 12
    assert len(model.history_["loss"]) == model.n_iter_ == 20
    params = {f"training__{name}": value for name, value in model.best_params_.items()}
    chosen = AdaMixupClassifier("logistic").set_params(**params, **SHORT).fit(IRIS_X, IRIS_Y)
    np.testing.assert_array_equal(chosen.predict_proba(IRIS_X), model.predict_proba(IRIS_X))
    assert chosen.policy_range_ == model.policy_range_


def test_the_fitted_policy_has_the_reported_range() -> None:
    model = (
        AdaMixupClassifier("logistic", policy_hidden=7)
        .set_params(training__learning_rate=0.01, training__weight_decay=1e-4, **SHORT)
        .fit(IRIS_X, IRIS_Y)
    )
    x = torch.from_numpy(model.scaler_(IRIS_X))
    pairs = torch.cat([x.repeat_interleave(150, 0), x.repeat(150, 1)], 1)
    shares = torch.softmax(model.policy_(pairs), 1).detach().numpy().mean(0)
    np.testing.assert_allclose(model.policy_range_, shares.cumsum()[:2], atol=0.05)
    assert [layer.out_features for layer in model.policy_.layers] == [7, 3]
    assert not [name for name in vars(model) if name.startswith("_")]


def test_a_larger_intrusion_weight_mixes_more() -> None:
    X, y = make_blobs(200, centers=[[0, 0], [4, 0]], random_state=0)
    settings: dict[str, Any] = {"training__learning_rate": 0.01, "training__weight_decay": 1e-4, "random_state": 0}
    idle, active = (
        AdaMixupClassifier("logistic", intrusion_weight=w).set_params(**settings).fit(X, y) for w in (0.0, 10.0)
    )
    assert (idle.predict_proba(X) != active.predict_proba(X)).any()
    assert idle.mixing_share_ < 0.1 < active.mixing_share_


def test_subsets_have_policies_of_their_own() -> None:
    model = AdaMixupClassifier("logistic").set_params(
        training__learning_rate=(0.1, 0.01), training__weight_decay=1e-4, **SHORT
    )
    own = {rate: (lambda params, rate=rate: params["learning_rate"] == rate) for rate in (0.1, 0.01)}
    fitted = model.fit_subsets(IRIS_X, IRIS_Y, {str(rate): chosen for rate, chosen in own.items()})
    for rate in (0.1, 0.01):
        alone = (
            AdaMixupClassifier("logistic")
            .set_params(training__learning_rate=rate, training__weight_decay=1e-4, **SHORT)
            .fit(IRIS_X, IRIS_Y)
        )
        np.testing.assert_allclose(fitted[str(rate)].policy_range_, alone.policy_range_, atol=1e-4)
