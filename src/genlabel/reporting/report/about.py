"""The last sections: what was found in the table, and what it takes to do all of this again."""

from __future__ import annotations

import pandas as pd

from genlabel.data.tables import kind_of
from genlabel.evaluation.records import software_versions
from genlabel.reporting.blocks import data_table, facts, figure, item_list
from genlabel.reporting.charts import Bar, bar_chart
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, element
from genlabel.reporting.report.given import ReportData, ReportSection, count, name_of, percent

BARS = 24
"""Classes that have a bar."""
MOST_COLUMNS = 300


def table_part(given: ReportData) -> ReportSection:
    """Return the section on the table: notes and leaks, classes, columns."""
    notes = list(dict.fromkeys(given.notes))
    found = (
        [item_list(notes)] if notes else [element("p", "Nothing was noted: no column was left out, no value changed.")]
    )
    return ReportSection("table", "What was found in the table", [*found, _classes(given), _columns(given)])


def repeat_part(given: ReportData, data: str) -> ReportSection:
    """Return the section with settings, versions and the command."""
    told = {name: value for name, value in given.settings.items() if value}
    if given.diagnosis is not None:
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in given.diagnosis.settings.items())
        told["diagnosis"] = words
    told["versions"] = ", ".join(f"{name} {number}" for name, number in software_versions().items())
    told["numbers"] = f"all of them are in {data}, beside this page"
    command = [element("p", "The command that made this page:"), element("pre", element("code", given.command))]
    return ReportSection("repeat", "Settings and how to repeat it", [*(command if given.command else []), facts(told)])


def _classes(given: ReportData) -> Markup:
    counts = given.table.y.value_counts()
    n = int(counts.sum())
    bars = [
        Bar(str(name), float(number), f"{number:,} ({percent(number / n)})")
        for name, number in counts.head(BARS).items()
    ]
    if len(counts) > BARS:
        rest = int(counts.iloc[BARS:].sum())
        bars.append(Bar(f"{len(counts) - BARS} other classes", float(rest), f"{rest:,} ({percent(rest / n)})", 7))
    ratio = counts.iloc[0] / counts.iloc[-1]
    largest = f"the largest, {name_of(counts.index[0])}, is {percent(counts.iloc[0] / n)}"
    said = f"{count(len(counts), 'class')}, {count(n, 'row')}: {largest}"
    alike = f", {ratio:.1f} times as many as the smallest, {name_of(counts.index[-1])}."
    said += ", and all have about as many." if ratio < 1.05 else alike
    return figure(bar_chart("Rows of each class", said, bars, "rows"), said)


def _columns(given: ReportData) -> Markup:
    table = given.table
    rows: list[list[str | Cell]]
    if table.columns:
        rows = [
            [
                column.name,
                column.kind,
                ", ".join(name for name in column.features if name in table.X) or "left out",
                *_filled(table.X, column.features),
                column.reason,
            ]
            for column in table.columns[:MOST_COLUMNS]
        ]
    else:
        rows = [
            [str(name), kind_of(table.X[name]), str(name), *_filled(table.X, (name,)), ""]
            for name in table.X.columns[:MOST_COLUMNS]
        ]
    more = len(table.columns or table.X.columns) - MOST_COLUMNS
    caption = f"Columns{f', the first {MOST_COLUMNS}; {more} more are in the JSON' if more > 0 else ''}"
    return data_table(
        caption, ["column", "kind", "features", "missing", "distinct", "why it is left out"], rows, words=[2, 5]
    )


def _filled(X: pd.DataFrame, names: tuple[object, ...]) -> list[Cell]:
    """The share of missing values and the number of distinct ones of the first feature of a column."""
    known = [name for name in names if name in X]
    if not known:
        return [Cell(""), Cell("")]
    column = X[known[0]]
    missing, distinct = float(column.isna().mean()), int(column.nunique())
    return [Cell(percent(missing) if missing else "0", missing), Cell(f"{distinct:,}", distinct)]
