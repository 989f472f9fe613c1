"""The last sections: the table itself, and the settings and the command that make the report again."""

from __future__ import annotations

import pandas as pd

from genlabel.data.tables.columns import kind_of
from genlabel.evaluation.records.run import software_versions
from genlabel.reporting.charts import Bar, draw_bars
from genlabel.reporting.figures import GRAY, PALETTE, new_figure
from genlabel.reporting.html import DataTable, TableCell
from genlabel.reporting.report.data import Block, Chart, Code, ReportData, ReportSection
from genlabel.reporting.words import count_of, name_of, percent

MAX_BARS, MAX_COLUMNS = 24, 300


def table_section(data: ReportData) -> ReportSection:
    """Return the section on the table: notes and leaks, classes, columns."""
    notes: Block = list(dict.fromkeys(data.notes)) or "There are no notes: no column was left out, no value changed."
    return ReportSection("table", "What was found in the table", [notes, _class_chart(data), _column_table(data)])


def settings_section(data: ReportData, json_name: str) -> ReportSection:
    """Return the section with the command, settings and versions."""
    facts = {name: value for name, value in data.settings.items() if value}
    if data.diagnosis is not None:
        settings = [f"{name.replace('_', ' ')} {value}" for name, value in data.diagnosis.settings.items()]
        facts["diagnosis"] = ", ".join(settings)
    facts["versions"] = ", ".join(f"{name} {number}" for name, number in software_versions().items())
    facts["values"] = f"all of them are in {json_name}, in the folder of this page"
    command: list[Block] = ["The command that made this page:", Code(data.command)] if data.command else []
    return ReportSection("repeat", "Settings and how to repeat it", [*command, facts])


def _class_chart(data: ReportData) -> Chart:
    counts = data.table.y.value_counts()
    k, n, largest, smallest = len(counts), int(counts.sum()), counts.index[0], counts.index[-1]
    bars = [
        Bar(str(name), float(number), f"{number:,} ({percent(number / n)})", PALETTE[0])
        for name, number in counts.head(MAX_BARS).items()
    ]
    if k > MAX_BARS:
        rest = int(counts.iloc[MAX_BARS:].sum())
        bars.append(Bar(f"{k - MAX_BARS} other classes", float(rest), f"{rest:,} ({percent(rest / n)})", GRAY))
    ratio = counts.iloc[0] / counts.iloc[-1]
    caption = (
        f"{count_of(k, 'class')}, {count_of(n, 'row')}: the largest, {name_of(largest)}, has "
        f"{percent(counts.iloc[0] / n)} of the rows, "
    )
    caption += (
        "and all have about as many."
        if ratio < 1.05
        else f"{ratio:.1f} times as many as the smallest, {name_of(smallest)}."
    )
    figure = new_figure(7.2, 0.9 + 0.27 * len(bars))
    draw_bars(figure.subplots(), bars, "rows")
    return Chart(figure, "Rows of each class", caption)


def _column_table(data: ReportData) -> DataTable:
    table = data.table
    rows: list[list[str | TableCell]] = [
        [
            column.name,
            column.kind,
            ", ".join(name for name in column.features if name in table.X) or "left out",
            *_missing_and_distinct(table.X, column.features),
            column.reason,
        ]
        for column in table.columns[:MAX_COLUMNS]
    ] or [
        [str(name), kind_of(table.X[name]), str(name), *_missing_and_distinct(table.X, (name,)), ""]
        for name in table.X.columns[:MAX_COLUMNS]
    ]
    more = len(table.columns or table.X.columns) - MAX_COLUMNS
    caption = f"Columns{f', the first {MAX_COLUMNS}; {more} more are in the JSON file' if more > 0 else ''}"
    head = ["column", "kind", "features", "missing", "distinct", "why it is left out"]
    return DataTable(caption, head, rows, words=[2, 5])


def _missing_and_distinct(X: pd.DataFrame, names: tuple[object, ...]) -> list[TableCell]:
    """Return the share of missing values and the number of distinct ones of the first feature of a column."""
    present = [name for name in names if name in X]
    if not present:
        return [TableCell(""), TableCell("")]
    column = X[present[0]]
    missing, distinct = float(column.isna().mean()), int(column.nunique())
    return [TableCell(percent(missing) if missing else "0", missing), TableCell(f"{distinct:,}", distinct)]
