"""Test leaks: a column that leaks is reported with a note, and other columns are not."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

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
    "an even clock": ("t", np.arange(N) * 0.25 + 3, "evenly"),
    "names of groups": ("patient_id", RNG.integers(0, 60, N), "--groups 'patient_id'"),
    "a copy of the target": ("code", np.where(Y == "yes", "Y", "N"), "100.0 %"),
    "numbers of the target": ("score", np.where(Y == "yes", 3.0, 1.0) + RNG.uniform(0, 1, N), "alone"),
    "gaps of the target": ("paid", np.where(Y == "yes", RNG.normal(size=N), np.nan), "alone"),
    "many codes of the target": (
        "kind",
        np.char.add(Y.astype(str), RNG.integers(0, 9, N).astype(str)),
        "alone",
    ),
}


@pytest.mark.parametrize("case", LEAKS)
def test_leaks_are_dropped_unless_they_are_included(case: str) -> None:
    name, values, reason = LEAKS[case]
    table = with_column(name, values)
    clean = drop_leaks(table)
    assert clean.X.columns.tolist() == leak_free().X.columns.tolist()
    (note,) = clean.notes
    assert note.startswith(f"left out column {name!r}: it")
    assert reason in note
    assert note.endswith(f"(--force-include {name!r} uses it)")
    forced = drop_leaks(table, force_include=[name])
    assert forced.X.columns.tolist() == table.X.columns.tolist()
    assert forced.notes[0].startswith(f"kept column {name!r}")


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


def test_a_strong_feature_is_not_a_leak() -> None:
    rng = np.random.default_rng(0)
    strong = np.where(Y == "yes", 1.0, -1.0) + rng.normal(size=N) * 0.6
    accuracy = ((strong > 0) == (Y == "yes")).mean()
    assert 0.9 < accuracy < 0.99
    assert find_leaks(with_column("marker", strong)) == []


def test_among_few_rows_only_codes_are_leaks() -> None:
    labels = Y[:10].tolist() + ["yes"] * 5 + ["no"] * 9
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=24), "marker": (np.array(labels) == "yes") * 4.0 + rng.uniform(size=24)})
    assert 5 <= min(labels.count("yes"), labels.count("no")) < 10
    assert find_leaks(Table("t", X, pd.Series(labels))) == []
    coded = X.assign(code=np.where(np.array(labels) == "yes", "A7", "B2"))
    assert [leak.column for leak in find_leaks(Table("t", coded, pd.Series(labels)))] == ["code"]


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_leaks_do_not_depend_on_the_unit_of_a_column(scale: float) -> None:
    table = leak_free()
    scaled = drop_leaks(Table("t", table.X.assign(u=table.X["u"] * scale), table.y))
    assert scaled.notes == []
    assert "u" in scaled.X
    name, values, reason = LEAKS["numbers of the target"]
    (leak,) = find_leaks(with_column(name, np.asarray(values) * scale))
    assert leak.column == name
    assert reason in leak.reason


def test_the_only_column_is_kept() -> None:
    table = Table("t", pd.DataFrame({"code": np.where(Y == "yes", 1.5, 0.5)}), pd.Series(Y))
    clean = drop_leaks(table)
    assert clean.X.columns.tolist() == ["code"]
    assert clean.notes[0].startswith("kept column 'code'")


def test_a_sorted_quantity_is_noted_and_kept() -> None:
    clean = drop_leaks(with_column("income", np.sort(np.random.default_rng(0).lognormal(size=N))))
    assert "income" in clean.X
    (note,) = clean.notes
    assert "--time 'income'" in note


def test_runs_of_a_class_are_noted_but_not_a_sorted_table() -> None:
    table = leak_free(400)
    drifting = np.repeat(np.random.default_rng(0).integers(0, 2, 20), 20)
    walked = Table("t", table.X, pd.Series(drifting))
    assert any("neighboring" in note for note in drop_leaks(walked).notes)
    sorted_rows = Table("t", table.X, table.y.sort_values(ignore_index=True))
    assert drop_leaks(sorted_rows).notes == []


def test_equal_rows_stay_on_one_side() -> None:
    table = leak_free(120)
    twice = Table(
        "t",
        pd.concat([table.X, table.X[:60]], ignore_index=True),
        pd.concat([table.y, table.y[:60]]).reset_index(drop=True),
    )
    clean = drop_leaks(twice)
    assert clean.notes == ["rows that equal an earlier row: 60; equal rows stay on one side of every split"]
    for train, test in make_splits(clean, 10, 0.3, 0):
        train_rows, test_rows = (set(map(tuple, twice.X.iloc[rows].to_numpy().tolist())) for rows in (train, test))
        assert not train_rows & test_rows
        assert len(test) == pytest.approx(0.3 * 180, abs=3)


def test_equal_rows_by_chance_are_not_copies() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (300, 3)), columns=list("abc"))
    table = group_duplicates(Table("t", X, X["a"].rename("y")))
    assert table.groups is None
    assert table.notes[0].startswith("rows that equal an earlier row: 292;")


def test_equal_rows_of_other_classes_are_not_copies() -> None:
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(40, 3)).round(2)
    X = pd.DataFrame(cells[rng.integers(0, 40, 300)], columns=list("abc"))
    table = group_duplicates(Table("t", X, pd.Series(rng.integers(0, 3, 300))))
    assert table.groups is None
    assert "another class" in table.notes[0]


def test_rank_columns_are_not_row_ids() -> None:
    rng = np.random.default_rng(0)
    ranks = {f"r{i}": rng.permutation(N) for i in range(3)}
    table = Table("t", leak_free().X.assign(**ranks), pd.Series(Y))
    assert find_leaks(table) == []
    assert [leak.column for leak in find_leaks(Table("t", table.X.drop(columns="r2"), table.y))] == ["r0", "r1"]


def test_names_in_the_order_of_the_target_are_not_a_leak() -> None:
    names = np.empty(N, dtype=object)
    names[ORDER] = [f"firm {i}" for i in range(N)]
    assert [leak.column for leak in find_leaks(with_column("firm", names))] == []


def test_missing_values_and_strings_are_equal_to_themselves() -> None:
    X = pd.DataFrame(
        {"a": [1.5, 1.5, np.nan, np.nan, 7.5], "b": ["u", "u", None, None, "w"], "c": [0.1, 0.1, 0.3, 0.3, 0.5]}
    )
    groups = group_duplicates(Table("t", X, pd.Series(list("aaabb")))).groups
    assert groups is not None
    assert groups.tolist() == [0, 0, 1, 1, 2]


def afterwards(n: int = 300) -> Table:
    """A table as that of the Titanic: boats of nearly all survivors, and bodies of some others."""
    rng = np.random.default_rng(3)
    table = leak_free(n, seed=3)
    lived = (table.y == "yes").to_numpy()
    boat = np.where(lived ^ (rng.random(n) < 0.02), rng.choice(list("ABCD"), n), None)
    body = np.where(~lived & (rng.random(n) < 0.3), rng.permutation(n) / 7, np.nan)
    return Table("t", table.X.assign(boat=boat, body=body), table.y)


def test_columns_that_may_be_known_only_afterwards_are_asked_about_with_their_effect() -> None:
    table = afterwards()
    assert [leak.column for leak in find_leaks(table) if leak.question] == ["boat", "body"]
    clean = drop_leaks(table)
    assert clean.X.columns.tolist() == table.X.columns.tolist()
    for name, gain in (("boat", 0.05), ("body", -0.05)):
        (note,) = [note for note in clean.notes if note.startswith(f"column {name!r}")]
        assert "?" in note
        assert f"--drop {name!r}" in note
        effect = note.split("a random forest is right on")[1]
        with_it, without = (float(share) / 100 for share in re.findall(r"(\d+\.\d) %", effect))
        numbers = table.X[["u", "v", "w", "age"]].to_numpy()
        forest = cross_val_score(RandomForestClassifier(50, random_state=0), numbers, table.y, cv=3).mean()
        assert without == pytest.approx(forest, abs=0.06)
        assert with_it > without + gain
    forced = drop_leaks(table, force_include=["boat", "body"]).notes
    assert [note.split(",")[0] for note in forced] == ["kept column 'boat'", "kept column 'body'"]
    one = Table("t", table.X.drop(columns="boat"), table.y)
    assert [note.split(":")[0] for note in drop_leaks(one).notes] == ["column 'body'"]


def test_columns_with_the_same_gaps_make_one_note() -> None:
    table = afterwards()
    for name in ("weight", "height"):
        table.X[name] = np.where(table.X["body"].isna(), np.nan, np.random.default_rng(0).normal(size=300))
    (note,) = [note for note in drop_leaks(table).notes if note.startswith("columns")]
    assert all(f"--drop {name!r}" in note for name in ("body", "weight", "height"))


def test_gaps_of_one_class_of_many_are_asked_about() -> None:
    rng = np.random.default_rng(0)
    y = pd.Series(rng.choice(list("abcdef"), 600))
    cause = np.where(rng.random(600) < np.where(y == "c", 0.97, 0.02), rng.choice(list("uvw"), 600), None)
    X = pd.DataFrame({"u": rng.normal(size=600), "cause": cause})
    assert [(leak.column, leak.question) for leak in find_leaks(Table("t", X, y))] == [("cause", True)]


@pytest.mark.parametrize("rows, asked", [(19, False), (25, True)])
@pytest.mark.parametrize("missing", [True, False])
def test_gaps_of_one_class_are_asked_about(rows: int, asked: bool, missing: bool) -> None:
    table = leak_free()
    chosen = np.isin(np.arange(N), np.flatnonzero(table.y == "yes")[:rows])
    values = np.where(chosen == missing, np.nan, np.random.default_rng(0).normal(size=N))
    assert [leak.question for leak in find_leaks(with_column("level", values))] == [True] * asked
    mixed = np.random.default_rng(1).permutation(values)  # the gaps are in rows of both classes
    assert find_leaks(with_column("level", mixed)) == []


def test_a_daily_date_is_left_out_by_the_name_of_its_column(tmp_path: Path) -> None:
    table = leak_free()
    days = pd.date_range("2023-01-01", periods=N).strftime("%m/%d/%Y")
    table.X.assign(when=days, y=table.y).to_csv(tmp_path / "t.csv", index=False)
    read = read_table(tmp_path / "t.csv", "y")
    clean = drop_leaks(read)
    assert "when (day)" not in clean.X
    assert "when (weekday)" in clean.X
    assert any("--time 'when'" in note for note in clean.notes)
    assert "when (day)" in drop_leaks(read, force_include=["when"]).X


@pytest.mark.parametrize("kind", ["gaps", "years"])
def test_a_date_that_tells_the_class_has_one_note_and_leaves_as_a_whole(kind: str, tmp_path: Path) -> None:
    rng, table = np.random.default_rng(0), leak_free()
    yes = (table.y == "yes").to_numpy()
    hours = rng.integers(0, 9000, N) + (0 if kind == "gaps" else 30_000 * yes)
    dates = (pd.Timestamp("2021-01-01") + pd.to_timedelta(hours, "h")).strftime("%Y-%m-%d %H:%M").to_numpy()
    paid = np.where(yes | (rng.random(N) < 0.02), dates, "") if kind == "gaps" else dates
    table.X.assign(paid=paid, y=table.y).to_csv(tmp_path / "t.csv", index=False)
    read = read_table(tmp_path / "t.csv", "y")
    features = [name for name in read.X if name.startswith("paid")]
    assert len(features) == 4
    clean = drop_leaks(read)
    assert [name for name in features if name in clean.X] == (features if kind == "gaps" else [])
    (note,) = [note for note in clean.notes if "paid" in note]
    assert "'paid'" in note
    assert "(day)" not in note
    if kind == "gaps":  # the effect is that of all parts of the date
        without = [float(share) for share in re.findall(r"(\d+\.\d) %", note)][-1]
        other = [name for name in read.X if name not in features and name != "town"]
        forest = cross_val_score(RandomForestClassifier(50, random_state=0), read.X[other], table.y, cv=3).mean()
        assert without / 100 == pytest.approx(forest, abs=0.06)
    assert [name for name in features if name in drop_leaks(read, force_include=["paid"]).X] == features
