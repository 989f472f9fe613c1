"""The notebooks: their cells are run in order while the site is built, and shown with what each gives.

A cell gives what Jupyter would show of it: what it prints, the value of its last expression, and the figures that
pyplot has open at its end. There is no kernel in between: it would be a process more for each notebook, with imports
of its own.
"""

from __future__ import annotations

import ast
import json
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from genlabel.reporting.svg import inline_svg
from making.apart import remember, timed
from making.stage import ROOT, Stage

__all__ = ["NOTEBOOKS", "Cell", "Ran", "read_cells", "run_notebook", "show_notebook", "write_notebooks"]

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


class Cell(NamedTuple):
    """A cell, and what it has given."""

    kind: str
    """markdown or code"""
    source: str
    given: tuple[Any, ...] = ()
    """Text that was printed, the value of the last expression, figures: what there is, in the order of Jupyter."""


class Ran(NamedTuple):
    """A notebook that was run."""

    cells: list[Cell]
    space: dict[str, Any]
    """Its variables at the end."""


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a notebook, as they are kept: nothing is run."""
    kept = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in kept]


def run_notebook(path: Path) -> Ran:
    """Run the cells of a notebook in order, in one space; a warning is an error."""
    import matplotlib

    matplotlib.use("agg")
    space: dict[str, Any] = {"__name__": "__main__"}
    ran: list[Cell] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = [(cell, f"{path.name}:{place}") for place, cell in enumerate(read_cells(path))]
        timed(lambda: ran.extend(_run(cell, space, place) for cell, place in named), path)
    return Ran(ran, space)


def _run(cell: Cell, space: dict[str, Any], place: str) -> Cell:
    if cell.kind != "code":
        return cell
    from matplotlib import pyplot

    body = ast.parse(cell.source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), place, "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), space)
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    text = printed.getvalue().rstrip()
    return cell._replace(given=(*([text] if text else []), *([] if value is None else [_Value(value)]), *figures))


class _Value(NamedTuple):
    """What an expression comes to, which is shown by its `repr`."""

    value: Any


def write_notebooks(stage: Stage, memory: Path) -> None:
    """Write a page for each notebook; what was run is kept in a folder."""
    for path in NOTEBOOKS:
        stage.write(f"notebooks/{path.stem}.md", *remember(show_notebook, path, memory))


def show_notebook(path: Path) -> list[str]:
    """Run a notebook, and return its page: links lead as in the repository, whose folders are those of the site."""
    cells = run_notebook(path).cells
    parts = [part for place, cell in enumerate(cells) for part in _parts(cell, f"{path.stem}-{place}")]
    parts.insert(1, f"*This page is `docs/notebooks/{path.name}`, run while the site was built.*")
    return ["\n\n".join(parts) + "\n"]


def _parts(cell: Cell, name: str) -> list[str]:
    if cell.kind != "code":
        return [cell.source.replace(".ipynb)", ".md)")]
    code = f"```python\n{cell.source}\n```"
    return [code, *(_shown(value, f"{name}-{place}") for place, value in enumerate(cell.given))]


def _shown(value: Any, name: str) -> str:
    if isinstance(value, str):
        return f"```text\n{value}\n```"
    if not isinstance(value, _Value):
        return _raw(
            f'<figure><div class="drawn">{inline_svg(value, name, "What the cell above draws.")}</div></figure>'
        )
    if isinstance(value.value, pd.DataFrame):
        scrolls = f'class="scroll" role="region" tabindex="0" aria-label="Table {name}"'
        return _raw(f"<div {scrolls}>{value.value.to_html(border=0)}</div>")
    return f"```text\n{value.value!r}\n```"


def _raw(html: str) -> str:
    return f'```{{raw}} html\n<div class="records">{html}</div>\n```'
