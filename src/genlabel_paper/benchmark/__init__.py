"""Benchmark of classifiers on many OpenML datasets: methods, runner, statistics and report.

Names are imported on first use, so that the command line can validate its options without importing torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel_paper.benchmark.baseline_classifier import BaselineClassifier
    from genlabel_paper.benchmark.baselines import BASELINES, Baseline, why_unavailable
    from genlabel_paper.benchmark.methods import METHODS, default_methods
    from genlabel_paper.benchmark.run import run_benchmark
    from genlabel_paper.benchmark.sections import Section, as_markdown, report
    from genlabel_paper.benchmark.statistics import (
        complete_datasets,
        cost_ratios,
        count_worse_than_prior,
        dataset_means,
        holm,
        mean_ranks,
        statement,
        wilcoxon_holm,
        wins,
    )

_MODULES = {
    "baseline_classifier": ("BaselineClassifier",),
    "baselines": ("BASELINES", "Baseline", "why_unavailable"),
    "methods": ("METHODS", "default_methods"),
    "sections": ("Section", "as_markdown", "report"),
    "run": ("run_benchmark",),
    "statistics": (
        "complete_datasets",
        "cost_ratios",
        "count_worse_than_prior",
        "dataset_means",
        "holm",
        "mean_ranks",
        "statement",
        "wilcoxon_holm",
        "wins",
    ),
}
__all__ = [
    "BASELINES",
    "METHODS",
    "Baseline",
    "BaselineClassifier",
    "Section",
    "as_markdown",
    "complete_datasets",
    "cost_ratios",
    "count_worse_than_prior",
    "dataset_means",
    "default_methods",
    "holm",
    "mean_ranks",
    "report",
    "run_benchmark",
    "statement",
    "why_unavailable",
    "wilcoxon_holm",
    "wins",
]
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
