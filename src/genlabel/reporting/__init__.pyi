from .batch_figure import plot_batch
from .figures import plot_comparison, plot_diagnosis, plot_points, plot_regions
from .report.page import write_report

__all__ = ["plot_batch", "plot_comparison", "plot_diagnosis", "plot_points", "plot_regions", "write_report"]
