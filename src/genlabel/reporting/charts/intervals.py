"""Dots with their intervals, a line for each method or gain, and bars."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from genlabel.reporting.charts.canvas import LETTER, Axes, canvas, color, dot, label, num, segment
from genlabel.reporting.markup import Markup, element, join

ROW = 27
NAMES = 28
"""Letters of a name, at most."""
WIDTH = 640


class Interval(NamedTuple):
    """A value with its interval."""

    name: str
    value: float
    low: float
    high: float
    color: int = 0
    """Its place in the palette."""


class Bar(NamedTuple):
    """A bar, and what is written at its end."""

    name: str
    value: float
    text: str
    color: int = 0


def interval_plot(
    title: str, desc: str, rows: Sequence[Interval], axis: str, *, digits: int = 3, zero: bool = False
) -> Markup:
    """Return a line for each row: a dot with its interval.

    Parameters
    ----------
    title, desc : str
    rows : sequence of Interval
        From top to bottom.
    axis : str
        What is measured, and which way is better.
    digits : int
    zero : bool
        Whether zero is shown, and has a line of its own.

    Examples
    --------
    >>> interval_plot("Gains", "Two.", [Interval("a", 1.0, 0.5, 1.5)], "gain").count("<circle")
    1
    """
    left = 14 + LETTER * max([min(NAMES, len(row.name)) for row in rows] or [1])
    axes = Axes(left, 8, WIDTH - left - 74, ROW * len(rows), _range(rows, zero))
    parts = [axes.below(axis)]
    if zero:
        parts.append(segment(axes.across(0), axes.top, axes.across(0), axes.top + axes.height, "axis"))
    for place, row in enumerate(rows):
        parts.append(_row(row, axes, axes.top + ROW * (place + 0.5), digits))
    return canvas(title, desc, WIDTH, axes.height + 52, *parts, wide=True)


def bar_chart(title: str, desc: str, bars: Sequence[Bar], axis: str, top: float | None = None) -> Markup:
    """Return horizontal bars from zero on.

    >>> bar_chart("Rows", "One class.", [Bar("a", 3.0, "3 rows")], "rows").count("<rect")
    1
    """
    left = 14 + LETTER * max([min(NAMES, len(bar.name)) for bar in bars] or [1])
    longest = max([len(bar.text) for bar in bars] or [1])
    end = top if top is not None else max([bar.value for bar in bars] or [1.0]) or 1.0
    axes = Axes(left, 6, WIDTH - left - 14 - LETTER * longest, 22 * len(bars), (0.0, end))
    parts = [axes.below(axis)]
    for place, bar in enumerate(bars):
        y, width = axes.top + 22 * place + 4, axes.across(bar.value) - axes.left
        parts.append(label(left - 6, y + 11, bar.name, "end", NAMES))
        said = element("title", f"{bar.name}: {bar.text}")
        parts.append(
            element("rect", said, x=num(left), y=num(y), width=num(width), height="14", class_=color(bar.color))
        )
        parts.append(label(left + width + 5, y + 11, bar.text, "small halo"))
    return canvas(title, desc, WIDTH, axes.height + 46, *parts, wide=True)


def _row(row: Interval, axes: Axes, y: float, digits: int) -> Markup:
    x = axes.across(row.value)
    said = f"{row.name}: {row.value:.{digits}f}"
    parts = [label(axes.left - 8, y + 4, row.name, "end", NAMES)]
    if isfinite(row.low) and isfinite(row.high) and row.high > row.low:
        said += f" (95 % interval {row.low:.{digits}f} to {row.high:.{digits}f})"
        ends = axes.across(row.low), axes.across(row.high)
        parts.append(
            element("path", d=f"M{num(ends[0])} {num(y)}H{num(ends[1])}", class_=f"line {color(row.color, 's')}")
        )
    parts.append(dot(x, y, 5.5, said, f"{color(row.color)} edge"))
    parts.append(
        label(axes.left + axes.width + 8, y + 4, f"{row.value:.{digits}f}".replace("-", "\N{MINUS SIGN}"), "small bold")
    )
    return join(*parts)


def _range(rows: Sequence[Interval], zero: bool) -> tuple[float, float]:
    """All values and intervals, with some room."""
    ends = [end for row in rows for end in (row.value, row.low, row.high) if isfinite(end)] + [0.0] * zero or [0.0]
    room = 0.06 * (max(ends) - min(ends)) or 0.5
    return min(ends) - room, max(ends) + room
