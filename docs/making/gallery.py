"""The gallery: each example is a plain file, run while the site is built, shown with what it prints and draws."""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from genlabel_paper.report.drawing import picture
from genlabel_paper.report.pieces import Picture
from making.stage import ROOT, Stage

__all__ = ["EXAMPLES", "Example", "run_example", "write_gallery"]

EXAMPLES = sorted((ROOT / "docs" / "gallery").glob("*.py"))


class Example(NamedTuple):
    """An example that was run."""

    title: str
    about: str
    code: str
    printed: str
    space: dict[str, Any]
    """Its variables; `figure` is the picture."""


def run_example(path: Path) -> Example:
    """Run a file as it stands; a warning is an error."""
    source = path.read_text(encoding="utf-8")
    title, _, about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    printed, space = StringIO(), {"__name__": "__main__"}
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(source, str(path), "exec"), space)
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.S)
    return Example(title, about.strip(), code.rstrip(), printed.getvalue().rstrip(), space)


def write_gallery(stage: Stage) -> None:
    """Write a page for each example, and the list of them."""
    lines = []
    for path in EXAMPLES:
        example = run_example(path)
        stage.write(f"gallery/{path.stem}.md", _page(path, example))
        lines.append(f"- [{example.title}]({path.stem}.md)")
    head = "# Gallery\n\nShort examples, each run while this site was built, with what it printed and drew."
    names = "\n".join(path.stem for path in EXAMPLES)
    stage.write(
        "gallery/index.md", "\n\n".join([head, "\n".join(lines), f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"])
    )


def _page(path: Path, example: Example) -> str:
    drawn = picture(Picture(f"{example.title}.", example.space["figure"]), f"gallery-{path.stem}")
    parts = [
        f"# {example.title}",
        example.about,
        f'```{{raw}} html\n<div class="records">{drawn}</div>\n```',
        f"It prints\n\n```text\n{example.printed}\n```",
        f"The whole of it is `docs/gallery/{path.name}`:\n\n```python\n{example.code}\n```",
    ]
    return "\n\n".join(parts) + "\n"
