"""The report: one HTML file that answers whether mixing helps, what to train and how far to trust it, and shows why."""

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
from genlabel.reporting.frame import contents, page, section
from genlabel.reporting.markup import element, join, shorten
from genlabel.reporting.report.about import repeat_part, table_part
from genlabel.reporting.report.answers import answers, headline
from genlabel.reporting.report.blends import blend_part
from genlabel.reporting.report.given import ReportData, count
from genlabel.reporting.report.held_out import trust_part
from genlabel.reporting.report.labels import label_part
from genlabel.reporting.report.methods import method_part
from genlabel.reporting.report.mixing import mixing_part
from genlabel.reporting.report.planes import plane_part, scatter_part

CSS = "body { max-width: 60rem; }"
"""Beside the common style."""


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
    """Write what is known of a table as one HTML page that needs nothing else, and its numbers as JSON beside it.

    The same input gives the same files.

    Parameters
    ----------
    path : path
        Of the page, such as "report.html"; the numbers go to "report.json".
    table : Table
    comparison : DataFrame, optional
        As of `genlabel.evaluation.comparison.compare`.
    diagnosis : Diagnosis, optional
        As of `genlabel.diagnose`, of the same table. One of the two must be given.
    test_size : float
        Share of the rows that a split of the comparison holds out, for intervals; as of `pair_methods`.
    notes : sequence of str, optional
        What was found in the table; its own notes if not given.
    settings : dict of str, optional
        What to show of how it was made, by name.
    command : str
        Which made it.

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
    beside = Path(path).with_suffix(".json")
    if beside == Path(path):
        raise ValueError(f"path={str(path)!r} is where the numbers of the page go; end it in .html")
    given = _gather(table, comparison, diagnosis, test_size, notes, settings, command)
    atomic_write(path, report_html(given, beside.name))
    atomic_write(beside, json.dumps(report_dict(given), indent=1, allow_nan=False) + "\n")


def report_html(given: ReportData, data: str) -> str:
    """Return the page; `data` is the name of the file of numbers."""
    found = [method_part, mixing_part, blend_part, label_part, scatter_part, plane_part, trust_part]
    parts = [part for make in found if (part := make(given)) is not None]
    parts += [table_part(given), repeat_part(given, data)]
    n, d = given.table.X.shape
    name = shorten(given.table.name, 80)
    size = f"{count(n, 'row')}, {count(d, 'column')}, {count(len(given.classes), 'class')}"
    header = join(
        element("h1", name),
        element("p", size, class_="soft"),
        answers(given),
        contents({part.id: part.title for part in parts}),
    )
    sections = [section(part.id, part.title, *part.inside) for part in parts]
    return page(f"{name}: report", header, *sections, css=CSS)


def report_dict(given: ReportData) -> dict[str, Any]:
    """Return all numbers of the page as plain values."""
    table = given.table
    found: dict[str, Any] = {
        "table": {
            "name": table.name,
            "rows": len(table.X),
            "features": [str(name) for name in table.X.columns],
            "classes": {str(name): int(number) for name, number in table.y.value_counts().items()},
            "columns": [asdict(column) for column in table.columns],
            "notes": list(given.notes),
        },
        "verdict": headline(given),
        "settings": dict(given.settings),
        "versions": software_versions(),
        "command": given.command,
    }
    if given.results is not None:
        found["comparison"] = given.plain
    if given.tallies:
        found["held_out"] = {name: tally.to_dict() for name, tally in given.tallies.items()}
    if given.diagnosis is not None:
        found["diagnosis"] = given.diagnosis.to_dict()
    return found


def _gather(
    table: Table,
    comparison: pd.DataFrame | None,
    diagnosis: Diagnosis | None,
    test_size: float,
    notes: Sequence[str] | None,
    settings: Mapping[str, str] | None,
    command: str,
) -> ReportData:
    if comparison is None and diagnosis is None:
        raise ValueError("comparison=None and diagnosis=None leave nothing to report; give one of them")
    if comparison is not None and not len(comparison):
        raise ValueError("comparison has no rows: no fit succeeded, and there is nothing to report")
    said = [*(table.notes if notes is None else notes), *(diagnosis.notes if diagnosis is not None else [])]
    return ReportData(table, comparison, diagnosis, test_size, said, dict(settings or {}), command)
