"""Pages: HTML files that need nothing else, light or dark, with tables that sort and figures that open larger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr
from genlabel.reporting.blocks import data_table, facts, figure, item_list
from genlabel.reporting.frame import contents, page, section
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, element, join, shorten

if TYPE_CHECKING:
    from genlabel.reporting.report import write_report

__all__ = [
    "Cell",
    "Markup",
    "contents",
    "data_table",
    "element",
    "facts",
    "figure",
    "item_list",
    "join",
    "page",
    "section",
    "shorten",
    "write_report",
]

__getattr__ = lazy_getattr(__name__, {"report": ("write_report",)})
