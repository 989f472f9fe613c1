"""The list of pages beside every page, resolved once: Sphinx resolves it for each page, a third of the build time."""

from __future__ import annotations

import re
from posixpath import dirname, relpath
from typing import Any

HREF = re.compile(r'<a class="([^"]*)" href="([^"]*)"')


def setup(app: Any) -> dict[str, bool]:
    """Register the list, in front of the theme, which asks for it."""
    app.connect("html-page-context", _cache, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _cache(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    builder, here = app.builder, app.builder.get_target_uri(page)

    def toctree(**options: Any) -> str:
        lists = builder.__dict__.setdefault("_genlabel_lists", {})
        key = tuple(sorted(options.items()))
        if key not in lists:
            pages = builder._get_local_toctree(app.config.root_doc, **options)
            lists[key] = pages.replace('role="heading"', 'role="heading" aria-level="2"')  # a screen reader needs it
        return list_for(lists[key], here)

    if "toctree" in context:
        context["toctree"] = toctree


def list_for(pages: str, here: str) -> str:
    """Return the list of the start page with the links, and the current entries, of another page.

    >>> list_for('<li class="l1"><a class="reference" href="api/mixing.html">mixing</a></li>', "api/mixing.html")
    '<li class="current l1"><a class="current reference" href="#">mixing</a></li>'
    """
    at = pages.find(f'href="{here}"')
    head, tail = (pages[:at], pages[at:]) if at >= 0 else ("", pages)
    open_items: list[int] = []
    for tag in re.finditer(r"<li |</li>", head):
        open_items = [*open_items, tag.end()] if tag[0] == "<li " else open_items[:-1]
    for place in reversed(open_items):
        head = f'{head[:place]}class="current {head[place:].removeprefix("class=" + chr(34))}'
    if head:
        start = head.rindex('class="') + len('class="')
        head = f"{head[:start]}current {head[start:]}"
    return HREF.sub(lambda link: f'<a class="{link[1]}" href="{_lead(link[2], here)}"', head + tail)


def _lead(link: str, here: str) -> str:
    return "#" if link == here else link if "://" in link else relpath(link, dirname(here) or ".")
