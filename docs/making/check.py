"""What a built site must show: links and anchors that resolve, nothing from a network, and every public name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from os.path import normpath
from pathlib import Path
from typing import final
from urllib.parse import unquote, urlsplit

__all__ = ["check_names", "check_site", "far_pages", "has_source", "missing_links", "remote_parts", "target_of"]

ID = re.compile(r'\b(?:id|name)="([^"]+)"')
LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')
LOADED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*?\bsrc="([^"]+)"|<(?:link|use)\b[^>]*?\bhref="([^"]+)"')
"""What a browser fetches without being asked."""
CLICKS = 3
"""No page may be farther from the start page than this."""
ASIDE = ("_modules", "genindex.html", "py-modindex.html", "search.html")
"""Code, and what Sphinx writes for the search."""


@final
class Page:
    """The ids of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        self.ids = {unescape(name) for name in ID.findall(text)}
        self.links = {unescape(link) for link in LINK.findall(text)}
        self.loaded = {unescape(first or second) for first, second in LOADED.findall(text)}


def check_site(folder: Path) -> list[str]:
    """Return what is wrong with a site, a line each; none if all is well."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    return [*missing_links(pages, folder), *remote_parts(pages, folder), *far_pages(pages, folder)]


def far_pages(pages: dict[Path, Page], folder: Path) -> Iterator[str]:
    """Say which pages take more than three clicks from the start page, if there is one; code and indices aside."""
    start = (folder / "index.html").resolve()
    near, edge = {start}, {start} & pages.keys()
    for _ in range(CLICKS):
        edge = {target_of(path.parent, urlsplit(link).path) for path in edge for link in pages[path].links}
        edge = (edge & pages.keys()) - near
        near |= edge
    for path in pages if start in pages else ():
        name = path.relative_to(folder.resolve())
        if path not in near and name.parts[0] not in ASIDE:
            yield f"{name}: more than {CLICKS} clicks from the start page"


def missing_links(pages: dict[Path, Page], folder: Path) -> Iterator[str]:
    """Say which links within the site lead nowhere: no file, or no such place in it."""
    whole, is_there = folder.resolve(), cache(Path.exists)
    for path, page in pages.items():
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = target_of(path.parent, parts.path) if parts.path else path
            anchor = unquote(parts.fragment)
            if not is_there(target) or not target.is_relative_to(whole):
                yield f"{path.relative_to(whole)}: {link} is no file of the site"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{path.relative_to(whole)}: {link} has no such place"


@cache
def target_of(folder: Path, link: str) -> Path:
    """Return the file that a link of a page in a folder leads to.

    >>> target_of(Path("/site/api"), "../a%20b.html").as_posix()
    '/site/a b.html'
    """
    return Path(normpath(folder / unquote(link)))


def remote_parts(pages: dict[Path, Page], folder: Path) -> Iterator[str]:
    """Say what the pages and styles would fetch from a network."""
    for path, page in pages.items():
        for link in sorted(page.loaded):
            if urlsplit(link).netloc:
                yield f"{path.relative_to(folder.resolve())}: loads {link}"
    for path in sorted(folder.rglob("*.css")):
        text = path.read_text(encoding="utf-8").replace(" ", "")
        if "url(http" in text or "url(//" in text or "@import" in text:
            yield f"{path.relative_to(folder)}: loads from a network"


def check_names(folder: Path) -> list[str]:
    """Return the public names that have no place on the page of their room, or no link to their source there."""
    from making.names import names_of, owner, rooms

    found = []
    for room in rooms():
        text = (folder / "api" / f"{room}.html").read_text(encoding="utf-8")
        shown = [f"genlabel.{room}.{name}" for name in names_of(room) if owner(room, name) == room]
        ids = Page(text).ids
        found += [f"{name} is not on its page" for name in shown if name not in ids]
        found += [f"{name} has no link to its source" for name in shown if name in ids and not has_source(text, name)]
    return found


def has_source(text: str, name: str) -> bool:
    """Return whether a page leads from the entry of a name to its code.

    >>> has_source('<dt id="a.b">b <a href="../_modules/a.html#b">source</a></dt><dt id="a.c">c</dt>', "a.b")
    True
    """
    begin = text.index(f'id="{name}"')
    return f'.html#{name.rpartition(".")[2]}"' in text[begin : text.index("</dt>", begin)]
