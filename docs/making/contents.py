"""What stands beside every page: the pages in groups, in the order in which a reader needs them."""

from __future__ import annotations

from making.stage import ROOT, Stage, relink

__all__ = ["GUIDE", "write_contents"]

GUIDE = {
    "Start": [
        "installing", "choosing", "commands", "tables", "images", "notebooks/tables", "notebooks/images", "gallery/index",
    ],
    "Guide": [
        "estimators", "integrations", "stacked-density", "densities", "genmix", "diagnosis", "report", "intervals", "typicality",
        "persistence",
    ],
    "The paper": ["reproduction", "multiverse", "reproduction/index", "theory", "paper-map"],
    "Reference": ["api/index"],
    "The project": ["benchmarks", "records", "extending", "contributing", "README <readme>", "changelog", "citation"],
}  # fmt: skip


def write_contents(stage: Stage) -> None:
    """Add the pages to the start page, which nobody sees there; a page that is in no group is an error of the build."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    groups = [_toctree(title, names) for title, names in GUIDE.items()]
    stage.write("index.md", "\n\n".join([relink(text, "docs/index.md").rstrip(), *groups]) + "\n")


def _toctree(title: str, names: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"])
