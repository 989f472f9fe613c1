"""Amounts in two notations: a cell is read as its writer meant it, or it is missing and named; never a wrong number."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables import Table, TableReadSpec, read_table
from genlabel.data.tables.columns import convert_columns, plan_columns
from genlabel.data.tables.parse_values import parse_numbers

VALUES = [float(v) for v in np.random.default_rng(0).lognormal(6, 2, 60).round(2)]


def point(value: float) -> str:
    return f"{value:,.2f}"


def comma(value: float) -> str:
    return point(value).translate(str.maketrans(",.", ".,"))


def point_percent(value: float) -> str:
    return f"{100 * value:.0f}%"


STYLES = {"point": point, "comma": comma, "percent": point_percent}
ODD = {
    "point": {"1.234,56": 1234.56, "12,34": 12.34, "0,290": 0.29, "1.234.567": 1234567.0, "12%": 0.12},
    "comma": {"1,234.56": 1234.56, "12.34": 12.34, "0.290": 0.29, "1,234,567": 1234567.0, "12 %": 0.12},
    "percent": {"12": 12.0, "0.5": 0.5},
}


def frame_of(style: str, odd: dict[int, str]) -> pd.DataFrame:
    texts = [STYLES[style](value) for value in VALUES]
    return pd.DataFrame({"amount": [odd.get(i, text) for i, text in enumerate(texts)]})


@pytest.mark.parametrize("style", STYLES)
def test_a_cell_that_contradicts_its_column_is_missing_and_named(style: str) -> None:
    odd = {7 * (i + 1): text for i, text in enumerate(ODD[style])}
    notes: list[str] = []
    frame = frame_of(style, odd)
    plan = plan_columns(frame)
    numbers = convert_columns(frame, plan, notes)["amount"]
    assert numbers.isna().to_numpy().nonzero()[0].tolist() == list(odd)
    expected = pd.Series(VALUES).round(2 if style != "percent" else 12).drop(list(odd))
    np.testing.assert_allclose(numbers.drop(list(odd)), expected, atol=0.005 + 1e-9)
    assert [note for note in notes if all(f"{text!r} in row {row}" in note for row, text in list(odd.items())[:3])]


@pytest.mark.parametrize("style", STYLES)
def test_new_rows_are_read_in_the_notation_of_training(style: str) -> None:
    spec = TableReadSpec.of(table_of(frame_of(style, {})))
    for text, value in ODD[style].items():
        for rows in ([text], [text, STYLES[style](1234.5)]):
            notes: list[str] = []
            number = spec.features_of(pd.DataFrame({"amount": rows}), notes)["amount"].iloc[0]
            assert np.isnan(number) or number == pytest.approx(value)
            assert any(f"{text!r} in row 0" in note for note in notes), (text, notes)


def table_of(frame: pd.DataFrame) -> Table:
    plan, y = plan_columns(frame), pd.Series(["no", "yes"] * 30, name="paid")
    return Table("t", convert_columns(frame, plan), y, columns=plan)


@pytest.mark.parametrize("trained, text, value", [("comma", "1.234", 1234.0), ("point", "1,234", 1234.0)])
def test_an_ambiguous_cell_has_the_notation_of_training(trained: str, text: str, value: float) -> None:
    spec = TableReadSpec.of(table_of(frame_of(trained, {})))
    assert spec.features_of(pd.DataFrame({"amount": [text]}))["amount"].tolist() == [value]


FILES = {
    "thousands beside decimal commas": (
        "a;b\n1.234;0,5\n2.500;0,7\n12.000;1,5\n1.100;1,5\n",
        [1234, 2500, 12000, 1100],
    ),
    "one point in a file of commas": ("a;b\n1,250;0,5\n2,500;0,7\n0,125;1.5\n1,100;1,5\n", [1.25, 2.5, 0.125, 1.1]),
    "three decimals": ("a;b\n-0,290;x\n0,418;y\n1,102;x\n2,250;y\n", [-0.29, 0.418, 1.102, 2.25]),
    "quoted commas": ('a,b\n"0,5",x\n"1,25",y\n"1.250,5",x\n"2,5",y\n', [0.5, 1.25, 1250.5, 2.5]),
    "points": ("a;b\n1.234;u\n2.500;v\n12.000;u\n1.100;v\n", [1.234, 2.5, 12.0, 1.1]),
}


@pytest.mark.parametrize("name", FILES)
def test_the_notation_of_a_file_decides_what_its_cells_leave_open(name: str, tmp_path: Path) -> None:
    text, expected = FILES[name]
    separator = ";" if ";" in text else ","
    header, *lines = text.splitlines()
    labels = ["label", *["no", "yes"] * 2]
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join(f"{line}{separator}{label}" for line, label in zip([header, *lines], labels, strict=True))
    )
    table = read_table(path, "label")
    assert table.X["a"].tolist() == expected
    spec = TableReadSpec.of(table)
    for line, value in zip(lines, expected, strict=True):  # a row by itself is read as in the whole file
        path.write_text(f"{header}\n{line}\n")
        assert spec.features_of(spec.read(path))["a"].tolist() == [value]


def test_rows_of_a_note_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    texts = [comma(value) for value in VALUES]
    texts[9] = "12.34"
    lines = [f"{text};{'' if i < 5 else 'no' if i % 2 else 'yes'}" for i, text in enumerate(texts)]
    path.write_text("\n".join(["amount;label", *lines]))
    table = read_table(path, "label")
    assert [note for note in table.notes if "'12.34' in row 9" in note]
    assert len(table.X) == 55
    assert table.X.index.tolist() == list(range(55))


def test_currencies_are_not_mixed_silently() -> None:
    notes: list[str] = []
    frame = pd.DataFrame({"price": ["$5.00", "$7.50", "€6.00"] * 9})
    convert_columns(frame, plan_columns(frame), notes)
    assert [note for note in notes if "'$' in row 0, '€' in row 2" in note]


@pytest.mark.parametrize("text, value", [("1,23,456.50", 123456.5), ("1\u2019234.50", 1234.5), ("R$ 1,000.00", 1000.0)])
def test_thousands_of_other_countries(text: str, value: float) -> None:
    assert parse_numbers(pd.Series([text])).tolist() == [value]


def test_labels_that_contradict_the_notation_of_a_quantity_are_named(tmp_path: Path) -> None:
    path, texts = tmp_path / "t.csv", [comma(value) for value in VALUES]
    texts[4], texts[8] = "1,234.56", "on request"
    path.write_text("\n".join(["x;price", *(f"{i % 7},5;{text}" for i, text in enumerate(texts))]))
    table = read_table(path, "price", bins=2)
    assert [note for note in table.notes if "'1,234.56' in row 4" in note and "'on request' in row 8" in note]
    assert table.rows is not None
    assert table.rows.tolist() == [i for i in range(60) if i not in (4, 8)]
    above = np.array(VALUES)[table.rows] > table.bin_edges[0]
    assert table.y.str.startswith("2").tolist() == above.tolist()
