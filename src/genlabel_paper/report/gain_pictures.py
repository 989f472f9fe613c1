"""Pictures of how much a method gains over another: a histogram over many datasets, or a line for each of a few."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from genlabel.reporting.figures import DPI, RIVALS
from genlabel_paper.paired import count_wins
from genlabel_paper.report.pieces import EXACT

BINS = 0.5
"""Points of accuracy in a bar of a histogram."""
EDGE = 10.0
"""Points beyond which gains are drawn in the last bar."""


def plot_gain_histograms(panels: Mapping[str, pd.Series[float]], title: str, width: float) -> Figure:
    """Draw how many datasets gain how much: a panel for each comparison.

    Parameters
    ----------
    panels : dict of title -> Series
        The differences by dataset, in points.
    title : str
    width : float
        Differences within this many points are on par, and grey.

    Examples
    --------
    >>> plot_gain_histograms({"all": pd.Series([1.0, -2.0])}, "Gains", 0.5).axes[0].get_xlabel()
    'gain (points of test accuracy)'
    """
    figure = Figure(figsize=(1.2 + 4.4 * len(panels), 3.9), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (name, gain) in zip(axes, panels.items(), strict=True):
        _plot_histogram(ax, gain, width)
        ax.set_title(f"{name}\n{_counts(gain, width)}", fontsize=9)
    axes[0].set_ylabel("datasets")
    figure.suptitle(title, fontsize=11)
    handles = [Patch(color=color, label=label) for color, label in zip(RIVALS, _names(width), strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def plot_gain_lines(gain: pd.Series[float], names: Mapping[str, str], title: str, width: float) -> Figure:
    """Draw the gain on each dataset: a line for each, the largest on top.

    Parameters
    ----------
    gain : Series
        The differences by dataset, in points.
    names : dict of dataset -> str
        What stands beside a line.
    title : str
    width : float
        Differences within this many points are on par, and grey.

    Examples
    --------
    >>> figure = plot_gain_lines(pd.Series({"61": 1.5}), {"61": "iris"}, "Gains", 1.0)
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    ['iris']
    """
    ordered = gain.sort_values(kind="stable")
    figure = Figure(figsize=(7.2, 1.6 + 0.27 * max(len(ordered), 3)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    heights = np.arange(len(ordered))
    colors = [_color(value, width) for value in ordered]
    ax.axvspan(-width, width, color="#eeeeee", zorder=0)
    ax.hlines(heights, 0.0, ordered.to_numpy(), colors=colors, linewidth=2.0)
    ax.scatter(ordered.to_numpy(), heights, color=colors, s=28, zorder=3)
    ax.set_yticks(heights, [names.get(str(name), str(name)) for name in ordered.index], fontsize=8)
    _finish(ax)
    ax.grid(axis="x", color="#dddddd", linewidth=0.8)
    ax.set_title(f"{title}\n{_counts(gain, width)}", fontsize=10)
    handles = [
        Line2D([], [], marker="o", color=color, label=label) for color, label in zip(RIVALS, _names(width), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plot_histogram(ax: Axes, gain: pd.Series[float], width: float) -> None:
    """Bars of three colours on top of each other; the outermost hold all that lies beyond."""
    edges = np.linspace(-EDGE, EDGE, int(2 * EDGE / BINS) + 1)
    parts = [gain[gain > width + EXACT], gain[gain.abs() <= width + EXACT], gain[gain < -width - EXACT]]
    values = [part.clip(-EDGE, EDGE).to_numpy(dtype=float) for part in parts]
    order = [1, 0, 2]
    ax.hist(
        [values[i] for i in order],
        bins=list(edges),
        stacked=True,
        color=[RIVALS[i] for i in order],
        edgecolor="white",
        linewidth=0.3,
    )
    ax.set_xticks([-10, -5, 0, 5, 10], ["≤ -10", "-5", "0", "5", "≥ 10"], fontsize=8)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axvline(0.0, color="black", linewidth=0.8)
    _finish(ax)
    ax.grid(axis="y", color="#dddddd", linewidth=0.8)


def _finish(ax: Axes) -> None:
    ax.set_xlabel("gain (points of test accuracy)")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _color(value: float, width: float) -> str:
    return RIVALS[0] if value > width + EXACT else RIVALS[2] if value < -width - EXACT else RIVALS[1]


def _counts(gain: pd.Series[float], width: float) -> str:
    found = count_wins(gain, width)
    return f"{found.sets} sets: higher on {found.better}, on par on {found.tie}, lower on {found.worse}"


def _names(width: float) -> tuple[str, str, str]:
    within = f"within {width:g}" if width else "no difference"
    return f"gain above {width:g}", within, f"gain below {-width:g}" if width else "gain below 0"
