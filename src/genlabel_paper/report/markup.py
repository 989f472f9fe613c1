"""Pictures within the page."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO

import matplotlib

from genlabel.pages import Markup, element, figure
from genlabel_paper.report.pieces import Picture

__all__ = ["picture"]


def picture(shown: Picture) -> Markup:
    """Return a figure with its picture in the page itself, as SVG; the same picture gives the same text.

    >>> from matplotlib.figure import Figure
    >>> picture(Picture("Nothing.", Figure()))[:67]
    '<figure class="light"><div class="drawn"><img src="data:image/svg+x'
    """
    file = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "genlabel"}):
        shown.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    source = f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"
    return figure(element("img", src=source, alt=shown.alt or shown.caption), shown.caption, class_="light")
