"""Paired trials: only common trials count, and wins equal a hand count."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genlabel_paper.paired import EXACT, WinTieLoss, count_wins, mean_scores, pair_trials

LINES = [
    ("36", 0, 0, "a", 90.0), ("36", 0, 0, "b", 88.0), ("36", 0, 1, "a", 50.0), ("36", 1, 0, "a", 80.0),
    ("36", 1, 0, "b", 81.0), ("61", 0, 0, "a", 70.0), ("54", 0, 0, "b", 60.0),
]  # fmt: skip
RECORDS = pd.DataFrame(LINES, columns=["dataset", "split", "seed", "method", "accuracy"])


def test_trials_missing_for_a_method_are_left_out() -> None:
    pairs = pair_trials(RECORDS, "accuracy", ["b", "a"])
    assert pairs.index.tolist() == [("36", 0, 0), ("36", 1, 0)]
    assert pairs.to_numpy().tolist() == [[88.0, 90.0], [81.0, 80.0]]
    assert mean_scores(pairs).loc["36"].to_dict() == {"b": 84.5, "a": 85.0}
    assert len(pair_trials(RECORDS, "accuracy", ["a"])) == 4
    assert pair_trials(RECORDS.drop(columns="seed").iloc[:2], "accuracy", ["a", "b"]).index.tolist() == [("36", 0)]


@pytest.mark.parametrize(
    "records, metric, methods",
    [
        (RECORDS, "accuracy", ["a", "c"]),
        (RECORDS, "log_loss", ["a"]),
        (RECORDS.iloc[:0], "accuracy", ["a"]),
        (RECORDS.assign(accuracy=np.nan), "accuracy", ["a"]),
        (pd.DataFrame(), "accuracy", ["a", "b"]),
    ],
)
def test_no_common_trials_give_an_empty_table(records: pd.DataFrame, metric: str, methods: list[str]) -> None:
    pairs = pair_trials(records, metric, methods)
    assert pairs.empty
    assert list(pairs.columns) == methods
    assert mean_scores(pairs).reindex(["36"]).isna().all(axis=None)


@given(st.lists(st.floats(-3, 3)), st.floats(0, 1))
def test_wins_ties_and_losses_cover_all_datasets(gains: list[float], width: float) -> None:
    counts = count_wins(pd.Series(gains, dtype=float), width)
    assert counts.sets == len(gains)
    assert counts.better == sum(gain > width + EXACT for gain in gains)
    mirrored = count_wins(-pd.Series(gains, dtype=float), width)
    assert mirrored == (counts.worse, counts.tie, counts.better)
    assert not gains or sum(counts.percent) == pytest.approx(100)


def test_rounding_difference_is_a_tie() -> None:
    assert count_wins(pd.Series([0.1 + 0.2, 0.3]), 0.3) == WinTieLoss(0, 2, 0)
    assert all(np.isnan(count_wins(pd.Series(dtype=float), 0.5).percent))
