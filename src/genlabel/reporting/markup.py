"""Elements built in Python, until the last page is a template."""

from __future__ import annotations

from markupsafe import Markup, escape

from genlabel.reporting.html import clean_text, shorten

__all__ = ["Markup", "element", "escaped", "join", "shorten"]

VOID = frozenset({"br", "img", "input", "link", "meta"})


def element(name: str, /, *inside: str, **attributes: str | float | bool | None) -> Markup:
    """Return an element with its attributes; text inside is escaped, other elements are not."""
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{words}>" if name in VOID else f"<{name}{words}>{join(*inside)}</{name}>")


def join(*parts: str) -> Markup:
    """Return the parts as one, those that are no HTML escaped."""
    return Markup("".join(escaped(part) for part in parts))


def escaped(text: str) -> Markup:
    """Return text that a page shows as it is."""
    return escape(clean_text(text))
