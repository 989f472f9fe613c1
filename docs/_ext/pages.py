"""Pages of the repository as pages of the site: links lead to pages, and the files beside docs/ are included."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "results/README.md": "records.md",
    "docs/gallery": "auto_examples/index.rst",
}
"""Files outside docs/ and the folder of examples, with the page of the site that shows each."""
INCLUDE = re.compile(r"\A```\{include\} \.\./(\S+)\n```\n\Z")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^()\s#]+)(?=(?:#[^()\s]*)?\))")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", flags=re.S | re.M)


def setup(app: Any) -> dict[str, bool]:
    """Register the rewriting of pages as they are read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Any, page: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(page))
    if path.suffix != ".md":
        return
    name = path.relative_to(ROOT).as_posix()
    if included := INCLUDE.match(source[0]):
        name = included[1]
        app.env.note_dependency(str(ROOT / name), docname=page)
        source[0] = (ROOT / name).read_text(encoding="utf-8")
    source[0] = rewrite_links(source[0], name)


def rewrite_links(text: str, file: str) -> str:
    """Return the text of a file of the repository with links to pages of the site; code is unchanged.

    >>> rewrite_links("[a](docs/theory.md#errata), `[b](docs/theory.md)`", "CHANGELOG.md")
    '[a](/theory.md#errata), `[b](docs/theory.md)`'
    """

    def rewrite(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), link[1]))
        return "/" + PAGES.get(target, target.removeprefix("docs/"))

    parts = CODE.split(text)
    return "".join(part if place % 2 else LINK.sub(rewrite, part) for place, part in enumerate(parts))
