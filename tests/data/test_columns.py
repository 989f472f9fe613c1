"""Test columns of strings that are numbers, dates and ids, and their conversion in another file."""

import datetime
import json
from collections.abc import Callable
from dataclasses import asdict
from time import process_time

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables.columns import ColumnSpec, convert_columns, plan_columns, why_not_a_feature
from genlabel.data.tables.parse_values import infer_date_format, parse_dates, parse_numbers

VALUES = [float(v) for v in np.random.default_rng(0).uniform(-9_999, 9_999, 50).round(2)]
FORMATTED = {
    "plain": [f"{v}" for v in VALUES],
    "thousands": [f"{v:,.2f}" for v in VALUES],
    "dollars": [f"{'-' * (v < 0)}${abs(v):,.2f}" for v in VALUES],
    "accounts": [f"({abs(v):,.2f})" if v < 0 else f"{v:,.2f}" for v in VALUES],
    "euros after": [f"{v:.2f} €" for v in VALUES],
    "european": [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in VALUES],
    "spaces": [f"{v:,.2f}".replace(",", " ") for v in VALUES],
    "percent": [f"{100 * v:.0f}%" for v in VALUES],
}


@pytest.mark.parametrize("variant", FORMATTED)
def test_amounts_are_parsed(variant: str) -> None:
    np.testing.assert_allclose(parse_numbers(pd.Series(FORMATTED[variant])), VALUES, rtol=1e-12)


@pytest.mark.parametrize("variant", [variant for variant in FORMATTED if variant != "plain"])
def test_a_column_of_amounts_is_noted(variant: str) -> None:
    notes: list[str] = []
    frame = pd.DataFrame({"price": FORMATTED[variant]})
    plan = plan_columns(frame, notes=notes)
    notation = {"european": ",", "percent": ".%"}.get(variant, ".")
    assert plan == [ColumnSpec("price", "amount", ("price",), format=notation)]
    np.testing.assert_allclose(convert_columns(frame, plan)["price"], VALUES, rtol=1e-12)
    alone = [convert_columns(frame[i : i + 1], plan)["price"].item() for i in range(len(frame))]
    assert alone == convert_columns(frame, plan)["price"].tolist()
    assert notes[0].startswith("strings of 'price' were read as numbers, such as ")


@pytest.mark.parametrize("text", ["red", "10-20", "1,2,3", "5 kg", "1.2.3", "", "12%5", "$", "192.168.0.1"])
def test_other_strings_are_not_amounts(text: str) -> None:
    assert parse_numbers(pd.Series([text])).isna().all()


DAYS = pd.date_range("2023-01-05", periods=60, freq="37h").to_series(index=range(60))
FORMATS = {
    "%Y-%m-%d": "ISO8601",
    "%Y-%m-%dT%H:%M:%S": "ISO8601",
    "%Y-%m-%d %H:%M": "ISO8601",
    "%m/%d/%Y": "%m/%d/%Y",
    "%d/%m/%Y": "%d/%m/%Y",
    "%m/%d/%Y %H:%M": "%m/%d/%Y %H:%M",
    "%d.%m.%Y": "%d.%m.%Y",
    "%m/%d/%y": "%m/%d/%y",
    "%Y/%m/%d": "%Y/%m/%d",
    "%d-%b-%Y": "%d-%b-%Y",
    "%d %b %Y": "%d-%b-%Y",
    "%b %d, %Y": "%b %d, %Y",
}


@pytest.mark.parametrize("date_style", FORMATS)
def test_dates_of_each_format_are_parsed(date_style: str) -> None:
    text = DAYS.dt.strftime(date_style).copy()
    text[3] = None
    date_format = infer_date_format(text)
    dates = parse_dates(text, date_format)
    plan = plan_columns(text.to_frame("t"))
    alone = [convert_columns(text[i : i + 1].to_frame("t"), plan)["t (day)"].item() for i in (0, 1, 2)]
    assert alone == convert_columns(text.to_frame("t"), plan)["t (day)"].tolist()[:3]
    assert not np.isnan(alone).any()
    assert date_format == FORMATS[date_style]
    expected = pd.to_datetime(DAYS.dt.strftime(date_style), format=date_style)
    assert (dates.drop(3) == expected.drop(3)).all()
    assert pd.isna(dates[3])


def test_ambiguous_day_and_month_are_noted() -> None:
    frame = pd.DataFrame({"when": [f"{m:02}/{d:02}/2024" for m in range(1, 13) for d in range(1, 13)]})
    notes: list[str] = []
    plan = plan_columns(frame, notes=notes)
    assert plan[0].format == "%m/%d/%Y?"
    assert "month first" in notes[0]
    assert convert_columns(frame, plan)["when (month)"].tolist() == [m for m in range(1, 13) for _ in range(12)]


def test_dates_become_their_varying_parts() -> None:
    frame = pd.DataFrame(
        {"t": DAYS.dt.strftime("%Y-%m-%dT%H:%M:%S"), "d": DAYS.dt.date, "u": DAYS.dt.tz_localize("UTC")}
    )
    plan = plan_columns(frame)
    parts = ("day", "month", "weekday", "hour")
    assert plan[0].features == tuple(f"t ({part})" for part in parts)
    assert plan[1].features == ("d (day)", "d (month)", "d (weekday)")
    X = convert_columns(frame, plan)
    np.testing.assert_allclose(X["t (day)"], DAYS.astype("datetime64[s]").astype("int64") / 86_400)
    assert X["t (weekday)"].tolist() == [day.weekday() for day in DAYS]
    assert X["t (hour)"].tolist() == X["u (hour)"].tolist() == [day.hour for day in DAYS]
    assert X.isna().sum().sum() == 0


def test_durations_and_times_of_day_are_days() -> None:
    spans = pd.Series(pd.to_timedelta([6, 12, 36], "h"))
    frame = pd.DataFrame({"span": spans, "clock": [datetime.time(6), datetime.time(12), None]})
    X = convert_columns(frame, plan_columns(frame))
    assert X["span"].tolist() == [0.25, 0.5, 1.5]
    assert X["clock"].tolist()[:2] == [0.25, 0.5]


def test_feature_names_are_unique() -> None:
    frame = pd.DataFrame({"t": ["2024-01-01", "2024-03-05"], "t (day)": [1.5, 2.5]})
    X = convert_columns(frame, plan_columns(frame))
    assert X["t (day)"].tolist() == [1.5, 2.5]
    assert X.columns.is_unique
    assert np.diff(X["t (day)'"]).tolist() == [64.0]


def test_column_specs_are_plain_and_convert_another_file() -> None:
    frame = pd.DataFrame({"price": FORMATTED["dollars"], "t": DAYS[:50].dt.strftime("%m/%d/%Y"), "c": ["u", "v"] * 25})
    saved = json.loads(json.dumps([asdict(column) for column in plan_columns(frame)]))
    plan = [ColumnSpec(**{**column, "features": tuple(column["features"])}) for column in saved]
    assert plan == plan_columns(frame)
    notes: list[str] = []
    X = convert_columns(pd.DataFrame({"c": ["w"], "t": ["02/01/2024"], "price": ["n. a."]}), plan, notes)
    assert X.columns.tolist() == convert_columns(frame, plan).columns.tolist()
    assert X["t (month)"].tolist() == [2.0]
    assert np.isnan(X["price"][0])
    assert [note for note in notes if "'price'" in note and "'n. a.' in row 0" in note] == notes


def test_strings_instead_of_typed_dates_and_durations() -> None:
    typed = pd.DataFrame(
        {"day": pd.date_range("2024-05-30", periods=3), "span": pd.to_timedelta([1, 2, 3], "D"), "of": [1.5, 2.5, 3.5]}
    )
    plan = plan_columns(typed)
    texts = pd.DataFrame(
        {"day": ["2024-05-31", "junk", None], "span": ["2 days", "junk", None], "of": ["2", "junk", ""]}
    )
    notes: list[str] = []
    result = convert_columns(texts, plan, notes)
    assert result["day (day)"].tolist()[0] == convert_columns(typed, plan)["day (day)"].tolist()[1]
    assert result["span"].tolist()[0] == 2.0
    assert result.iloc[1:].isna().all().all()
    assert [note.split(" that are not ")[0] for note in notes] == [
        "values of 'day'",
        "values of 'span'",
        "values of 'of'",
    ]


def test_force_include_keeps_columns() -> None:
    frame = pd.DataFrame({"code": [f"u{i}" for i in range(60)], "one": ["same"] * 60, "none": [None] * 60})
    assert [column.features for column in plan_columns(frame)] == [(), (), ()]
    saved = plan_columns(frame, force_include=["code", "one", "none"])
    assert [column.features for column in saved] == [("code",), ("one",), ()]


def test_a_note_about_infinite_values_names_their_column() -> None:
    for values in ([1.0, np.inf, 2.0], ["1", "inf", "2"]):
        frame, notes = pd.DataFrame({"wild": values}), list[str]()
        converted = convert_columns(frame, plan_columns(frame), notes)
        assert converted["wild"].isna().tolist() == [False, True, False]
        assert [note for note in notes if "'wild'" in note and "infinite" in note]


@pytest.mark.parametrize(
    "repeated, once, left_out",
    [(0, 60, True), (40, 60, True), (60, 40, False), (500, 217, False), (0, 20, False), (100, 0, False)],
)
def test_a_column_identifies_rows_if_most_values_occur_once(repeated: int, once: int, left_out: bool) -> None:
    values = [f"twice {i // 2}" for i in range(repeated)] + [f"once {i}" for i in range(once)]
    column = pd.Series([*values, *[None] * 900], name="cabin")  # rows without a value say nothing about it
    (spec,) = plan_columns(column.to_frame())
    assert bool(spec.reason) == left_out
    assert bool(why_not_a_feature(column)) == left_out


def seconds(call: Callable[[], object]) -> float:
    """Return the least processor time of three calls."""
    times = []
    for _ in range(3):
        begin = process_time()
        call()
        times.append(process_time() - begin)
    return min(times)


def test_a_plan_of_numbers_costs_as_much_as_counting_them() -> None:
    """Their strings, which nothing needs, took 22 times as long as reading a file of 2,000 columns."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50_000, 8)), columns=list("abcdefgh"))
    assert seconds(lambda: plan_columns(frame)) < 4 * seconds(frame.nunique) + 0.05


def test_each_distinct_string_is_parsed_once() -> None:
    strings = pd.Series(["$1,234", "12%", "red", "(3.5)"] * 50_000)
    assert seconds(lambda: parse_numbers(strings)) < 10 * seconds(strings.astype(str).nunique) + 0.05
    pd.testing.assert_series_equal(parse_numbers(strings[:8]), pd.Series([1234.0, np.nan, np.nan, -3.5] * 2))


def test_strings_of_which_a_sample_is_no_number_may_have_numbers_elsewhere() -> None:
    """A tenth of the values may be words, wherever they stand."""
    frame = pd.DataFrame({"words first": ["n.k."] * 100 + [f"${v}" for v in range(900)], "text": ["u", "v"] * 500})
    assert [column.kind for column in plan_columns(frame)] == ["amount", "text"]
