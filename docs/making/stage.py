"""The source of the site: copies of the pages of the repository, whose links lead from page to page of the site."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import final

__all__ = ["ROOT", "Stage", "gather", "relink"]

ROOT = Path(__file__).parents[2]
MOVED = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "results/README.md": "records.md",
}
"""Pages of the repository that are not in docs/, and what they are called on the site."""
MADE = {"docs/gallery": "gallery/index.md"}
"""Folders whose page is written by the build."""
FENCE = re.compile(r"(^```.*?^```|`[^`\n]*`)", flags=re.S | re.M)
LINK = re.compile(r"(?<=\]\()([^()\s#]+)(#[^()\s]*)?(?=\))")
WRITTEN = ("index.md", "paper-map.md", "theory.md")
"""Pages to which something is added."""
REMOTE = ("http://", "https://", "mailto:")


@final
class Stage:
    """A folder whose files are written only where they changed, so that a second build is short."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, set[Path]()

    def write(self, name: str, text: str) -> None:
        """Keep a page under its name."""
        path = self._path(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def copy(self, source: Path, name: str) -> None:
        """Keep a picture under its name."""
        path = self._path(name)
        if not path.exists() or path.read_bytes() != source.read_bytes():
            shutil.copyfile(source, path)

    def sweep(self) -> None:
        """Take away what earlier builds left and this one has not written."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self.written:
                path.unlink()

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.add(path)
        return path


def gather(stage: Stage) -> None:
    """Copy all pages and pictures but those to which something is added."""
    pages = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))} | MOVED
    for source, name in pages.items():
        if name not in WRITTEN:
            stage.write(name, relink((ROOT / source).read_text(encoding="utf-8"), source))
    for path in sorted((ROOT / "docs" / "images").iterdir()):
        stage.copy(path, f"images/{path.name}")


def relink(text: str, source: str) -> str:
    """Let the links of a page of the repository lead to pages of the site; code stays as it is.

    >>> relink("[a](docs/theory.md#errata), `[b](docs/theory.md)`", "README.md")
    '[a](theory.md#errata), `[b](docs/theory.md)`'
    """
    parts = FENCE.split(text)
    return "".join(part if place % 2 else LINK.sub(lambda found: _target(found, source), part)
                   for place, part in enumerate(parts))  # fmt: skip


def _target(found: re.Match[str], source: str) -> str:
    path, anchor = found[1], found[2] or ""
    if path.startswith(REMOTE):
        return found[0]
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    name = (MOVED | MADE).get(place, re.sub(r"\.ipynb$", ".md", place.removeprefix("docs/")))
    if name == place:
        raise ValueError(f"{source} links to {path}, which is no page of the site; write its name as code instead")
    return name + anchor
