"""Comparison of methods on one table: the methods, the fits, and the verdict in words."""

from genlabel.evaluation.comparison.run import (
    PRIOR_BASELINE,
    SCORES,
    as_results,
    compare,
    count_warnings,
    default_methods,
    run_comparison,
    score_table,
)
from genlabel.evaluation.comparison.verdict import (
    PairedDifference,
    accuracy_in_percent,
    as_plain,
    interval,
    pair_methods,
    rank_methods,
    summarize,
    verdict,
)

__all__ = [
    "PRIOR_BASELINE",
    "SCORES",
    "PairedDifference",
    "accuracy_in_percent",
    "as_plain",
    "as_results",
    "compare",
    "count_warnings",
    "default_methods",
    "interval",
    "pair_methods",
    "rank_methods",
    "run_comparison",
    "score_table",
    "summarize",
    "verdict",
]
