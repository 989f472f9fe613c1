"""The frame of a page: one HTML file with its style and its script inside, that asks nothing of a network."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from genlabel.reporting.markup import Markup, element


def page(title: str, header: str, *main: str, css: str = "") -> str:
    """Return a whole page; the same parts give the same text.

    A page may load nothing and run no script but its own: its content security policy says so.

    Parameters
    ----------
    title : str
        Of the window.
    header : str
        What stands first, beside the switch of the theme.
    main : str
        The sections.
    css : str
        Style beside the common one.

    Examples
    --------
    >>> page("A <title>", element("h1", "Words")).startswith("<!DOCTYPE html>")
    True
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("title", title),
        element("style", Markup(style() + css)),
    )
    switch = element("button", "Dark", type="button", id="theme", hidden=True, aria_pressed="false")
    skip = element("a", "Skip to the contents", class_="skip", href="#main")
    body = element(
        "body",
        skip,
        element("header", switch, header),
        element("main", *main, id="main"),
        element("script", Markup(script())),
    )
    return "<!DOCTYPE html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def section(name: str, title: str, *inside: str) -> Markup:
    """Return a section with an id and a heading.

    >>> section("notes", "Notes", "None.")
    '<section id="notes"><h2>Notes</h2>None.</section>'
    """
    return element("section", element("h2", title), *inside, id=name)


def contents(titles: dict[str, str]) -> Markup:
    """Return links to the sections, by their ids.

    >>> contents({"notes": "Notes"})
    '<nav aria-label="Contents"><ul><li><a href="#notes">Notes</a></li></ul></nav>'
    """
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in titles.items()]
    return element("nav", element("ul", *links), aria_label="Contents")


@cache
def style() -> str:
    """Return the common style, in CSS."""
    return _read("page.css")


@cache
def script() -> str:
    """Return the script of every page: theme, sorting, filters, values, figures that open larger."""
    return _read("page.js")


def _read(name: str) -> str:
    return "\n" + files("genlabel.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy() -> str:
    """What a page may do: show what is in it, and run this script and no other."""
    digest = b64encode(sha256(script().encode()).digest()).decode()
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src 'sha256-{digest}'; {rest}"
