"""Checks of the built site: links and anchors resolve, nothing is loaded from a network, no page is far from the start.

Sphinx checks the links that it resolves; these checks also read raw HTML, styles, and what themes and extensions write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from os.path import normpath
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

ID = re.compile(r'\b(?:id|name)="([^"]+)"')
LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')
LOADED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*?\bsrc="([^"]+)"|<(?:link|use)\b[^>]*?\bhref="([^"]+)"')
MAX_CLICKS = 3
INDICES = ("_modules", "genindex.html", "py-modindex.html", "search.html")
logger = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """Register the checks; each fault is a warning, which `make docs` makes an error."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        for fault in site_faults(Path(app.outdir)):
            logger.warning(fault)


class Page(NamedTuple):
    """The ids of a page, its links, and the files that a browser loads with it."""

    ids: set[str]
    links: set[str]
    loaded: set[str]

    @classmethod
    def parse(cls, text: str) -> Page:
        """Read the HTML of a page."""
        loaded = {unescape(src or href) for src, href in LOADED.findall(text)}
        return cls({unescape(one) for one in ID.findall(text)}, {unescape(one) for one in LINK.findall(text)}, loaded)


def site_faults(folder: Path) -> list[str]:
    """Return the faults of a site, one line each."""
    folder = folder.resolve()
    pages = {path: Page.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    faults = [*_broken_links(pages, folder), *_remote_files(pages, folder), *_far_pages(pages, folder)]
    return [f"{path.relative_to(folder)}: {fault}" for path, fault in faults]


@cache
def _resolve(folder: Path, link: str) -> Path:
    return Path(normpath(folder / unquote(link)))


def _broken_links(pages: dict[Path, Page], folder: Path) -> Iterator[tuple[Path, str]]:
    exists = cache(Path.exists)
    for path, page in pages.items():
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = _resolve(path.parent, parts.path) if parts.path else path
            anchor = unquote(parts.fragment)
            if not exists(target) or not target.is_relative_to(folder):
                yield path, f"{link} is no file of the site"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield path, f"{link} has no such anchor"


def _remote_files(pages: dict[Path, Page], folder: Path) -> Iterator[tuple[Path, str]]:
    for path, page in pages.items():
        yield from ((path, f"loads {link}") for link in sorted(page.loaded) if urlsplit(link).netloc)
    for path in sorted(folder.rglob("*.css")):
        text = path.read_text(encoding="utf-8").replace(" ", "")
        if "url(http" in text or "url(//" in text or "@import" in text:
            yield path, "loads from a network"


def _far_pages(pages: dict[Path, Page], folder: Path) -> Iterator[tuple[Path, str]]:
    near = edge = {folder / "index.html"} & pages.keys()
    for _ in range(MAX_CLICKS):
        edge = {_resolve(path.parent, urlsplit(link).path) for path in edge for link in pages[path].links}
        edge = (edge & pages.keys()) - near
        near = near | edge
    for path in pages if near else ():
        if path not in near and path.relative_to(folder).parts[0] not in INDICES:
            yield path, f"more than {MAX_CLICKS} clicks from the start page"
