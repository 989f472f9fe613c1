"""The search inside the estimators: what it tries, how it chooses, what it reports."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from genlabel import GaussianDensity, GenLabel, GenLabelClassifier, LinearLabel, Mixup, MixupClassifier
from genlabel.densities import LatentDensity
from genlabel.networks import MLP
from genlabel.training import Candidate, Task, train_network
from genlabel.training.fleet import weight_rng


def test_the_grid_is_the_papers() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenLabelClassifier(epochs=3, random_state=0).fit(X, y)
    params = model.cv_results_["params"]
    assert len(params) == 24
    assert {p["gamma"] for p in params} == {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
    assert {p["learning_rate"] for p in params} == {0.1, 0.01, 0.001, 0.0001}
    assert "split5_test_score" in model.cv_results_
    assert "split6_test_score" not in model.cv_results_
    auto = GenLabelClassifier(density="auto", epochs=3, random_state=0).fit(X, y)
    assert len(auto.cv_results_["params"]) == 4 * (1 + 5 * 2)
    own = GenLabelClassifier(gamma=(0.5, 1.0), learning_rate=0.1, epochs=3, random_state=0).fit(X, y)
    assert [p["gamma"] for p in own.cv_results_["params"]] == [0.5, 1.0]


def test_the_choice_is_the_best_accuracy_ties_by_log_loss() -> None:
    X, y = load_wine(return_X_y=True)
    model = GenLabelClassifier(epochs=20, random_state=0).fit(X, y)
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


def test_scores_of_the_search_are_those_of_single_networks_on_the_same_folds() -> None:
    """Every fold and candidate redone: scaler and scores by scikit-learn, the loop with autograd."""
    X, y = load_wine(return_X_y=True)
    model = GenLabelClassifier(
        density=GaussianDensity(), gamma=(0.4, 0.8), learning_rate=(0.1, 0.01), epochs=15, random_state=3
    )
    model.fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    hits, losses = np.zeros((6, 4)), np.zeros((6, 4))
    for fold, (train, valid) in enumerate(StratifiedKFold(6, shuffle=True, random_state=seed).split(X, y)):
        scaler = StandardScaler().fit(X[train])
        inside, outside = scaler.transform(X[train]), scaler.transform(X[valid])
        labelers = (LinearLabel().fit(inside, y[train]), GenLabel(GaussianDensity()).fit(inside, y[train]))
        task = Task(inside, y[train], 3, labelers, Mixup(), seed=[seed, 0, fold + 1])
        for c, params in enumerate(model.cv_results_["params"]):
            network = MLP(13, 3, rng=weight_rng(task.seed), dtype=torch.float64)
            gamma = params["gamma"]
            candidate = Candidate(params["learning_rate"], 1e-4, (1 - gamma, gamma))
            train_network(network, task, candidate, epochs=15)
            proba = torch.softmax(network(torch.from_numpy(outside)), 1).detach().numpy()
            hits[fold, c] = accuracy_score(y[valid], proba.argmax(1))
            losses[fold, c] = log_loss(y[valid], proba)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], hits.mean(0), atol=1e-12)
    np.testing.assert_allclose(model.cv_results_["mean_test_log_loss"], losses.mean(0), rtol=1e-3)


def test_nothing_to_choose_means_no_search() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenLabelClassifier(gamma=0.5, learning_rate=0.1, epochs=3, cv="never read", random_state=0).fit(X, y)
    assert model.best_params_ == {"learning_rate": 0.1, "gamma": 0.5, "density": "gaussian"}
    assert list(model.cv_results_) == ["params"]
    assert not hasattr(model, "best_score_")


def test_gamma_zero_is_the_mixup_classifier() -> None:
    X, y = load_iris(return_X_y=True)
    mixed = MixupClassifier(mixer=Mixup(), learning_rate=0.1, epochs=10, random_state=0).fit(X, y)
    zero = GenLabelClassifier(gamma=0.0, learning_rate=0.1, epochs=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(zero.predict_proba(X), mixed.predict_proba(X), atol=1e-5)
    whole = MixupClassifier(
        labeler=GenLabel(GaussianDensity("ledoit-wolf"), gamma=0.7), learning_rate=0.1, epochs=10, random_state=0
    )
    ours = GenLabelClassifier(gamma=0.7, learning_rate=0.1, epochs=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), whole.fit(X, y).predict_proba(X), atol=1e-5)


def test_latent_space_is_algorithm_2() -> None:
    """The network starts fresh, its labels come from a vanilla-trained twin: redone with the public parts."""
    X, y = make_classification(120, 5, n_informative=4, n_redundant=0, random_state=0)
    settings = {"learning_rate": 0.05, "epochs": 8, "random_state": 5}
    model = GenLabelClassifier((6, 4), GaussianDensity("ledoit-wolf"), gamma=1.0, space="latent", **settings).fit(X, y)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    Z = StandardScaler().fit_transform(X)
    vanilla = Task(Z, y, 2, (LinearLabel().fit(Z, y),), None, seed=[seed, 1, 0])
    twin = MLP(5, 2, (6, 4), rng=weight_rng(vanilla.seed), dtype=torch.float64)
    train_network(twin, vanilla, Candidate(0.05), epochs=8)
    density = LatentDensity(twin, 2, GaussianDensity("ledoit-wolf"))
    labelers = (LinearLabel().fit(Z, y), GenLabel(density).fit(Z, y))
    task = Task(Z, y, 2, labelers, Mixup(), seed=[seed, 0, 0])
    network = MLP(5, 2, (6, 4), rng=weight_rng(task.seed), dtype=torch.float64)
    train_network(network, task, Candidate(0.05, label=(0.0, 1.0)), epochs=8)
    expected = torch.softmax(network(torch.from_numpy(Z)), 1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-3)


def test_latent_search_labels_each_fold_with_its_own_twin() -> None:
    X, y = load_iris(return_X_y=True)
    model = GenLabelClassifier(
        (8,), space="latent", gamma=(0.0, 1.0), learning_rate=(0.1, 0.01), epochs=10, random_state=0
    )
    model.fit(X, y)
    assert len(model.cv_results_["params"]) == 4
    assert model.best_score_ > 0.85
    fixed = GenLabelClassifier(
        (8,), space="latent", gamma=(0.0, 1.0), learning_rate=0.1, epochs=10, random_state=0
    ).fit(X, y)
    assert len(fixed.cv_results_["params"]) == 2


def test_folds_can_be_given() -> None:
    X, y = load_iris(return_X_y=True)
    splitter = StratifiedKFold(3, shuffle=True, random_state=1)
    by_splitter = MixupClassifier(cv=splitter, epochs=3, random_state=0).fit(X, y)
    by_rows = MixupClassifier(cv=list(splitter.split(X, y)), epochs=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_rows.cv_results_["mean_test_score"], by_splitter.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="no training point of class 0"):
        MixupClassifier(cv=[(np.arange(50, 150), np.arange(50))], epochs=3).fit(X, y)
    for bad in ("six", 1, 0, 2.5):
        with pytest.raises(ValueError, match="cv="):
            MixupClassifier(cv=bad, epochs=3).fit(X, y)


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = load_iris(return_X_y=True)
    MixupClassifier(epochs=3, verbose=1, random_state=0).fit(X, y)
    assert "6 epochs" in capsys.readouterr().out
    MixupClassifier(epochs=3, random_state=0).fit(X, y)
    assert capsys.readouterr().out == ""
