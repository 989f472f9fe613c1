"""The default of GenLabelClassifier: label model, clean and mixed points, vanilla among the candidates, the average."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification

from genlabel import GaussianDensity, GenLabelClassifier, KernelDensity, MixupClassifier
from genlabel.densities import LabelModel, StackDensity
from genlabel.estimators.selection import one_standard_error, pool

QUICK = {"epochs": 15, "cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    X, y = make_classification(150, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=1)
    return X, y


@pytest.fixture(scope="module")
def model(data: tuple[Any, Any]) -> GenLabelClassifier:
    return GenLabelClassifier((8,), **QUICK).fit(*data)


def test_every_method_has_the_same_search(model: GenLabelClassifier, data: tuple[Any, Any]) -> None:
    """Vanilla is among the candidates of the default: the networks of vanilla training's own search, fold by fold."""
    vanilla = MixupClassifier((8,), mixer=None, **QUICK).fit(*data)
    params = model.cv_results_["params"]
    assert len(params) == 2 * len(vanilla.cv_results_["params"]) == 2 * 4 * 3
    clean = [i for i, p in enumerate(params) if p["clean_weight"] == 1.0]
    assert [{k: params[i][k] for k in ("learning_rate", "weight_decay")} for i in clean] == vanilla.cv_results_[
        "params"
    ]
    assert all("gamma" not in params[i] for i in clean)
    for fold in range(3):
        ours = model.cv_results_[f"split{fold}_test_log_loss"][clean]
        np.testing.assert_allclose(ours, vanilla.cv_results_[f"split{fold}_test_log_loss"], rtol=1e-4)


def test_the_choice_is_the_rule_on_the_pooled_losses(model: GenLabelClassifier) -> None:
    results = model.cv_results_
    best = results["mean_test_pooled_log_loss"]
    chosen = results["params"][model.best_index_]
    assert {k: v for k, v in model.best_params_.items() if k != "average"} == chosen
    assert best[model.best_index_] < np.median(best)
    lowest = results["params"][int(best.argmin())]
    assert chosen["weight_decay"] >= lowest["weight_decay"]
    assert model.best_score_ == results["mean_test_pooled_score"][model.best_index_]


def test_vanilla_chooses_by_one_standard_error(data: tuple[Any, Any]) -> None:
    """The rule with the losses of folds of one row each, where the table itself holds every row's loss."""
    X, y = data
    rows = np.arange(len(y))
    folds = [(np.delete(rows, part), part) for part in rows.reshape(-1, 1)[::10]]
    found = MixupClassifier(mixer=None, cv=folds, epochs=5, random_state=0).fit(X, y)
    losses = np.stack([found.cv_results_[f"split{f}_test_log_loss"] for f in range(len(folds))], axis=1)
    strength = [p["weight_decay"] for p in found.cv_results_["params"]]
    assert found.best_index_ == one_standard_error(losses, strength)


def test_a_stack_is_fitted_once_for_each_fold_and_once_for_all_rows(
    data: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    fit = StackDensity._fit

    def counted(self: StackDensity, X: Any, *rest: Any) -> None:
        sizes.append(len(X))
        fit(self, X, *rest)

    monkeypatch.setattr(StackDensity, "_fit", counted)
    GenLabelClassifier((8,), **QUICK).fit(*data)
    assert sorted(sizes) == [100, 100, 100, 150]


def test_what_is_predicted_is_the_pool(model: GenLabelClassifier, data: tuple[Any, Any]) -> None:
    X, y = data
    Z = model.scaler_(X)
    network = log_softmax(model.network_(torch.from_numpy(Z)).detach().numpy(), axis=1)
    density = model.labeler_.density_
    posterior = log_softmax(density.log_prob(Z) + np.log(density.class_prior_), axis=1)
    prior = np.log(np.bincount(y) / len(y))
    expected = pool(network, posterior, prior, model.average_)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-9)
    assert model.best_params_["average"] == model.average_
    assert isinstance(density, StackDensity)
    np.testing.assert_allclose(density.log_prob(Z), model.label_model_.log_prob(Z), atol=1e-8)


def test_the_label_model_reports_itself(model: GenLabelClassifier) -> None:
    report = model.label_model_.report_
    assert {"chosen", "log_loss", "accuracy", "calibration_error"} <= set(report)
    assert 0.3 < report["accuracy"] <= 1.0
    fresh = clone(model).set_params(density=GaussianDensity(), average=None)
    assert not hasattr(fresh, "label_model_")


def test_a_refit_forgets_what_no_longer_holds(data: tuple[Any, Any]) -> None:
    own = GenLabelClassifier(**QUICK).fit(*data)
    assert own.average_ is not None
    own.set_params(density="gaussian").fit(*data)
    assert own.average_ is None
    assert "average" not in own.best_params_
    assert not hasattr(own, "label_model_")


def test_the_average_can_be_given_or_left_out(data: tuple[Any, Any]) -> None:
    X, y = data
    alone = GenLabelClassifier(average=None, **QUICK).fit(X, y)
    network = log_softmax(alone.network_(torch.from_numpy(alone.scaler_(X))).detach().numpy(), axis=1)
    np.testing.assert_allclose(alone.predict_log_proba(X), network, atol=1e-12)
    half = GenLabelClassifier(average=(0.5, 0.5), **QUICK).fit(X, y)
    assert half.average_ == (0.5, 0.5)
    gaussian = GenLabelClassifier(density=GaussianDensity(), average="cv", **QUICK).fit(X, y)
    assert len(gaussian.average_) == 2
    fixed = GenLabelClassifier(learning_rate=0.1, weight_decay=0.01, clean_weight=0.5, **QUICK).fit(X, y)
    assert fixed.average_ is not None
    assert "mean_test_pooled_log_loss" in fixed.cv_results_


@pytest.mark.parametrize("average", ["best", (0.5,), (-1.0, 1.0), 3, (0.5, "x")])
def test_a_bad_average_is_refused(average: Any) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="average"):
        GenLabelClassifier(average=average).fit(X, y)


@pytest.mark.parametrize("more", [{"density": "auto"}, {"gamma": 0.0}])
def test_an_average_needs_one_density(more: dict[str, Any]) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="needs one density to average with"):
        GenLabelClassifier(average="cv", **more).fit(X, y)


def test_from_paper_is_the_papers_setting() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenLabelClassifier.from_paper(epochs=3, random_state=0)
    explicit = GenLabelClassifier(
        density={"gaussian": GaussianDensity(), "kernel": KernelDensity()},
        gamma="cv",
        alpha=1.0,
        clean_weight=0.0,
        weight_decay=1e-4,
        average=None,
        select="accuracy",
        per="batch",
        priors="uniform",
        epochs=3,
        random_state=0,
    )
    assert repr(model) == repr(explicit)
    model.fit(X, y)
    params = model.cv_results_["params"]
    assert len(params) == 4 * (1 + 5 * 2)
    assert {p["weight_decay"] for p in params} == {1e-4}
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1
    assert GenLabelClassifier.from_paper("mlp", "kernel", epochs=7).get_params()["epochs"] == 7
    with pytest.raises(ValueError, match="density='label-model' is not known"):
        GenLabelClassifier.from_paper(density="label-model")


def test_everything_may_be_searched(data: tuple[Any, Any]) -> None:
    own = GenLabelClassifier(gamma=(0.5, 1.0), alpha="cv", clean_weight=(0.0, 0.5, 1.0), learning_rate=0.1, **QUICK)
    params = own.fit(*data).cv_results_["params"]
    assert len(params) == 3 * (2 * 2 * 2 + 1)  # weight decays x (alphas x clean shares x gammas, or vanilla)
    assert len({repr(p) for p in params}) == len(params)
    mixed = MixupClassifier(alpha="cv", clean_weight="cv", learning_rate=0.1, weight_decay=1e-3, **QUICK).fit(*data)
    assert [p.get("alpha") for p in mixed.cv_results_["params"]] == [0.3, 1.0, None]


def test_cross_fitted_labels_train(data: tuple[Any, Any]) -> None:
    model = GenLabelClassifier(density=LabelModel(cross_fit=True), learning_rate=0.05, weight_decay=1e-3, **QUICK)
    assert model.fit(*data).score(*data) > 0.6


@pytest.mark.parametrize("density", ["label-model", LabelModel(), {"a": LabelModel(), "b": GaussianDensity()}])
def test_latent_features_have_seen_the_labels_so_no_label_model_is_chosen_there(density: Any) -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="cannot be chosen in latent space"):
        GenLabelClassifier((8,), density, space="latent").fit(X, y)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_several_densities_are_not_averaged_and_the_labeler_is_that_of_the_chosen(data: tuple[Any, Any]) -> None:
    densities = {"kernel": KernelDensity(), "own": LabelModel([GaussianDensity()])}
    fixed = {"learning_rate": 0.1, "weight_decay": 1e-3, "clean_weight": 0.0}
    model = GenLabelClassifier(density=densities, **fixed, **QUICK).fit(*data)
    assert model.average_ is None
    chosen = model.best_params_["density"]
    assert isinstance(model.labeler_.density_, StackDensity if isinstance(chosen, LabelModel) else KernelDensity)
    again = GenLabelClassifier(**QUICK).set_params(**model.best_params_, average=None).fit(*data)
    np.testing.assert_allclose(again.predict_proba(data[0]), model.predict_proba(data[0]), atol=1e-4)


def test_what_was_chosen_can_be_set(model: GenLabelClassifier, data: tuple[Any, Any]) -> None:
    again = clone(model).set_params(**model.best_params_).fit(*data)
    np.testing.assert_allclose(again.predict_proba(data[0]), model.predict_proba(data[0]), atol=1e-4)


def test_a_given_average_is_what_is_judged(data: tuple[Any, Any]) -> None:
    model = GenLabelClassifier(average=(0.0, 1.0), **QUICK).fit(*data)
    pooled = model.cv_results_["mean_test_pooled_log_loss"]
    np.testing.assert_allclose(pooled, pooled[0], rtol=1e-6)  # the label model alone: all networks are alike
    assert model.best_score_ == model.cv_results_["mean_test_pooled_score"][model.best_index_]


def test_class_weights_reach_the_label_model_in_the_average() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = GenLabelClassifier(average=(0.0, 1.0), class_weight={1: 1.0, 2: 9.0}, **QUICK).fit(X, y)
    density = model.labeler_.density_
    scores = density.log_prob(model.scaler_(X)) + np.log(density.class_prior_) + np.log([1.0, 9.0])
    np.testing.assert_allclose(model.predict_proba(X), np.exp(log_softmax(scores, axis=1)), atol=2e-6)
