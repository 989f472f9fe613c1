"""Folds: what every way of making them promises, and what is refused by name."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from genlabel.data.folds import (
    check_folds,
    fold_numbers,
    folds_by_size,
    grouped_folds,
    make_folds,
    training_rows,
)

METHODS: list[Any] = ["round_robin", "stratified"]
methods = pytest.mark.parametrize("method", METHODS)
Y = np.arange(12) % 3


@methods
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), k=st.integers(1, 4))
def test_rows_are_held_out_once_and_classes_are_spread_evenly(method: Any, seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(k), rng.integers(count, 20, k)))
    folds = make_folds(count, y, seed, method)
    assert len(folds) == count
    number = fold_numbers(folds, len(y))
    for f, (train, valid) in enumerate(folds):
        np.testing.assert_array_equal(np.sort(np.r_[train, valid]), np.arange(len(y)))
        np.testing.assert_array_equal(valid, np.flatnonzero(number == f))
    table = np.array([np.bincount(y[fold.valid], minlength=k) for fold in folds])
    assert (np.ptp(table, axis=0) <= 1).all()
    again = make_folds(count, y, seed, method)
    np.testing.assert_array_equal(fold_numbers(again, len(y)), number)
    check_folds(folds, count, y, np.arange(k), np.ones(len(y)))


@pytest.mark.filterwarnings("ignore:class .* has (a single row|two rows)")
@given(seed=st.integers(0, 10**6), count=st.integers(2, 8), counts=st.lists(st.integers(1, 12), min_size=2, max_size=6))
def test_rare_folds_train_on_every_class_and_hold_out_each_row_that_is_not_alone_in_its_class(
    seed: int, count: int, counts: list[int]
) -> None:
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    sizes = np.array(counts)
    if sizes.max() == 1:
        with pytest.raises(ValueError, match="class of its own"):
            make_folds(count, y, seed, "rare")
        return
    folds = make_folds(count, y, seed, "rare")
    held = np.bincount(np.concatenate([fold.valid for fold in folds]), minlength=len(y))
    np.testing.assert_array_equal(held, sizes[y] > 1)
    assert len(folds) == min(count, int(sizes[sizes > 1].sum()))
    for fold in folds:
        assert set(y[fold.train]) == set(range(len(counts)))
        np.testing.assert_array_equal(np.sort(np.r_[fold.train, fold.valid]), np.arange(len(y)))
    table = np.array([np.bincount(y[fold.valid], minlength=len(counts)) for fold in folds])
    assert (np.ptp(table, axis=0) <= 1).all()
    check_folds(folds, count, y, np.arange(len(counts)), None)


def test_a_single_row_is_told_of_by_its_class() -> None:
    y, names = np.array([0, 0, 0, 1, 2]), np.array(["a", "b", "c"])
    with pytest.warns(UserWarning, match=r"class 'b' has a single row \(and so for 1 more\): it is trained on") as told:
        make_folds(3, y, 0, "rare", classes=names)
    assert len(told) == 1
    both = "class 'b' has a single row: .*; class 'c' has two rows: each is held out from networks that know the other"
    with pytest.warns(UserWarning, match=both):
        make_folds(3, np.array([0, 0, 0, 1, 2, 2]), 0, "rare", classes=names)


@pytest.mark.filterwarnings("ignore:class .* has too few groups")
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), k=st.integers(2, 4), some=st.integers(8, 40))
def test_rows_of_a_group_are_held_out_together_and_every_fold_trains_on_every_class(
    seed: int, count: int, k: int, some: int
) -> None:
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, k, 60), rng.integers(0, some, 60)
    y[:k] = np.arange(k)
    folds = make_folds(count, y, seed, groups=groups)
    for fold in folds:
        assert set(groups[fold.train]).isdisjoint(groups[fold.valid])
        assert set(y[fold.train]) == set(range(k))
        np.testing.assert_array_equal(np.sort(np.r_[fold.train, fold.valid]), np.arange(60))
    held = np.bincount(np.concatenate([fold.valid for fold in folds]), minlength=60)
    assert held.max() == 1
    once = [kind for kind in range(k) if len(np.unique(groups[y == kind])) == 1]
    assert not held[np.isin(y, once)].any()


@given(seed=st.integers(0, 10**6), count=st.integers(2, 6))
def test_many_small_groups_make_folds_of_about_the_same_size_and_classes(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, 3, 400), rng.integers(0, 200, 400)
    table = np.array([np.bincount(y[grouped_folds(y, groups, count, seed) == f], minlength=3) for f in range(count)])
    assert (np.abs(table - table.mean(0)) <= 6.0).all()
    relabelled = rng.permutation(1000)[groups]
    np.testing.assert_array_equal(np.sort(np.unique(grouped_folds(y, relabelled, count, seed))), np.arange(count))


def test_groups_are_told_of_where_they_cannot_be() -> None:
    with pytest.raises(ValueError, match="all rows are in one group"):
        make_folds(2, Y, 0, groups=np.zeros(12, dtype=np.intp))
    with pytest.raises(ValueError, match="each class is in one group only"):
        make_folds(2, Y, 0, groups=Y)
    with pytest.raises(ValueError, match="groups have no effect"):
        make_folds([([0, 1, 2], [3])], Y, 0, groups=np.arange(12))
    with pytest.warns(UserWarning, match="class 'c' has too few groups: it is trained on, but never held out"):
        make_folds(2, Y, 0, groups=np.where(Y == 2, 0, np.arange(12) + 1), classes=np.array(list("abc")))
    folds = make_folds(GroupKFold(3), Y, 0, groups=np.arange(12) // 4)
    assert sorted(fold.valid.tolist() for fold in folds) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("n, expected", [
    (4, (6, None)), (599, (6, None)), (600, (4, None)), (19_999, (4, None)), (20_000, (10, 2)), (10**6, (10, 2)),
])  # fmt: skip
def test_large_tables_have_fewer_folds(n: int, expected: tuple[int, int | None]) -> None:
    assert folds_by_size(n) == expected


def test_stratified_folds_are_those_of_scikit_learn() -> None:
    ours = make_folds(3, Y, 5, "stratified")
    for fold, pair in zip(ours, StratifiedKFold(3, shuffle=True, random_state=5).split(Y, Y), strict=True):
        np.testing.assert_array_equal(fold.train, pair[0])
        np.testing.assert_array_equal(fold.valid, pair[1])


@methods
@pytest.mark.parametrize("counts, expected, why", [
    ((9, 9), 6, None),
    ((9, 3), 3, "class 'b' has only 3 samples"),
    ((2, 9, 2), 2, "class 'a' has only 2 samples"),
])  # fmt: skip
def test_a_small_class_makes_the_folds_fewer(method: Any, counts: tuple[int, ...], expected: int, why: Any) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(make_folds(6, y, 0, method, classes=np.array(list("abc")))) == expected
    assert [str(w.message) for w in caught] == ([f"cv=6 folds, but {why}; using {expected} folds"] if why else [])


@pytest.mark.parametrize("counts, folds", [((30, 1), 6), ((1, 1, 1), 2), ((1,), 1)])
@pytest.mark.filterwarnings("ignore:cv=6 folds, but no class has 2 samples; using 2 folds")
def test_a_class_of_one_point_does_not_count_and_stays_in_training(counts: tuple[int, ...], folds: int) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    made = make_folds(6, y, 0)
    assert len(made) == folds
    for fold in made:
        assert np.bincount(y[training_rows(fold.train, y)], minlength=len(counts)).min() > 0


def test_training_keeps_a_whole_class_that_would_have_no_row() -> None:
    np.testing.assert_array_equal(training_rows(np.flatnonzero(Y == 1), Y), [True] * 12)
    np.testing.assert_array_equal(training_rows(np.arange(3), Y), np.arange(12) < 3)


def test_rows_masks_and_a_splitter_say_the_same() -> None:
    splitter = KFold(4)
    X = np.zeros((12, 2))
    pairs = list(splitter.split(X))
    masks = [tuple(np.isin(np.arange(12), rows) for rows in pair) for pair in pairs]
    lists = [[rows.tolist() for rows in pair] for pair in pairs]
    for cv in (splitter, pairs, masks, lists, iter(pairs)):
        found = make_folds(cv, Y, 0, X=X)
        for fold, pair in zip(found, pairs, strict=True):
            np.testing.assert_array_equal(fold.train, pair[0])
            np.testing.assert_array_equal(fold.valid, pair[1])


def test_a_splitter_sees_the_points_and_their_classes() -> None:
    class Splitter:
        def split(self, X: Any, y: Any) -> Any:
            return [(np.flatnonzero(X[:, 0] > 0), np.flatnonzero(y == "c"))]

    X = np.arange(-3, 9)[:, None]
    (fold,) = make_folds(Splitter(), Y, 0, classes=np.array(["a", "b", "c"]), X=X)
    np.testing.assert_array_equal(fold.train, np.arange(4, 12))
    np.testing.assert_array_equal(fold.valid, np.flatnonzero(Y == 2))


def test_pairs_name_the_rows_of_the_table_and_those_that_are_gone_are_left_out() -> None:
    rows = np.array([1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14])
    cv = [(np.arange(8), np.arange(8, 15)), (np.arange(15) >= 8, np.arange(15) < 8)]
    first, second = make_folds(cv, Y, 0, rows=rows, n_rows=15)
    np.testing.assert_array_equal(rows[first.train], [1, 2, 4, 5, 6, 7])
    np.testing.assert_array_equal(rows[first.valid], [8, 9, 10, 11, 13, 14])
    np.testing.assert_array_equal(second.train, first.valid)
    with pytest.raises(ValueError, match="cv names row 15, but X has rows 0 to 14"):
        make_folds([([0], [15])], Y, 0, rows=rows, n_rows=15)


@pytest.mark.parametrize("cv, match", [
    (1, "cv=1"),
    (True, "cv=True"),
    ("5", "cv='5' is not known; give a number of folds, a splitter, or pairs"),
    (None, "cv=None is not known"),
    (2.5, "cv=2.5 is not known"),
    ([], r"cv=\[\] gives no folds; give"),
    ([([0, 1], [2], [3])], "a fold that is no pair"),
    ([3], "a fold that is no pair"),
    ([([0, 1], [500])], "cv names row 500, but X has rows 0 to 11"),
    ([([0, 1], [-1])], "cv names row -1, but X has rows 0 to 11"),
    ([([-3, 1], [2])], "cv names row -3, but X has rows 0 to 11"),
    ([([0.5, 1], [2])], "whole numbers, or a mask"),
    ([([[0, 1]], [2])], "whole numbers, or a mask"),
    ([([True, False], [2])], "a mask of 2 rows, but X has 12"),
    ([([0, 1], [])], "holds out no row"),
    (GroupKFold(3), "could not split the rows: .*groups.*; give a number"),
])  # fmt: skip
def test_what_makes_no_folds_is_told_so(cv: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make_folds(cv, Y, 0)


def test_folds_to_train_on_have_every_class_and_hold_out_some_weight() -> None:
    names = np.array(["a", "b", "c"])
    without = make_folds([(np.flatnonzero(Y > 0), [0])], Y, 0)
    with pytest.raises(ValueError, match="a fold of cv=7 has no training row of class 'a'; use stratified folds"):
        check_folds(without, 7, Y, names, None)
    weightless = make_folds([(np.arange(9), [9, 10, 11])], Y, 0)
    check_folds(weightless, 7, Y, names, None)
    with pytest.raises(ValueError, match="a fold of cv=7 holds out no row"):
        check_folds(weightless, 7, Y, names, (np.arange(12) < 9).astype(float))


def test_cross_fitting_needs_every_row_held_out_once() -> None:
    for cv in ([(np.arange(6, 12), np.arange(6))], [(np.arange(12), np.arange(12))] * 2):
        with pytest.raises(ValueError, match="every row in the validation part"):
            fold_numbers(make_folds(cv, Y, 0), 12)
