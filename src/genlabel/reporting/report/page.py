"""The report: one HTML file that says whether mixing helps, what to train and how far to trust it, and shows why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel.data.tables import Table
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.records import software_versions
from genlabel.reporting.figures import THEME_COLORS
from genlabel.reporting.html import environment, shorten
from genlabel.reporting.report import answers
from genlabel.reporting.report.comparison import comparison_section
from genlabel.reporting.report.data import ReportData
from genlabel.reporting.report.labels import label_section
from genlabel.reporting.report.mixing import intrusion_section, mixing_section
from genlabel.reporting.report.projection import projection_section, region_section
from genlabel.reporting.report.reliability import reliability_section
from genlabel.reporting.report.table import settings_section, table_section
from genlabel.reporting.svg import inline_svg
from genlabel.reporting.words import count_of

SECTIONS = (
    comparison_section,
    mixing_section,
    intrusion_section,
    label_section,
    projection_section,
    region_section,
    reliability_section,
)
"""Sections that need a comparison or a diagnosis, in their order."""


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
    data = ReportData(table, comparison, diagnosis, test_size, all_notes, dict(settings or {}), command)
    atomic_write(path, report_html(data, json_path.name))
    atomic_write(json_path, json.dumps(report_dict(data), indent=1, allow_nan=False) + "\n")


def report_html(data: ReportData, json_name: str) -> str:
    """Return the page; `json_name` is the name of the file of its values."""
    sections = [section for make in SECTIONS if (section := make(data)) is not None]
    n, d = data.table.X.shape
    return (
        environment()
        .get_template("report.j2")
        .render(
            name=shorten(data.table.name, 80),
            size=f"{count_of(n, 'row')}, {count_of(d, 'column')}, {count_of(len(data.classes), 'class')}",
            headline=answers.headline(data),
            answers=answers.answers(data),
            notes=answers.first_notes(data),
            css_class=answers.css_class(data),
            sections=[*sections, table_section(data), settings_section(data, json_name)],
            inline_svg=inline_svg,
            theme_colors=THEME_COLORS,
        )
    )


def report_dict(data: ReportData) -> dict[str, Any]:
    """Return all values of the page as plain values."""
    table = data.table
    values: dict[str, Any] = {
        "table": {
            "name": table.name,
            "rows": len(table.X),
            "features": [str(name) for name in table.X.columns],
            "classes": {str(name): int(number) for name, number in table.y.value_counts().items()},
            "columns": [asdict(column) for column in table.columns],
            "notes": list(data.notes),
        },
        "verdict": answers.headline(data),
        "settings": dict(data.settings),
        "versions": software_versions(),
        "command": data.command,
    }
    if data.results is not None:
        values["comparison"] = data.comparison
    if data.counts:
        values["held_out"] = {name: counts.to_dict() for name, counts in data.counts.items()}
    if data.diagnosis is not None:
        values["diagnosis"] = data.diagnosis.to_dict()
    return values
