"""The rule that chooses a candidate, against plain computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import sem

from genlabel.model_selection.scoring import (
    ValidationRows,
    one_standard_error,
    rank_candidates,
    results_table,
    score_candidates,
    select_best,
)
from genlabel.training import Hyperparameters

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


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


@given(arrays(np.float64, (4, 20), elements=finite), st.permutations([0.1, 0.03, 0.01, 0.003]))
def test_among_equal_losses_the_smaller_step_is_chosen(losses: np.ndarray, steps: list[float]) -> None:
    losses[2] = losses[0] + 1e-9
    chosen = one_standard_error(losses, [1e-3] * 4, steps=steps)
    level = losses.mean(1).round(6)
    assert level[chosen] == level.min()
    assert steps[chosen] == min(step for step, one in zip(steps, level, strict=True) if one == level.min())
    stronger = one_standard_error(np.stack([losses[0]] * 2), [1e-2, 1e-4], steps=[0.1, 0.01])
    assert stronger == 0  # the decay comes before the step


@pytest.mark.parametrize("rule", ["log-loss", "accuracy"])
def test_the_table_ranks_by_the_rule(rule: str) -> None:
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 60)
    logs = np.log(softmax(rng.normal(size=(7, 60, 2)) + np.eye(2)[y]))
    rows = ValidationRows(y, None, np.arange(60) % 3)
    scores = score_candidates(list(logs), rows, np.log([0.5, 0.5]))
    table = results_table([{"weight_decay": w} for w in range(7)], scores, rule, pooled=False)
    np.testing.assert_array_equal(table["rank_test_score"], rank_candidates(scores, rule))
    column = table["mean_test_log_loss"] if rule == "log-loss" else -table["mean_test_score"].round(12)
    assert column[table["rank_test_score"].argmin()] == column.min()
    assert sorted(table["rank_test_score"]) == list(range(1, 8))
    losses = -np.take_along_axis(logs, y[None, :, None], 2)[..., 0]
    by_fold = np.stack([losses[:, rows.fold == f].mean(1) for f in range(3)])
    np.testing.assert_allclose(table["mean_test_log_loss"], by_fold.mean(0))
    chosen = select_best(scores, None, rule, [Hyperparameters(0.1, w) for w in range(7)], table["rank_test_score"])
    expected = table["rank_test_score"].argmin() if rule == "accuracy" else one_standard_error(losses, range(7))
    assert chosen == expected
