"""Evaluation: records of runs, comparison of methods, models of tables, diagnosis and training on images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.evaluation.comparison import compare, run_comparison
    from genlabel.evaluation.diagnosis import Diagnosis, diagnose
    from genlabel.evaluation.images import load_network, train_images
    from genlabel.evaluation.records import load_records
    from genlabel.evaluation.table_models import fit_table, predict_table

__all__ = [
    "Diagnosis",
    "compare",
    "diagnose",
    "fit_table",
    "load_network",
    "load_records",
    "predict_table",
    "run_comparison",
    "train_images",
]

_MODULES = {
    "comparison": ("compare", "run_comparison"),
    "diagnosis": ("Diagnosis", "diagnose"),
    "images": ("load_network", "train_images"),
    "records": ("load_records",),
    "table_models": ("fit_table", "predict_table"),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
