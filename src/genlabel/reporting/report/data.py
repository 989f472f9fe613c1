"""Data of a report, and the kinds of blocks of its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

from matplotlib.figure import Figure

from genlabel.data.tables import Table
from genlabel.evaluation.explanation import Explanation
from genlabel.reporting.findings import Findings
from genlabel.reporting.html import DataTable, shorten

MAX_NOTES, MAX_NOTE = 3, 160
"""Notes at the top, and the characters of each."""


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


def first_notes(data: ReportData) -> str:
    """Return the first notes about the table, not those about training."""
    notes = [note for note in dict.fromkeys(data.notes) if note in data.table.notes]
    more = f", and {len(notes) - MAX_NOTES} more" if len(notes) > MAX_NOTES else ""
    return "; ".join(shorten(note, MAX_NOTE, tail=False) for note in notes[:MAX_NOTES]) + more
