"""Values that may be mistakes: strings among numbers or dates, numbers for missing values, capitals, encodings."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables.columns import convert_columns, plan_columns
from genlabel.data.tables.files import read_frame
from genlabel.data.tables.parse_values import PLACEHOLDERS, parse_numbers
from genlabel.data.tables.targets import read_target

N = 100
NUMBERS = [f"{value:.3f}" for value in np.random.default_rng(0).normal(size=N)]
DATES = pd.date_range("2023-01-05", periods=N, freq="37h").strftime("%Y-%m-%d").tolist()


def with_gaps(values: list[str], gaps: list[str], share: float) -> pd.Series:
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(N)[: round(share * N)])
    return pd.Series([gaps[i % len(gaps)] if i in rows else value for i, value in enumerate(values)], name="odd")


@pytest.mark.parametrize("values, kind", [(NUMBERS, "amount"), (DATES, "date")])
def test_placeholders_among_numbers_and_dates_are_missing_values(values: list[str], kind: str) -> None:
    for gap in sorted(PLACEHOLDERS):
        share = 0.1 + 0.13 * (len(gap) % 4)
        column, notes = with_gaps(values, [gap, gap.upper()], share), list[str]()
        (spec,) = plan_columns(column.to_frame())
        assert (gap, spec.kind, bool(spec.features)) == (gap, kind, True)
        first = convert_columns(column.to_frame(), [spec], notes).iloc[:, 0]
        assert first.isna().tolist() == column.isin([gap, gap.upper()]).tolist()
        assert [note for note in notes if "'odd'" in note and str(int(first.isna().sum())) in note]


@pytest.mark.parametrize("values", [["-", "+"], ["?", "1"], ["-", "--", "red"], ["unknown", "1", "unknown"]])
def test_placeholders_in_text_are_categories(values: list[str]) -> None:
    column = pd.Series(values * 30, name="sign")
    (spec,) = plan_columns(column.to_frame())
    assert (spec.kind, spec.features) == ("text", ("sign",))


@pytest.mark.parametrize(
    "values, odd, remedy",
    [
        (NUMBERS, ["on request", "see below"], "--na-values='on request' --na-values='see below'"),
        (NUMBERS, ["0,5", "1,25"], "decimal points"),
        (DATES, ["May 31", "June 1"], "dates"),
        (DATES, ["31.05.2023", "May 31, 2023"], "dates"),
        ([f"{value} kg" for value in NUMBERS], ["heavy", "light"], "unit"),
    ],
)
def test_a_note_says_which_strings_make_a_column_text(values: list[str], odd: list[str], remedy: str) -> None:
    column, notes = with_gaps(values, odd, 0.3), list[str]()
    (spec,) = plan_columns(column.to_frame(), notes=notes)
    assert (spec.kind, spec.features) == ("text", ())
    first = column.isin(odd).to_numpy().nonzero()[0][0]
    assert [
        note for note in notes if "'odd'" in note and f"{column[first]!r} in row {first}" in note and remedy in note
    ]


@pytest.mark.parametrize("values", [["red", "blue"] * 50, [f"name {i}" for i in range(N)], ["1", "2", "A", "B"] * 25])
def test_other_text_columns_have_no_such_note(values: list[str]) -> None:
    notes: list[str] = []
    plan_columns(pd.DataFrame({"c": values}), notes=notes)
    assert not [note for note in notes if "is text" in note]


@pytest.mark.parametrize("value", [-999, 9999, -99.0, 99998])
@pytest.mark.parametrize("rows, is_told", [([5, 9], True), ([5], False)])
def test_a_number_that_stands_for_missing_values_is_told(value: float, rows: list[int], is_told: bool) -> None:
    column, notes = pd.Series([float(number) for number in NUMBERS], name="depth"), list[str]()
    column[rows] = value
    plan_columns(column.to_frame(), notes=notes)
    assert [f"--na-values={value:g}" in note and "'depth'" in note for note in notes] == [True] * is_told
    plan_columns(column.where(column != value, 1.5).to_frame(), notes=(usual := []))
    assert usual == []


def test_values_that_differ_only_in_capitals_are_told() -> None:
    notes: list[str] = []
    plan_columns(pd.DataFrame({"c": ["red", "Red ", "blue"] * 9, "d": ["u", "v", "w"] * 9}), notes=notes)
    assert [("'c'" in note, "'red', 'Red'" in note) for note in notes] == [(True, True)]


def test_classes_that_are_one_number_or_stand_for_none_are_told() -> None:
    notes: list[str] = []
    y = read_target(pd.Series(["1", "1.0", "01", "0", "?"] * 9, name="y"), "t.csv", notes=notes)
    assert y.nunique() == 5
    assert [note for note in notes if "'01', '1', '1.0'" in note]
    assert [note for note in notes if "--na-values='?'" in note and "9 rows" in note]


def test_a_file_in_two_encodings_is_told(tmp_path: Path) -> None:
    for encodings in itertools.product(["utf-8", "cp1252"], repeat=2):
        content = b"".join("caf\u00e9,1\n".encode(encoding) for encoding in encodings)
        (tmp_path / "t.csv").write_bytes(b"a,b\n" + content)
        read_frame(tmp_path / "t.csv", notes=(notes := []))
        assert bool([note for note in notes if "UTF-8" in note]) == (len(set(encodings)) > 1)


@pytest.mark.parametrize("text, value", [("3.11-", -3.11), ("\u22123.11", -3.11), ("31-", -31.0), ("3-4", None)])
def test_minus_signs_of_other_programs(text: str, value: float | None) -> None:
    number = parse_numbers(pd.Series([text])).item()
    assert number == value or (value is None and np.isnan(number))
