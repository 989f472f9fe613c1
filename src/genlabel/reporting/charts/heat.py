"""Heat maps: a cell for each pair of classes, the deeper the more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from genlabel.reporting.charts.canvas import LETTER, canvas, label, num
from genlabel.reporting.markup import Markup, element, shorten

NAMES = 20


class HeatCell(NamedTuple):
    """A cell: how deep its colour is, what is written in it, and what it says."""

    depth: float
    """0 to 1."""
    text: str
    said: str
    kind: str = "heat"
    """"heat" or "cool"."""


def heat_map(
    title: str,
    desc: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[HeatCell | None]],
    *,
    across: str,
    down: str,
) -> Markup:
    """Return a table of colours with words in it.

    Parameters
    ----------
    title, desc : str
    rows, columns : sequence of str
        Names.
    cells : rows of HeatCell or None
        None leaves a place empty.
    across, down : str
        What columns and rows are.

    Examples
    --------
    >>> heat_map("t", "d", ["a"], ["a"], [[HeatCell(0.5, "50", "a: 50 %")]], across="one", down="other").count("<rect")
    1
    """
    wide, high = _cell_size(len(columns))
    left = 30 + LETTER * max([len(shorten(name, NAMES)) for name in rows] or [1])
    turned = max([len(shorten(name, NAMES)) for name in columns] or [1]) * LETTER > wide - 6
    top = 30 + (0.64 * LETTER * max(len(shorten(name, NAMES)) for name in columns) if turned else 14)
    parts = [
        label(left, 14, f"{across} \N{RIGHTWARDS ARROW}", "dim small"),
        _side(f"{down} \N{RIGHTWARDS ARROW}", top, high * len(rows)),
    ]
    for place, name in enumerate(columns):
        parts.append(_column_name(name, left + wide * (place + 0.5), top - 6, turned))
    for i, (name, line) in enumerate(zip(rows, cells, strict=True)):
        parts.append(label(left - 6, top + high * (i + 0.5) + 4, name, "end", NAMES))
        parts += [
            _cell(cell, left + wide * j, top + high * i, wide, high) for j, cell in enumerate(line) if cell is not None
        ]
    width = left + wide * len(columns) + (0.75 * LETTER * len(shorten(columns[-1], NAMES)) if turned else 8)
    return canvas(title, desc, max(width, 240), top + high * len(rows) + 8, *parts, wide=len(columns) > 6)


def _cell_size(count: int) -> tuple[float, float]:
    for most, size in ((4, (84, 48)), (8, (60, 38)), (14, (42, 28)), (26, (27, 22))):
        if count <= most:
            return size
    return 15, 15


def _column_name(name: str, x: float, y: float, turned: bool) -> Markup:
    if not turned:
        return label(x, y, name, "mid", NAMES)
    return label(x, y, name, "", NAMES, transform=f"rotate(-40 {num(x)} {num(y)})")


def _side(words: str, top: float, height: float) -> Markup:
    x, y = 12, top + min(height, LETTER * len(words))
    return label(x, y, words, "dim small", transform=f"rotate(-90 {num(x)} {num(y)})")


def _cell(cell: HeatCell, x: float, y: float, wide: float, high: float) -> Markup:
    said = element("title", cell.said)
    box = element(
        "rect", said, x=num(x), y=num(y), width=num(wide), height=num(high), class_=f"{cell.kind} cell",
        fill_opacity=f"{0.05 + 0.95 * min(1.0, max(0.0, cell.depth)):.2f}",
    )  # fmt: skip
    if not cell.text or wide < 20:
        return box
    small = "small mid" if wide < 50 else "mid"
    quiet = {"pointer_events": "none"}
    return Markup(box + label(x + wide / 2, y + high / 2 + 4, cell.text, small, 12, **quiet))
