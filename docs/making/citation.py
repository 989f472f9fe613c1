"""The page on citing, made of CITATION.cff."""

from __future__ import annotations

from typing import Any

import yaml

from making.stage import ROOT, Stage

__all__ = ["bibtex", "write_citation"]


def write_citation(stage: Stage) -> None:
    """Write the page."""
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    paper = about["preferred-citation"]
    text = f"# Citation\n\n{about['message']} The paper is [on arXiv]({paper['url']}).\n"
    entries = [bibtex("sohn2022genlabel", paper), bibtex("genlabel", about)]
    text += "\n```bibtex\n" + "\n\n".join(entries) + "\n```\n\n"
    stage.write("citation.md", text + f"Version {about['version']}, licence {about['license']}.\n")


def bibtex(key: str, about: dict[str, Any]) -> str:
    """Return an entry of BibTeX.

    >>> print(bibtex("a", {"title": "T", "authors": [{"name": "All of us"}]}))
    @misc{a,
      title = {T},
      author = {{All of us}},
    }
    """
    people = [f"{{{one['name']}}}" if "name" in one else f"{one['family-names']}, {one['given-names']}"
              for one in about["authors"]]  # fmt: skip
    known = {"title": about["title"], "author": " and ".join(people)}
    known |= {name: str(about[name]) for name in ("year", "version", "url") if name in about}
    lines = [f"  {name} = {{{value}}}," for name, value in known.items()]
    return "\n".join([f"@misc{{{key},", *lines, "}"])
