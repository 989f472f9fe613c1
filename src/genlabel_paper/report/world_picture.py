"""The picture of the multiverse: a line for each reading, a field for each table, darker where nearer to print."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from genlabel.reporting.figures import DPI

LIGHT, DARK = "#fffff0", "#08205a"
"""Of letters on a field of a colour, which is the same on a dark page."""


def plot_worlds(shares: pd.DataFrame) -> Figure:
    """Draw the share of the printed cells that agree, in percent, by reading (lines) and table (columns).

    >>> frame = pd.DataFrame({"table 4": [40.0, 50.0]}, index=["ours", "codes"])
    >>> [text.get_text() for text in plot_worlds(frame).axes[0].texts]
    ['40', '40', '50', '50']
    """
    whole = shares.assign(**{"mean": shares.mean(axis=1)})
    figure = Figure(figsize=(11.0, 1.2 + 0.25 * len(whole)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    ax.imshow(whole.to_numpy(dtype=float), cmap="Blues", vmin=0.0, vmax=100.0, aspect="auto")
    for (row, column), value in np.ndenumerate(whole.to_numpy(dtype=float)):
        if np.isfinite(value):
            ax.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8, color=_ink(value))
    ax.set_xticks(range(len(whole.columns)), list(whole.columns), fontsize=9)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(whole)), list(whole.index), fontsize=8)
    ax.axvline(len(shares.columns) - 0.5, color="white", linewidth=3)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure.suptitle("Percent of the printed cells within one spread", fontsize=11)
    return figure


def _ink(value: float) -> str:
    return LIGHT if value > 55.0 else DARK
