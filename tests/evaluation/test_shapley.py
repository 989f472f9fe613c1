"""Shapley values against their definition: the mean change over all orders in which the columns may join."""

from itertools import permutations

import numpy as np
import pytest

from genlabel.evaluation.shapley import PredictMixed, draw_orders, exact_shapley, sampled_shapley

CASES = [(d, n_background, k) for d in (1, 2, 4, 5) for n_background, k in ((1, 1), (3, 2))]


def random_function(d: int, n_background: int, k: int, seed: int = 0) -> PredictMixed:
    """A function with interactions of all orders: a random output for each subset and background row."""
    table = np.random.default_rng(seed).normal(size=(n_background, 2**d, k))
    return lambda mask, background: table[background, mask @ (1 << np.arange(d))]


def mean_over_orders(predict: PredictMixed, d: int, n_background: int) -> np.ndarray:
    orders = list(permutations(range(d)))
    total = 0.0
    for b in range(n_background):
        for order in orders:
            mask, changes = np.zeros((1, d), dtype=bool), {}
            before = predict(mask, np.array([b]))
            for column in order:
                mask[0, column] = True
                after = predict(mask, np.array([b]))
                changes[column], before = (after - before)[0], after
            total = total + np.array([changes[column] for column in range(d)])
    return total / (n_background * len(orders))


def ends(predict: PredictMixed, d: int, n_background: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(n_background)
    start = predict(np.zeros((n_background, d), dtype=bool), rows)
    return start, predict(np.ones((n_background, d), dtype=bool), rows)


@pytest.mark.parametrize(("d", "n_background", "k"), CASES)
def test_exact_values_are_the_mean_over_all_orders(d: int, n_background: int, k: int) -> None:
    predict = random_function(d, n_background, k)
    shares = exact_shapley(predict, d, n_background)
    np.testing.assert_allclose(shares.values, mean_over_orders(predict, d, n_background), atol=1e-12)
    start, end = ends(predict, d, n_background)
    np.testing.assert_allclose(shares.values.sum(0), (end - start).mean(0), atol=1e-12)
    assert (shares.standard_error == 0).all()


def test_an_ignored_column_has_no_share_and_symmetric_columns_have_equal_shares() -> None:
    def predict(mask: np.ndarray, background: np.ndarray) -> np.ndarray:
        """Ignore column 0; multiply columns 1 and 2."""
        return (mask[:, 1] * mask[:, 2] * (1.0 + mask[:, 3]) + ~mask[:, 4] * background)[:, None]

    start, end = ends(predict, 5, 3)
    orders = draw_orders(5, 3, 1000, np.random.default_rng(0))
    exact, sampled = exact_shapley(predict, 5, 3), sampled_shapley(predict, orders, start, end[0])
    assert exact.values[0, 0] == sampled.values[0, 0] == sampled.standard_error[0, 0] == 0
    np.testing.assert_allclose(exact.values[1], exact.values[2], atol=1e-12)
    np.testing.assert_allclose(sampled.values[1], sampled.values[2], atol=0.05)


@pytest.mark.parametrize(("d", "n_background", "k"), [case for case in CASES if case[0] > 1])
def test_sampled_values_add_up_and_their_standard_errors_are_right(d: int, n_background: int, k: int) -> None:
    table = random_function(d, n_background, k)
    end = np.full(k, 0.7)  # the output of the explained row does not depend on the background

    def predict(mask: np.ndarray, background: np.ndarray) -> np.ndarray:
        return np.where(mask.all(1)[:, None], end, table(mask, background))

    start = ends(predict, d, n_background)[0]
    exact = exact_shapley(predict, d, n_background).values
    errors, variance = [], 0.0
    for seed in range(60):
        orders = draw_orders(d, n_background, 20, np.random.default_rng(seed))
        assert (np.sort(orders, axis=-1) == np.arange(d)).all()
        shares = sampled_shapley(predict, orders, start, end)
        np.testing.assert_allclose(shares.values.sum(0), end - start.mean(0), atol=1e-12)
        errors.append(shares.values - exact)
        variance += float(np.mean(shares.standard_error**2)) / 60
    mean_square = np.mean(np.square(errors))
    if d > 2:  # both orders of two columns are always drawn
        assert 0.7 < mean_square / variance < 1.4
    else:
        assert mean_square < 1e-24
