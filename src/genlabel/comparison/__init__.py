"""The comparison of methods on one table: the fits, the methods, and the verdict in words."""

from genlabel.comparison.methods import SHARES, default_methods
from genlabel.comparison.run import (
    SCORES,
    as_results,
    compare,
    count_warnings,
    hash_table,
    run_comparison,
    score_table,
)
from genlabel.comparison.verdict import Pair, as_plain, interval, pair_methods, rank_methods, summarize, verdict

__all__ = [
    "SCORES",
    "SHARES",
    "Pair",
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
