"""Leaks: each is found in a table made with it and not without it, with a note that says what to do."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genlabel.data.datasets import load_table
from genlabel.data.datasets.catalog import EMBEDDED
from genlabel.data.tables import Table, drop_leaks, find_leaks, group_duplicates, make_splits, read_table


def leak_free(n: int = 200, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 0.8 * y[:, None]
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(age=rng.integers(18, 90, n), town=rng.choice(list("ab"), n))
    return Table("t", frame, pd.Series(np.where(y, "yes", "no")))


def with_column(name: str, values: object, table: Table | None = None) -> Table:
    table = leak_free() if table is None else table
    return Table("t", table.X.assign(**{name: values}), table.y)


N = 200
RNG = np.random.default_rng(1)
ORDER = np.argsort(leak_free().y.to_numpy(), kind="stable")
RANK = np.empty(N, dtype=int)
RANK[ORDER] = np.arange(1, N + 1)
Y = leak_free().y.to_numpy()
LEAKS = {
    "ids in the order of rows": ("patient", np.arange(1, N + 1), "row numbers"),
    "ids with gaps in the order of rows": ("nr", np.cumsum(RNG.integers(1, 50, N)), "row numbers"),
    "ids in the order of the target": ("patient", RANK, "row numbers"),
    "ids that are called so": ("customer_id", RNG.permutation(10**6)[:N], "row numbers"),
    "ids in camel case": ("customerId", RNG.permutation(10**6)[:N], "row numbers"),
    "floats that are ids": ("key", RNG.permutation(N).astype(float), "row numbers"),
    "an even clock": ("t", np.arange(N) * 0.25 + 3, "rises evenly from row to row"),
    "names of groups": ("patient_id", RNG.integers(0, 60, N), "names 56 groups of rows; --groups 'patient_id'"),
    "a copy of the target": ("code", np.where(Y == "yes", "Y", "N"), "alone gives the class of 100.0 %"),
    "numbers of the target": ("score", np.where(Y == "yes", 3.0, 1.0) + RNG.uniform(0, 1, N), "alone gives the class"),
    "gaps of the target": ("paid", np.where(Y == "yes", RNG.normal(size=N), np.nan), "alone gives the class"),
    "many codes of the target": (
        "kind",
        np.char.add(Y.astype(str), RNG.integers(0, 9, N).astype(str)),
        "alone gives the class",
    ),
}


@pytest.mark.parametrize("case", LEAKS)
def test_leaks_are_dropped_unless_they_are_included(case: str) -> None:
    name, values, why = LEAKS[case]
    table = with_column(name, values)
    clean = drop_leaks(table)
    assert clean.X.columns.tolist() == leak_free().X.columns.tolist()
    (note,) = clean.notes
    assert note.startswith(f"left out column {name!r}: it")
    assert why in note
    assert note.endswith(f"(--force-include {name!r} uses it)")
    saved = drop_leaks(table, force_include=[name])
    assert saved.X.columns.tolist() == table.X.columns.tolist()
    assert saved.notes[0].startswith(f"kept column {name!r}, as requested: ")


def test_column_names_may_be_integers() -> None:
    X = with_column("patient", np.arange(N)).X
    clean = drop_leaks(Table("t", X.set_axis(range(6), axis=1), pd.Series(Y)))
    assert clean.X.columns.tolist() == [0, 1, 2, 3, 4]


def test_a_table_without_leaks_is_unchanged() -> None:
    for seed in range(5):
        table = leak_free(seed=seed)
        clean = drop_leaks(table)
        assert clean.notes == []
        assert clean.groups is None
        pd.testing.assert_frame_equal(clean.X, table.X)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_built_in_tables_keep_their_columns(name: str) -> None:
    assert [leak for leak in find_leaks(load_table(name)) if leak.dropped] == []


def test_a_strong_feature_is_no_leak() -> None:
    rng = np.random.default_rng(0)
    strong = np.where(Y == "yes", 1.0, -1.0) + rng.normal(size=N) * 0.6
    accuracy = ((strong > 0) == (Y == "yes")).mean()
    assert 0.9 < accuracy < 0.99
    assert find_leaks(with_column("marker", strong)) == []


def test_among_few_rows_a_quantity_is_no_leak_but_a_code_is() -> None:
    few = Y[:10].tolist() + ["yes"] * 5 + ["no"] * 9
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=24), "marker": (np.array(few) == "yes") * 4.0 + rng.uniform(size=24)})
    assert 5 <= min(few.count("yes"), few.count("no")) < 10
    assert find_leaks(Table("t", X, pd.Series(few))) == []
    coded = X.assign(code=np.where(np.array(few) == "yes", "A7", "B2"))
    assert [leak.column for leak in find_leaks(Table("t", coded, pd.Series(few)))] == ["code"]


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_the_unit_of_a_column_does_not_matter(scale: float) -> None:
    table = leak_free()
    small = drop_leaks(Table("t", table.X.assign(u=table.X["u"] * scale), table.y))
    assert small.notes == []
    assert "u" in small.X
    name, values, why = LEAKS["numbers of the target"]
    (leak,) = find_leaks(with_column(name, np.asarray(values) * scale))
    assert leak.column == name
    assert why in leak.reason


def test_the_only_column_is_kept() -> None:
    table = Table("t", pd.DataFrame({"code": np.where(Y == "yes", 1.5, 0.5)}), pd.Series(Y))
    clean = drop_leaks(table)
    assert clean.X.columns.tolist() == ["code"]
    assert clean.notes[0].startswith("kept column 'code', because no column would be left: it alone gives the class")


def test_a_sorted_quantity_is_noted_and_kept() -> None:
    clean = drop_leaks(with_column("income", np.sort(np.random.default_rng(0).lognormal(size=N))))
    assert "income" in clean.X
    (note,) = clean.notes
    assert "the rows are in its order; if that is time, --time 'income' splits by it" in note


def test_runs_of_a_class_are_noted_but_not_a_sorted_table() -> None:
    table = leak_free(400)
    drifting = np.repeat(np.random.default_rng(0).integers(0, 2, 20), 20)
    walked = Table("t", table.X, pd.Series(drifting))
    assert any("neighboring rows tend to have the same class" in note for note in drop_leaks(walked).notes)
    sorted_rows = Table("t", table.X, table.y.sort_values(ignore_index=True))
    assert drop_leaks(sorted_rows).notes == []


def test_equal_rows_are_one_group_and_stay_on_one_side() -> None:
    table = leak_free(120)
    twice = Table(
        "t",
        pd.concat([table.X, table.X[:60]], ignore_index=True),
        pd.concat([table.y, table.y[:60]]).reset_index(drop=True),
    )
    clean = drop_leaks(twice)
    assert clean.notes == ["rows that equal an earlier row: 60; equal rows stay on one side of every split"]
    for train, test in make_splits(clean, 10, 0.3, 0):
        there, here = (set(map(tuple, twice.X.iloc[rows].to_numpy().tolist())) for rows in (train, test))
        assert not there & here
        assert len(test) == pytest.approx(0.3 * 180, abs=3)


def test_equal_rows_among_few_values_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (300, 3)), columns=list("abc"))
    table = group_duplicates(Table("t", X, X["a"].rename("y")))
    assert table.groups is None
    assert table.notes[0].startswith("rows that equal an earlier row: 292; with so few values 292 are equal by chance")


def test_equal_rows_of_other_classes_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(40, 3)).round(2)
    X = pd.DataFrame(cells[rng.integers(0, 40, 300)], columns=list("abc"))
    table = group_duplicates(Table("t", X, pd.Series(rng.integers(0, 3, 300))))
    assert table.groups is None
    assert "have another class" in table.notes[0]


def test_rank_columns_are_not_row_ids() -> None:
    rng = np.random.default_rng(0)
    ranks = {f"r{i}": rng.permutation(N) for i in range(3)}
    table = Table("t", leak_free().X.assign(**ranks), pd.Series(Y))
    assert find_leaks(table) == []
    assert [leak.column for leak in find_leaks(Table("t", table.X.drop(columns="r2"), table.y))] == ["r0", "r1"]


def test_names_in_the_order_of_the_target_do_not_give_it() -> None:
    names = np.empty(N, dtype=object)
    names[ORDER] = [f"firm {i}" for i in range(N)]
    assert [leak.column for leak in find_leaks(with_column("firm", names))] == []


def test_missing_values_and_texts_are_equal_to_themselves() -> None:
    X = pd.DataFrame(
        {"a": [1.5, 1.5, np.nan, np.nan, 7.5], "b": ["u", "u", None, None, "w"], "c": [0.1, 0.1, 0.3, 0.3, 0.5]}
    )
    groups = group_duplicates(Table("t", X, pd.Series(list("aaabb")))).groups
    assert groups is not None
    assert groups.tolist() == [0, 0, 1, 1, 2]


def test_a_daily_date_is_left_out_by_the_name_of_its_column(tmp_path: Path) -> None:
    table = leak_free()
    days = pd.date_range("2023-01-01", periods=N).strftime("%m/%d/%Y")
    table.X.assign(when=days, y=table.y).to_csv(tmp_path / "t.csv", index=False)
    read = read_table(tmp_path / "t.csv", "y")
    clean = drop_leaks(read)
    assert "when (day)" not in clean.X
    assert "when (weekday)" in clean.X
    assert any("--time 'when' splits by it" in note for note in clean.notes)
    assert "when (day)" in drop_leaks(read, force_include=["when"]).X
