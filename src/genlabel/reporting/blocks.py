"""Blocks of a page: tables that sort and filter, figures that open larger, lists."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from genlabel.reporting.markup import Markup, element, join, shorten

FILTERED = 8
"""Rows from which a table has a filter."""
TALL = 25
"""Rows above which a table scrolls within itself."""
LONG = 24
"""Letters of a word that is broken where it must."""
MOST = 120
"""Letters of a cell; all of more are shown when the pointer rests on it."""


class Cell(NamedTuple):
    """A cell: what is written, and the number by which its column is sorted.

    `data_table` takes rows of them.
    """

    text: str
    value: float | None = None
    class_: str | None = None
    title: str | None = None
    """What is said when the pointer rests on it."""


def data_table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: Sequence[int] = (),
    best: Sequence[int] = (),
    sortable: bool = True,
    filterable: bool | None = None,
    sorted_by: int | None = None,
) -> Markup:
    """Return a table in a box that scrolls; the first cell of each row is its heading.

    Parameters
    ----------
    caption : str
    head : sequence of str
        Titles of the columns.
    rows : sequence of rows
        Of as many cells.
    words : sequence of int
        Columns of words, which wrap, beside the first.
    best : sequence of int
        Rows that are marked.
    sortable : bool
        By a button in each title.
    filterable : bool, optional
        By a box above; if not given, from eight rows on.
    sorted_by : int, optional
        The column by which the rows are sorted already, the smallest first.

    Examples
    --------
    >>> data_table("Sizes", ["name", "cm"], [["a < b", Cell("1.0", 1.0)]])[:44]
    '<div class="scroll" role="region" tabindex="'
    """
    filters = len(rows) >= FILTERED if filterable is None else filterable
    kinds = " ".join([*(["sortable"] if sortable else []), *(["filterable"] if filters else [])])
    titles = [
        element(
            "th",
            title,
            scope="col",
            class_="words" if place in words else None,
            aria_sort="ascending" if sortable and place == sorted_by else None,
        )
        for place, title in enumerate(head)
    ]
    lines = [
        element("tr", *_cells(row, words), class_="best" if place in best else None) for place, row in enumerate(rows)
    ]
    table = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *titles)),
        element("tbody", *lines),
        class_=kinds or None,
    )
    kind = "scroll tall" if len(rows) > TALL else "scroll"
    return element("div", table, class_=kind, role="region", tabindex="0", aria_label=caption)


def figure(drawn: str, *caption: str, class_: str | None = None) -> Markup:
    """Return a picture, drawn as SVG or an image, that opens larger, with a sentence under it.

    >>> figure(element("svg"), "What it says.")
    '<figure><div class="drawn"><svg></svg></div><figcaption>What it says.</figcaption></figure>'
    """
    return element("figure", element("div", drawn, class_="drawn"), element("figcaption", *caption), class_=class_)


def facts(pairs: dict[str, str]) -> Markup:
    """Return names with their values; those without are left out.

    >>> facts({"rows": "150", "groups": ""})
    '<dl><dt>rows</dt><dd>150</dd></dl>'
    """
    shown = [join(element("dt", name), element("dd", value)) for name, value in pairs.items() if value]
    return element("dl", *shown)


def item_list(items: Sequence[str], class_: str | None = None) -> Markup:
    """Return a plain list.

    >>> item_list(["a & b"])
    '<ul><li>a &amp; b</li></ul>'
    """
    return element("ul", *(element("li", item) for item in items), class_=class_)


def _cells(row: Sequence[str | Cell], words: Sequence[int]) -> list[Markup]:
    cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
    return [_cell(cell, place == 0, place in words) for place, cell in enumerate(cells)]


def _cell(cell: Cell, first: bool, words: bool) -> Markup:
    if not isinstance(cell.text, Markup) and len(cell.text) > MOST:
        cell = cell._replace(text=shorten(cell.text, MOST, tail=False), title=cell.title or cell.text)
    long = any(len(word) > LONG for word in cell.text.split()) and not isinstance(cell.text, Markup)
    kinds = " ".join(kind for kind in ("words" if words else "", "long" if long else "", cell.class_ or "") if kind)
    said = {"class_": kinds or None, "title": cell.title, "data_v": _sorting(cell.value)}
    return element("th", cell.text, scope="row", **said) if first else element("td", cell.text, **said)


def _sorting(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.6g}" if isfinite(value) else ""
