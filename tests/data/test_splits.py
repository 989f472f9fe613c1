"""Splits: groups on one side, stratified classes, earlier rows before later ones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedShuffleSplit

from genlabel.data.tables import Table, make_splits
from genlabel.data.tables.splits import describe_splits, merge_groups
from genlabel.data.tables.table import drop_rare_classes


def make(n: int, k: int = 2, groups: object = None, time: object = None, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    y = pd.Series(rng.choice(k, n, p=np.arange(1, k + 1) / np.arange(1, k + 1).sum()))
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["u", "v"])
    series = [None if part is None else pd.Series(part) for part in (groups, time)]
    return Table("t", X, y, groups=series[0], time=series[1])


RNG = np.random.default_rng(0)
GROUPS = {
    "pairs": np.repeat(np.arange(150), 2),
    "some twice": np.r_[np.arange(240), np.arange(60)],
    "twelve": RNG.integers(0, 12, 300),
    "uneven": np.repeat(np.arange(24), np.r_[[50, 30], np.full(22, 10)]),
    "alone": np.arange(300),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups_stay_on_one_side_and_classes_are_stratified(case: str) -> None:
    table = make(300, 3, GROUPS[case])
    splits = make_splits(table, 40, 0.3, 0)
    times_tested = np.zeros(300)
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(300))
        assert not set(GROUPS[case][train]) & set(GROUPS[case][test])
        assert len(test) == pytest.approx(90, abs={"pairs": 6, "some twice": 3, "alone": 3}.get(case, 45))
        if case in ("some twice", "alone"):
            expected = 0.3 * table.y.value_counts().sort_index()
            assert (table.y.iloc[test].value_counts().sort_index() - expected).abs().max() <= 2
        times_tested[test] += 1
    assert times_tested.min() > 0
    assert len({tuple(test) for _, test in splits}) > 10


def test_rows_of_groups_are_held_out_as_often_as_single_rows() -> None:
    table = make(300, 2, GROUPS["some twice"])
    held_out_share = np.mean([np.isin(np.arange(300), test) for _, test in make_splits(table, 200, 0.3, 0)], axis=0)
    twice = pd.Series(GROUPS["some twice"]).duplicated(keep=False).to_numpy()
    assert held_out_share[twice].mean() == pytest.approx(0.3, abs=0.02)
    assert held_out_share[~twice].mean() == pytest.approx(0.3, abs=0.02)


def test_more_splits_keep_the_first_splits() -> None:
    for table in (make(100), make(100, groups=np.repeat(np.arange(50), 2))):
        few, many, other = (make_splits(table, r, 0.3, s) for r, s in ((2, 0), (5, 0), (2, 1)))
        assert all((a[1] == b[1]).all() for a, b in zip(few, many[:2], strict=True))
        assert not np.array_equal(few[0][1], other[0][1])


def test_without_groups_and_times_splits_are_scikit_learns() -> None:
    table = make(90, 3)
    expected = StratifiedShuffleSplit(4, test_size=0.25, random_state=3).split(table.X, table.y)
    for (train, test), (a, b) in zip(make_splits(table, 4, 0.25, 3), expected, strict=True):
        np.testing.assert_array_equal(train, a)
        np.testing.assert_array_equal(test, b)


@pytest.mark.parametrize(
    "times",
    [np.arange(200.0), RNG.permutation(np.arange(200.0)), RNG.integers(0, 40, 200)],
    ids=["sorted", "any", "ties"],
)
def test_earlier_rows_predict_later_ones(times: np.ndarray) -> None:
    splits = make_splits(make(200, time=times), 5, 0.3, 0)
    assert 3 <= len(splits) <= 5
    tested = np.concatenate([test for _, test in splits])
    assert len(set(tested)) == len(tested) == pytest.approx(60, abs=8)
    for train, test in splits:
        assert times[train].max() < times[test].min()
    assert max(times[test].max() for _, test in splits) == times.max()


def test_time_splits_do_not_train_on_test_groups() -> None:
    groups = np.arange(200) % 20
    for train, test in make_splits(make(200, time=np.arange(200), groups=groups), 10, 0.3, 0):
        assert len(test) == 6
        assert not set(groups[train]) & set(groups[test])


def test_a_class_that_is_absent_from_training_is_not_tested() -> None:
    table = make(100, time=np.arange(100))
    y = pd.Series(["a", "b"] * 45 + ["c"] * 10)
    for train, test in make_splits(Table("t", table.X, y, time=table.time), 4, 0.3, 0):
        assert set(y.iloc[test]) <= set(y.iloc[train])


@pytest.mark.parametrize(
    "table, message",
    [
        (make(60, groups=np.zeros(60)), "group"),
        (make(60, time=np.zeros(60)), "earlier"),
        (make(60, groups=np.arange(60) >= 30), "rows|side"),
    ],
    ids=["one group", "one time", "two groups"],
)
def test_impossible_splits_are_errors(table: Table, message: str) -> None:
    if table.groups is not None and table.groups.nunique() == 2:
        table = Table("t", table.X, pd.Series(np.repeat(["a", "b"], 30)), groups=table.groups)
    with pytest.raises(ValueError, match=message):
        make_splits(table, 3, 0.3, 0)


def test_merged_groups_are_the_components() -> None:
    first, second = pd.Series([0, 0, 1, 2, 3, 4]), pd.Series(["a", "b", "b", "c", "c", "d"])
    assert merge_groups(first, second).tolist() == [0, 0, 0, 1, 1, 2]
    assert merge_groups(first).tolist() == first.tolist()


def test_dropping_rare_classes_keeps_groups_and_times_aligned() -> None:
    table = make(40, groups=np.arange(40), time=np.arange(40))
    y = pd.Series(["a"] * 20 + ["b"] * 18 + ["c"] * 2).sample(frac=1, random_state=0, ignore_index=True)
    result = drop_rare_classes(Table("t", table.X, y, groups=table.groups, time=table.time))
    assert result.groups is not None
    assert result.time is not None
    assert result.groups.tolist() == result.time.tolist() == np.flatnonzero(y != "c").tolist()


def test_splits_have_names() -> None:
    names = {describe_splits(make(9, **part)) for part in ({}, {"groups": range(9)}, {"time": range(9)})}  # type: ignore[arg-type]
    assert len(names) == 3
