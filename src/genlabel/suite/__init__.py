"""The suite: methods on many OpenML sets, a record for every fit, and what the records say."""

from genlabel.suite.records import open_records, read_header, read_records
from genlabel.suite.report import Section, as_markdown, report
from genlabel.suite.run import default_suite, run_suite
from genlabel.suite.statistics import (
    Wins,
    complete_sets,
    holm,
    mean_ranks,
    set_means,
    statement,
    wilcoxon_holm,
    wins,
)

__all__ = [
    "Section",
    "Wins",
    "as_markdown",
    "complete_sets",
    "default_suite",
    "holm",
    "mean_ranks",
    "open_records",
    "read_header",
    "read_records",
    "report",
    "run_suite",
    "set_means",
    "statement",
    "wilcoxon_holm",
    "wins",
]
