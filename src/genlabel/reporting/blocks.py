"""Blocks of a page as functions, until the last page is a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from genlabel.reporting.html import Cell, DataTable, environment, macro
from genlabel.reporting.markup import join


def data_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str | Cell]], **options: Any) -> Markup:
    """Return a `DataTable` as HTML."""
    cells = [[_with_content(cell if isinstance(cell, Cell) else Cell(cell)) for cell in row] for row in rows]
    draw = environment().get_template("macros.j2").module.data_table  # type: ignore[attr-defined]
    rendered: Markup = draw(
        DataTable(caption, head, cells, **options),
        caller=lambda cell: cell.shown if cell.content is None else cell.content,
    )
    return rendered


def _with_content(cell: Cell) -> Cell:
    return replace(cell, text="", content=cell.text) if isinstance(cell.text, Markup) else cell


def figure(drawing: str, *caption: str, class_: str | None = None) -> Markup:
    """Return a drawing with its caption."""
    return macro("figure", drawing, join(*caption), class_ or "")


def facts(pairs: dict[str, str]) -> Markup:
    """Return names with their values."""
    return macro("facts", pairs)


def item_list(items: Sequence[str], class_: str | None = None) -> Markup:
    """Return a plain list."""
    return macro("item_list", items, class_ or "")
