from .blocks import data_table, facts, figure, item_list
from .diagnosis_figures import plot_diagnosis
from .figures import plot_comparison, plot_points, plot_regions, plot_soft_labels
from .frame import contents, page, section
from .html import Cell
from .markup import Markup, element, join
from .report import write_report

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
