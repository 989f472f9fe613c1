"""The stacked density: batched work against a slow loop, and what the choice promises."""

import itertools
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from genlabel.data.folds import make_folds
from genlabel.densities import (
    ClassDensity,
    DensityWarning,
    DiscriminantDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    PowerTransformedDensity,
    StackedDensity,
)
from genlabel.densities.candidates import (
    MAX_FEATURES,
    MAX_FEATURES_OF_FEW_ROWS,
    affordable_candidates,
    default_candidates,
    named_densities,
)
from genlabel.densities.samples import stratified_order
from genlabel.densities.stacked import WeightedDensities
from genlabel.densities.stacking import (
    MIN_LOG_PROBA,
    TEMPERATURES,
    BatchedCrossValidation,
    fit_stacking,
    log_proba_of_true_class,
    stacking_weights,
)
from genlabel.densities.transformed import PowerTransform
from genlabel.metrics import calibration_error

FEW: list[ClassDensity] = [
    DiscriminantDensity(),
    DiscriminantDensity(0.5, 0.5, "diagonal"),
    KernelDensity(0.4, covariance="shared"),
    KernelDensity(0.6, covariance="shrunk"),
    MixtureDensity(3, "diagonal"),
    GaussianDensity(shrinkage="ledoit-wolf"),
    PowerTransformedDensity(MixtureDensity(2)),
]


def data(seed: int = 0, n: int = 120, d: int = 3, k: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(n, d)) * (1 + 0.5 * y[:, None]) + 1.5 * y[:, None] * rng.normal(size=d)
    X[:, 0] = np.exp(0.5 * X[:, 0])
    return X * 10.0 ** np.arange(d) + 5, y


def posterior(density: ClassDensity, X: np.ndarray) -> np.ndarray:
    return log_softmax(density.log_prob(X) + np.log(density.class_prior_), axis=1)


def standardized(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    center = np.average(X, axis=0, weights=weight)
    return (X - center) / np.sqrt(np.average((X - center) ** 2, axis=0, weights=weight))


def slow(candidates: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray, pairs: Any) -> np.ndarray:
    """Held-out log-densities by clone, fit and ask, one at a time."""
    Z = standardized(X, weight)
    transform = PowerTransform.fit(torch.from_numpy(Z), torch.from_numpy(weight))
    result = np.full((len(candidates), len(X), len(np.unique(y))), np.nan)
    for (m, candidate), (train, valid) in itertools.product(enumerate(candidates), pairs):
        density = clone(candidate)
        if isinstance(density, PowerTransformedDensity):
            density.set_params(transform=transform)
        result[m, valid] = density.fit(Z[train], y[train], weight[train]).log_prob(Z[valid])
    return result


# The stack.


@given(seed=st.integers(0, 10**6), standardize=st.booleans())
@settings(max_examples=10)
def test_the_stack_mixes_the_posteriors_of_its_members(seed: int, standardize: bool) -> None:
    X, y = data(seed, k=3)
    rng = np.random.default_rng(seed)
    weights, heat = rng.dirichlet(np.ones(3)), rng.uniform(0.5, 4, 3)
    members = [DiscriminantDensity(), KernelDensity(0.5), PowerTransformedDensity(DiscriminantDensity(0.5))]
    stack = WeightedDensities(members, weights, heat, standardize=standardize).fit(X, y)
    Z = standardized(X, np.ones(len(X))) if standardize else X
    each = np.stack([clone(member).fit(Z, y).log_prob(Z) for member in members])
    prior = np.bincount(y) / len(y)
    expected = np.tensordot(weights, softmax(each / heat[:, None, None] + np.log(prior), axis=2), 1)
    np.testing.assert_allclose(posterior(stack, X), np.log(expected), rtol=1e-7, atol=1e-9)
    shift = np.log(X.std(0)).sum() if standardize else 0.0
    total = logsumexp(each + np.log(prior), axis=2, b=1.0)
    evidence = logsumexp(total, axis=0, b=weights[:, None]) - shift
    np.testing.assert_allclose(logsumexp(stack.log_prob(X) + np.log(prior), axis=1), evidence, rtol=1e-7, atol=1e-9)


class Untouchable(ClassDensity):
    """A member that must not be queries."""

    def _fit(self, X: torch.Tensor, index: torch.Tensor, weight: torch.Tensor) -> None:
        raise AssertionError

    def _log_prob(self, X: torch.Tensor) -> torch.Tensor:
        raise AssertionError


def test_members_of_weight_zero_are_not_fitted() -> None:
    X, y = data()
    stack = WeightedDensities([GaussianDensity(), Untouchable()], [2.0, 0.0], [1.0, 1.0]).fit(X, y)
    np.testing.assert_allclose(posterior(stack, X), posterior(GaussianDensity().fit(X, y), X), rtol=1e-9)
    far = stack.log_prob(np.array([[1e200, 0.0, 0.0], [1e6, -1e6, 1e7]]))
    assert not np.isnan(far).any()
    assert np.isfinite(far[1]).all()


# Temperatures and weights.


def test_the_temperature_minimizes_log_loss_on_the_grid() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1, 400, 3)) * 2
    labels = np.array([rng.choice(3, p=p) for p in softmax(scores[0], axis=1)])
    given = torch.from_numpy(np.concatenate([scores, 8 * scores]))
    prior = torch.zeros(3, dtype=torch.float64)
    truth = log_proba_of_true_class(given, prior, torch.from_numpy(labels))
    heat, weights = fit_stacking(truth, torch.ones(400, dtype=torch.float64), "select")
    assert heat[1] > 4 * heat[0] or heat[0] == 1.0
    assert 4 <= float(heat[1]) <= 16
    losses = [log_loss(labels, softmax(8 * scores[0] / T, axis=1)) for T in TEMPERATURES]
    assert float(heat[1]) == TEMPERATURES[int(np.argmin(losses))]
    assert sorted(weights.tolist()) == [0.0, 1.0]


@given(seed=st.integers(0, 10**6))
def test_stacking_is_not_worse_than_the_best_candidate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(0, 3, 60))
    weight = torch.from_numpy(rng.uniform(0.2, 2, 60))
    each = torch.log_softmax(torch.from_numpy(rng.normal(size=(8, 60, 3)) * rng.uniform(0, 3, (8, 1, 1))), -1)
    weights = stacking_weights(each[:, torch.arange(60), labels], weight)
    assert float(weights.sum()) == pytest.approx(1.0)
    assert (weights[weights > 0] > 0.01).all()
    mixed = (weights[:, None, None] * each.exp()).sum(0).log()
    losses = [float(-(lp[torch.arange(60), labels] @ weight) / weight.sum()) for lp in (*each, mixed)]
    assert losses[-1] <= min(losses[:-1]) + 5e-3  # small weights are dropped


@given(seed=st.integers(0, 10**6), least=st.sampled_from([0.0, 0.02, 0.15]))
def test_fit_stacking_uses_the_best_temperatures(seed: int, least: float) -> None:
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.uniform(0.2, 2, 50))
    truth = torch.from_numpy(-rng.exponential(size=(len(TEMPERATURES), 6, 50)))
    best = truth[np.average(-truth, axis=2, weights=weight).argmin(0), np.arange(6)]
    chosen = fit_stacking(truth, weight, "stack", torch.full((6,), least))
    torch.testing.assert_close(chosen.weight, stacking_weights(best, weight, least))


@pytest.mark.parametrize("row", [[torch.nan, 0.0], [torch.inf, 0.0], [torch.inf, torch.inf]])
def test_undefined_densities_count_as_the_lower_bound(row: list[float]) -> None:
    given = torch.tensor([[[0.0, 0.0], row, [-torch.inf, -torch.inf]]], dtype=torch.float64)
    prior = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    for c in (0, 1):
        truth = log_proba_of_true_class(given, prior, torch.full((3,), c))
        expected = torch.tensor([prior[c], MIN_LOG_PROBA, prior[c]], dtype=torch.float64).expand(
            len(TEMPERATURES), 1, 3
        )
        np.testing.assert_allclose(truth, expected, rtol=1e-15)


# The model.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_held_out_equals_a_slow_loop(k: int, weighted: bool) -> None:
    X, y = data(1, k=k)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else np.ones(len(X))
    model = StackedDensity(FEW).fit(X, y, weight)
    pairs = make_folds(6, y, 0)
    each = slow(FEW, X, y, weight, pairs)
    prior = np.bincount(y, weights=weight) / weight.sum()
    posteriors = []
    for row, values in zip(model.report_["candidates"], each, strict=True):
        tried = [log_softmax(values / T + np.log(prior), axis=1) for T in TEMPERATURES]
        losses = [log_loss(y, np.exp(lp), sample_weight=weight) for lp in tried]
        best = int(np.argmin(losses))
        assert row["temperature"] == TEMPERATURES[best]
        assert row["log_loss"] == pytest.approx(losses[best], rel=1e-5)
        posteriors.append(tried)
    for fold, (_, rows) in enumerate(pairs):
        heat, shares = model.fold_choices_[fold]
        parts = [tried[TEMPERATURES.index(float(T))][rows] for tried, T in zip(posteriors, heat, strict=True)]
        expected = np.log(np.tensordot(shares.numpy(), np.exp(parts), 1))
        np.testing.assert_allclose(model.held_out_[rows], expected, rtol=1e-6, atol=1e-8)


def test_fold_choices_ignore_the_labels_of_their_fold() -> None:
    """Temperatures and weights of a fold do not depend on its labels."""
    X, y = data(10)
    rows = np.arange(len(X))
    pairs = [(rows[rows % 4 != f], rows[rows % 4 == f]) for f in range(4)]
    one = StackedDensity(FEW, cv=pairs).fit(X, y)
    assert len(one.fold_choices_) == 4
    for fold in range(4):
        again = StackedDensity(FEW, cv=[pair for pair in pairs if pair is not pairs[fold]]).fit(X, y)
        np.testing.assert_allclose(again.choice_.weight, one.fold_choices_[fold].weight, atol=1e-9)
        np.testing.assert_array_equal(again.choice_.temperature, one.fold_choices_[fold].temperature)
        assert [type(m) for m in one.unfitted_stack(fold).members] == [type(m) for m in again.unfitted_stack().members]


def test_the_default_batch_equals_the_slow_loop() -> None:
    X, y = data(2, n=150)
    named = default_candidates()
    model = StackedDensity(cv=3).fit(X, y)
    pairs = make_folds(3, y, 0)
    each = slow(list(named.values()), X, y, np.ones(len(X)), pairs)
    for row, values in zip(model.report_["candidates"], each, strict=True):
        lp = log_softmax(values / row["temperature"] + np.log(model.class_prior_), axis=1)
        assert row["log_loss"] == pytest.approx(-lp[np.arange(150), y].mean(), rel=1e-6)
        assert row["accuracy"] == pytest.approx((lp.argmax(1) == y).mean())


def test_the_report_describes_the_choice() -> None:
    X, y = data(3)
    model = StackedDensity(FEW).fit(X, y)
    report = model.report_
    assert report["method"] == "stack"
    assert report["folds"] == 6
    assert len(report["candidates"]) == len(FEW)
    weights = [row["weight"] for row in report["chosen"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1.0)
    assert {row["name"] for row in report["chosen"]} == set(model.names_)
    assert report["log_loss"] == pytest.approx(-model.held_out_[np.arange(len(y)), y].mean())
    assert report["accuracy"] == pytest.approx((model.held_out_.argmax(1) == y).mean())
    assert report["calibration_error"] == pytest.approx(float(calibration_error(model.held_out_, y)))
    assert report["log_loss"] <= min(row["log_loss"] for row in report["candidates"]) + 0.05
    assert len(model.members_) == len(model.weights_) == len(model.temperatures_) == len(model.names_)


def test_select_chooses_the_single_best() -> None:
    X, y = data(4)
    model = StackedDensity(FEW, method="select").fit(X, y)
    best = min(model.report_["candidates"], key=lambda row: row["log_loss"])
    assert model.names_ == [best["name"]]
    assert model.weights_.tolist() == [1.0]
    assert model.report_["log_loss"] >= best["log_loss"] - 1e-9


def test_unfitted_stack_can_be_fitted_to_other_rows() -> None:
    X, y = data(5)
    model = StackedDensity(FEW).fit(X, y)
    frozen = model.unfitted_stack()
    assert not hasattr(frozen, "classes_")
    np.testing.assert_allclose(frozen.fit(X, y).log_prob(X), model.log_prob(X), rtol=1e-10)
    half = model.unfitted_stack().fit(X[:60], y[:60])
    assert half.log_prob(X).shape == (120, 2)
    assert [type(m) for m in half.members_] == [type(m) for m in model.members_]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_prepare_for_cv_returns_the_choice_of_each_fold(order: Any, weighted: bool) -> None:
    """The whole is, bit by bit, the frozen stack fitted to the same rows, in whatever order they lie in memory."""
    X, y = data(5)
    X, weight = np.array(X, order=order), np.arange(1.0, 121.0) if weighted else None
    rows = make_folds(4, y, 3)
    given = StackedDensity(FEW)
    folded = given.prepare_for_cv(X, y, weight, lambda: rows, 3)
    assert not hasattr(given, "classes_")
    model = StackedDensity(FEW, cv=rows, random_state=3).fit(X, y, weight)
    assert isinstance(folded.stacked, StackedDensity)
    assert folded.fit(None, X, y, weight) is folded.full
    np.testing.assert_array_equal(folded.stacked.held_out_, model.held_out_)
    np.testing.assert_array_equal(folded.full.log_prob(X), model.unfitted_stack().fit(X, y, weight).log_prob(X))
    for f, (train, _) in enumerate(rows):
        part = (X[train], y[train], None if weight is None else weight[train])
        stack = folded.fit(f, *part)
        assert isinstance(stack, WeightedDensities)
        assert stack.weights == model.unfitted_stack(f).weights
        assert stack.temperatures == model.unfitted_stack(f).temperatures
        np.testing.assert_array_equal(stack.log_prob(X), model.unfitted_stack(f).fit(*part).log_prob(X))


@pytest.mark.parametrize("density", [GaussianDensity(), StackedDensity(FEW, cross_fit=True), KernelDensity()], ids=repr)
def test_prepare_for_cv_of_other_densities_ignores_the_folds(density: ClassDensity) -> None:
    def never() -> Any:
        raise AssertionError

    X, y = data()
    folded = density.prepare_for_cv(X, y, None, never, 0)
    assert folded.full is density
    assert folded.stacked is None
    for fold in (None, 0, 5):
        fitted = folded.fit(fold, X, y)
        assert fitted is not density
        np.testing.assert_array_equal(fitted.log_prob(X), clone(density).fit(X, y).log_prob(X))


def test_properties_of_the_stacked_density() -> None:
    X, y = data()
    for density in (StackedDensity(), PowerTransformedDensity(StackedDensity())):
        assert not density.supports_latent_space
    assert StackedDensity().is_calibrated
    assert not StackedDensity(FEW[:2]).fit(X, y).cross_fitted
    assert StackedDensity(FEW[:2], cross_fit=True).fit(X, y).cross_fitted
    for plain in (
        GaussianDensity(),
        WeightedDensities(FEW[:1], [1.0], [1.0]),
        PowerTransformedDensity(KernelDensity()),
    ):
        fitted = plain.fit(X, y)
        assert fitted.supports_latent_space
        assert not fitted.is_calibrated
        assert not fitted.cross_fitted


def test_cv_families() -> None:
    same = [
        (DiscriminantDensity(), DiscriminantDensity(0.3, 0.1, "diagonal")),
        (KernelDensity(0.3), KernelDensity(0.8)),
        (MixtureDensity(2), MixtureDensity(5)),
    ]
    assert all(one.cv_family == other.cv_family is not None for one, other in same)
    assert len({one.cv_family for one, _ in same}) == 3
    other: list[tuple[ClassDensity, ClassDensity]] = [
        (KernelDensity(0.3), KernelDensity(0.3, covariance="shared")),
        (MixtureDensity(2), MixtureDensity(2, "diagonal")),
        (MixtureDensity(2), MixtureDensity(2, reg=0.1)),
        (MixtureDensity(2), MixtureDensity(2, random_state=1)),
    ]
    assert all(one.cv_family != another.cv_family for one, another in other)
    alone: list[ClassDensity] = [
        GaussianDensity(),
        StackedDensity(),
        PowerTransformedDensity(DiscriminantDensity()),
    ]
    assert not any(isinstance(density, BatchedCrossValidation) for density in alone)
    for density in (KernelDensity(), KernelDensity(0.3, leave_one_out=True), MixtureDensity(random_state=None)):
        assert density.cv_family is None


def test_densities_without_a_family_are_cross_validated_alone() -> None:
    X, y = data(18)
    alone: list[ClassDensity] = [KernelDensity(), KernelDensity(0.5, leave_one_out=True), GaussianDensity()]
    model = StackedDensity(alone, cv=3).fit(X, y)
    each = slow(alone, X, y, np.ones(len(X)), make_folds(3, y, 0))
    for row, values in zip(model.report_["candidates"], each, strict=True):
        lp = log_softmax(values / row["temperature"] + np.log(model.class_prior_), axis=1)
        assert row["log_loss"] == pytest.approx(-lp[np.arange(120), y].mean(), rel=1e-6)


def test_folds_may_be_given_and_need_not_cover_all_rows() -> None:
    X, y = data(6)
    rows = np.arange(len(X))
    pairs = [(rows[rows % 4 != f], rows[rows % 4 == f]) for f in range(3)]
    model = StackedDensity(FEW, cv=pairs).fit(X, y)
    assert model.report_["folds"] == 3
    assert np.isnan(model.held_out_[rows % 4 == 3]).all()
    assert np.isfinite(model.held_out_[rows % 4 != 3]).all()
    with pytest.raises(ValueError, match="every row"):
        StackedDensity(FEW, cv=pairs, cross_fit=True).fit(X, y)


def test_integer_weights_equal_repetitions_of_the_gaussians() -> None:
    X, y = data(7, n=60)
    weight = 1 + np.arange(60) % 3
    repeated = np.repeat(np.arange(60), weight)
    rows = np.arange(60)
    pairs = [(rows[rows % 3 != f], rows[rows % 3 == f]) for f in range(3)]
    again = [(np.flatnonzero(repeated % 3 != f), np.flatnonzero(repeated % 3 == f)) for f in range(3)]
    gaussians = FEW[:2]
    one = StackedDensity(gaussians, cv=pairs).fit(X, y, weight)
    other = StackedDensity(gaussians, cv=again).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(one.held_out_[repeated], other.held_out_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.log_prob(X), other.log_prob(X), rtol=1e-7)


@pytest.mark.parametrize("counts", [(30, 1), (30, 2), (20, 20, 1), (1, 1, 1), (40, 3), (1,), (30,)])
def test_tiny_classes_work_without_warnings_of_members(counts: tuple[int, ...]) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.default_rng(0).normal(size=(len(y), 3)) + y[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = StackedDensity(cross_fit=True).fit(X, y)
    assert all(re.match(r"cv=6 folds, but .*; using \d folds", str(w.message)) for w in caught)
    assert len(caught) <= 1
    assert np.isfinite(model.log_prob(X)).all()
    assert np.isfinite(model.log_prob_of_pairs(X, np.arange(len(X)), np.arange(len(X))[::-1])).all()


def test_cross_fitting_excludes_the_folds_of_both_parents() -> None:
    """Cross-fitting: a row of a parent's fold may be moved without any effect on the label; others may not."""
    X, y = data(8)
    one = [DiscriminantDensity(0.3, 0.3)]
    model = StackedDensity(one, cross_fit=True).fit(X, y)
    moved = X.copy()
    moved[0] += 0.5 * X.std(0)
    other = StackedDensity(one, cross_fit=True).fit(moved, y)
    assert model.temperatures_ == other.temperatures_
    fold = model.fold_
    rng = np.random.default_rng(0)
    rows, partners = rng.integers(0, len(X), (2, 300))
    points = 0.5 * (X[rows] + X[partners])
    gap = np.abs(model.log_prob_of_pairs(points, rows, partners) - other.log_prob_of_pairs(points, rows, partners)).max(
        1
    )
    blind = (fold[rows] == fold[0]) | (fold[partners] == fold[0])
    assert blind.any()
    assert (gap[blind] == 0).all()
    assert (gap[~blind] > 0).all()


def test_log_prob_of_pairs_equals_a_stack_without_their_folds() -> None:
    X, y = data(9)
    model = StackedDensity(FEW, cross_fit=True).fit(X, y)
    rows, partners = np.array([0, 5, 7]), np.array([3, 5, 1])
    points = 0.5 * (X[rows] + X[partners])
    result = model.log_prob_of_pairs(points, rows, partners)
    for i in range(3):
        kept = ~np.isin(model.fold_, model.fold_[[rows[i], partners[i]]])
        expected = posterior(model.unfitted_stack().fit(X[kept], y[kept]), points[i : i + 1])
        got = log_softmax(result[i : i + 1] + np.log(model.class_prior_), axis=1)
        np.testing.assert_allclose(got, expected, rtol=1e-8)
    torched = model.log_prob_of_pairs(torch.from_numpy(points), torch.from_numpy(rows), torch.from_numpy(partners))
    assert isinstance(torched, torch.Tensor)
    np.testing.assert_array_equal(torched.numpy(), result)
    plain = StackedDensity(FEW).fit(X, y)
    np.testing.assert_array_equal(plain.log_prob_of_pairs(points, rows, partners), plain.log_prob(points))


def test_names_and_bad_parameters() -> None:
    X, y = data()
    assert list(named_densities("stacked")) == ["stacked"]
    assert isinstance(named_densities("stacked")["stacked"], StackedDensity)
    given = {"wide": KernelDensity(0.9)}
    assert named_densities(given) == given
    assert (
        StackedDensity({"wide": KernelDensity(0.9), "g": GaussianDensity()}).fit(X, y).report_["candidates"][0]["name"]
        == "wide"
    )
    assert StackedDensity().default_priors == WeightedDensities([], [], []).default_priors == "empirical"
    assert PowerTransformedDensity(StackedDensity()).default_priors == "empirical"
    assert GaussianDensity().default_priors == "uniform"
    for bad, match in (("all", "'all'"), ([], "is empty")):
        with pytest.raises(ValueError, match=match):
            StackedDensity(bad).fit(X, y)
    with pytest.raises(TypeError, match="ClassDensity"):
        StackedDensity([3]).fit(X, y)
    with pytest.raises(TypeError, match="ClassDensity"):
        named_densities({"a": 3})
    with pytest.raises(ValueError, match="method='best'"):
        StackedDensity(method="best").fit(X, y)
    with pytest.raises(ValueError, match="cv=1"):
        StackedDensity(cv=1).fit(X, y)
    with pytest.raises(ValueError, match="no folds"):
        StackedDensity(cv=[]).fit(X, y)
    for bad, match in (("5", "cv='5' is not known"), (None, "cv=None"), ([(1, 2, 3)], "pair")):
        with pytest.raises(ValueError, match=match):
            StackedDensity(cv=bad).fit(X, y)
    with pytest.raises(ValueError, match="names row 500"):
        StackedDensity(cv=[([0, 1], [500])]).fit(X, y)
    for bad in (KernelDensity(), 5):
        with pytest.raises(ValueError, match="neither a list of densities"):
            StackedDensity(bad).fit(X, y)


def test_cv_accepts_a_splitter() -> None:
    X, y = data(11)
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    one = StackedDensity(FEW, cv=splitter).fit(X, y)
    other = StackedDensity(FEW, cv=list(splitter.split(X, y))).fit(X, y)
    np.testing.assert_array_equal(one.held_out_, other.held_out_)


def test_at_most_six_members_have_a_weight() -> None:
    weights = stacking_weights(torch.zeros(40, 9, dtype=torch.float64), torch.ones(9, dtype=torch.float64))
    assert int((weights > 0).sum()) == 6
    assert float(weights.sum()) == pytest.approx(1.0)


def test_a_row_that_stays_in_training_is_not_held_out() -> None:
    rng = np.random.default_rng(0)
    y = np.r_[np.repeat([0, 1], 20), np.arange(2, 12)]  # ten classes of one row each
    model = StackedDensity(FEW[:2]).fit(rng.normal(size=(50, 2)), y)
    assert np.isnan(model.held_out_[40:]).all()
    assert np.isfinite(model.held_out_[:40]).all()
    assert model.report_["accuracy"] < 0.8


def test_an_undefined_candidate_gets_no_weight() -> None:
    class Broken(ClassDensity):
        def _fit(self, X: torch.Tensor, index: torch.Tensor, weight: torch.Tensor) -> None:
            pass

        def _log_prob(self, X: torch.Tensor) -> torch.Tensor:
            return torch.full((len(X), 2), torch.inf, dtype=torch.float64)

    X, y = data(12)
    model = StackedDensity([Broken(), DiscriminantDensity()]).fit(X, y)
    assert model.names_ == ["DiscriminantDensity()"]


def test_fits_in_threads_do_not_change_warning_filters() -> None:
    X, y = data(13)
    before = list(warnings.filters)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: StackedDensity(FEW[:3]).fit(X, y), range(6)))
    assert list(warnings.filters) == before


def test_chunk_sizes_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks split the folds and the settings."""
    X, y = data(14, k=3)
    whole = StackedDensity(cv=4).fit(X, y)
    for name in ("covariance", "gaussian", "samples", "stacking", "transformed"):
        monkeypatch.setattr(f"genlabel.densities.{name}.MAX_CHUNK_VALUES", 500)
    parts = StackedDensity(cv=4).fit(X, y)
    np.testing.assert_allclose(parts.held_out_, whole.held_out_, rtol=1e-7, atol=1e-9)


def test_many_features_exclude_slow_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genlabel.densities.candidates.MAX_MIXTURE_FEATURES", 2)
    with pytest.warns(DensityWarning, match="3 features, more than 2; no tied mixtures"):
        assert len(StackedDensity(cv=2).fit(*data(15)).report_["candidates"]) == 44
    monkeypatch.undo()
    monkeypatch.setattr("genlabel.densities.candidates.MAX_FEATURES", 2)
    with pytest.warns(DensityWarning, match="no discriminants"), pytest.warns(DensityWarning, match="no kernels"):
        assert len(StackedDensity(cv=2).fit(*data(15)).report_["candidates"]) == 26


@pytest.mark.parametrize("n, most", [(1000, MAX_FEATURES), (10, MAX_FEATURES_OF_FEW_ROWS), (300, MAX_FEATURES)])
def test_wide_tables_exclude_full_covariances(n: int, most: int) -> None:
    candidates = {
        "kernel": KernelDensity(),
        "warped kernel": PowerTransformedDensity(KernelDensity(covariance="shrunk")),
        "diagonal": DiscriminantDensity(target="diagonal"),
        "shared": KernelDensity(covariance="shared"),
        "sphere": DiscriminantDensity(pooling=1.0),
        "gaussian": GaussianDensity(),
    }
    assert affordable_candidates(candidates, n, most) == candidates
    with pytest.warns(DensityWarning):
        assert list(affordable_candidates(candidates, n, most + 1)) == ["shared", "sphere", "gaussian"]


def test_large_tables_are_searched_on_subsamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no cliff: kernels stay, every candidate is in the report, and the members are fitted to all rows."""
    X, y = data(15, n=300, k=3)
    whole = StackedDensity(FEW, cv=3).fit(X, y)
    assert whole.report_["rows"] == 300
    monkeypatch.setattr("genlabel.densities.stacking.MAX_SEARCH_ROWS", 120)
    monkeypatch.setattr("genlabel.densities.stacking.MAX_WEIGHTING_ROWS", 200)
    some = StackedDensity(FEW, cv=3).fit(X, y)
    assert some.report_["rows"] == 200
    assert [row["name"] for row in some.report_["candidates"]] == [row["name"] for row in whole.report_["candidates"]]
    assert {row["rows"] for row in some.report_["candidates"]} == {120, 200}
    assert {row["name"] for row in some.report_["candidates"] if row["rows"] == 200} >= set(some.names_)
    held = np.isfinite(some.held_out_).all(1)
    assert held.sum() == 200
    assert abs(np.bincount(y[held]) - 200 / 3).max() <= 1
    np.testing.assert_allclose(some.unfitted_stack().fit(X, y).log_prob(X), some.log_prob(X), rtol=1e-10)
    monkeypatch.setattr("genlabel.densities.stacking.MAX_WEIGHTING_ROWS", 300)
    again = StackedDensity(FEW, cv=3).fit(X, y)
    kept = [row["name"] for row in again.report_["candidates"] if row["rows"] == 300]
    named = {row["name"]: row for row in whole.report_["candidates"]}
    for row in again.report_["candidates"]:
        if row["name"] in kept:
            assert row == named[row["name"]]


def test_members_are_fitted_to_a_subsample_of_very_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(19, n=200)
    monkeypatch.setattr("genlabel.densities.stacked.MAX_FIT_ROWS", 150)
    with pytest.warns(DensityWarning, match="200 rows; its members are fitted to 150 of them"):
        model = StackedDensity(FEW[:3], cv=3).fit(X, y)
    assert model.report_["fitted_rows"] == 150
    rows = np.sort(stratified_order(y)[:150])
    alone = model.unfitted_stack().fit(X[rows], y[rows])
    np.testing.assert_allclose(posterior(alone, X), posterior(model, X), rtol=1e-8)
    np.testing.assert_allclose(model.stack_.class_prior_, np.bincount(y) / 200)


def test_stratified_order_includes_rare_classes() -> None:
    y = np.repeat([0, 1, 2, 3], [5000, 800, 25, 3])
    order = stratified_order(y)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(y)))
    for most in (500, 1500, 5828):
        counts = np.bincount(y[order[:most]], minlength=4)
        assert counts[2] >= 20
        assert counts[3] == 3
        assert counts[0] / counts[1] == pytest.approx(5000 / 800, rel=0.1)


def test_held_out_mixtures_of_classes_of_different_size() -> None:
    rng = np.random.default_rng(17)
    y = np.repeat([0, 1, 2, 3], [60, 12, 30, 25])
    X = rng.normal(size=(127, 3)) + y[:, None]
    mixtures: list[ClassDensity] = [MixtureDensity(2), MixtureDensity(3), MixtureDensity(2, "diagonal")]
    model = StackedDensity(mixtures, cv=3).fit(X, y)
    pairs = make_folds(3, y, 0)
    each = slow(mixtures, X, y, np.ones(127), pairs)
    for row, values in zip(model.report_["candidates"], each, strict=True):
        lp = log_softmax(values / row["temperature"] + np.log(model.class_prior_), axis=1)
        assert row["log_loss"] == pytest.approx(-lp[np.arange(127), y].mean(), rel=1e-6)


def test_a_refit_replaces_the_pairs() -> None:
    X, y = data(16)
    model = StackedDensity(FEW[:2], cross_fit=True).fit(X, y)
    assert model.cross_fitted
    assert len(model.pairs_) == 21
    model.set_params(cross_fit=False).fit(X[:60], y[:60])
    assert not model.cross_fitted
    np.testing.assert_array_equal(model.log_prob_of_pairs(X, [99] * 120, [99] * 120), model.log_prob(X))
    with pytest.raises(ValueError, match="pooling=3"):
        StackedDensity([DiscriminantDensity(3.0)]).fit(X, y)
