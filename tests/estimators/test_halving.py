"""The search that halves and the networks of its folds, redone with the public parts and plain numpy."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

import genlabel.model_selection.refit
from genlabel import GaussianDensity, GenLabel, GenLabelClassifier, GridSearch, LinearLabel, Mixup, MixupClassifier
from genlabel._progress import LambdaCallback, use_callback
from genlabel.data.folds import stratified_folds_rare
from genlabel.metrics import prior_log_loss, score
from genlabel.model_selection.options import HalvingSearch
from genlabel.model_selection.scoring import (
    EQUAL_WEIGHTS,
    POOL_SHRINKAGE,
    PRIOR_PSEUDO_COUNT,
    PoolWeights,
    fit_pool_weights,
    pool,
    rank_candidates,
    score_candidates,
)
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet_trainer import FleetTrainer
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import Ensemble

FOLDS = 3
SHORT: dict[str, Any] = {"search__cv": FOLDS, "training__epochs": 10, "random_state": 4}
ONE: dict[str, Any] = {"training__learning_rate": 0.03, "training__weight_decay": 1e-3, **SHORT}
X, Y = make_classification(130, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=3)
X = X * [1.0, 20.0, 0.1, 1.0, 3.0] + [0.0, 5.0, 7.0, -2.0, 0.0]


def seed_of(model: Any) -> int:
    return int(np.random.RandomState(model.random_state).randint(2**31 - 1))


def held_out(model: Any) -> list[NDArray[np.intp]]:
    """The rows that each fold of a search holds out."""
    number = stratified_folds_rare(Y, FOLDS, seed_of(model))
    return [np.flatnonzero(number == fold) for fold in range(FOLDS)]


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    tops = np.exp(scores - scores.max(-1, keepdims=True))
    return tops / tops.sum(-1, keepdims=True)


def by_hand(network: MLP, points: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of a network, as matrix products."""
    layers = [(p.detach().numpy() for p in (layer.weight, layer.bias)) for layer in network.layers]
    for place, (W, b) in enumerate(layers):
        points = points @ W.T + b
        points = np.maximum(points, 0.0) if place < len(layers) - 1 else points
    return softmax(points)


@given(st.integers(1, 300), st.booleans())
def test_rungs_increase_to_the_last_epoch_with_fewer_survivors(epochs: int, many: bool) -> None:
    rungs = HalvingSearch().schedule(epochs, many)
    stops, counts = [end for end, _ in rungs], [survivors for _, survivors in rungs[:-1]]
    assert stops == sorted(set(stops))
    assert stops[-1] == epochs
    assert stops[0] >= 1
    assert rungs[-1] == (epochs, None)
    assert counts == sorted(counts, reverse=True)
    assert GridSearch().schedule(epochs) == [(epochs, None)]
    work = sum((end - before) * most for end, before, most in zip(stops, [0, *stops], [24, *counts], strict=False))
    assert epochs < 10 or work < 0.35 * 24 * epochs  # of 24 entries: a third of a full search
    assert not many or epochs < 20 or work < 0.15 * 24 * epochs


@pytest.mark.parametrize(
    "more", [{}, {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}, {"search__scoring": "accuracy"}], ids=repr
)
@pytest.mark.parametrize("name", ["mixup", "genlabel"])
def test_networks_of_the_folds_have_the_scores_of_the_table(name: str, more: Any) -> None:
    """The members that predict are those that were judged: the row of the choice, fold by fold."""
    made = {
        "mixup": MixupClassifier().set_params(**SHORT),
        "genlabel": GenLabelClassifier(density="gaussian").set_params(**SHORT),
    }
    model = made[name].set_params(**more).fit(X, Y)
    assert isinstance(model.network_, Ensemble)
    results, best = model.cv_results_, model.best_index_
    assert results["params"][best]["epochs"] == model.n_iter_ == len(model.history_["loss"])
    Z = model.scaler_(X)
    for fold, (network, rows) in enumerate(zip(model.network_.networks, held_out(model), strict=True)):
        proba = by_hand(network, Z[rows])
        weight = None if model.class_weight is None else [model.class_weight[c] for c in Y[rows]]
        expected_loss = log_loss(Y[rows], proba, labels=[0, 1, 2], sample_weight=weight)
        assert results[f"split{fold}_test_log_loss"][best] == pytest.approx(expected_loss, rel=1e-5)
        hits = np.average(proba.argmax(1) == Y[rows], weights=weight)
        assert results[f"split{fold}_test_score"][best] == pytest.approx(hits)


class Redone:
    """The members of a fit of one candidate, trained anew on folds that scikit-learn has standardised."""

    def __init__(
        self, model: Any, mixer: Any, density: Any, clean_fraction: float, label: Sequence[float], **settings: Any
    ) -> None:
        tasks, self.scalers, self.valid = [], [], held_out(model)
        for fold, rows in enumerate(self.valid):
            train = np.setdiff1d(np.arange(len(Y)), rows)
            self.scalers.append(StandardScaler().fit(X[train]))
            inside = self.scalers[-1].transform(X[train])
            labelers = [LinearLabel().fit(inside, Y[train])]
            if density is not None:
                labelers.append(GenLabel(clone(density)).fit(inside, Y[train]))
            seed = [seed_of(model), 0, fold + 1]
            tasks.append(
                TrainingTask(inside, Y[train], 3, tuple(labelers), mixer, clean_fraction=clean_fraction, seed=seed)
            )
        candidate = Hyperparameters(0.03, 1e-3, tuple(label))
        run = FleetTrainer(
            tasks, [candidate], hidden=(6,), averaged=True, **{"epochs": SHORT["training__epochs"], **settings}
        )
        run.advance(model.n_iter_)
        self.networks = [run.fleet.network(fold) for fold in range(FOLDS)]

    def proba(self, points: NDArray[Any]) -> NDArray[Any]:
        """The mean of the members, each of points that its own fold has standardised."""
        pairs = zip(self.networks, self.scalers, strict=True)
        return np.mean([by_hand(network, scaler.transform(points)) for network, scaler in pairs], axis=0)

    def of_held_out(self) -> tuple[NDArray[Any], NDArray[Any]]:
        parts = zip(self.networks, self.scalers, self.valid, strict=True)
        probabilities = [by_hand(network, scaler.transform(X[rows])) for network, scaler, rows in parts]
        return np.concatenate(probabilities), Y[np.concatenate(self.valid)]


def test_an_epoch_of_a_large_table_is_a_part_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genlabel.model_selection.options.MAX_BATCHES", 2)
    model = (
        MixupClassifier((6,), mixer=None, calibrate=False)
        .set_params(**{**ONE, "training__epochs": "auto"}, training__batch_size=16)
        .fit(X, Y)
    )
    redone = Redone(model, None, None, 1.0, [1.0], epochs=50, batch_size=16, epochs_per_pass=5)
    np.testing.assert_allclose(model.predict_proba(X), redone.proba(X), atol=1e-5)
    assert {entry["epochs"] for entry in model.cv_results_["params"]} == {2, 6, 16, 50}
    model_of_passes = clone(model).set_params(training__epochs=3).fit(X, Y)  # a number that is given is one of passes
    passes = Redone(model_of_passes, None, None, 1.0, [1.0], epochs=3, batch_size=16)
    np.testing.assert_allclose(model_of_passes.predict_proba(X), passes.proba(X), atol=1e-5)


@pytest.mark.parametrize("average", [None, PoolWeights(0.3, 0.9), "cv"])
def test_candidates_are_scored_one_after_the_other_as_side_by_side(average: Any) -> None:
    rng = np.random.default_rng(0)
    y, fold = rng.integers(0, 3, 90), np.arange(90) % 3
    log_proba = [np.log(softmax(rng.normal(size=(90, 3)) + s * np.eye(3)[y])) for s in (0.5, 2.0, 1.0, 0.0)]
    partner, prior = np.log(softmax(rng.normal(size=(90, 3)) + 2.0 * np.eye(3)[y])), np.log(np.bincount(y) / 90)
    scores = score_candidates(log_proba, y, None, fold, prior, partner, average, fit_weights=True)

    def losses(values: list[NDArray[Any]]) -> NDArray[Any]:
        return np.stack([-one[np.arange(90), y] for one in values])

    if average is None:
        expected = losses(log_proba)
    else:
        halves = losses([pool(one, partner, prior, EQUAL_WEIGHTS) for one in log_proba]).mean(1)
        best = log_proba[int(halves.argmin())]
        weights = fit_pool_weights(best, partner, y, prior) if average == "cv" else average
        expected = losses([pool(one, partner, prior, weights) for one in log_proba])
    np.testing.assert_allclose(scores.losses, expected)
    for table, compared in zip(scores.values, (losses(log_proba), expected), strict=True):
        assert rank_candidates(table, "log-loss").tolist() == (compared.mean(1).argsort().argsort() + 1).tolist()
    by_fold = np.stack([expected[:, fold == f].mean(1) for f in range(3)])
    np.testing.assert_allclose(scores.values[1, 1], by_fold)


def test_plain_training_predicts_the_mean_of_its_folds_shrunk_to_the_class_priors() -> None:
    model = MixupClassifier((6,), mixer=None).set_params(**ONE).fit(X, Y)
    redone, shares = Redone(model, None, None, 1.0, [1.0]), np.bincount(Y) / len(Y)
    p, y = redone.of_held_out()

    def drawn(proba: NDArray[Any], a: float) -> NDArray[Any]:
        powers = shares * (proba / shares) ** a
        return powers / powers.sum(1, keepdims=True)

    def doubted(proba: NDArray[Any], a: float, doubt: float) -> NDArray[Any]:
        return (1 - doubt) * drawn(proba, a) + doubt * shares

    def objective(a: float, doubt: float) -> float:
        added = (POOL_SHRINKAGE * (a - 1.0) ** 2 - PRIOR_PSEUDO_COUNT * np.log(doubt)) / len(y)
        return float(-np.log(doubted(p, a, doubt)[np.arange(len(y)), y]).mean() + added)

    lowest = min(objective(a, doubt) for a in np.linspace(0.0, 2.0, 41) for doubt in np.geomspace(1e-5, 0.5, 41))
    fitted = model.network_.weight, model.network_.prior_weight
    assert objective(*fitted) <= lowest + 1e-5
    np.testing.assert_allclose(model.predict_proba(X), doubted(redone.proba(X), *fitted), atol=1e-5)
    plain = clone(model).set_params(calibrate=False).fit(X, Y)
    np.testing.assert_allclose(plain.predict_proba(X), redone.proba(X), atol=1e-5)


def test_genlabel_pools_the_mean_of_its_folds_with_the_density_of_all_rows() -> None:
    density = GaussianDensity("ledoit-wolf")
    model = GenLabelClassifier((6,), density, clean_fraction=0.75, pool_with_density="cv").set_params(**ONE).fit(X, Y)
    redone, shares = Redone(model, Mixup(0.3), density, 0.75, [0.0, 1.0]), np.bincount(Y) / len(Y)
    Z = StandardScaler().fit_transform(X)
    q = softmax(clone(density).fit(Z, Y).log_prob(Z))
    a, b, doubt = model.pool_weights_
    pooled = shares * (redone.proba(X) / shares) ** a * (q / shares) ** b
    assert 0.0 < doubt < 0.5
    expected = (1 - doubt) * pooled / pooled.sum(1, keepdims=True) + doubt * shares
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


@pytest.mark.parametrize("select", ["log-loss", "accuracy"])
def test_each_rung_continues_with_its_best_candidates(select: str) -> None:
    """At each rung, those that go on are the best of those that are there."""
    model = (
        MixupClassifier((6,), mixer=None)
        .set_params(search__scoring=select, **SHORT | {"training__epochs": 20})
        .fit(X, Y)
    )
    results = model.cv_results_
    params = [{k: v for k, v in p.items() if k != "epochs"} for p in results["params"]]
    epochs = np.array([p["epochs"] for p in results["params"]])
    if select == "accuracy":
        order = np.lexsort((results["mean_test_log_loss"], -results["mean_test_score"].round(12)))
    else:
        order = np.argsort(results["mean_test_log_loss"], kind="stable")
    rungs = HalvingSearch().schedule(20)
    assert sorted(set(epochs)) == [end for end, _ in rungs]
    for (end, survivors), (after, _) in pairwise(rungs):
        best = [repr(params[i]) for i in order if epochs[i] == end][:survivors]
        assert {repr(params[i]) for i in np.flatnonzero(epochs == after)} == set(best)
    last = {repr(params[i]) for i in order if epochs[i] == model.n_iter_}
    assert repr(params[model.best_index_]) in last


def test_ties_go_to_the_smaller_step() -> None:
    """Classes so far apart that all rates and decays have a held-out log-loss of 0, to the sixth digit."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    far = rng.normal(size=(120, 1)) * 1e-6 + 100.0 * y[:, None]
    given = {
        "training__learning_rate": (0.1, 0.03, 0.01),
        "training__weight_decay": 0.0,
        "search__cv": FOLDS,
        "random_state": 0,
    }
    model = (
        MixupClassifier((16, 16), mixer=None)
        .set_params(search="grid", search__ensemble="cv", training__epochs=200, **given)
        .fit(far, y)
    )
    level = np.flatnonzero(model.cv_results_["mean_test_log_loss"].round(6) == 0.0)
    rates = [model.cv_results_["params"][i]["learning_rate"] for i in level]
    assert len(rates) > 1
    assert model.best_params_["learning_rate"] == min(rates)


@pytest.mark.parametrize("search, members, networks", [
    ("grid", "cv", FOLDS),
    ("halving", "cv", FOLDS),
    ("halving", 3, 3),
    ("grid", 2, 2),
    ("halving", 1, 1),
])  # fmt: skip
def test_any_search_has_any_ensemble(search: str, members: Any, networks: int) -> None:
    model = MixupClassifier((6,)).set_params(search=search, search__ensemble=members, **SHORT).fit(X, Y)
    assert isinstance(model.network_, Ensemble)
    assert len(model.network_.networks) == networks
    proba = [by_hand(network, model.scaler_(X)) for network in model.network_.networks]
    assert all(np.abs(one - proba[0]).max() > 1e-4 for one in proba[1:])  # no two are the same
    powers = np.mean(proba, 0) ** model.network_.weight * np.exp(model.log_prior_) ** (1.0 - model.network_.weight)
    doubt, shares = model.network_.prior_weight, np.exp(model.log_prior_)
    expected = (1.0 - doubt) * powers / powers.sum(1, keepdims=True) + doubt * shares
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-8)
    several = [p.get("epochs") for p in model.cv_results_["params"]]
    assert (None in several) == (search == "grid")


def test_the_first_network_of_an_ensemble_is_that_of_a_fit_with_one() -> None:
    one, three = (MixupClassifier((6,)).set_params(search__ensemble=members, **SHORT).fit(X, Y) for members in (1, 3))
    Z = one.scaler_(X)
    np.testing.assert_allclose(by_hand(one.network_.networks[0], Z), by_hand(three.network_.networks[0], Z), atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        GenLabelClassifier(density="gaussian", pool_with_density="cv").set_params(**SHORT),
        MixupClassifier().set_params(search__ensemble=2, **SHORT),
    ],
    ids=repr,
)
def test_an_interrupt_restores_the_estimator(model: Any) -> None:
    fitted = clone(model).fit(X, Y)
    before, proba = dict(vars(fitted)), fitted.predict_proba(X)
    epochs: list[int] = []

    def interrupt(epoch: int, logs: Any) -> None:
        epochs.append(epoch)
        if len(epochs) == 7:
            raise KeyboardInterrupt

    with use_callback(LambdaCallback(on_epoch_end=interrupt)), pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:60, :3], Y[:60])
    assert vars(fitted) == before
    np.testing.assert_array_equal(fitted.predict_proba(X), proba)
    fresh = clone(model)
    epochs.clear()
    with use_callback(LambdaCallback(on_epoch_end=interrupt)), pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Y)
    assert not [name for name in vars(fresh) if name.endswith("_")]


def ruined(monkeypatch: pytest.MonkeyPatch, tries: int) -> list[int]:
    """Ruin the last member of the first tries at the final networks: it is sure of wrong classes."""
    seen: list[int] = []
    train = genlabel.model_selection.refit.train_on_all_rows

    def accident(*args: Any) -> Any:
        finals = train(*args)
        seen.append(len(finals))
        if len(seen) <= tries:
            with torch.no_grad():
                finals[0].networks[-1].layers[-1].weight.mul_(-1000.0)
        return finals

    monkeypatch.setattr("genlabel.model_selection.refit.train_on_all_rows", accident)
    return seen


@pytest.mark.parametrize("tries", [0, 1, 2])
@pytest.mark.parametrize("members", [1, 2])
def test_final_networks_far_above_the_estimated_loss_are_trained_again(
    tries: int, members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = MixupClassifier((6,)).set_params(search__ensemble=members, **SHORT).fit(X, Y)
    seen = ruined(monkeypatch, tries)
    model = MixupClassifier((6,)).set_params(search__ensemble=members, **SHORT)
    if tries == 2:
        promised = min(healthy.cv_results_["mean_test_log_loss"])
        with pytest.warns(UserWarning, match="training") as caught:
            model.fit(X, Y)
        assert f"estimates {healthy.cv_results_['mean_test_log_loss'][healthy.best_index_]:.3g}" in str(
            caught[0].message
        )
        assert promised > 0
    else:
        model.fit(X, Y)
    assert len(seen) == min(tries + 1, 2)
    same = np.allclose(model.predict_proba(X), healthy.predict_proba(X))
    assert same == (tries == 0)
    if tries < 2:
        assert score(model, X, Y)["log_loss"] < 1.1 * score(healthy, X, Y)["log_loss"]


def test_a_grid_search_trains_its_final_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ruined(monkeypatch, 1)
    GenLabelClassifier.from_paper(density="gaussian", gamma=(0.0, 1.0), search__restore_best=False, **SHORT).fit(X, Y)
    assert len(seen) == 1


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("name", ["default", "mixup", "vanilla"])
def test_classes_of_one_and_two_rows_are_trained_on(name: str) -> None:
    points, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"], dtype=object)[y]
    names[[3, 60, 61]] = ["one", "two", "two"]
    made = {"default": GenLabelClassifier(), "mixup": MixupClassifier(), "vanilla": MixupClassifier(mixer=None)}
    with pytest.warns(UserWarning, match="'one'"):
        model = made[name].set_params(training__epochs=10, random_state=0).fit(points, names)
    assert model.classes_.tolist() == ["a", "b", "c", "one", "two"]
    assert "split5_test_score" in model.cv_results_
    proba = model.predict_proba(points)
    assert np.isfinite(proba).all()
    assert (proba > 0.0).all()
    assert (model.predict(points) == names).mean() > 0.8


def noise(n: int, seed: int) -> tuple[Any, ...]:
    """Labels that the features know nothing of."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    return (
        rng.normal(size=(n, 6)),
        np.r_[:k, :k, rng.integers(0, k, n - 2 * k)],
        rng.normal(size=(800, 6)),
        rng.integers(0, k, 800),
    )


def named_rows(informative: float) -> tuple[Any, ...]:
    """A column that names each row, one-hot; beside it what tells the classes apart, or not."""
    rng = np.random.default_rng(9)
    y = rng.integers(0, 2, 160)
    points = rng.normal(size=(160, 8)) + informative * np.outer(2.0 * y - 1.0, np.arange(8) < 4)
    names = np.vstack([np.eye(70, 70), np.zeros((90, 70))])
    table = np.hstack([points, names])
    return table[:100], y[:100], table[100:], y[100:]


CASES = {
    **{f"noise, {n} rows": noise(n, seed) for n, seed in ((60, 0), (120, 1), (200, 2))},
    "names of rows": named_rows(0.0),
    "names of rows, and signal": named_rows(1.0),
}
LARGER = ("noise, 120 rows", "noise, 200 rows", "names of rows, and signal")


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.parametrize("name", ["default", "mixup", "vanilla"])
@pytest.mark.parametrize(
    "case", [case if case not in LARGER else pytest.param(case, marks=pytest.mark.long) for case in CASES]
)
def test_no_method_is_much_worse_than_the_class_priors_on_noise(case: str, name: str) -> None:
    """On what cannot be learned, no method is worse than the class shares by more than a tenth."""
    train, y, test, truth = CASES[case]
    made = {"default": GenLabelClassifier(), "mixup": MixupClassifier(), "vanilla": MixupClassifier(mixer=None)}
    model = made[name].set_params(random_state=0).fit(train, y)
    assert score(model, test, truth)["log_loss"] <= 1.1 * prior_log_loss(y, truth)
