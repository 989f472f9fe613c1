"""Comparison of methods on one table: the methods, the fits, and the verdict in words."""

from genlabel.evaluation.comparison.run import compare, default_methods, run_comparison
from genlabel.evaluation.comparison.verdict import PairedDifference, pair_methods, rank_methods, summarize, verdict

__all__ = [
    "PairedDifference",
    "compare",
    "default_methods",
    "pair_methods",
    "rank_methods",
    "run_comparison",
    "summarize",
    "verdict",
]
