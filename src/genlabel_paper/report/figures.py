"""Figures of several experiments: gains of a method, agreement with the paper, and the style of theory figures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import OKABE_ITO, RIVALS
from genlabel_paper.paired import EXACT, count_wins

COLORS = {
    "vanilla": OKABE_ITO[6],
    "mixup": OKABE_ITO[1],
    "mixup-without-mi": OKABE_ITO[2],
    "genlabel": OKABE_ITO[0],
    "svm": "#888888",
    "adversarial": OKABE_ITO[2],
}
"""Colors of schemes and losses in figures 2, 4, 7 and 8."""
CLASS_STYLES = ((OKABE_ITO[3], "o"), (OKABE_ITO[4], "^"), (OKABE_ITO[5], "s"))
"""Color and marker of each class in figures 2, 4, 7 and 8."""
LIGHT_INK, DARK_INK = "#fffff0", "#08205a"
"""Text colors on colored cells, the same in the light and the dark theme."""
BIN_WIDTH = 0.5
"""Points of accuracy of a histogram bin."""
MAX_GAIN = 10.0
"""Larger gains, in points of accuracy, are in the last bin."""


def plot_gain_histograms(panels: Mapping[str, pd.Series[float]], title: str, tie_width: float) -> Figure:
    """Plot histograms of the gains of the datasets, one panel per comparison.

    Parameters
    ----------
    panels : dict of title -> Series
        Differences by dataset, in points.
    title : str
    tie_width : float
        Largest difference in points that is on par, drawn in gray.

    Examples
    --------
    >>> plot_gain_histograms({"all": pd.Series([1.0, -2.0])}, "Gains", 0.5).axes[0].get_xlabel()
    'gain (points of test accuracy)'
    """
    figure = Figure(figsize=(1.2 + 4.4 * len(panels), 3.9), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (name, gain) in zip(axes, panels.items(), strict=True):
        _plot_histogram(ax, gain, tie_width)
        ax.set_title(f"{name}\n{_counts(gain, tie_width)}", fontsize=9)
    axes[0].set_ylabel("datasets")
    figure.suptitle(title, fontsize=11)
    handles = [Patch(color=color, label=label) for color, label in zip(RIVALS, _outcome_names(tie_width), strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def plot_gain_lines(gain: pd.Series[float], names: Mapping[str, str], title: str, tie_width: float) -> Figure:
    """Plot the gain on each dataset as a line, the largest on top.

    Parameters
    ----------
    gain : Series
        Differences by dataset, in points.
    names : dict of dataset -> str
        Label of each line.
    title : str
    tie_width : float
        Largest difference in points that is on par, drawn in gray.

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
    colors = [_color(value, tie_width) for value in ordered]
    ax.axvspan(-tie_width, tie_width, color="#eeeeee", zorder=0)
    ax.hlines(heights, 0.0, ordered.to_numpy(), colors=colors, linewidth=2.0)
    ax.scatter(ordered.to_numpy(), heights, color=colors, s=28, zorder=3)
    ax.set_yticks(heights, [names.get(str(name), str(name)) for name in ordered.index], fontsize=8)
    _style_gain_axis(ax)
    ax.grid(axis="x", color="#dddddd", linewidth=0.8)
    ax.set_title(f"{title}\n{_counts(gain, tie_width)}", fontsize=10)
    handles = [
        Line2D([], [], marker="o", color=color, label=label)
        for color, label in zip(RIVALS, _outcome_names(tie_width), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plot_histogram(ax: Axes, gain: pd.Series[float], tie_width: float) -> None:
    """Plot stacked bars of three colors; the outermost bins hold all larger gains."""
    edges = np.linspace(-MAX_GAIN, MAX_GAIN, int(2 * MAX_GAIN / BIN_WIDTH) + 1)
    width = tie_width + EXACT
    outcomes = [gain[gain > width], gain[gain.abs() <= width], gain[gain < -width]]
    values = [outcome.clip(-MAX_GAIN, MAX_GAIN).to_numpy(dtype=float) for outcome in outcomes]
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
    _style_gain_axis(ax)
    ax.grid(axis="y", color="#dddddd", linewidth=0.8)


def _style_gain_axis(ax: Axes) -> None:
    ax.set_xlabel("gain (points of test accuracy)")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _color(value: float, tie_width: float) -> str:
    width = tie_width + EXACT
    return RIVALS[0] if value > width else RIVALS[2] if value < -width else RIVALS[1]


def _counts(gain: pd.Series[float], tie_width: float) -> str:
    counts = count_wins(gain, tie_width)
    return f"{counts.sets} datasets: higher on {counts.better}, on par on {counts.tie}, lower on {counts.worse}"


def _outcome_names(tie_width: float) -> tuple[str, str, str]:
    within = f"within {tie_width:g}" if tie_width else "no difference"
    return f"gain above {tie_width:g}", within, f"gain below {-tie_width:g}" if tie_width else "gain below 0"


def plot_agreement(percent: pd.DataFrame) -> Figure:
    """Plot the percentage of printed values that agree with ours, by reading (lines) and table (columns).

    >>> frame = pd.DataFrame({"table 4": [40.0, 50.0]}, index=["ours", "codes"])
    >>> [text.get_text() for text in plot_agreement(frame).axes[0].texts]
    ['40', '40', '50', '50']
    """
    values = percent.assign(**{"mean": percent.mean(axis=1)})
    cells = values.to_numpy(dtype=float)
    figure = Figure(figsize=(11.0, 1.2 + 0.25 * len(values)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    ax.imshow(cells, cmap="Blues", vmin=0.0, vmax=100.0, aspect="auto")
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            ax.text(
                column,
                row,
                f"{value:.0f}",
                ha="center",
                va="center",
                fontsize=8,
                color=LIGHT_INK if value > 55.0 else DARK_INK,
            )
    ax.set_xticks(range(len(values.columns)), list(values.columns), fontsize=9)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(values)), list(values.index), fontsize=8)
    ax.axvline(len(percent.columns) - 0.5, color="white", linewidth=3)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure.suptitle("Percent of the printed values within one spread", fontsize=11)
    return figure


def style_axes(ax: Axes) -> None:
    """Remove the frame, and draw a pale grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
