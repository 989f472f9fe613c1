"""Figures of the report."""

from __future__ import annotations

from genlabel.reporting import Markup, figure
from genlabel.reporting.svg import inline_svg
from genlabel_paper.report.pieces import Picture


def picture(shown: Picture, name: str) -> Markup:
    """Return a figure that opens larger, with its caption; the same picture gives the same text.

    Parameters
    ----------
    shown : Picture
    name : str
        Start of its ids, which differs from that of any other picture of the page.
    """
    return figure(inline_svg(shown.figure, name, shown.alt or shown.caption), shown.caption)
