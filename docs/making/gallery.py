"""The gallery: each example is a plain file, run while the site is built, shown with what it prints and draws."""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from genlabel.reporting.svg import inline_svg
from genlabel_paper.report.page import block
from genlabel_paper.report.results import CaptionedFigure
from making.apart import remember, timed
from making.stage import ROOT, Stage

__all__ = ["EXAMPLES", "GROUPS", "Example", "first_sentence", "run_example", "show_example", "write_gallery"]

EXAMPLES = sorted((ROOT / "docs" / "gallery").glob("*.py"))
GROUPS = {
    "What blends and their labels do": ["intrusion", "calibration", "margins", "errata"],
    "A table": ["diagnosis", "rare_classes", "intervals", "support"],
    "Densities, and points between classes": ["own_density", "genmix", "soft_labels"],
    "With Lightning, on Dask": ["lightning_digits", "dask_sweep"],
}
"""The examples in the order of the list; each is in one group."""
BINS = (1, 2, 5, 10, 20)
"""Seconds that a page names: one that named its own would be another page in each build."""


class Example(NamedTuple):
    """An example that was run."""

    title: str
    about: str
    code: str
    printed: str
    space: dict[str, Any]
    """Its variables; `figure` is the picture."""
    seconds: float
    """Of a processor."""


def run_example(path: Path) -> Example:
    """Run a file as it stands; a warning is an error."""
    source = path.read_text(encoding="utf-8")
    title, _, about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    printed, space = StringIO(), {"__name__": "__main__"}
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        seconds = timed(lambda: exec(compile(source, str(path), "exec"), space), path)
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.S)
    return Example(title, about.strip(), code.rstrip(), printed.getvalue().rstrip(), space, seconds)


def write_gallery(stage: Stage, memory: Path) -> None:
    """Write a page for each example, and the cards that lead to them; what was run is kept in a folder."""
    cards = {}
    for path in EXAMPLES:
        page, cards[path.stem] = remember(show_example, path, memory)
        stage.write(f"gallery/{path.stem}.md", page)
    parts = ["# Gallery\n\nShort examples, each run while this site was built, with what it printed and drew."]
    for title, names in GROUPS.items():
        inside = "\n".join(cards[name] for name in names)
        parts.append(f'## {title}\n\n```{{raw}} html\n<div class="records examples">\n{inside}\n</div>\n```')
    listed = "\n".join(name for names in GROUPS.values() for name in names)
    stage.write("gallery/index.md", "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"]))


def show_example(path: Path) -> list[str]:
    """Run an example, and return its page and its card."""
    example = run_example(path)
    return [_page(path, example), _card(path.stem, example)]


def first_sentence(about: str) -> str:
    """Return the first sentence of a text, as words: what its links and code say.

    >>> first_sentence("A [link](a.md) of `code`: arXiv Alg. 4 has it. More.")
    'A link of code: arXiv Alg. 4 has it.'
    """
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|`([^`]*)`", lambda found: found[1] or found[2], " ".join(about.split()))
    return re.split(r"(?<=[.?])\s(?=[A-Z])", plain)[0]


def _card(name: str, example: Example) -> str:
    drawn = inline_svg(example.space["figure"], f"card-{name}", "")
    words = f"<strong>{escape(example.title)}</strong><span>{escape(first_sentence(example.about))}</span>"
    return f'<a href="{name}.html"><span aria-hidden="true">{drawn}</span>{words}</a>'


def _page(path: Path, example: Example) -> str:
    drawn = block("figure", CaptionedFigure(example.title, example.space["figure"]), f"gallery-{path.stem}")
    less = next(most for most in BINS if example.seconds <= most)
    parts = [
        f"# {example.title}",
        example.about,
        f'```{{raw}} html\n<div class="records">{drawn}</div>\n```',
        f"It takes less than {less} s of a processor, and prints\n\n```text\n{example.printed}\n```",
        f"The whole of it is `docs/gallery/{path.name}`:\n\n```python\n{example.code}\n```",
    ]
    return "\n\n".join(parts) + "\n"
