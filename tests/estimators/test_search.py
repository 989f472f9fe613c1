"""The search inside the estimators: what it tries, how it chooses, what it reports."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from genlabel import (
    GaussianDensity,
    GenLabel,
    GenLabelClassifier,
    KernelDensity,
    LinearLabel,
    ManifoldMixup,
    Mixup,
    MixupClassifier,
)
from genlabel.densities.transformed import LatentDensity
from genlabel.labeling import LogisticLabel
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet import weight_rng
from genlabel.training.networks import MLP
from genlabel.training.optimizers import resolve_optimizer
from genlabel_paper.runs.genmix import train_task

PAPERS: dict[str, Any] = {"search": "grid", "search__ensemble": 1, "search__cv": 6}
"""The search of the paper: every candidate to the end, one network of all rows."""
SIMPLE = PAPERS | {
    "network": "logistic",
    "density": "gaussian",
    "gamma": "auto",
    "mixer": Mixup(1.0),
    "clean_fraction": 0.0,
    "training__weight_decay": 1e-4,
    "pool_with_density": None,
    "search__scoring": "accuracy",
}


def plain(*args: Any, **more: Any) -> GenLabelClassifier:
    """GenLabel as in the paper's Algorithm 1, with one lam for each point."""
    given = dict(zip(("network", "density", "gamma", "training__learning_rate", "space"), args, strict=False))
    return GenLabelClassifier().set_params(**SIMPLE | given | more)


def settable(model: Any) -> dict[str, Any]:
    """The parameters that a search has chosen, by the names of `set_params`."""
    names = {"learning_rate": "training__learning_rate", "weight_decay": "training__weight_decay"}
    names["pool_weights"] = "pool_with_density"
    return {names.get(name, name): value for name, value in model.best_params_.items()}


def test_the_grid_is_the_papers() -> None:
    X, y = load_iris(return_X_y=True)
    model = plain(training__epochs=3, random_state=0).fit(X, y)
    params = model.cv_results_["params"]
    assert len(params) == 24
    assert {p["gamma"] for p in params} == {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
    assert {p["learning_rate"] for p in params} == {0.1, 0.01, 0.001, 0.0001}
    assert "split5_test_score" in model.cv_results_
    assert "split6_test_score" not in model.cv_results_
    auto = plain(density="auto", training__epochs=3, random_state=0).fit(X, y)
    assert len(auto.cv_results_["params"]) == 4 * (1 + 5 * 2)
    own = plain(gamma=(0.5, 1.0), training__learning_rate=0.1, training__epochs=3, random_state=0).fit(X, y)
    assert [p["gamma"] for p in own.cv_results_["params"]] == [0.5, 1.0]


def test_the_choice_is_the_best_accuracy_ties_by_log_loss() -> None:
    X, y = load_wine(return_X_y=True)
    model = plain(training__epochs=20, random_state=0).fit(X, y)
    results = model.cv_results_
    order = sorted(
        range(24), key=lambda i: (-round(results["mean_test_score"][i], 12), results["mean_test_log_loss"][i])
    )
    assert model.best_params_ == results["params"][order[0]]
    assert results["rank_test_score"][order[0]] == 1
    assert sorted(results["rank_test_score"]) == list(range(1, 25))
    assert model.best_score_ == results["mean_test_score"].max()
    splits = np.stack([results[f"split{f}_test_score"] for f in range(6)])
    np.testing.assert_allclose(splits.mean(0), results["mean_test_score"])
    assert len(model.history_["loss"]) == model.n_iter_ == 20
    assert model.history_["loss"][-1] < model.history_["loss"][0]


def test_nothing_to_choose_means_no_search() -> None:
    X, y = load_iris(return_X_y=True)
    model = plain(
        gamma=0.5, training__learning_rate=0.1, training__epochs=3, search__cv="never read", random_state=0
    ).fit(X, y)
    assert model.best_params_ == {"learning_rate": 0.1, "weight_decay": 1e-4, "gamma": 0.5, "clean_fraction": 0.0}
    assert list(model.cv_results_) == ["params"]
    assert not hasattr(model, "best_score_")
    model.set_params(gamma="auto", search__cv=2).fit(X, y)
    assert hasattr(model, "best_score_")
    model.set_params(gamma=0.5).fit(X, y)
    assert not hasattr(model, "best_score_")


def test_what_was_chosen_can_be_set() -> None:
    X, y = load_iris(return_X_y=True)
    for density in ("auto", "kernel", GaussianDensity()):
        model = plain(density=density, gamma=(0.5, 1.0), training__epochs=3, random_state=0).fit(X, y)
        again = plain(density=density, training__epochs=3, random_state=0).set_params(**settable(model)).fit(X, y)
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-5)


def test_gamma_zero_alone_never_asks_for_a_density() -> None:
    X, y = load_iris(return_X_y=True)
    mixed = plain(
        (8,), "kernel", gamma=0.0, space="latent", training__learning_rate=0.1, training__epochs=3, random_state=0
    )
    assert mixed.fit(X, y).best_params_ == {
        "learning_rate": 0.1,
        "weight_decay": 1e-4,
        "gamma": 0.0,
        "clean_fraction": 0.0,
    }


def test_gamma_zero_is_the_mixup_classifier() -> None:
    X, y = load_iris(return_X_y=True)
    given: dict[str, Any] = {"training__learning_rate": 0.1, "training__epochs": 10, "random_state": 0}
    given["search__restore_best"] = False
    mixed = MixupClassifier.from_paper(mixer=Mixup(), **given).fit(X, y)
    zero = plain(gamma=0.0, training__learning_rate=0.1, training__epochs=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(zero.predict_proba(X), mixed.predict_proba(X), atol=1e-5)
    labeler = GenLabel(GaussianDensity("ledoit-wolf"), gamma=0.7)
    whole = MixupClassifier.from_paper(mixer=Mixup(), labeler=labeler, **given)
    ours = plain(gamma=0.7, training__learning_rate=0.1, training__epochs=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), whole.fit(X, y).predict_proba(X), atol=1e-5)


def test_latent_space_is_algorithm_2() -> None:
    """The network starts fresh, its labels come from a vanilla-trained twin: redone with the public parts."""
    X, y = make_classification(120, 5, n_informative=4, n_redundant=0, random_state=0)
    settings = {"training__learning_rate": 0.05, "training__epochs": 8, "random_state": 5}
    model = plain((6, 4), GaussianDensity("ledoit-wolf"), gamma=1.0, space="latent", **settings).fit(X, y)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    Z = StandardScaler().fit_transform(X)
    vanilla = TrainingTask(Z, y, 2, (LinearLabel().fit(Z, y),), None, seed=[seed, 1, 0])
    twin = MLP(5, 2, (6, 4), seed=weight_rng(vanilla.seed), dtype=torch.float64)
    train_task(twin, vanilla, Hyperparameters(0.05), epochs=8)
    density = LatentDensity(twin, 2, GaussianDensity("ledoit-wolf"))
    labelers = (LinearLabel().fit(Z, y), GenLabel(density).fit(Z, y))
    task = TrainingTask(Z, y, 2, labelers, Mixup(), seed=[seed, 0, 0])
    network = MLP(5, 2, (6, 4), seed=weight_rng(task.seed), dtype=torch.float64)
    train_task(network, task, Hyperparameters(0.05, label=(0.0, 1.0)), epochs=8)
    expected = torch.softmax(network(torch.from_numpy(Z)), 1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-3)


def redo(
    model: Any,
    X: Any,
    y: Any,
    weight: Any,
    hidden: tuple[int, ...],
    mixer: Any,
    densities: Sequence[Any] = (),
    **more: Any,
) -> tuple[Any, Any]:
    """Held-out accuracy and log-loss (folds, candidates) of a search, redone with scikit-learn and the loop.

    The scaler, the folds and the scores are scikit-learn's; every network is trained by itself, with autograd.
    """
    seed = int(np.random.RandomState(model.random_state).randint(2**31 - 1))
    hits, losses = [], []
    for fold, (train, valid) in enumerate(
        StratifiedKFold(model.search.cv, shuffle=True, random_state=seed).split(X, y)
    ):
        of_loss = None if weight is None else weight[train] * more["class_weight"][y[train]]
        scaler = StandardScaler().fit(X[train], sample_weight=of_loss)
        inside, outside = scaler.transform(X[train]), scaler.transform(X[valid])
        own = None if weight is None else weight[train]
        training = model.training
        settings = {
            "optimizer": resolve_optimizer(training.optimizer),
            "epochs": training.epochs,
            "batch_size": training.batch_size,
        }

        def network(task: TrainingTask, candidate: Hyperparameters, settings: Any = settings) -> MLP:
            net = MLP(X.shape[1], 3, hidden, seed=weight_rng(task.seed), dtype=torch.float64)
            train_task(net, task, candidate, **settings)
            return net

        linear = LinearLabel().fit(inside, y[train])
        common = {"weight": own, "class_weight": more.get("class_weight")}
        models = [clone(density) for density in densities]
        if more.get("latent"):
            vanilla = TrainingTask(inside, y[train], 3, (linear,), None, seed=[seed, 1, fold + 1], **common)
            twin = network(vanilla, Hyperparameters(training.learning_rate, training.weight_decay))
            models = [LatentDensity(twin, len(hidden), density) for density in models]
        labelers = [GenLabel(d, priors=model.priors).fit(inside, y[train], own) for d in models]
        basis = more.get("labelers") or (linear, *labelers)
        task = TrainingTask(inside, y[train], 3, basis, mixer, seed=[seed, 0, fold + 1],
                    exclude_intrusion=more.get("exclude_intrusion", False), **common)  # fmt: skip
        judged = None if weight is None else weight[valid]
        if common["class_weight"] is not None:
            judged = common["class_weight"][y[valid]] * (1.0 if judged is None else judged)
        row_hits, row_losses = [], []
        for params in model.cv_results_["params"]:
            gamma = params.get("gamma", 0.0)
            label = (1.0 - gamma, gamma)[: len(basis)]
            net = network(task, Hyperparameters(params["learning_rate"], params["weight_decay"], label))
            proba = torch.softmax(net(torch.from_numpy(outside)), 1).detach().numpy()
            row_hits.append(accuracy_score(y[valid], proba.argmax(1), sample_weight=judged))
            row_losses.append(log_loss(y[valid], proba, sample_weight=judged))
        hits.append(row_hits), losses.append(row_losses)
    return np.array(hits), np.array(losses)


WEIGHT = np.random.default_rng(0).uniform(0.2, 3.0, 130)
CLASS_WEIGHT = np.array([0.2, 1.0, 3.0])
RATES = (0.1, 0.02)
EVERY_OPTION: dict[str, Any] = {
    "genlabel": (
        plain(
            (6,),
            KernelDensity(0.7),
            (0.3, 1.0),
            RATES,
            mixer=Mixup(0.4, "batch"),
            priors="empirical",
            training__weight_decay=0.05,
            training__batch_size=30,
            training__optimizer="sgd",
            search__cv=3,
        ),
        {"hidden": (6,), "mixer": Mixup(0.4, "batch"), "densities": [KernelDensity(0.7)]},
    ),
    "latent": (
        plain((6, 5), GaussianDensity(0.1), (0.3, 1.0), 0.05, "latent", training__weight_decay=0.01, search__cv=3),
        {"hidden": (6, 5), "mixer": Mixup(), "densities": [GaussianDensity(0.1)], "latent": True},
    ),
    "logistic labels": (
        MixupClassifier.from_paper(
            mixer=Mixup(3.0, "batch"),
            labeler="logistic",
            exclude_intrusion=True,
            training__learning_rate=RATES,
            search__cv=3,
            search__restore_best=False,
        ),
        {"hidden": (), "mixer": Mixup(3.0, "batch"), "labelers": (LogisticLabel(),), "exclude_intrusion": True},
    ),
    "manifold": (
        MixupClassifier.from_paper(
            (6, 5),
            ManifoldMixup(0.7, (0, 1, 2), "sample"),
            training__learning_rate=RATES,
            training__weight_decay=(0.0, 0.1),
            search__cv=3,
            search__restore_best=False,
        ),
        {"hidden": (6, 5), "mixer": ManifoldMixup(0.7, (0, 1, 2), "sample"), "labelers": (LinearLabel(),)},
    ),
    "vanilla": (
        MixupClassifier.from_paper(
            mixer=None,
            training__learning_rate=RATES,
            training__batch_size=25,
            training__weight_decay=0.1,
            search__cv=3,
            search__restore_best=False,
        ),
        {"hidden": (), "mixer": None, "labelers": (LinearLabel(),)},
    ),
}


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", EVERY_OPTION)
def test_every_option_reaches_the_training(case: str, weighted: bool) -> None:
    """Searches with options off their defaults, on unbalanced data, redone with the public parts."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(1).permutation(178)[:130]
    X, y = X[rows, :5], y[rows]
    model, parts = EVERY_OPTION[case]
    model = clone(model).set_params(training__epochs=6, random_state=2)
    weight = WEIGHT if weighted else None
    if weighted:
        mean = np.average(CLASS_WEIGHT[y], weights=weight)
        model.set_params(class_weight=dict(enumerate(CLASS_WEIGHT)))
        parts = parts | {"class_weight": CLASS_WEIGHT / mean}
    model.fit(X, y, weight)
    hits, losses = redo(model, X, y, weight, **parts)
    folds = range(3)
    ours = np.stack([model.cv_results_[f"split{f}_test_log_loss"] for f in folds])
    np.testing.assert_allclose(ours, losses, rtol=2e-3)
    scores = np.stack([model.cv_results_[f"split{f}_test_score"] for f in folds])
    np.testing.assert_allclose(scores, hits, atol=1e-9)


def test_folds_can_be_given() -> None:
    X, y = load_iris(return_X_y=True)
    splitter = StratifiedKFold(3, shuffle=True, random_state=1)
    by_splitter = MixupClassifier(random_state=0).set_params(search__cv=splitter, training__epochs=3).fit(X, y)
    by_rows = (
        MixupClassifier(random_state=0).set_params(search__cv=list(splitter.split(X, y)), training__epochs=3).fit(X, y)
    )
    np.testing.assert_array_equal(by_rows.cv_results_["mean_test_score"], by_splitter.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="class 0"):
        MixupClassifier().set_params(search__cv=[(np.arange(50, 150), np.arange(50))], training__epochs=3).fit(X, y)
    for bad in ("six", 1, 0, 2.5):
        with pytest.raises(ValueError, match="cv="):
            MixupClassifier().set_params(search__cv=bad, training__epochs=3).fit(X, y)
