"""HTML and SVG from Python: elements whose text is escaped, whatever it holds."""

from __future__ import annotations

import re
from html import escape
from typing import final

VOID = frozenset({"br", "img", "input", "link", "meta"})
"""Elements of HTML that hold nothing and have no end."""
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Letters that no page may hold."""
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of all that follows, also of what is not theirs."""


@final
class Markup(str):
    """Text that is HTML already and is not escaped again.

    >>> element("p", Markup("<b>bold</b>"), " and <b>")
    '<p><b>bold</b> and &lt;b&gt;</p>'
    """

    __slots__ = ()


def element(name: str, /, *inside: str, **attributes: str | float | bool | None) -> Markup:
    """Return an element with its attributes; text inside is escaped, other elements are not.

    A name that Python keeps for itself is written with "_" at its end; within a name, "_" becomes "-". An attribute
    that is None or False is left out.

    >>> element("p", "a < b ", element("b", "c"), class_="note")
    '<p class="note">a &lt; b <b>c</b></p>'
    """
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{words}>" if name in VOID else f"<{name}{words}>{join(*inside)}</{name}>")


def join(*parts: str) -> Markup:
    """Return the parts as one, those that are no HTML escaped.

    >>> join("&", element("b", "c"))
    '&amp;<b>c</b>'
    """
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def escaped(text: str) -> Markup:
    r"""Return text that a page shows as it is; control letters are replaced, marks that turn what follows are named.

    >>> escaped('<b title="x">\x00')
    '&lt;b title=&quot;x&quot;&gt;�'
    >>> escaped("\u202eabc")
    '[U+202E]abc'
    """
    known = UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
    return Markup(escape(TURNING.sub(lambda mark: f"[U+{ord(mark[0]):04X}]", known)))


def shorten(text: object, longest: int = 24, tail: bool = True) -> str:
    """Return a text in at most so many letters, on one line: its beginning and, unless it is a sentence, its end.

    Names that begin alike often end in a number: with its tail, a short name is told from the others.

    >>> shorten("lily of the valley, number 12", 16)
    'lily of t…ber 12'
    >>> shorten("lily of the valley, number 12", 12, tail=False)
    'lily of the…'
    """
    line = " ".join(str(text).split())
    if len(line) <= longest:
        return line
    kept = (2 * (longest - 1)) // 5 if tail else 0
    return line[: longest - 1 - kept].rstrip() + "…" + line[len(line) - kept :].lstrip()
