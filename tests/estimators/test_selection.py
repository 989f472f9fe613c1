"""The rule that chooses a candidate, and the pool of a network with its label model, against plain computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import sem

from genlabel.estimators.selection import (
    PULL,
    HeldOut,
    choose_best,
    fold_scores,
    one_standard_error,
    pool,
    pooling_weights,
    results_table,
    sharpness,
)

finite = st.floats(0.0, 5.0)


@given(arrays(np.float64, (4, 30), elements=finite), st.permutations([1e-4, 1e-3, 1e-2, 1e-1]))
def test_the_chosen_is_within_one_standard_error_and_none_stronger_is(
    losses: np.ndarray, strength: list[float]
) -> None:
    chosen = one_standard_error(losses, strength)
    best = losses.mean(1).argmin()
    noise = sem(losses - losses[best], axis=1, ddof=0)
    gap = losses.mean(1) - losses[best].mean()
    assert gap[chosen] <= noise[chosen] + 1e-9
    stronger = [i for i in range(4) if strength[i] > strength[chosen]]
    assert all(gap[i] > noise[i] - 1e-9 for i in stronger)


def test_equal_strength_leaves_the_lowest_loss() -> None:
    losses = np.random.default_rng(0).uniform(size=(5, 40))
    assert one_standard_error(losses, [1e-3] * 5) == losses.mean(1).argmin()


def test_weights_count_as_repetitions_in_the_means_and_infinite_losses_never_win() -> None:
    rng = np.random.default_rng(1)
    losses, weight = rng.uniform(size=(4, 25)), rng.integers(1, 4, 25)
    losses[3] = np.inf
    strength = [1.0, 2.0, 3.0, 9.0]
    assert one_standard_error(losses, strength, weight) != 3
    assert one_standard_error(losses[:, :1].repeat(3, 1), strength) != 3
    assert one_standard_error(losses, [0.0] * 4, weight) == (losses[:3] @ weight).argmin()


def held_out(log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> HeldOut:
    return HeldOut(log_proba, y, weight, np.arange(len(y)) % 3)


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


@given(st.integers(0, 10_000))
def test_the_pool_is_the_normalised_product_of_powers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q, prior = (softmax(rng.normal(size=shape)) for shape in ((6, 3), (6, 3), (3,)))
    a, b = rng.uniform(0, 1.5, 2)
    product = prior * (p / prior) ** a * (q / prior) ** b
    expected = product / product.sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(pool(np.log(p), np.log(q), np.log(prior), (a, b))), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(np.log(p), np.log(q), np.log(prior), (1.0, 0.0))), p, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(np.log(p), np.log(q), np.log(prior), (0.0, 0.0))), prior[None].repeat(6, 0))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_of_the_pool_are_the_best_on_a_fine_grid(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 300)
    truth = 2.0 * np.eye(3)[y]
    p, q = (np.log(softmax(truth * s + rng.normal(size=(300, 3)) * 1.5)) for s in (0.8, 0.5))
    prior, weight = np.log(np.bincount(y) / 300), rng.uniform(0.5, 2.0, 300) if weighted else np.ones(300)
    found = pooling_weights(held_out(p, y, weight if weighted else None), q, prior)

    def objective(a: float, b: float) -> float:
        logs = pool(p, q, prior, (a, b))[np.arange(300), y]
        return float(-np.average(logs, weights=weight) + PULL / 300 * ((a - 0.5) ** 2 + (b - 0.5) ** 2))

    grid = np.linspace(0, 2, 41)
    lowest = min(objective(a, b) for a in grid for b in grid)
    assert objective(*found) <= lowest + 1e-6
    assert all(0.0 <= w <= 2.0 for w in found)


@given(st.integers(0, 10_000))
def test_the_weights_of_the_pool_are_those_of_a_minimiser_without_slopes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 80))
    y, weight = rng.integers(0, 3, n), rng.uniform(0.1, 2.0, n)
    p, q = (np.log(softmax(s * np.eye(3)[y] + rng.normal(size=(n, 3)) * 2.0)) for s in rng.uniform(0, 3, 2))
    prior = np.log(softmax(rng.normal(size=3)))

    def objective(ab: np.ndarray) -> float:
        logs = pool(p, q, prior, (ab[0], ab[1]))[np.arange(n), y]
        return float(-np.average(logs, weights=weight) + PULL / n * ((ab - 0.5) ** 2).sum())

    found = np.array(pooling_weights(held_out(p, y, weight), q, prior))
    other = minimize(objective, [0.5, 0.5], bounds=[(0.0, 2.0)] * 2, method="Nelder-Mead", options={"xatol": 1e-6})
    assert objective(found) <= other.fun + 1e-6  # the simplex itself may end early at a bound


@given(st.integers(0, 10_000), st.booleans())
def test_the_sharpness_is_the_best_on_a_fine_grid(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    y, weight = rng.integers(0, 3, n), rng.uniform(0.1, 2.0, n) if weighted else np.ones(n)
    p = softmax(rng.uniform(0, 2) * np.eye(3)[y] + rng.normal(size=(n, 3)) * rng.uniform(0.1, 3.0))
    prior = softmax(rng.normal(size=3))
    grid = np.linspace(0.0, 2.0, 1001)
    powers = prior * (p / prior) ** grid[:, None, None]
    truth = np.log(powers / powers.sum(-1, keepdims=True))[:, np.arange(n), y]
    losses = -np.average(truth, axis=1, weights=weight) + PULL / n * (grid - 1.0) ** 2
    found = sharpness(held_out(np.log(p), y, weight if weighted else None), np.log(prior))
    assert found == pytest.approx(grid[losses.argmin()], abs=3e-3)


def test_of_a_network_that_diverged_nothing_is_weighed() -> None:
    lost = held_out(np.full((4, 2), np.nan), np.array([0, 1, 0, 1]))
    assert sharpness(lost, np.log([0.5, 0.5])) == 1.0
    assert pooling_weights(lost, np.log(np.full((4, 2), 0.5)), np.log([0.5, 0.5])) == (0.5, 0.5)


@given(arrays(np.float64, (4, 20), elements=finite), st.permutations([0.1, 0.03, 0.01, 0.003]))
def test_among_equal_losses_the_smaller_step_is_chosen(losses: np.ndarray, steps: list[float]) -> None:
    losses[2] = losses[0] + 1e-9
    chosen = one_standard_error(losses, [1e-3] * 4, steps=steps)
    level = losses.mean(1).round(6)
    assert level[chosen] == level.min()
    assert steps[chosen] == min(step for step, one in zip(steps, level, strict=True) if one == level.min())
    stronger = one_standard_error(np.stack([losses[0]] * 2), [1e-2, 1e-4], steps=[0.1, 0.01])
    assert stronger == 0  # the decay comes before the step


def test_few_rows_leave_the_weights_near_one_half() -> None:
    p = np.log(softmax(np.random.default_rng(0).normal(size=(4, 2))))
    a, b = pooling_weights(held_out(p, np.array([0, 1, 0, 1])), p, np.log([0.5, 0.5]))
    assert abs(a - 0.5) < 0.3
    assert abs(b - 0.5) < 0.3


@pytest.mark.parametrize("rule", ["log-loss", "accuracy"])
def test_the_table_ranks_by_the_rule(rule: str) -> None:
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 60)
    logs = np.log(softmax(rng.normal(size=(7, 60, 2)) + np.eye(2)[y]))
    own = held_out(logs, y)
    table = results_table([{"weight_decay": w} for w in range(7)], fold_scores(own), rule)
    column = table["mean_test_log_loss"] if rule == "log-loss" else -table["mean_test_score"].round(12)
    assert column[table["rank_test_score"].argmin()] == column.min()
    assert sorted(table["rank_test_score"]) == list(range(1, 8))
    losses = -np.take_along_axis(logs, y[None, :, None], 2)[..., 0]
    by_fold = np.stack([losses[:, own.fold == f].mean(1) for f in range(3)])
    np.testing.assert_allclose(table["mean_test_log_loss"], by_fold.mean(0))
    chosen = choose_best(own.losses, None, rule, range(7), table["rank_test_score"])
    expected = table["rank_test_score"].argmin() if rule == "accuracy" else one_standard_error(losses, range(7))
    assert chosen == expected
