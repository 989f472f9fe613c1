"""Rows on a plane: a projection with mixed points and their two labels, and the regions of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel.reporting.charts.canvas import COLORS, LETTER, Axes, canvas, color, dot, label, legend, marks, num
from genlabel.reporting.markup import Markup, element

WIDTH, HEIGHT = 640, 430
SQUARES = 2 * COLORS
"""Classes that can be told apart by colour and shape; of more, the last share one look."""


class Mixed(NamedTuple):
    """A mixed point: where it is, the likeliest class of either label, and what it says."""

    x: float
    y: float
    first: int
    second: int
    said: str


def scatter(
    title: str,
    desc: str,
    points: NDArray[np.float64],
    index: NDArray[np.intp],
    names: Sequence[str],
    mixed: Sequence[Mixed] = (),
    axes_names: tuple[str, str] = ("", ""),
) -> Markup:
    """Return rows as dots coloured by class, and mixed points as discs of two halves.

    Parameters
    ----------
    title, desc : str
    points : array (n, 2)
    index : array (n,)
        Class numbers.
    names : sequence (k,)
        Of the classes.
    mixed : sequence of Mixed
        The left half of a disc has the colour of its first label, the right half that of its second.
    axes_names : pair of str

    Examples
    --------
    >>> drawn = scatter("t", "d", np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1]), ["a", "b"])
    >>> drawn.count("h0")
    2
    """
    key, tall = legend(class_legend(names), 14, 16, WIDTH - 20)
    spread = [(float(line.min()), float(line.max())) for line in points.T]
    around = [(low - 0.03 * (high - low or 1), high + 0.03 * (high - low or 1)) for low, high in spread]
    axes = Axes(48, tall + 10, WIDTH - 60, HEIGHT - 60, around[0], around[1])
    parts = [key, axes.below(axes_names[0], 7), axes.beside(axes_names[1])]
    parts += _dots(points, index, len(names), axes, 5.0, "faint" if len(mixed) else "")
    parts += [_halves(one, axes) for one in mixed]
    return canvas(title, desc, WIDTH, tall + HEIGHT - 6, *parts, wide=True)


def region_map(
    title: str,
    desc: str,
    edges: tuple[NDArray[np.float64], NDArray[np.float64]],
    regions: dict[str, NDArray[np.intp]],
    points: NDArray[np.float64],
    index: NDArray[np.intp],
    names: Sequence[str],
    axes_names: tuple[str, str],
) -> Markup:
    """Return a picture for each model: which class it takes every place for, and the rows.

    Parameters
    ----------
    title, desc : str
    edges : pair of arrays (a + 1,), (b + 1,)
        Of the places along x and y.
    regions : dict of name -> array (b, a)
        Class numbers.
    points, index, names, axes_names
        As of :func:`scatter`.
    """
    wide, high, gap, across = 290, 220, 50, 2
    key, tall = legend(class_legend(names), 14, 16, 2 * wide)
    parts: list[str] = [key]
    for place, (name, classes) in enumerate(regions.items()):
        left, top = 48 + (place % across) * (wide + gap), tall + 24 + (place // across) * (high + 66)
        x, y = edges
        axes = Axes(left, top, wide, high, (float(x[0]), float(x[-1])), (float(y[0]), float(y[-1])))
        parts.append(label(left, top - 6, name, "bold", int(wide / LETTER)))
        parts += [axes.below(axes_names[0], 4), axes.beside(axes_names[1], 4)]
        parts += [_region(classes == c, axes, x, y, c) for c in range(len(names)) if (classes == c).any()]
        parts += _dots(points, index, len(names), axes, 3.4)
    lines = -(-len(regions) // across)
    return canvas(title, desc, 48 + across * (wide + gap) - 20, tall + lines * (high + 66), *parts, wide=True)


def class_legend(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the entries of a legend of classes: the squares after the discs, the rest as one.

    >>> class_legend(["a", "b"])
    [('a', 'f1'), ('b', 'f2')]
    """
    shown = [(name, color(place)) for place, name in enumerate(names[:SQUARES])]
    shown = [
        (f"\N{BLACK SQUARE} {name}" if place >= COLORS else name, kind) for place, (name, kind) in enumerate(shown)
    ]
    more = len(names) - SQUARES
    return [*shown, (f"{more} other classes", "f8")] if more > 0 else shown


def _dots(
    points: NDArray[np.float64], index: NDArray[np.intp], k: int, axes: Axes, size: float, kind: str = ""
) -> list[Markup]:
    found = []
    for c in range(k):
        places = [(axes.across(x), axes.up(y)) for x, y in points[index == c].tolist()]
        if places:
            look = f"{color(c if c < SQUARES else COLORS - 1, 's')} {kind}".strip()
            found.append(marks(places, look, size, square=COLORS <= c < SQUARES))
    return found


def _halves(one: Mixed, axes: Axes) -> Markup:
    """A disc of two halves, mixup's label on the left and the stacked density's on the right; a small one if they
    agree."""
    x, y, r = axes.across(one.x), axes.up(one.y), 6
    if one.first == one.second:
        return dot(x, y, 3.4, one.said, f"{_fill(one.first)} edge")
    start = f"M{num(x)} {num(y - r)}a{r} {r} 0 0 "
    left = element("path", d=f"{start}0 0 {2 * r}z", class_=_fill(one.first))
    right = element("path", d=f"{start}1 0 {2 * r}z", class_=_fill(one.second))
    return element("g", element("title", one.said), left, right, class_="edge")


def _fill(place: int) -> str:
    return color(place if place < SQUARES else COLORS - 1)


def _region(here: NDArray[np.bool_], axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], place: int) -> Markup:
    """The places of a class as one path, a run of them at a time."""
    path = []
    for row, line in enumerate(here):
        bounds = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8)))
        bottom, top = axes.up(float(y[row])), axes.up(float(y[row + 1]))
        for start, end in bounds.reshape(-1, 2).tolist():
            left, right = axes.across(float(x[start])), axes.across(float(x[end]))
            path.append(f"M{num(left)} {num(top)}H{num(right)}V{num(bottom)}H{num(left)}z")
    return element("path", d="".join(path), class_=_fill(place), fill_opacity="0.28")
