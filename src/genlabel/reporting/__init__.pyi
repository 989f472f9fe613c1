from .diagnosis_figures import plot_diagnosis
from .figures import plot_comparison, plot_points, plot_regions, plot_soft_labels
from .report import write_report

__all__ = [
    "plot_comparison",
    "plot_diagnosis",
    "plot_points",
    "plot_regions",
    "plot_soft_labels",
    "write_report",
]
