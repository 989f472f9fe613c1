"""Curves beside one another: labels along lambda, and how often a probability came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from genlabel.reporting.charts.canvas import LETTER, Axes, canvas, color, dot, label, legend, num, segment
from genlabel.reporting.markup import Markup, element, join


class Point(NamedTuple):
    """A point of a curve, its interval if it has one, and what it says."""

    x: float
    y: float
    said: str = ""
    low: float | None = None
    high: float | None = None
    size: float = 3.5


class Series(NamedTuple):
    """A curve of a colour of the palette."""

    name: str
    points: Sequence[Point]
    color: int = 0
    dashed: bool = False


class Panel(NamedTuple):
    """One picture of several that stand side by side."""

    title: str
    series: Sequence[Series]


def panels(
    title: str,
    desc: str,
    shown: Sequence[Panel],
    x: str,
    y: str,
    *,
    entries: Sequence[tuple[str, str]] = (),
    diagonal: bool = False,
    size: float = 230,
) -> Markup:
    """Return pictures of the same two shares, 0 to 1, side by side.

    Parameters
    ----------
    title, desc : str
    shown : sequence of Panel
        Three or four at most.
    x, y : str
        What the axes are.
    entries : sequence of (name, class)
        The legend, as of :func:`genlabel.reporting.charts.canvas.legend`.
    diagonal : bool
        Whether x = y is drawn.
    size : float
        Of each picture.

    Examples
    --------
    >>> curve = Series("a", [Point(0.0, 0.0), Point(1.0, 1.0)])
    >>> panels("t", "d", [Panel("one", [curve])], "x", "y").count("<circle")
    2
    """
    gap, left = 34, 52
    width = left + len(shown) * (size + gap)
    key, tall = legend(entries, left, 16, width - left) if entries else (Markup(), 0.0)
    parts = [key]
    for place, panel in enumerate(shown):
        axes = Axes(left + place * (size + gap), tall + 26, size, size * 0.86, (0.0, 1.0), (0.0, 1.0))
        parts.append(label(axes.left, axes.top - 8, panel.title, "bold", int(size / LETTER)))
        parts += [axes.below(x), axes.beside(y if place == 0 else "")]
        if diagonal:
            parts.append(segment(axes.across(0), axes.up(0), axes.across(1), axes.up(1), "axis dashed"))
        parts += [_curve(series, axes) for series in panel.series]
    return canvas(title, desc, width, tall + 26 + size * 0.86 + 40, *parts, wide=len(shown) > 1)


def _curve(series: Series, axes: Axes) -> Markup:
    places = [(axes.across(one.x), axes.up(one.y)) for one in series.points]
    path = "L".join(f"{num(x)} {num(y)}" for x, y in places)
    kind = f"line {color(series.color, 's')}" + (" dashed" if series.dashed else "")
    parts = [element("path", d=f"M{path}", class_=kind)] if len(places) > 1 else []
    if not series.dashed:
        for one, (x, y) in zip(series.points, places, strict=True):
            if one.low is not None and one.high is not None:
                parts.append(
                    segment(x, axes.up(one.low), x, axes.up(one.high), f"line {color(series.color, 's')} faint")
                )
            parts.append(dot(x, y, one.size, one.said, f"{color(series.color)} edge"))
    return join(*parts)
