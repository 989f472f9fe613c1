"""The suite: methods on many OpenML sets, a record for every fit, and what the records say.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel_paper.benchmark.baseline_classifier import BaselineClassifier
    from genlabel_paper.benchmark.baselines import BASELINES, Baseline, why_not
    from genlabel_paper.benchmark.methods import METHODS, default_suite
    from genlabel_paper.benchmark.run import run_suite
    from genlabel_paper.benchmark.sections import Section, as_markdown, report
    from genlabel_paper.benchmark.statistics import (
        complete_sets,
        cost_ratios,
        count_worse_than_prior,
        holm,
        mean_ranks,
        set_means,
        statement,
        wilcoxon_holm,
        wins,
    )

__all__ = [
    "BASELINES",
    "METHODS",
    "Baseline",
    "BaselineClassifier",
    "Section",
    "as_markdown",
    "complete_sets",
    "cost_ratios",
    "count_worse_than_prior",
    "default_suite",
    "holm",
    "mean_ranks",
    "report",
    "run_suite",
    "set_means",
    "statement",
    "why_not",
    "wilcoxon_holm",
    "wins",
]

_MODULES = {
    "methods": ("METHODS", "default_suite"),
    "sections": ("Section", "as_markdown", "report"),
    "run": ("run_suite",),
    "baseline_classifier": ("BaselineClassifier",),
    "baselines": ("BASELINES", "Baseline", "why_not"),
    "statistics": (
        "complete_sets",
        "cost_ratios",
        "count_worse_than_prior",
        "holm",
        "mean_ranks",
        "set_means",
        "statement",
        "wilcoxon_holm",
        "wins",
    ),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
