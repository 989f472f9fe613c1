"""Folds: properties of every method, and errors."""

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
def test_folds_partition_rows_and_are_stratified(method: Any, seed: int, count: int, k: int) -> None:
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


@pytest.mark.filterwarnings("ignore:class.* (a single row|two rows)")
@given(seed=st.integers(0, 10**6), count=st.integers(2, 8), counts=st.lists(st.integers(1, 12), min_size=2, max_size=6))
def test_rare_folds_train_on_every_class(seed: int, count: int, counts: list[int]) -> None:
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    sizes = np.array(counts)
    if sizes.max() == 1:
        with pytest.raises(ValueError, match="class"):
            make_folds(count, y, seed, "rare")
        return
    folds = make_folds(count, y, seed, "rare")
    times_held_out = np.bincount(np.concatenate([fold.valid for fold in folds]), minlength=len(y))
    np.testing.assert_array_equal(times_held_out, sizes[y] > 1)
    assert len(folds) == min(count, int(sizes[sizes > 1].sum()))
    for fold in folds:
        assert set(y[fold.train]) == set(range(len(counts)))
        np.testing.assert_array_equal(np.sort(np.r_[fold.train, fold.valid]), np.arange(len(y)))
    table = np.array([np.bincount(y[fold.valid], minlength=len(counts)) for fold in folds])
    assert (np.ptp(table, axis=0) <= 1).all()
    check_folds(folds, count, y, np.arange(len(counts)), None)


def test_a_class_of_a_single_row_gives_a_warning() -> None:
    y, names = np.array([0, 0, 0, 1, 2]), np.array(["a", "b", "c"])
    with pytest.warns(UserWarning, match="single") as caught:
        make_folds(3, y, 0, "rare", classes=names)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="two"):
        make_folds(3, np.array([0, 0, 0, 1, 2, 2]), 0, "rare", classes=names)


@pytest.mark.filterwarnings("ignore:class.* too few groups")
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), k=st.integers(2, 4), n_groups=st.integers(8, 40))
def test_grouped_folds_respect_groups_and_train_on_every_class(seed: int, count: int, k: int, n_groups: int) -> None:
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, k, 60), rng.integers(0, n_groups, 60)
    y[:k] = np.arange(k)
    folds = make_folds(count, y, seed, groups=groups)
    for fold in folds:
        assert set(groups[fold.train]).isdisjoint(groups[fold.valid])
        assert set(y[fold.train]) == set(range(k))
        np.testing.assert_array_equal(np.sort(np.r_[fold.train, fold.valid]), np.arange(60))
    times_held_out = np.bincount(np.concatenate([fold.valid for fold in folds]), minlength=60)
    assert times_held_out.max() == 1
    in_one_group = [c for c in range(k) if len(np.unique(groups[y == c])) == 1]
    assert not times_held_out[np.isin(y, in_one_group)].any()


@given(seed=st.integers(0, 10**6), count=st.integers(2, 6))
def test_grouped_folds_are_balanced(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(0, 3, 400), rng.integers(0, 200, 400)
    table = np.array([np.bincount(y[grouped_folds(y, groups, count, seed) == f], minlength=3) for f in range(count)])
    assert (np.abs(table - table.mean(0)) <= 6.0).all()
    renumbered = rng.permutation(1000)[groups]
    np.testing.assert_array_equal(np.sort(np.unique(grouped_folds(y, renumbered, count, seed))), np.arange(count))


def test_impossible_groups_raise() -> None:
    with pytest.raises(ValueError, match="one"):
        make_folds(2, Y, 0, groups=np.zeros(12, dtype=np.intp))
    with pytest.raises(ValueError, match="group"):
        make_folds(2, Y, 0, groups=Y)
    with pytest.raises(ValueError, match="groups"):
        make_folds([([0, 1, 2], [3])], Y, 0, groups=np.arange(12))
    with pytest.warns(UserWarning, match="groups"):
        make_folds(2, Y, 0, groups=np.where(Y == 2, 0, np.arange(12) + 1), classes=np.array(list("abc")))
    folds = make_folds(GroupKFold(3), Y, 0, groups=np.arange(12) // 4)
    assert sorted(fold.valid.tolist() for fold in folds) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("n, expected", [
    (4, (6, None)), (599, (6, None)), (600, (4, None)), (19_999, (4, None)), (20_000, (10, 2)), (10**6, (10, 2)),
])  # fmt: skip
def test_large_tables_have_fewer_folds(n: int, expected: tuple[int, int | None]) -> None:
    assert folds_by_size(n) == expected


def test_stratified_folds_equal_scikit_learn() -> None:
    ours = make_folds(3, Y, 5, "stratified")
    for fold, pair in zip(ours, StratifiedKFold(3, shuffle=True, random_state=5).split(Y, Y), strict=True):
        np.testing.assert_array_equal(fold.train, pair[0])
        np.testing.assert_array_equal(fold.valid, pair[1])


@methods
@pytest.mark.parametrize("counts, expected, name", [
    ((9, 9), 6, None),
    ((9, 3), 3, "'b'"),
    ((2, 9, 2), 2, "'a'"),
])  # fmt: skip
def test_a_small_class_reduces_the_number_of_folds(
    method: Any, counts: tuple[int, ...], expected: int, name: Any
) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(make_folds(6, y, 0, method, classes=np.array(list("abc")))) == expected
    assert len(caught) == (name is not None)
    assert all(name in str(warning.message) for warning in caught)


@pytest.mark.parametrize("counts, folds", [((30, 1), 6), ((1, 1, 1), 2), ((1,), 1)])
@pytest.mark.filterwarnings("ignore:cv=6 folds, but no class has 2 samples; using 2 folds")
def test_a_class_of_one_row_stays_in_training(counts: tuple[int, ...], folds: int) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    result = make_folds(6, y, 0)
    assert len(result) == folds
    for fold in result:
        assert np.bincount(y[training_rows(fold.train, y)], minlength=len(counts)).min() > 0


def test_training_rows_include_classes_that_are_absent() -> None:
    np.testing.assert_array_equal(training_rows(np.flatnonzero(Y == 1), Y), [True] * 12)
    np.testing.assert_array_equal(training_rows(np.arange(3), Y), np.arange(12) < 3)


def test_rows_masks_and_a_splitter_give_the_same_folds() -> None:
    splitter = KFold(4)
    X = np.zeros((12, 2))
    pairs = list(splitter.split(X))
    masks = [tuple(np.isin(np.arange(12), rows) for rows in pair) for pair in pairs]
    lists = [[rows.tolist() for rows in pair] for pair in pairs]
    for cv in (splitter, pairs, masks, lists, iter(pairs)):
        folds = make_folds(cv, Y, 0, X=X)
        for fold, pair in zip(folds, pairs, strict=True):
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


def test_pairs_index_the_rows_of_the_table_before_dropping() -> None:
    rows = np.array([1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14])
    cv = [(np.arange(8), np.arange(8, 15)), (np.arange(15) >= 8, np.arange(15) < 8)]
    first, second = make_folds(cv, Y, 0, rows=rows, n_rows=15)
    np.testing.assert_array_equal(rows[first.train], [1, 2, 4, 5, 6, 7])
    np.testing.assert_array_equal(rows[first.valid], [8, 9, 10, 11, 13, 14])
    np.testing.assert_array_equal(second.train, first.valid)
    with pytest.raises(ValueError, match="15"):
        make_folds([([0], [15])], Y, 0, rows=rows, n_rows=15)


@pytest.mark.parametrize("cv, match", [
    (1, "cv=1"),
    (True, "cv=True"),
    ("5", "known"),
    (None, "known"),
    (2.5, "known"),
    ([], "folds"),
    ([([0, 1], [2], [3])], "pair"),
    ([3], "pair"),
    ([([0, 1], [500])], "500"),
    ([([0, 1], [-1])], "-1"),
    ([([-3, 1], [2])], "-3"),
    ([([0.5, 1], [2])], "mask"),
    ([([[0, 1]], [2])], "mask"),
    ([([True, False], [2])], "mask"),
    ([([0, 1], [])], "row"),
    (GroupKFold(3), "groups"),
])  # fmt: skip
def test_an_invalid_cv_is_an_error(cv: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make_folds(cv, Y, 0)


def test_folds_need_every_class_in_training_and_held_out_weight() -> None:
    names = np.array(["a", "b", "c"])
    without = make_folds([(np.flatnonzero(Y > 0), [0])], Y, 0)
    with pytest.raises(ValueError, match="'a'"):
        check_folds(without, 7, Y, names, None)
    weightless = make_folds([(np.arange(9), [9, 10, 11])], Y, 0)
    check_folds(weightless, 7, Y, names, None)
    with pytest.raises(ValueError, match="row"):
        check_folds(weightless, 7, Y, names, (np.arange(12) < 9).astype(float))


def test_cross_fitting_needs_every_row_held_out_once() -> None:
    for cv in ([(np.arange(6, 12), np.arange(6))], [(np.arange(12), np.arange(12))] * 2):
        with pytest.raises(ValueError, match="cross_fit"):
            fold_numbers(make_folds(cv, Y, 0), 12)
