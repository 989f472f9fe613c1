"""The report of a table: one page with answers, figures and tables."""

from genlabel.reporting.report.page import write_report

__all__ = ["write_report"]
