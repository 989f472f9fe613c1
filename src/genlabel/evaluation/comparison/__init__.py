"""The comparison of methods on one table: the fits, the methods, and the verdict in words."""

from genlabel.evaluation.comparison.methods import PRIOR_BASELINE, default_methods
from genlabel.evaluation.comparison.run import (
    SCORES,
    as_results,
    compare,
    count_warnings,
    hash_table,
    run_comparison,
    score_table,
)
from genlabel.evaluation.comparison.verdict import (
    PairedDifference,
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
    "as_plain",
    "as_results",
    "compare",
    "count_warnings",
    "default_methods",
    "hash_table",
    "interval",
    "pair_methods",
    "rank_methods",
    "run_comparison",
    "score_table",
    "summarize",
    "verdict",
]
