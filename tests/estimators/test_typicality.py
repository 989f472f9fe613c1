"""Typicality: new rows like the training rows are flagged at the stated rate, other rows more often."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import betabinom, multivariate_normal
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError

from genlabel import GaussianDensity, KernelDensity, Typicality
from genlabel._arrays import as_rng
from genlabel.data.datasets.synthetic import make_moon, make_two_circle
from genlabel.data.folds import round_robin_folds
from genlabel.densities import GANDensity

Points = NDArray[np.float64]
Classes = NDArray[np.int64]
Fitted = dict[str, tuple[Typicality, Points, Points]]
RATES = (0.01, 0.05, 0.1, 0.2)


def correlated(n: int, rng: np.random.Generator, d: int = 20) -> tuple[Points, Classes]:
    """Return two classes of `d` columns that depend on five hidden columns."""
    y = rng.integers(0, 2, n)
    hidden = rng.normal(size=(n, 5)) + y[:, None]
    return hidden @ np.random.default_rng(7).normal(size=(5, d)) + 0.3 * rng.normal(size=(n, d)), y


def heavy(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    return rng.standard_cauchy((n, 4)), rng.integers(0, 2, n)


def levels(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    """Return binary columns, a constant one and one of five levels: many equal rows."""
    y = rng.integers(0, 2, n)
    binary = (rng.random((n, 4)) < 0.3 + 0.4 * y[:, None]).astype(float)
    return np.column_stack([binary, np.full(n, 7.0), rng.integers(0, 5, n)]), y


def repeated(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    """Return rows of a list of forty: nearly all of them repeat."""
    known = np.random.default_rng(5).normal(size=(40, 3))
    rows = rng.integers(0, 40, n)
    return known[rows], rows % 2


def wide(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    return correlated(n, rng, d=150)


def rings(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    angle, y = rng.uniform(0, 2 * np.pi, n), rng.integers(0, 2, n)
    ring = (1.0 + 2.0 * y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return ring + 0.1 * rng.normal(size=(n, 2)), y


MAKERS = [correlated, heavy, levels, repeated, wide, rings]
every = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def shuffled(X: Points, rng: np.random.Generator) -> Points:
    return np.stack([rng.permutation(column) for column in X.T], 1)


@every
def test_new_rows_are_flagged_at_most_at_the_stated_rate(make: Callable[..., tuple[Points, Classes]]) -> None:
    """Average over training sets of 60 rows; the slack is the deviation of a rank among 60, and of 400 new rows."""
    n, m, draws = 60, 400, 12
    shares = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        result = Typicality().fit(*make(n, rng))(make(m, rng)[0])
        assert ((result > 0) & (result <= 1)).all()
        shares.append([(result <= rate).mean() for rate in RATES])
    for rate, share in zip(RATES, np.mean(shares, axis=0), strict=True):
        slack = 3.5 * np.sqrt(rate * (1 - rate) * (1 / n + 1 / m) / draws)
        assert share <= rate + slack, rate
        if make in (correlated, heavy, rings) and rate >= 0.05:  # no ties, no corners: the bound is tight
            assert share >= 0.5 * rate - slack, rate


@pytest.mark.parametrize("folds", [2, 5])
def test_equals_the_rank_among_held_out_rows_under_scipy_densities(folds: int) -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(70, rng, d=4)
    queries = correlated(50, rng, d=4)[0] * rng.choice([1.0, 2.0], (50, 1))
    number = round_robin_folds(y, folds, as_rng(3))
    below = np.ones(len(queries))
    for f in range(folds):
        train, held = number != f, number == f
        parts = [X[train & (y == c)] for c in (0, 1)]
        normals = [multivariate_normal(part.mean(0), np.cov(part.T, bias=True)) for part in parts]
        log_prior = np.log([len(part) / train.sum() for part in parts])

        low, high = X[train].min(0), X[train].max(0)
        scores = []
        for points in (X[held], queries):
            outside = np.maximum(low - points, points - high).clip(0.0) / (high - low)
            log_density = logsumexp([normal.logpdf(points) for normal in normals] + log_prior[:, None], axis=0)
            scores.append(log_density - 20.0 * np.log2(1.0 + outside.max(1)))
        below += (scores[0][:, None] <= scores[1]).sum(0)
    typicality = Typicality(GaussianDensity(reg=0.0), cv=folds, random_state=3).fit(X, y)
    np.testing.assert_allclose(typicality(queries), below / 71)


DATASETS = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "cancer": load_breast_cancer(return_X_y=True),
    "hidden": correlated(300, np.random.default_rng(0)),
}
each_dataset = pytest.mark.parametrize("name", list(DATASETS))


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    """Return for each dataset a Typicality fitted to two thirds of the rows, these rows, and the others."""
    result = {}
    for name, (X, y) in DATASETS.items():
        rows = np.random.default_rng(1).permutation(len(X))
        train, test = rows[: 2 * len(X) // 3], rows[2 * len(X) // 3 :]
        result[name] = (Typicality().fit(X[train], y[train]), X[train], X[test])
    return result


@each_dataset
def test_held_out_rows_of_real_datasets_are_not_flagged(name: str, fitted: Fitted) -> None:
    typicality, train, test = fitted[name]
    result = typicality(test)
    for rate in RATES:
        rank = int(rate * (len(train) + 1))  # exact for one fold, at a level of 0.999
        most = betabinom(len(test), rank, len(train) + 1 - rank).ppf(0.999) if rank else 0
        assert (result <= rate).sum() <= most, rate
    assert np.median(result) > 0.3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in ("cancer", "hidden") else []) for name in DATASETS]
)
def test_an_extreme_value_is_flagged_and_its_column_is_found(name: str, fitted: Fitted) -> None:
    """The value is one range beyond the maximum, in each column in turn."""
    typicality, train, test = fitted[name]
    reach = train.max(0) - train.min(0)
    named, flagged = [], []
    for column in range(train.shape[1]):
        odd = test[:10].copy()
        odd[:, column] = train[:, column].max() + reach[column]
        flagged.append(typicality(odd) <= 0.05)
        named.append(typicality.columns(odd).argmax(1) == column)
    assert np.mean(flagged) >= 0.95
    assert np.mean(named) >= 0.9


@each_dataset
def test_shuffled_dependent_columns_are_flagged(name: str, fitted: Fitted) -> None:
    typicality, _, test = fitted[name]
    result = typicality(shuffled(test, np.random.default_rng(2)))
    assert (result <= 0.05).mean() >= {"iris": 0.5, "wine": 0.4, "cancer": 0.9, "hidden": 0.95}[name]


def test_shuffled_independent_columns_are_typical() -> None:
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(200, 6)), rng.normal(size=(400, 6))
    result = Typicality().fit(X, rng.integers(0, 2, 200))(shuffled(fresh, rng))
    assert (result <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 * (1 / 200 + 1 / 400))


@each_dataset
def test_rows_of_another_dataset_are_flagged(name: str, fitted: Fitted) -> None:
    """The rows are pixels of digits, scaled to the ranges of the columns."""
    typicality, train, _ = fitted[name]
    pixels = load_digits().data[:200]
    pixels = pixels[:, np.argsort(-pixels.std(0))[: train.shape[1]]]
    share = (pixels - pixels.min(0)) / np.ptp(pixels, axis=0)
    result = typicality(train.min(0) + share * (train.max(0) - train.min(0)))
    assert (result <= 0.05).mean() >= 0.8


@pytest.mark.parametrize("make", [make_moon, make_two_circle], ids=lambda make: make.__name__)
def test_points_in_gaps_between_the_rows_are_atypical(make: Callable[..., tuple[Points, Classes]]) -> None:
    X, y = make(random_state=0)
    typicality = Typicality().fit(X, y)
    box = np.random.default_rng(0).uniform(X.min(0), X.max(0), (400, 2))
    far = np.array([np.abs(X - point).max(1).min() for point in box]) > 0.15 * np.ptp(X, axis=0).min()
    assert far.sum() > 20
    assert (typicality(box[far]) <= 0.05).mean() >= 0.8


@pytest.mark.parametrize(("column", "value"), [(0, 0.5), (1, 2.0), (4, 7.001), (4, 0.0), (5, 2.5), (5, 5.0), (5, -1.0)])
def test_an_unseen_level_is_flagged(column: int, value: float) -> None:
    rng = np.random.default_rng(0)
    X, y = levels(150, rng)
    typicality = Typicality().fit(X, y)
    odd = levels(100, rng)[0]
    odd[:, column] = value
    assert (typicality(odd) <= 0.05).all()
    assert (typicality.columns(odd[:10]).argmax(1) == column).all()


def test_an_id_column_is_not_discrete() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(150, rng, d=3)
    X = np.column_stack([X, rng.permutation(1000)[:150]])
    fresh = np.column_stack([correlated(400, rng, d=3)[0], rng.integers(0, 1000, 400)])
    assert (Typicality().fit(X, y)(fresh) <= 0.05).mean() < 0.12


def test_equal_rows_are_equally_typical() -> None:
    X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (10, 1))
    y = np.arange(40) % 2
    typicality = Typicality().fit(X, y)
    assert len(np.unique(typicality(X).round(9))) <= 4
    np.testing.assert_array_equal(typicality(X)[:4], np.concatenate([typicality(X[i : i + 1]) for i in range(4)]))
    assert typicality(X).min() > 0.2


def test_weights_count_in_proportion_and_zero_weights_are_absent() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng, d=4)
    queries = correlated(60, rng, d=4)[0]
    plain = Typicality(GaussianDensity()).fit(X, y)
    alike = Typicality(GaussianDensity()).fit(X, y, np.full(80, 0.01))
    np.testing.assert_allclose(alike(queries), plain(queries), atol=1e-9)
    weight = rng.integers(0, 3, 80).astype(float)
    some = Typicality(GaussianDensity()).fit(X, y, weight)
    used = weight > 0
    np.testing.assert_allclose(
        some(queries), Typicality(GaussianDensity()).fit(X[used], y[used], weight[used])(queries)
    )
    assert some(queries * 1e6).max() == pytest.approx(1.0 / (1.0 + weight.sum() ** 2 / (weight**2).sum()))


@pytest.mark.parametrize("density", ["auto", KernelDensity()], ids=["auto", "kernel"])
def test_units_of_the_features_do_not_matter(density: object) -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng, d=4)
    queries = correlated(60, rng, d=4)[0]
    scale, shift = np.array([1e-6, 1.0, 1e3, 1e9]), np.array([0.0, 5.0, -7.0, 1e9])
    there = Typicality(density).fit(X * scale + shift, y)(queries * scale + shift)
    np.testing.assert_allclose(there, Typicality(density).fit(X, y)(queries), atol=0.02)


def test_pickled_and_refitted_give_the_same() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng)
    typicality = Typicality(random_state=4).fit(X, y)
    again = pickle.loads(pickle.dumps(typicality))
    np.testing.assert_array_equal(again(X), typicality(X))
    np.testing.assert_array_equal(Typicality(random_state=4).fit(X, y)(X), typicality(X))
    assert typicality.report_["rows"] == 80
    assert sum(typicality.report_["weights"].values()) == pytest.approx(1.0)
    assert typicality.report_["least"] == pytest.approx(1 / 81)


def test_large_tables_have_one_held_out_part() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(11_000, rng, d=5)
    typicality = Typicality().fit(X, y)
    assert typicality.report_["folds"] == 1
    assert typicality.report_["rows"] in (3666, 3667)
    result = typicality(correlated(2000, rng, d=5)[0])
    assert abs((result <= 0.05).mean() - 0.05) < 0.02


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_few_rows_are_allowed_and_bound_the_smallest_value(n: int) -> None:
    rng = np.random.default_rng(0)
    typicality = Typicality().fit(rng.normal(size=(n, 3)), np.arange(n) % 2)
    assert typicality(np.full((1, 3), 1e6))[0] == pytest.approx(1 / (n + 1))


@pytest.mark.parametrize("value", [1e300, -1e308])
def test_any_finite_value_can_be_queried(value: float) -> None:
    X, y = load_iris(return_X_y=True)
    assert Typicality().fit(X, y)([[5.1, 3.5, 1.4, value]])[0] == pytest.approx(1 / 151)


def test_bad_input_raises() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(NotFittedError):
        Typicality()(X)
    with pytest.raises(ValueError, match="gauss"):
        Typicality("gauss").fit(X, y)
    with pytest.raises(ValueError, match="normalized"):
        Typicality(GANDensity()).fit(X, y)
    with pytest.raises(ValueError, match="cv=1"):
        Typicality(cv=1).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        Typicality().fit(np.where(X > 7, np.nan, X), y)
    typicality = Typicality().fit(X, y)
    with pytest.raises(ValueError, match="4 features"):
        typicality(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        typicality([[np.nan, 1.0, 1.0, 1.0]])
