"""Figure of the benchmark: the log-loss of one method against each other method."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import RIVALS
from genlabel_paper.benchmark.statistics import METRICS, dataset_means

MIN_LOSS = 1e-3
"""Lower end of the axes; smaller losses are drawn there."""


def plot_benchmark(records: pd.DataFrame, reference: str = "default") -> Figure:
    """Plot the log-loss of a method against each other method, one point per dataset.

    Parameters
    ----------
    records : DataFrame
        Records of a benchmark, as `genlabel_paper.exports.load_records` returns them.
    reference : str
        Method on the vertical axis; it is better below the diagonal.

    Examples
    --------
    >>> records = pd.DataFrame({"dataset": [1, 1], "split": 0, "method": ["default", "mixup"], "log_loss": [0.2, 0.3]})
    >>> plot_benchmark(records).axes[0].get_title()
    'mean 0.200 against 0.300 of mixup\\nlower on 1, tied on 0, higher on 0'
    """
    means = dataset_means(records, "log_loss").clip(lower=MIN_LOSS)
    others = [name for name in means.mean().sort_values().index if name != reference]
    if not len(means) or not others or reference not in means:
        raise ValueError(f"no dataset has records of {reference!r} and another method; run the benchmark with both")
    columns = min(3, len(others))
    height = -(-len(others) // columns)
    figure = Figure(figsize=(0.4 + 3.4 * columns, 0.6 + 3.5 * height), dpi=DPI, layout="constrained")
    panels = np.atleast_1d(figure.subplots(height, columns, squeeze=False)).ravel()
    for ax, name in zip(panels, others, strict=False):
        _plot_rivals(ax, means[reference], means[name])
    for ax in panels[len(others) :]:
        ax.remove()
    figure.suptitle(f"Test log-loss (nats) of {reference} against each other method on {len(means)} datasets")
    names = (f"{reference} is better", "within 0.002", f"{reference} is worse")
    key = [Line2D([], [], marker="o", linestyle="", color=c, label=n) for c, n in zip(RIVALS, names, strict=True)]
    figure.legend(handles=key, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plot_rivals(ax: Axes, reference: pd.Series[float], other: pd.Series[float]) -> None:
    """Plot one panel: the datasets, the line of equal losses, and the counts."""
    difference, tie = reference - other, METRICS["log_loss"].tie
    lower, higher = difference < -tie, difference > tie
    for rows, color in zip((lower, ~lower & ~higher, higher), RIVALS, strict=True):
        ax.scatter(other[rows], reference[rows], s=12, color=color, alpha=0.8, linewidths=0)
    ends = [min(reference.min(), other.min()) / 1.3, max(reference.max(), other.max()) * 1.3]
    ax.plot(ends, ends, color="black", linewidth=0.8, zorder=0)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect=1.0, xlabel=other.name, ylabel=reference.name)
    counts = f"lower on {lower.sum()}, tied on {(~lower & ~higher).sum()}, higher on {higher.sum()}"
    ax.set_title(f"mean {reference.mean():.3f} against {other.mean():.3f} of {other.name}\n{counts}", fontsize=9)
    ax.tick_params(labelsize=8)
