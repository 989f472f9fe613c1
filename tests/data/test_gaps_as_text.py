"""Columns of numbers or dates with strings for missing values, and notes on columns that are text for few strings."""

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables.columns import convert_columns, plan_columns
from genlabel.data.tables.parse_values import PLACEHOLDERS

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
        (NUMBERS, ["on request", "see below"], "--na-values 'on request' --na-values 'see below'"),
        (NUMBERS, ["0,5", "1,25"], "decimal points"),
        (DATES, ["May 31", "June 1"], "dates"),
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
