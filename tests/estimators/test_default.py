"""The default of GenLabelClassifier: stacked density, clean and mixed points, vanilla among the candidates, the
average."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification

from genlabel import GaussianDensity, GenLabelClassifier, KernelDensity, Mixup, MixupClassifier
from genlabel.densities import StackedDensity
from genlabel.densities.stacked import WeightedDensities
from genlabel.model_selection.scoring import one_standard_error, pool
from genlabel.training.networks import MLP

QUICK = {"training__epochs": 15, "search__cv": 3, "random_state": 0}
FEW = [GaussianDensity(shrinkage="ledoit-wolf"), KernelDensity(0.5, covariance="shared")]


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    X, y = make_classification(150, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=1)
    return X, y


@pytest.fixture(scope="module")
def model(data: tuple[Any, Any]) -> GenLabelClassifier:
    return GenLabelClassifier((8,)).set_params(**QUICK).fit(*data)


def rows_of(results: dict[str, Any], *unnamed: str, **named: Any) -> dict[Any, int]:
    """The rows of a table by their parameters, without some of them, and where some have a value."""
    indices = {}
    for i, params in enumerate(results["params"]):
        if all(params.get(name) == value for name, value in named.items()):
            indices[tuple((k, v) for k, v in params.items() if k not in unnamed)] = i
    return indices


def settable(model: Any) -> dict[str, Any]:
    """The parameters that a search has chosen, by the names of `set_params`."""
    names = {"learning_rate": "training__learning_rate", "weight_decay": "training__weight_decay"}
    names["pool_weights"] = "pool_with_density"
    return {names.get(name, name): value for name, value in model.best_params_.items()}


@pytest.mark.parametrize("search", ["halving", "grid"])
def test_every_method_has_the_same_search(search: str, data: tuple[Any, Any]) -> None:
    """Vanilla is among the candidates of the default: the networks of vanilla training's own search, fold by fold."""
    networks = {"search__ensemble": "cv", **QUICK}
    model = GenLabelClassifier((8,), StackedDensity(FEW)).set_params(search=search, **networks).fit(*data).cv_results_
    mixup = MixupClassifier((8,)).set_params(search=search, **networks).fit(*data).cv_results_
    vanilla = MixupClassifier((8,), mixer=None).set_params(search=search, **networks).fit(*data).cv_results_
    first = {} if search == "grid" else {"epochs": 1}  # the rung at which all are there
    own = rows_of(vanilla, **first)
    assert len(own) == 4 * 3
    for other in (model, mixup):
        assert len(rows_of(other, **first)) == 2 * 4 * 3
        assert list(rows_of(other, "clean_fraction", clean_fraction=1.0, **first)) == list(own)
        clean = rows_of(other, "clean_fraction", clean_fraction=1.0)
        both = [params for params in rows_of(vanilla) if params in clean]
        assert len(both) > 4 * 3 or search == "grid"  # some go on in both
        for fold in range(3):
            ours = other[f"split{fold}_test_log_loss"][[clean[params] for params in both]]
            theirs = vanilla[f"split{fold}_test_log_loss"][[rows_of(vanilla)[params] for params in both]]
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_the_choice_is_the_rule_on_the_pooled_losses(model: GenLabelClassifier) -> None:
    results = model.cv_results_
    best = results["mean_test_pooled_log_loss"]
    chosen = results["params"][model.best_index_]
    own = {k: v for k, v in model.best_params_.items() if k != "pool_weights"}
    assert own | {"epochs": model.n_iter_} == chosen
    assert best[model.best_index_] < np.median(best)
    lowest = results["params"][int(best.argmin())]
    assert chosen["weight_decay"] >= lowest["weight_decay"]
    assert model.best_score_ == results["mean_test_pooled_score"][model.best_index_]


def test_plain_training_chooses_by_one_standard_error(data: tuple[Any, Any]) -> None:
    """The rule with the losses of folds of one row each, where the table itself holds every row's loss."""
    X, y = data
    rows = np.arange(len(y))
    folds = [(np.delete(rows, part), part) for part in rows.reshape(-1, 1)[::10]]
    plain = (
        MixupClassifier(mixer=None, random_state=0)
        .set_params(search="grid", search__ensemble="cv", search__cv=folds, training__epochs=5)
        .fit(X, y)
    )
    losses = np.stack([plain.cv_results_[f"split{f}_test_log_loss"] for f in range(len(folds))], axis=1)
    strength = [p["weight_decay"] for p in plain.cv_results_["params"]]
    steps = [p["learning_rate"] for p in plain.cv_results_["params"]]
    assert plain.best_index_ == one_standard_error(losses, strength, steps=steps)


def test_a_stack_is_fitted_once_for_each_fold_and_once_for_all_rows(
    data: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    fit = WeightedDensities._fit

    def counted(self: WeightedDensities, X: Any, *rest: Any) -> None:
        sizes.append(len(X))
        fit(self, X, *rest)

    monkeypatch.setattr(WeightedDensities, "_fit", counted)
    GenLabelClassifier((8,)).set_params(**QUICK).fit(*data)
    assert sorted(sizes) == [100, 100, 100, 150]


def test_predictions_are_the_pool(model: GenLabelClassifier, data: tuple[Any, Any]) -> None:
    X, y = data
    Z = model.scaler_(X)
    network = log_softmax(model.network_(torch.from_numpy(Z)).detach().numpy(), axis=1)
    density = model.labeler_.density_
    posterior = log_softmax(density.log_prob(Z) + np.log(density.class_prior_), axis=1)
    prior = np.log(np.bincount(y) / len(y))
    expected = pool(network, posterior, prior, model.pool_weights_)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-9)
    assert model.best_params_["pool_weights"] == tuple(model.pool_weights_)
    assert isinstance(density, WeightedDensities)
    np.testing.assert_allclose(density.log_prob(Z), model.density_.log_prob(Z), atol=1e-8)


def test_the_stacked_density_has_a_report(model: GenLabelClassifier) -> None:
    report = model.density_.report_
    assert {"chosen", "log_loss", "accuracy", "calibration_error"} <= set(report)
    assert 0.3 < report["accuracy"] <= 1.0
    fresh = clone(model).set_params(density=GaussianDensity(), pool_with_density=None)
    assert not hasattr(fresh, "density_")


def test_a_second_fit_drops_attributes_of_the_first(data: tuple[Any, Any]) -> None:
    own = GenLabelClassifier(density=StackedDensity(FEW)).set_params(**QUICK).fit(*data)
    assert own.pool_weights_.density is not None
    own.set_params(density="gaussian").fit(*data)
    assert own.predicts_by_network
    assert "pool_weights" not in own.best_params_
    assert not hasattr(own, "density_")


def test_pooling_weights_can_be_given_or_none(data: tuple[Any, Any]) -> None:
    X, y = data
    few = {"density": StackedDensity(FEW), **QUICK}
    alone = GenLabelClassifier(pool_with_density=None).set_params(**few).fit(X, y)
    network = log_softmax(alone.network_(torch.from_numpy(alone.scaler_(X))).detach().numpy(), axis=1)
    np.testing.assert_allclose(alone.predict_log_proba(X), network, atol=1e-12)
    half = GenLabelClassifier(pool_with_density=(0.5, 0.5)).set_params(**few).fit(X, y)
    assert half.pool_weights_ == (0.5, 0.5, 0.0)
    gaussian = GenLabelClassifier(density=GaussianDensity(), pool_with_density="cv").set_params(**QUICK).fit(X, y)
    assert gaussian.pool_weights_.density is not None
    fixed = (
        GenLabelClassifier(clean_fraction=0.5)
        .set_params(training__learning_rate=0.1, training__weight_decay=0.01, **few)
        .fit(X, y)
    )
    assert not fixed.predicts_by_network
    assert "mean_test_pooled_log_loss" in fixed.cv_results_


@pytest.mark.parametrize("average", ["best", (0.5,), (-1.0, 1.0), 3, (0.5, "x")])
def test_bad_pooling_weights_are_an_error(average: Any) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="pool_with_density"):
        GenLabelClassifier(pool_with_density=average).fit(X, y)


@pytest.mark.parametrize("more", [{"density": "auto"}, {"gamma": 0.0}])
def test_pooling_needs_one_density(more: dict[str, Any]) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="needs one density"):
        GenLabelClassifier(pool_with_density="cv").set_params(**more).fit(X, y)


def test_from_paper_is_the_papers_setting() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenLabelClassifier.from_paper(training__epochs=3, random_state=0)
    explicit = GenLabelClassifier(
        network="logistic",
        density={"gaussian": GaussianDensity(), "kernel": KernelDensity()},
        gamma="auto",
        mixer=Mixup(1.0, "batch"),
        clean_fraction=0.0,
        pool_with_density=None,
        priors="uniform",
        random_state=0,
    ).set_params(
        search="grid",
        training__weight_decay=1e-4,
        search__scoring="accuracy",
        search__ensemble=1,
        search__cv=6,
        search__restore_best=True,
        training__epochs=3,
    )
    assert repr(model) == repr(explicit)
    assert {m.from_paper().training.epochs for m in (GenLabelClassifier, MixupClassifier)} == {100}
    model.fit(X, y)
    params = model.cv_results_["params"]
    assert len(params) == 4 * (1 + 5 * 2)
    assert {p["weight_decay"] for p in params} == {1e-4}
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1
    assert GenLabelClassifier.from_paper("mlp", "kernel", training__epochs=7).get_params()["training__epochs"] == 7
    with pytest.raises(ValueError, match="density='stacked' is not known"):
        GenLabelClassifier.from_paper(density="stacked")


def test_mixup_from_paper_is_the_papers_setting() -> None:
    X, y = load_iris(return_X_y=True)
    model = MixupClassifier.from_paper(training__epochs=3, random_state=0)
    assert repr(model) == repr(
        MixupClassifier(
            "logistic", Mixup(lam_per="batch"), clean_fraction=0.0, calibrate=False, random_state=0
        ).set_params(
            search="grid",
            training__weight_decay=1e-4,
            search__scoring="accuracy",
            search__ensemble=1,
            search__cv=6,
            search__restore_best=True,
            training__epochs=3,
        )
    )
    assert Mixup(lam_per="batch").alpha == 1.0
    model.fit(X, y)
    assert [p["learning_rate"] for p in model.cv_results_["params"]] == [0.1, 0.01, 0.001, 0.0001]
    assert isinstance(model.network_, MLP)
    assert MixupClassifier.from_paper("mlp", "manifold").mixer == "manifold"
    vanilla = MixupClassifier.from_paper(mixer=None, training__epochs=3, random_state=0).fit(X, y)
    assert [set(p) for p in vanilla.cv_results_["params"]] == [{"learning_rate", "weight_decay"}] * 4


def test_all_parameters_can_be_searched_together(data: tuple[Any, Any]) -> None:
    grids = {
        "gamma": (0.5, 1.0),
        "mixer": [Mixup(0.3), Mixup(1.0)],
        "clean_fraction": (0.0, 0.5, 1.0),
        "training__learning_rate": 0.1,
    }
    own = GenLabelClassifier((8,), StackedDensity(FEW)).set_params(
        search="grid", search__ensemble="cv", **grids, **QUICK
    )
    params = own.fit(*data).cv_results_["params"]
    assert len(params) == 3 * (2 * 2 * 2 + 1)  # weight decays x (alphas x clean shares x gammas, or vanilla)
    assert len({repr(p) for p in params}) == len(params)
    halved = own.set_params(search="halving").fit(*data).cv_results_
    assert [{k: v for k, v in p.items() if k != "epochs"} for p in halved["params"][: len(params)]] == params
    few = {
        "search": "grid",
        "training__learning_rate": 0.1,
        "training__weight_decay": 1e-3,
        "search__ensemble": "cv",
        **QUICK,
    }
    mixed = MixupClassifier((8,), mixer=[Mixup(0.3), Mixup(1.0)], clean_fraction="auto").set_params(**few).fit(*data)
    assert [getattr(p.get("mixer"), "alpha", None) for p in mixed.cv_results_["params"]] == [0.3, 1.0, None]
    both = MixupClassifier("auto", clean_fraction="auto").set_params(**few).fit(*data).cv_results_["params"]
    assert [(p["network"], p["clean_fraction"]) for p in both] == [
        ("mlp", 0.75), ("mlp", 1.0), ("logistic", 0.75), ("logistic", 1.0),
    ]  # fmt: skip


def test_cross_fitted_labels_train(data: tuple[Any, Any]) -> None:
    model = GenLabelClassifier(density=StackedDensity(FEW, cross_fit=True)).set_params(
        training__learning_rate=0.05, training__weight_decay=1e-3, **QUICK
    )
    assert model.fit(*data).score(*data) > 0.6


@pytest.mark.parametrize("density", ["stacked", StackedDensity(), {"a": StackedDensity(), "b": GaussianDensity()}])
def test_a_stacked_density_is_not_available_in_latent_space(density: Any) -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="latent space"):
        GenLabelClassifier((8,), density, space="latent").fit(X, y)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_several_densities_are_not_pooled_and_the_labeler_is_that_of_the_chosen_one(data: tuple[Any, Any]) -> None:
    densities = {"kernel": KernelDensity(), "own": StackedDensity([GaussianDensity()])}
    fixed = {"training__learning_rate": 0.1, "training__weight_decay": 1e-3, "clean_fraction": 0.0}
    assert GenLabelClassifier((8,), density=densities).set_params(**fixed, **QUICK).fit(*data).predicts_by_network
    model = GenLabelClassifier((8,), density=densities, pool_with_density=None).set_params(**fixed, **QUICK).fit(*data)
    chosen = model.best_params_["density"]
    assert isinstance(
        model.labeler_.density_, WeightedDensities if isinstance(chosen, StackedDensity) else KernelDensity
    )
    again = (
        GenLabelClassifier((8,), pool_with_density=None).set_params(**QUICK).set_params(**settable(model)).fit(*data)
    )
    np.testing.assert_allclose(again.predict_proba(data[0]), model.predict_proba(data[0]), atol=1e-4)


def test_what_was_chosen_can_be_set(model: GenLabelClassifier, data: tuple[Any, Any]) -> None:
    again = clone(model).set_params(**settable(model)).fit(*data)
    np.testing.assert_allclose(again.predict_proba(data[0]), model.predict_proba(data[0]), atol=1e-4)


def test_candidates_are_compared_at_given_pooling_weights(data: tuple[Any, Any]) -> None:
    model = GenLabelClassifier(density=StackedDensity(FEW), pool_with_density=(0.0, 1.0)).set_params(**QUICK).fit(*data)
    pooled = model.cv_results_["mean_test_pooled_log_loss"]
    np.testing.assert_allclose(pooled, pooled[0], rtol=1e-6)  # the stacked density alone: all networks are alike
    assert model.best_score_ == model.cv_results_["mean_test_pooled_score"][model.best_index_]


def test_class_weights_reach_the_pooled_density() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = (
        GenLabelClassifier(pool_with_density=(0.0, 1.0), class_weight={1: 1.0, 2: 9.0}).set_params(**QUICK).fit(X, y)
    )
    density = model.labeler_.density_
    scores = density.log_prob(model.scaler_(X)) + np.log(density.class_prior_) + np.log([1.0, 9.0])
    np.testing.assert_allclose(model.predict_proba(X), np.exp(log_softmax(scores, axis=1)), atol=2e-6)
