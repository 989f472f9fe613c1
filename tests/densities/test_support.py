"""Support: rows like those of the training set are seldom flagged, at the stated rate; others are."""

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
from genlabel._splits import round_robin_folds
from genlabel.data.datasets import make_moon, make_two_circle
from genlabel.densities import GANDensity

Points = NDArray[np.float64]
Classes = NDArray[np.int64]
Fitted = dict[str, tuple[Typicality, Points, Points]]
RATES = (0.01, 0.05, 0.1, 0.2)


def correlated(n: int, rng: np.random.Generator, d: int = 20) -> tuple[Points, Classes]:
    """Two classes of `d` columns that follow five hidden ones."""
    y = rng.integers(0, 2, n)
    hidden = rng.normal(size=(n, 5)) + y[:, None]
    return hidden @ np.random.default_rng(7).normal(size=(5, d)) + 0.3 * rng.normal(size=(n, d)), y


def heavy(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    return rng.standard_cauchy((n, 4)), rng.integers(0, 2, n)


def levels(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    """Binary columns, one that is constant, one of five levels: many equal rows."""
    y = rng.integers(0, 2, n)
    binary = (rng.random((n, 4)) < 0.3 + 0.4 * y[:, None]).astype(float)
    return np.column_stack([binary, np.full(n, 7.0), rng.integers(0, 5, n)]), y


def repeated(n: int, rng: np.random.Generator) -> tuple[Points, Classes]:
    """Rows of a list of forty: nearly all of them several times."""
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
def test_fresh_rows_are_flagged_at_the_stated_rate_and_not_above(make: Callable[..., tuple[Points, Classes]]) -> None:
    """Means over training sets of 60 rows, with the deviation that a rank among 60 and 400 fresh rows leave."""
    n, m, draws = 60, 400, 12
    shares = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        found = Typicality().fit(*make(n, rng))(make(m, rng)[0])
        assert ((found > 0) & (found <= 1)).all()
        shares.append([(found <= rate).mean() for rate in RATES])
    for rate, share in zip(RATES, np.mean(shares, axis=0), strict=True):
        slack = 3.5 * np.sqrt(rate * (1 - rate) * (1 / n + 1 / m) / draws)
        assert share <= rate + slack, rate
        if make in (correlated, heavy, rings) and rate >= 0.05:  # no ties, no corners: it is no idle promise
            assert share >= 0.5 * rate - slack, rate


@pytest.mark.parametrize("folds", [2, 5])
def test_it_is_the_rank_among_held_out_rows_under_scipys_densities(folds: int) -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(70, rng, d=4)
    asked = correlated(50, rng, d=4)[0] * rng.choice([1.0, 2.0], (50, 1))
    number = round_robin_folds(y, folds, as_rng(3))
    below = np.ones(len(asked))
    for f in range(folds):
        train, held = number != f, number == f
        parts = [X[train & (y == c)] for c in (0, 1)]
        normals = [multivariate_normal(part.mean(0), np.cov(part.T, bias=True)) for part in parts]
        log_prior = np.log([len(part) / train.sum() for part in parts])

        low, high = X[train].min(0), X[train].max(0)
        scores = []
        for points in (X[held], asked):
            outside = np.maximum(low - points, points - high).clip(0.0) / (high - low)
            log_density = logsumexp([normal.logpdf(points) for normal in normals] + log_prior[:, None], axis=0)
            scores.append(log_density - 20.0 * np.log2(1.0 + outside.max(1)))
        below += (scores[0][:, None] <= scores[1]).sum(0)
    support = Typicality(GaussianDensity(reg=0.0), folds=folds, random_state=3).fit(X, y)
    np.testing.assert_allclose(support(asked), below / 71)


SETS = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "cancer": load_breast_cancer(return_X_y=True),
    "hidden": correlated(300, np.random.default_rng(0)),
}
on_sets = pytest.mark.parametrize("name", list(SETS))


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    """Of each set, what was fitted to two thirds of the rows, these, and the other rows."""
    found = {}
    for name, (X, y) in SETS.items():
        rows = np.random.default_rng(1).permutation(len(X))
        train, test = rows[: 2 * len(X) // 3], rows[2 * len(X) // 3 :]
        found[name] = (Typicality().fit(X[train], y[train]), X[train], X[test])
    return found


@on_sets
def test_held_out_rows_of_real_sets_are_not_flagged(name: str, fitted: Fitted) -> None:
    support, train, test = fitted[name]
    found = support(test)
    for rate in RATES:
        rank = int(rate * (len(train) + 1))  # what is exact for one fold: once in 1,000 times there are more
        most = betabinom(len(test), rank, len(train) + 1 - rank).ppf(0.999) if rank else 0
        assert (found <= rate).sum() <= most, rate
    assert np.median(found) > 0.3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in ("cancer", "hidden") else []) for name in SETS]
)
def test_one_wild_value_is_flagged_and_its_column_named(name: str, fitted: Fitted) -> None:
    """A range beyond the largest value, in each column in turn."""
    support, train, test = fitted[name]
    reach = train.max(0) - train.min(0)
    named, flagged = [], []
    for column in range(train.shape[1]):
        odd = test[:10].copy()
        odd[:, column] = train[:, column].max() + reach[column]
        flagged.append(support(odd) <= 0.05)
        named.append(support.columns(odd).argmax(1) == column)
    assert np.mean(flagged) >= 0.95
    assert np.mean(named) >= 0.9


@on_sets
def test_shuffled_columns_are_flagged_where_columns_depend_on_each_other(name: str, fitted: Fitted) -> None:
    support, _, test = fitted[name]
    found = support(shuffled(test, np.random.default_rng(2)))
    assert (found <= 0.05).mean() >= {"iris": 0.5, "wine": 0.4, "cancer": 0.9, "hidden": 0.95}[name]


def test_shuffled_columns_that_do_not_depend_on_each_other_are_like_the_rows() -> None:
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(200, 6)), rng.normal(size=(400, 6))
    found = Typicality().fit(X, rng.integers(0, 2, 200))(shuffled(fresh, rng))
    assert (found <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 * (1 / 200 + 1 / 400))


@on_sets
def test_rows_of_another_set_are_flagged(name: str, fitted: Fitted) -> None:
    """Pixels of digits, scaled to the ranges of the columns."""
    support, train, _ = fitted[name]
    pixels = load_digits().data[:200]
    pixels = pixels[:, np.argsort(-pixels.std(0))[: train.shape[1]]]
    share = (pixels - pixels.min(0)) / np.ptp(pixels, axis=0)
    found = support(train.min(0) + share * (train.max(0) - train.min(0)))
    assert (found <= 0.05).mean() >= 0.8


@pytest.mark.parametrize("make", [make_moon, make_two_circle], ids=lambda make: make.__name__)
def test_where_no_row_is_there_is_no_support_even_amid_the_rows(make: Callable[..., tuple[Points, Classes]]) -> None:
    X, y = make(random_state=0)
    support = Typicality().fit(X, y)
    box = np.random.default_rng(0).uniform(X.min(0), X.max(0), (400, 2))
    far = np.array([np.abs(X - point).max(1).min() for point in box]) > 0.15 * np.ptp(X, axis=0).min()
    assert far.sum() > 20
    assert (support(box[far]) <= 0.05).mean() >= 0.8


@pytest.mark.parametrize(("column", "value"), [(0, 0.5), (1, 2.0), (4, 7.001), (4, 0.0), (5, 2.5), (5, 5.0), (5, -1.0)])
def test_a_level_that_a_column_never_had_is_flagged(column: int, value: float) -> None:
    rng = np.random.default_rng(0)
    X, y = levels(150, rng)
    support = Typicality().fit(X, y)
    odd = levels(100, rng)[0]
    odd[:, column] = value
    assert (support(odd) <= 0.05).all()
    assert (support.columns(odd[:10]).argmax(1) == column).all()


def test_a_column_that_names_the_rows_is_not_closed() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(150, rng, d=3)
    X = np.column_stack([X, rng.permutation(1000)[:150]])
    fresh = np.column_stack([correlated(400, rng, d=3)[0], rng.integers(0, 1000, 400)])
    assert (Typicality().fit(X, y)(fresh) <= 0.05).mean() < 0.12


def test_equal_rows_are_equally_typical_and_ties_count() -> None:
    X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (10, 1))
    y = np.arange(40) % 2
    support = Typicality().fit(X, y)
    assert len(np.unique(support(X).round(9))) <= 4
    np.testing.assert_array_equal(support(X)[:4], np.concatenate([support(X[i : i + 1]) for i in range(4)]))
    assert support(X).min() > 0.2


def test_weights_count_in_proportion_and_rows_of_none_are_absent() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng, d=4)
    asked = correlated(60, rng, d=4)[0]
    plain = Typicality(GaussianDensity()).fit(X, y)
    alike = Typicality(GaussianDensity()).fit(X, y, np.full(80, 0.01))
    np.testing.assert_allclose(alike(asked), plain(asked), atol=1e-9)
    weight = rng.integers(0, 3, 80).astype(float)
    some = Typicality(GaussianDensity()).fit(X, y, weight)
    kept = weight > 0
    np.testing.assert_allclose(some(asked), Typicality(GaussianDensity()).fit(X[kept], y[kept], weight[kept])(asked))
    assert some(asked * 1e6).max() == pytest.approx(1.0 / (1.0 + weight.sum() ** 2 / (weight**2).sum()))


@pytest.mark.parametrize("density", ["auto", KernelDensity()], ids=["auto", "kernel"])
def test_units_do_not_matter(density: object) -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng, d=4)
    asked = correlated(60, rng, d=4)[0]
    scale, shift = np.array([1e-6, 1.0, 1e3, 1e9]), np.array([0.0, 5.0, -7.0, 1e9])
    there = Typicality(density).fit(X * scale + shift, y)(asked * scale + shift)
    np.testing.assert_allclose(there, Typicality(density).fit(X, y)(asked), atol=0.02)


def test_it_survives_a_pickle_and_is_the_same_for_the_same_seed() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(80, rng)
    support = Typicality(random_state=4).fit(X, y)
    again = pickle.loads(pickle.dumps(support))
    np.testing.assert_array_equal(again(X), support(X))
    np.testing.assert_array_equal(Typicality(random_state=4).fit(X, y)(X), support(X))
    assert support.report_["rows"] == 80
    assert sum(support.report_["judges"].values()) == pytest.approx(1.0)
    assert support.report_["least"] == pytest.approx(1 / 81)


def test_of_many_rows_some_are_held_out_once() -> None:
    rng = np.random.default_rng(0)
    X, y = correlated(11_000, rng, d=5)
    support = Typicality().fit(X, y)
    assert support.report_["folds"] == 1
    assert support.report_["rows"] in (3666, 3667)
    found = support(correlated(2000, rng, d=5)[0])
    assert abs((found <= 0.05).mean() - 0.05) < 0.02


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_few_rows_are_no_error_and_nothing_is_rarer_than_one_more_than_they_are(n: int) -> None:
    rng = np.random.default_rng(0)
    support = Typicality().fit(rng.normal(size=(n, 3)), np.arange(n) % 2)
    assert support(np.full((1, 3), 1e6))[0] == pytest.approx(1 / (n + 1))


@pytest.mark.parametrize("value", [1e300, -1e308])
def test_any_finite_number_may_be_asked_of(value: float) -> None:
    X, y = load_iris(return_X_y=True)
    assert Typicality().fit(X, y)([[5.1, 3.5, 1.4, value]])[0] == pytest.approx(1 / 151)


def test_errors_name_the_way_out() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(NotFittedError):
        Typicality()(X)
    with pytest.raises(ValueError, match="density='gauss' is not known"):
        Typicality("gauss").fit(X, y)
    with pytest.raises(ValueError, match="gives no density of x to judge by"):
        Typicality(GANDensity()).fit(X, y)
    with pytest.raises(ValueError, match="folds=1 must be a whole number of at least 2"):
        Typicality(folds=1).fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        Typicality().fit(np.where(X > 7, np.nan, X), y)
    support = Typicality().fit(X, y)
    with pytest.raises(ValueError, match="fitted with 4 features"):
        support(X[:, :3])
    with pytest.raises(ValueError, match="contains NaN or infinity; impute"):
        support([[np.nan, 1.0, 1.0, 1.0]])
