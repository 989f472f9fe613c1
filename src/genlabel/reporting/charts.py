"""Charts of pages and figures on matplotlib axes: intervals, bars, heat maps and curves, and the colors of all figures.

Marks have tips, which a page shows under the pointer. In a page the colors of `PALETTE` follow its theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from textwrap import wrap
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from genlabel.reporting.html import clean_text, shorten
from genlabel.reporting.svg import set_tips

DPI = 160
PALETTE = ("#0072b2", "#d55e00", "#00865f", "#b85c92", "#c48400", "#5b4fc4", "#2b97cf", "#6b6b6b")
HEAT, COOL = "#e8862e", "#4a9bd4"
THEME_COLORS = {color: f"c{number}" for number, color in enumerate(PALETTE, 1)} | {HEAT: "heat", COOL: "cool"}
"""CSS variable of each color; a dark page gives it another shade."""
GRAY = PALETTE[7]
ARM_COLORS = {"plain training": PALETTE[0], "mixup": PALETTE[1], "GenLabel": PALETTE[2]}
ARM_COLORS |= {"no mixing": PALETTE[0], "mixup labels": PALETTE[1], "GenLabel labels": PALETTE[2]}
"""Colors of the methods of a comparison, and of the arms of a paired experiment, that differ in their mixing."""
PAGE_WIDTH = 4.2
"""Inches of a figure of a page, which is as wide as the screen of a phone."""
MAX_LINE = 20
"""Characters of a line of the name of a row."""


class Interval(NamedTuple):
    """Value with its interval, which may be NaN."""

    name: str
    value: float
    low: float
    high: float
    color: str = GRAY
    note: str = ""
    """Words above the mark."""


class Bar(NamedTuple):
    """Bar with the text at its end."""

    name: str
    value: float
    text: str
    color: str = PALETTE[0]
    alpha: float = 1.0
    end: float = 0.0
    """Position of the text, if it is not at the end of the bar."""


class HeatCell(NamedTuple):
    """Cell of a heat map."""

    row: int
    column: int
    depth: float
    """Depth of the color, 0 to 1."""
    text: str
    tip: str
    color: str = HEAT


class Curve(NamedTuple):
    """Points of a curve, with the text of each and, if given, their intervals and sizes."""

    x: Sequence[float]
    y: Sequence[float]
    tips: Sequence[str]
    color: str = PALETTE[0]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    sizes: Sequence[float] | float = 22.0


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; without pyplot, so without a display."""
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def plain_text(text: object, length: int = 200) -> str:
    """Return a text of the user for a figure: short, on one line, without characters that SVG or mathtext interprets.

    >>> plain_text("5 $ a dollar, or a euro", 12)
    '5 \\\\$ a d…euro'
    """
    return clean_text(shorten(text, length)).replace("$", r"\$")


def wrap_text(text: str, length: int) -> str:
    """Return a text on lines of at most `length` characters; words are not cut."""
    return "\n".join(wrap(text, length, break_long_words=False))


def finish_axes(ax: Axes, title: str = "", grid: Literal["both", "x", "y"] | None = "x") -> None:
    """Set the title, draw a pale grid below everything, and remove the frame at the top and the right."""
    ax.set_title(title, fontsize=10)
    if grid:
        ax.grid(axis=grid, color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def draw_intervals(ax: Axes, rows: Sequence[Interval], axis: str, digits: int = 3) -> None:
    """Draw a row for each value, from top to bottom: a dot, its interval, and the value at the right."""
    for y, row in enumerate(rows):
        tip = f"{row.name}: {row.value:.{digits}f}"
        if isfinite(row.low) and isfinite(row.high) and row.high > row.low:
            tip += f" (95 % interval {row.low:.{digits}f} to {row.high:.{digits}f})"
            ax.plot([row.low, row.high], [y, y], color=row.color, linewidth=2.5, solid_capstyle="round")
        (mark,) = ax.plot([row.value], [y], "o", color=row.color, markeredgecolor="white", markersize=9)
        set_tips(mark, [tip])
        value = f"{round(row.value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")
        ax.text(1.02, y, value, transform=ax.get_yaxis_transform(), va="center", fontsize=9, fontweight="bold")
        if row.note:
            ax.annotate(
                row.note, (row.value, y), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [wrap_text(plain_text(row.name, 34), MAX_LINE) for row in rows])
    ax.set(ylim=(len(rows) - 0.5, -0.7), xlabel=axis)
    ax.margins(x=0.08)
    finish_axes(ax)


def draw_bars(ax: Axes, bars: Sequence[Bar], axis: str) -> None:
    """Draw horizontal bars from zero on, from top to bottom."""
    drawn = ax.barh(range(len(bars)), [bar.value for bar in bars], color=[bar.color for bar in bars], height=0.62)
    for y, (bar, patch) in enumerate(zip(bars, drawn, strict=True)):
        patch.set_alpha(bar.alpha)
        set_tips(patch, [f"{bar.name}: {bar.text}"])
        end = max(bar.value, bar.end), y
        ax.annotate(bar.text, end, xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(range(len(bars)), [plain_text(bar.name, MAX_LINE) for bar in bars])
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set(xlim=(0.0, 1.2 * max([max(bar.value, bar.end) for bar in bars] or [1.0]) or 1.0), xlabel=axis)
    finish_axes(ax)


def heat_map_figure(k: int) -> Figure:
    """Return an empty figure whose size suits a heat map of k rows and columns."""
    cells = {4: (0.7, 0.6), 8: (0.48, 0.42), 14: (0.34, 0.32)}
    width, height = next((size for max_classes, size in cells.items() if k <= max_classes), (0.3, 0.26))
    return new_figure(max(PAGE_WIDTH, 1.5 + width * k), 1.3 + height * k)


def draw_heat_map(ax: Axes, names: Sequence[str], cells: Sequence[HeatCell], across: str, down: str) -> None:
    """Draw colored cells whose rows (titled `down`) and columns (`across`) have the same names; others stay empty."""
    k = len(names)
    square = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    colors = [to_rgba(cell.color, 0.05 + 0.95 * float(np.clip(cell.depth, 0.0, 1.0))) for cell in cells]
    squares = [square + np.array([cell.column, cell.row]) for cell in cells]
    drawn = PolyCollection(squares, facecolors=colors, edgecolors="white", linewidths=1.5)
    set_tips(drawn, [cell.tip for cell in cells])
    ax.add_collection(drawn)
    fontsize = 7 if k > 8 else 8 if k > 4 else 9
    for cell in cells:
        if cell.text and k <= 26:
            ax.text(cell.column, cell.row, cell.text, ha="center", va="center", fontsize=fontsize)
    labels = [plain_text(name, 20) for name in names]
    is_rotated = max(map(len, labels), default=0) * k > 30
    ax.set_xticks(range(k), labels, rotation=40 if is_rotated else 0, ha="right" if is_rotated else "center")
    ax.set_yticks(range(k), labels)
    ax.tick_params(length=0, labelsize=9 if k <= 14 else 8)
    ax.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5), xlabel=f"{across} →", ylabel=f"← {down}")
    ax.spines[:].set_visible(False)


def draw_curves(ax: Axes, curves: Sequence[Curve], x: str, y: str) -> None:
    """Draw curves of shares over shares, both 0 to 1, with a dot and perhaps an interval at each point."""
    for curve in curves:
        ax.plot(curve.x, curve.y, color=curve.color, linewidth=1.6)
        if len(curve.low):
            ax.vlines(curve.x, curve.low, curve.high, colors=curve.color, linewidth=2.0, alpha=0.5)
        if len(curve.x):
            dots = ax.scatter(
                curve.x, curve.y, s=curve.sizes, color=curve.color, edgecolors="white", linewidths=0.8, zorder=3,
                clip_on=False,
            )  # fmt: skip
            set_tips(dots, curve.tips)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0.0, 0.5, 1.0], xlabel=x, ylabel=y)
    finish_axes(ax, grid="both")
