"""The report: one HTML file that says whether mixing helps, what to train and how far to trust it, and shows why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel._text import count_of
from genlabel.data.tables import Table
from genlabel.data.tables.columns import ColumnSpec, kind_of
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.paired_experiment import NO_MIXING
from genlabel.evaluation.explanation import Explanation
from genlabel.evaluation.records.run import software_versions
from genlabel.reporting.charts import GRAY, PAGE_WIDTH, PALETTE, THEME_COLORS, Bar, draw_bars, new_figure
from genlabel.reporting.findings import Findings
from genlabel.reporting.html import (
    DataTable,
    Row,
    TableCell,
    environment,
    list_names,
    name_of,
    percent,
    shorten,
)
from genlabel.reporting.report.data import Block, Chart, Code, ReportData, ReportSection, first_notes
from genlabel.reporting.report.diagnosis import intrusion_section, label_section, mixing_section
from genlabel.reporting.report.explanation import explanation_dict, explanation_section
from genlabel.reporting.report.methods import comparison_section, trust_section
from genlabel.reporting.report.projection import projection_section, region_section
from genlabel.reporting.svg import inline_svg
from genlabel.reporting.terminal import table_dict

DIAGNOSIS_CLASSES = {NO_MIXING: "warns", "not mixup": "warns"} | dict.fromkeys(
    ("unclear", "not tried", "not trusted"), "unsure"
)
"""CSS class of the box at the top of a page without a comparison, by the word of the verdict."""
MAX_BARS, MAX_COLUMNS = 24, 300


def write_report(
    path: str | Path,
    table: Table,
    comparison: pd.DataFrame | None = None,
    diagnosis: Diagnosis | None = None,
    *,
    test_size: float = 0.3,
    notes: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    command: str = "",
    explanation: Explanation | None = None,
    fit_command: str = "",
) -> None:
    """Write a report on a table as one self-contained HTML page, and its values as JSON.

    The same input gives the same files.

    Parameters
    ----------
    path : path
        File of the page, such as "report.html"; the values go to "report.json".
    table : Table
    comparison : DataFrame, optional
        Results of `genlabel.evaluation.comparison.compare`.
    diagnosis : Diagnosis, optional
        Result of `genlabel.diagnose` on the same table. One of the two must be given.
    test_size : float
        Share of the rows that a split of the comparison holds out, for the intervals; see `pair_methods`.
    notes : sequence of str, optional
        Notes on the table; by default its own.
    settings : dict of str, optional
        Further settings to show, by name.
    command : str
        Command that makes the report.
    explanation : Explanation, optional
        Explanation of held-out rows, such as that of `genlabel.evaluation.table_explanations.explain_held_out`.
    fit_command : str
        Command that fits a model to the table, such as "genlabel fit data.csv --target y"; the page proposes it.

    Examples
    --------
    >>> from genlabel.evaluation.comparison import compare
    >>> from genlabel.data.datasets import load_table
    >>> from genlabel.estimators import GenerativeClassifier
    >>> from tempfile import TemporaryDirectory
    >>> table = load_table("iris")
    >>> results = compare(table, {"gaussian": GenerativeClassifier(), "kernel": GenerativeClassifier("kernel")}, 3)
    >>> with TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/iris.html", table, results)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['iris.html', 'iris.json']
    """
    json_path = Path(path).with_suffix(".json")
    if json_path == Path(path):
        raise ValueError(f"path={str(path)!r} is the file of the values of the page; end it in .html")
    if comparison is None and diagnosis is None:
        raise ValueError("comparison=None and diagnosis=None leave nothing to report; give one of them")
    if comparison is not None and not len(comparison):
        raise ValueError("comparison has no rows, because no fit succeeded; there is nothing to report")
    all_notes = [*(table.notes if notes is None else notes), *(diagnosis.notes if diagnosis is not None else [])]
    findings = Findings(comparison, diagnosis, test_size, fit_command)
    data = ReportData(table, findings, all_notes, dict(settings or {}), command, explanation)
    atomic_write(path, report_html(data, json_path.name))
    atomic_write(json_path, json.dumps(report_dict(data), indent=1, allow_nan=False) + "\n")


def report_html(data: ReportData, json_name: str) -> str:
    """Return the page; `json_name` is the name of the file of its values."""
    findings, sections = data.findings, []
    diagnosis = findings.diagnosis
    if findings.results is not None:
        sections.append(comparison_section(findings, findings.results))
    if diagnosis is not None:
        sections.append(mixing_section(diagnosis, compared=findings.results is not None))
    if diagnosis is not None and diagnosis.mixed is not None:
        sections += [intrusion_section(diagnosis, diagnosis.mixed), label_section(diagnosis, diagnosis.mixed)]
        names = [str(name) for name in data.table.X.columns]
        features = names if len(names) == diagnosis.d else None  # string columns became several features
        if diagnosis.d > 1:
            sections.append(projection_section(diagnosis, diagnosis.mixed, features))
        if diagnosis.regions is not None:
            sections.append(region_section(diagnosis, diagnosis.mixed, diagnosis.regions, features))
    if findings.counts:
        sections.append(trust_section(findings, data.table))
    if data.explanation is not None:
        sections.append(explanation_section(data.explanation))
    n, d = data.table.X.shape
    return (
        environment()
        .get_template("report.j2")
        .render(
            name=shorten(data.table.name, 80),
            size=f"{count_of(n, 'row')}, {count_of(d, 'column')}, {count_of(data.table.y.nunique(), 'class')}",
            headline=findings.headline,
            answers=findings.answers,
            next_command=findings.next_command,
            notes=first_notes(data),
            css_class=_css_class(findings),
            sections=[*sections, table_section(data), settings_section(data, json_name)],
            inline_svg=inline_svg,
            theme_colors=THEME_COLORS,
        )
    )


def _css_class(findings: Findings) -> str:
    """Return the CSS class of the box at the top."""
    if findings.results is None:
        return DIAGNOSIS_CLASSES.get(findings.diagnosis.verdict.word, "") if findings.diagnosis is not None else ""
    if findings.missed or findings.skill == "none":
        return "warns"
    return "unsure" if findings.skill in ("unknown", "ranks") else ""


def report_dict(data: ReportData) -> dict[str, Any]:
    """Return all values of the page as plain values."""
    about, findings = table_dict(data.table), data.findings
    values = {"table": {"name": about.pop("table"), **about, "notes": list(data.notes)}, "verdict": findings.headline}
    values |= {"settings": dict(data.settings), "versions": software_versions(), "command": data.command}
    if findings.results is not None:
        values["comparison"] = findings.to_dict()
    if findings.counts:
        values["held_out"] = {name: counts.to_dict() for name, counts in findings.counts.items()}
    if findings.diagnosis is not None:
        values["diagnosis"] = findings.diagnosis.to_dict()
    if data.explanation is not None:
        values["explanation"] = explanation_dict(data.explanation)
    return values


def table_section(data: ReportData) -> ReportSection:
    """Return the section on the table: notes and leaks, classes, columns with the missing and distinct values."""
    counts = data.table.y.value_counts()
    k, n = len(counts), int(counts.sum())
    sizes = [(str(name), int(number), PALETTE[0]) for name, number in counts.head(MAX_BARS).items()]
    if k > MAX_BARS:
        sizes.append((count_of(k - MAX_BARS, "other class"), int(counts.iloc[MAX_BARS:].sum()), GRAY))
    bars = [Bar(name, float(size), f"{size:,} ({percent(size / n)})", color) for name, size, color in sizes]
    ratio = counts.iloc[0] / counts.iloc[-1]
    smallest = f"{ratio:.1f} times as many as the smallest, {name_of(counts.index[-1])}."
    caption = (
        f"{count_of(k, 'class')}, {count_of(n, 'row')}: the largest, {name_of(counts.index[0])}, has "
        f"{percent(counts.iloc[0] / n)} of the rows, {smallest if ratio >= 1.05 else 'and all have about as many.'}"
    )
    figure = new_figure(PAGE_WIDTH, 0.9 + 0.27 * len(bars))
    draw_bars(figure.subplots(), bars, "rows")
    chart = Chart(figure, "Rows of each class", caption)
    X = data.table.X
    columns = data.table.columns or [ColumnSpec(str(name), kind_of(X[name]), (name,)) for name in X.columns]
    rows: list[Row] = []
    for column in columns[:MAX_COLUMNS]:
        features = [name for name in column.features if name in X]
        cells = [TableCell(""), TableCell("")]
        if features:
            missing, distinct = float(X[features[0]].isna().mean()), int(X[features[0]].nunique())
            cells = [TableCell(percent(missing) if missing else "0", missing), TableCell(f"{distinct:,}", distinct)]
        rows.append([column.name, column.kind, ", ".join(map(str, features)) or "left out", *cells, column.reason])
    caption = "Columns"
    if len(columns) > MAX_COLUMNS:
        caption += f", the first {MAX_COLUMNS}; {len(columns) - MAX_COLUMNS} more are in the JSON file"
    head = ["column", "kind", "features", "missing", "distinct", "why it is left out"]
    table = DataTable(caption, head, rows, words=[2, 5])
    notes: Block = [*dict.fromkeys(data.notes), *describe_gaps(X)] or "No column was left out, and no cell is empty."
    return ReportSection("table", "What was found in the table", [notes, chart, table])


def describe_gaps(X: pd.DataFrame) -> list[str]:
    """Return a line for the empty cells of numbers, and one for those of other columns, with what becomes of them.

    >>> describe_gaps(pd.DataFrame({"age": [30.0, None, 50.0], "color": ["red", None, None]}))
    ['1 empty cell of numbers is filled with the median of its column in the training rows: age (1)',
     '2 empty cells of text count as a value of their own: color (2)']
    """
    counts = {name: int(count) for name, count in X.isna().sum().items() if count}
    lines = []
    for is_number, one, many in (
        (
            True,
            "of numbers is filled with the median of its column",
            "of numbers are filled with the median of their column",
        ),
        (False, "of text counts as a value of its own", "of text count as a value of their own"),
    ):
        columns = [name for name in counts if (kind_of(X[name]) == "numbers") == is_number]
        total = sum(counts[name] for name in columns)
        if total:
            where = list_names([f"{shorten(name)} ({counts[name]:,})" for name in columns])
            rest = " in the training rows" if is_number else ""
            lines.append(f"{count_of(total, 'empty cell')} {one if total == 1 else many}{rest}: {where}")
    return lines


def settings_section(data: ReportData, json_name: str) -> ReportSection:
    """Return the section with the command, settings and versions."""
    facts = {name: value for name, value in data.settings.items() if value}
    if data.findings.diagnosis is not None:
        settings = [f"{name.replace('_', ' ')} {value}" for name, value in data.findings.diagnosis.settings.items()]
        facts["diagnosis"] = ", ".join(settings)
    facts["versions"] = ", ".join(f"{name} {number}" for name, number in software_versions().items())
    facts["values"] = f"all of them are in {json_name}, in the folder of this page"
    command = ["The command that made this page:", Code(data.command)] if data.command else []
    return ReportSection("repeat", "Settings and how to repeat it", [*command, facts])
