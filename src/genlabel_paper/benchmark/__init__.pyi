from .baseline_classifier import BaselineClassifier
from .baselines import BASELINES, Baseline, why_unavailable
from .methods import METHODS, default_methods
from .run import run_benchmark
from .sections import Section, as_markdown, report
from .statistics import (
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
