"""Figures of methods, densities and diagnoses, and self-contained HTML reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.reporting.blocks import data_table, facts, figure, item_list
    from genlabel.reporting.diagnosis_figures import plot_diagnosis
    from genlabel.reporting.figures import plot_comparison, plot_points, plot_regions, plot_soft_labels
    from genlabel.reporting.frame import contents, page, section
    from genlabel.reporting.html import Cell
    from genlabel.reporting.markup import Markup, element, join
    from genlabel.reporting.report import write_report

__all__ = [
    "Cell",
    "Markup",
    "contents",
    "data_table",
    "element",
    "facts",
    "figure",
    "item_list",
    "join",
    "page",
    "plot_comparison",
    "plot_diagnosis",
    "plot_points",
    "plot_regions",
    "plot_soft_labels",
    "section",
    "write_report",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "diagnosis_figures": ("plot_diagnosis",),
        "figures": ("plot_comparison", "plot_points", "plot_regions", "plot_soft_labels"),
        "report": ("write_report",),
        "blocks": ("data_table", "facts", "figure", "item_list"),
        "frame": ("contents", "page", "section"),
        "html": ("Cell",),
        "markup": ("Markup", "element", "join"),
    },
)
