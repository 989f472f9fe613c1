"""Figures of methods, densities and diagnoses, and self-contained HTML reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.reporting.diagnosis_figures import plot_diagnosis
    from genlabel.reporting.figures import plot_comparison, plot_points, plot_regions, plot_soft_labels
    from genlabel.reporting.report import write_report

__all__ = [
    "plot_comparison",
    "plot_diagnosis",
    "plot_points",
    "plot_regions",
    "plot_soft_labels",
    "write_report",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "diagnosis_figures": ("plot_diagnosis",),
        "figures": ("plot_comparison", "plot_points", "plot_regions", "plot_soft_labels"),
        "report": ("write_report",),
    },
)
