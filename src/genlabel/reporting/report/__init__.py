"""The report of a table: sections, each of figures and tables with a sentence that follows from their numbers."""

from genlabel.reporting.report.page import write_report

__all__ = ["write_report"]
