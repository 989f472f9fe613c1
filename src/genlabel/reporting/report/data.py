"""Data of a report, and the kinds of blocks of its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

from matplotlib.figure import Figure

from genlabel._text import count_of
from genlabel.data.tables import Table
from genlabel.data.tables.leaks import QUESTION
from genlabel.evaluation.explanation import Explanation
from genlabel.reporting.findings import Findings
from genlabel.reporting.html import DataTable, shorten

MAX_NOTES, MAX_NOTE = 3, 160
"""Notes at the top that are no questions, and the characters of each."""


class Chart(NamedTuple):
    """Figure of a section with its title and caption."""

    figure: Figure
    title: str
    caption: str


class Code(NamedTuple):
    """Command to type."""

    text: str


Block: TypeAlias = str | Chart | DataTable | Code | Sequence[str] | Mapping[str, str]
"""Block of a section: a paragraph, a figure, a table, a command, a list, or names with values."""


class ReportSection(NamedTuple):
    """Section of the report."""

    id: str
    title: str
    blocks: Sequence[Block]


@final
@dataclass(frozen=True)
class ReportData:
    """Arguments of `write_report`."""

    table: Table
    findings: Findings
    notes: Sequence[str]
    settings: Mapping[str, str]
    command: str
    explanation: Explanation | None = None


def first_notes(data: ReportData) -> list[str]:
    """Return notes about the table, not about training: all questions about leaks, uncut, and the first others."""
    notes = [note for note in dict.fromkeys(data.notes) if note in data.table.notes]
    questions = [note for note in notes if QUESTION in note]
    others = [note for note in notes if QUESTION not in note]
    more = [f"and {count_of(len(others) - MAX_NOTES, 'more note')}"] if len(others) > MAX_NOTES else []
    return [*questions, *(shorten(note, MAX_NOTE, tail=False) for note in others[:MAX_NOTES]), *more]
