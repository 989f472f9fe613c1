"""Charts of a report, drawn on matplotlib axes: intervals, bars, heat maps, curves, points and regions of the plane.

Marks have texts, which a page shows under the pointer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from genlabel.reporting.figures import GRAY, HEAT, PALETTE, finish_axes, new_figure, plain_text
from genlabel.reporting.svg import DECORATION, set_tips

MAX_LOOKS = 2 * len(PALETTE)
"""Classes that differ by color or shape; further ones share the last look."""
Values = NDArray[np.float64]


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


def draw_intervals(ax: Axes, rows: Sequence[Interval], axis: str, digits: int = 3, zero: bool = False) -> None:
    """Draw a row for each value: a dot, its interval, and the value at the right.

    Parameters
    ----------
    ax : Axes
    rows : sequence of Interval
        From top to bottom.
    axis : str
        Title of the axis: the quantity, and which way is better.
    digits : int
    zero : bool
        If True, zero is in view and has a line.

    Examples
    --------
    >>> ax = Figure().subplots()
    >>> draw_intervals(ax, [Interval("a", 1.0, 0.5, 1.5)], "gain")
    >>> [text.get_text() for text in ax.texts]
    ['1.000']
    """
    if zero:
        ax.axvline(0.0, color="black", linewidth=1.0)
    for place, row in enumerate(rows):
        tip = f"{row.name}: {row.value:.{digits}f}"
        if isfinite(row.low) and isfinite(row.high) and row.high > row.low:
            tip += f" (95 % interval {row.low:.{digits}f} to {row.high:.{digits}f})"
            ax.plot([row.low, row.high], [place, place], color=row.color, linewidth=2.5, solid_capstyle="round")
        (mark,) = ax.plot([row.value], [place], "o", color=row.color, markeredgecolor="white", markersize=9)
        set_tips(mark, [tip])
        value = f"{row.value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
        ax.text(1.02, place, value, transform=ax.get_yaxis_transform(), va="center", fontsize=9, fontweight="bold")
        if row.note:
            ax.annotate(
                row.note, (row.value, place), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [plain_text(row.name, 30) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.7)
    ax.set_xlabel(axis)
    ax.margins(x=0.08)
    finish_axes(ax)


def draw_bars(ax: Axes, bars: Sequence[Bar], axis: str) -> None:
    """Draw horizontal bars from zero on, from top to bottom.

    >>> ax = Figure().subplots()
    >>> draw_bars(ax, [Bar("a", 3.0, "3 rows")], "rows")
    >>> float(ax.patches[0].get_width())
    3.0
    """
    drawn = ax.barh(range(len(bars)), [bar.value for bar in bars], color=[bar.color for bar in bars], height=0.62)
    for place, (bar, patch) in enumerate(zip(bars, drawn, strict=True)):
        patch.set_alpha(bar.alpha)
        set_tips(patch, [f"{bar.name}: {bar.text}"])
        at = max(bar.value, bar.end), place
        ax.annotate(bar.text, at, xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(range(len(bars)), [plain_text(bar.name, 30) for bar in bars])
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set_xlim(0.0, 1.2 * max([max(bar.value, bar.end) for bar in bars] or [1.0]) or 1.0)
    ax.set_xlabel(axis)
    finish_axes(ax)


def draw_heat_map(
    ax: Axes, rows: Sequence[str], columns: Sequence[str], cells: Sequence[HeatCell], across: str, down: str
) -> None:
    """Draw a table of colored cells; places without a cell stay empty.

    Parameters
    ----------
    ax : Axes
    rows, columns : sequence of str
        Names.
    cells : sequence of HeatCell
    across, down : str
        Titles of the columns and of the rows.

    Examples
    --------
    >>> ax = Figure().subplots()
    >>> draw_heat_map(ax, ["a"], ["a"], [HeatCell(0, 0, 0.5, "50", "a: 50 %")], across="one", down="other")
    >>> len(ax.collections[0].get_paths())
    1
    """
    square = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    colors = [to_rgba(cell.color, 0.05 + 0.95 * min(1.0, max(0.0, cell.depth))) for cell in cells]
    squares = [square + np.array([cell.column, cell.row]) for cell in cells]
    drawn = PolyCollection(squares, facecolors=colors, edgecolors="white", linewidths=1.5)
    set_tips(drawn, [cell.tip for cell in cells])
    ax.add_collection(drawn)
    size = 9 if len(columns) <= 4 else 8 if len(columns) <= 8 else 7
    for cell in cells:
        if cell.text and len(columns) <= 26:
            ax.text(cell.column, cell.row, cell.text, ha="center", va="center", fontsize=size)
    names = [plain_text(name, 20) for name in columns]
    turned = max(map(len, names), default=0) * len(names) > 45
    ax.set_xticks(range(len(names)), names, rotation=40 if turned else 0, ha="right" if turned else "center")
    ax.set_yticks(range(len(rows)), [plain_text(name, 20) for name in rows])
    ax.tick_params(length=0, labelsize=9 if len(columns) <= 14 else 8)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlabel(f"{across} →")
    ax.set_ylabel(f"← {down}")
    ax.spines[:].set_visible(False)


def heat_map_figure(k: int) -> Figure:
    """Return an empty figure whose size suits a heat map of k rows and columns."""
    width, height = next(
        (size for most, size in ((4, (0.95, 0.6)), (8, (0.72, 0.48)), (14, (0.46, 0.34))) if k <= most), (0.3, 0.26)
    )
    return new_figure(1.9 + width * k, 1.2 + height * k)


def draw_curves(ax: Axes, curves: Sequence[Curve], x: str, y: str, joined: bool = True) -> None:
    """Draw curves of shares over shares, both 0 to 1, with a dot and perhaps an interval at each point.

    >>> ax = Figure().subplots()
    >>> draw_curves(ax, [Curve([0.0, 1.0], [0.0, 1.0], ["low", "high"])], "x", "y")
    >>> len(ax.collections[0].get_offsets())
    2
    """
    for curve in curves:
        if joined:
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


def draw_classes(ax: Axes, points: Values, index: NDArray[np.intp], k: int, size: float, alpha: float = 1.0) -> None:
    """Draw points (n, 2) as one path for each class: discs of eight colors, then squares of the same colors.

    A point is a line of no length with a round or square end, which is the smallest SVG that draws it.
    """
    span = 1e-6 * (float(np.ptp(points[:, 0])) or 1.0)
    for c in range(k):
        here = points[index == c]
        if len(here):
            ends = np.stack([here, here + np.array([span, 0.0])], axis=1).reshape(-1, 2)
            path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(here)))
            path.should_simplify = False
            square = len(PALETTE) <= c < MAX_LOOKS
            look = {"edgecolor": class_color(c), "linewidth": size * (0.8 if square else 1.0), "alpha": alpha}
            ax.add_patch(PathPatch(path, fill=False, capstyle="projecting" if square else "round", **look))


def draw_halves(ax: Axes, points: Values, left: NDArray[np.intp], right: NDArray[np.intp], tips: Sequence[str]) -> None:
    """Draw points (m, 2) as discs whose halves have the colors of two classes; small discs where both are the same."""
    different = left != right
    for chosen, size in ((~different, 24.0), (different, 75.0)):
        if chosen.any():
            colors = [class_color(c) for c in right[chosen]]
            discs = ax.scatter(
                points[chosen, 0], points[chosen, 1], s=size, c=colors, edgecolors="white", linewidths=0.6, zorder=3
            )
            set_tips(discs, [tip for tip, one in zip(tips, chosen, strict=True) if one])
    if different.any():
        colors = [class_color(c) for c in left[different]]
        halves = ax.scatter(
            points[different, 0],
            points[different, 1],
            s=75.0,
            c=colors,
            marker=Path.wedge(90, 270),
            linewidths=0,
            zorder=3.1,
        )
        halves.set_gid(DECORATION)


def draw_regions(ax: Axes, x: Values, y: Values, regions: NDArray[np.intp]) -> None:
    """Fill the cells of the plane in the pale colors of their classes.

    Parameters
    ----------
    ax : Axes
    x, y : arrays (a + 1,), (b + 1,)
        Edges of the cells.
    regions : array (b, a)
        Class indices.
    """
    for c in np.unique(regions):
        vertices = []
        for row, line in enumerate(regions == c):  # runs of cells of the class
            bounds = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8)))
            for start, end in bounds.reshape(-1, 2):
                (left, right), (low, high) = (x[start], x[end]), (y[row], y[row + 1])
                vertices += [(left, low), (right, low), (right, high), (left, high), (left, low)]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(vertices) // 5)
        ax.add_patch(PathPatch(Path(vertices, codes), facecolor=class_color(int(c)), alpha=0.28, linewidth=0))
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def add_class_legend(figure: Figure, names: Sequence[str]) -> None:
    """Add a legend of the classes at the top; those that share a look are one entry."""
    handles = []
    for c, name in enumerate(names[:MAX_LOOKS]):
        marker = "s" if c >= len(PALETTE) else "o"
        handles.append(Line2D([], [], marker=marker, linewidth=0, color=class_color(c), label=plain_text(name, 26)))
    if len(names) > MAX_LOOKS:
        label = f"{len(names) - MAX_LOOKS} other classes"
        handles.append(Line2D([], [], marker="o", linewidth=0, color=GRAY, label=label))
    figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False, fontsize=9)


def class_color(c: int) -> str:
    """Return the color of a class by its index.

    >>> class_color(0), class_color(8), class_color(99)
    ('#0072b2', '#0072b2', '#6b6b6b')
    """
    return PALETTE[c % len(PALETTE)] if c < MAX_LOOKS else GRAY
