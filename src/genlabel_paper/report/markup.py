"""HTML from Python: elements whose text is escaped, and pictures within the page."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import final

import matplotlib

from genlabel_paper.report.pieces import Picture

__all__ = ["Markup", "element", "join", "picture"]


@final
class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def element(name: str, *inside: str, **attributes: str | bool | None) -> Markup:
    """Return an element with its attributes; text inside is escaped, other elements are not.

    A name that Python keeps for itself is written with "_" at its end; within a name, "_" becomes "-".

    >>> element("p", "a < b ", element("b", "c"), class_="note")
    '<p class="note">a &lt; b <b>c</b></p>'
    """
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{words}>{join(*inside)}</{name}>")


def join(*parts: str) -> Markup:
    """Return the parts as one, those that are no HTML escaped.

    >>> join("&", element("b", "c"))
    '&amp;<b>c</b>'
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def picture(shown: Picture) -> Markup:
    """Return a figure with its picture in the page itself, as SVG; the same picture gives the same text.

    >>> from matplotlib.figure import Figure
    >>> picture(Picture("Nothing.", Figure()))[:41]
    '<figure><img src="data:image/svg+xml;base'
    """
    file = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "genlabel"}):
        shown.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    source = f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"
    image = Markup(f'<img src="{source}" alt="{escape(shown.alt or shown.caption)}">')
    return element("figure", image, element("figcaption", shown.caption))
