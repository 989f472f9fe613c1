"""Pages: HTML files that need nothing else, light or dark, with tables that sort and figures that open larger."""

from genlabel.pages.blocks import Cell, data_table, facts, figure, item_list
from genlabel.pages.frame import contents, page, section
from genlabel.pages.markup import Markup, element, join, shorten

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
]
