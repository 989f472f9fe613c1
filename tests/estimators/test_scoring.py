"""The rule that chooses a candidate, and the pool of network, density and priors, against plain computations."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import sem

from genlabel.model_selection.scoring import (
    POOL_SHRINKAGE,
    PRIOR_PSEUDO_COUNT,
    PoolWeights,
    fit_pool_weights,
    one_standard_error,
    pool,
    rank_candidates,
    results_table,
    score_candidates,
)

finite = st.floats(0.0, 5.0)


@given(arrays(np.float64, (4, 30), elements=finite), st.permutations([1e-4, 1e-3, 1e-2, 1e-1]))
def test_the_chosen_candidate_is_within_one_standard_error_and_no_stronger_one_is(
    losses: np.ndarray, strength: list[float]
) -> None:
    chosen = one_standard_error(losses, strength)
    best = losses.mean(1).argmin()
    noise = sem(losses - losses[best], axis=1, ddof=0)
    gap = losses.mean(1) - losses[best].mean()
    assert gap[chosen] <= noise[chosen] + 1e-9
    stronger = [i for i in range(4) if strength[i] > strength[chosen]]
    assert all(gap[i] > noise[i] - 1e-9 for i in stronger)


def test_candidates_of_equal_strength_are_compared_by_loss() -> None:
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


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


@given(arrays(np.float64, (4, 20), elements=finite), st.permutations([0.1, 0.03, 0.01, 0.003]))
def test_among_equal_losses_the_smaller_step_is_chosen(losses: np.ndarray, steps: list[float]) -> None:
    losses[2] = losses[0] + 1e-9
    chosen = one_standard_error(losses, [1e-3] * 4, steps=steps)
    means = losses.mean(1)
    assume((np.abs(means * 1e6 % 1.0 - 0.5) > 1e-3).all())  # in between, the order of the sum decides
    level = means.round(6)
    assert level[chosen] == level.min()
    assert steps[chosen] == min(step for step, one in zip(steps, level, strict=True) if one == level.min())
    stronger = one_standard_error(np.stack([losses[0]] * 2), [1e-2, 1e-4], steps=[0.1, 0.01])
    assert stronger == 0  # the decay comes before the step


@pytest.mark.parametrize("rule", ["log-loss", "accuracy"])
def test_the_table_ranks_by_the_rule(rule: str) -> None:
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 60)
    logs = np.log(softmax(rng.normal(size=(7, 60, 2)) + np.eye(2)[y]))
    fold = np.arange(60) % 3
    scores = score_candidates(list(logs), y, None, fold, np.log([0.5, 0.5]), ranked_by=rule)
    table = results_table([{"weight_decay": w} for w in range(7)], scores.values, rule, pooled=False)
    np.testing.assert_array_equal(table["rank_test_score"], rank_candidates(scores.values[1], rule))
    np.testing.assert_array_equal(table["rank_test_score"], scores.rank)
    np.testing.assert_allclose(scores.mean_loss, -logs[:, np.arange(60), y].mean(1))
    column = table["mean_test_log_loss"] if rule == "log-loss" else -table["mean_test_score"].round(12)
    assert column[table["rank_test_score"].argmin()] == column.min()
    assert sorted(table["rank_test_score"]) == list(range(1, 8))
    losses = -np.take_along_axis(logs, y[None, :, None], 2)[..., 0]
    by_fold = np.stack([losses[:, fold == f].mean(1) for f in range(3)])
    np.testing.assert_allclose(table["mean_test_log_loss"], by_fold.mean(0))


@given(st.integers(0, 10_000))
def test_the_pool_is_the_normalized_product_of_powers_mixed_with_the_priors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q, prior = (softmax(rng.normal(size=shape)) for shape in ((6, 3), (6, 3), (3,)))
    a, b = rng.uniform(0, 1.5, 2)
    product = prior * (p / prior) ** a * (q / prior) ** b
    expected = product / product.sum(1, keepdims=True)
    logs = np.log(p), np.log(q), np.log(prior)
    np.testing.assert_allclose(np.exp(pool(*logs, PoolWeights(a, b))), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(*logs, PoolWeights(a, b, 0.3))), 0.7 * expected + 0.3 * prior, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(*logs, PoolWeights(1.0, 0.0))), p, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(logs[0], None, logs[2], PoolWeights(1.0))), p, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool(*logs, PoolWeights(0.0, 0.0))), prior[None].repeat(6, 0))


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_fitted_pool_weights_are_a_minimum_of_the_penalized_loss(seed: int, alone: bool, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 80))
    y, weight = rng.integers(0, 3, n), rng.uniform(0.1, 2.0, n) if weighted else None
    p, q = (np.log(softmax(s * np.eye(3)[y] + rng.normal(size=(n, 3)) * 2.0)) for s in rng.uniform(0, 3, 2))
    prior = np.log(softmax(rng.normal(size=3)))
    centre = np.array([1.0] if alone else [0.5, 0.5])

    def pooling(at: np.ndarray) -> PoolWeights:
        return PoolWeights(at[0], None if alone else at[1], at[-1])

    def objective(at: np.ndarray) -> float:
        logs = pool(p, q, prior, pooling(at))[np.arange(n), y]
        added = POOL_SHRINKAGE * ((at[:-1] - centre) ** 2).sum() - PRIOR_PSEUDO_COUNT * np.log(at[-1])
        return float(-np.average(logs, weights=weight) + added / n)

    fitted = fit_pool_weights(p, None if alone else q, y, prior, weight)
    assert (fitted.density is None) == alone
    at = np.array([value for value in fitted if value is not None])
    low, high = np.array([*np.zeros(len(centre)), 1e-5]), np.array([*np.full(len(centre), 2.0), 0.5])
    assert ((low <= at) & (at <= high)).all()
    assert objective(at) <= objective(np.array([*centre, 0.02]))
    for move in np.vstack([np.eye(len(at)), -np.eye(len(at))]) * np.array([*np.full(len(centre), 0.01), 0.1 * at[-1]]):
        assert objective(at) <= objective(np.clip(at + move, low, high)) + 1e-5


def test_confident_mistakes_raise_the_share_of_the_priors() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    sure = np.log(np.where(np.eye(2)[y] == 1, 1 - 1e-5, 1e-5))
    prior = np.log([0.5, 0.5])
    assert fit_pool_weights(sure, sure, y, prior).prior < 0.01
    wrong = sure.copy()
    wrong[:6] = wrong[:6, ::-1]
    fitted = fit_pool_weights(wrong, wrong, y, prior)
    assert 0.02 < fitted.prior < 0.15
    assert -pool(wrong, wrong, prior, fitted)[np.arange(200), y].max() < 5.0


def test_a_diverged_network_has_the_initial_pool_weights() -> None:
    lost, half, y = np.full((4, 2), np.nan), np.log(np.full((4, 2), 0.5)), np.array([0, 1, 0, 1])
    assert fit_pool_weights(lost, None, y, half[0]) == PoolWeights(1.0)
    assert fit_pool_weights(lost, half, y, half[0]) == PoolWeights(0.5, 0.5)


@pytest.mark.parametrize("alone", [False, True])
def test_few_rows_leave_the_pool_weights_near_the_initial_ones(alone: bool) -> None:
    p = np.log(softmax(np.random.default_rng(0).normal(size=(4, 2))))
    fitted = fit_pool_weights(p, None if alone else p, np.array([0, 1, 0, 1]), np.log([0.5, 0.5]))
    weights = np.array([w for w in fitted[:2] if w is not None])
    assert (abs(weights - (1.0 if alone else 0.5)) < 0.3).all()
