"""The paper map: the tables of docs/paper-map.md with links, and the citations of the paper in the code.

`tests/test_paper_map.py` checks that every row holds.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

from _ext.citations import Citation, find_citations, owners_in, places_in
from _ext.names import public_name
from _ext.reproduction import experiment_link
from genlabel_paper.registry import IDS

ROOT = Path(__file__).parents[2]
COLUMNS = ("paper", "what", "here", "test")
EXCUSE_COLUMNS = ("paper", "why")
CODE = re.compile(r"`([^`]+)`")
EXPERIMENTS = "genlabel_paper.experiments."
NO_BREAK = "\N{NO-BREAK SPACE}"


class Row(NamedTuple):
    """A row of the map: places of the paper, objects that compute them, tests."""

    paper: str
    what: str
    objects: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def places(self) -> list[str]:
        """The places of the paper that the row names."""
        return places_in(self.paper)


class Target(NamedTuple):
    """An object of the map: its name with its module, its value, its file, its name in the file, keywords of a call."""

    name: str
    value: Any
    file: Path
    inner: str
    keywords: tuple[str, ...] = ()


def setup(app: Any) -> dict[str, bool]:
    """Register the two pages that are written as they are read."""
    app.connect("source-read", _write, priority=600)  # after the links of the pages
    app.connect("env-get-outdated", lambda app, env, *changes: {"paper-map", "paper-code"} & env.all_docs.keys())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Any, page: str, source: list[str]) -> None:
    if page == "paper-map":
        lines = [_link_row(line) if line.startswith("|") else line for line in source[0].splitlines()]
        source[0] = "\n".join([*lines, "", *_citation_table(find_citations(ROOT / "src"))])
    elif page == "paper-code":
        rows = read_map((ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8"))
        source[0] += "\n".join(_code_sections(rows))


def read_map(text: str) -> list[Row]:
    r"""Return the rows of all tables of the map.

    >>> read_map("| paper | what | here | test |\n|---|---|---|---|\n| Eq. (1) | y_gen | `GenLabel` | `tests/a.py::b`")
    [Row(paper='Eq. (1)', what='y_gen', objects=('GenLabel',), tests=('tests/a.py::b',))]
    """
    lines = _table_rows(text, COLUMNS)
    return [Row(paper, what, tuple(CODE.findall(here)), tuple(CODE.findall(test))) for paper, what, here, test in lines]


def read_excuses(text: str) -> dict[str, str]:
    """Return the places that have no object, with the reason."""
    return {place: why for paper, why in _table_rows(text, EXCUSE_COLUMNS) for place in places_in(paper)}


def _table_rows(text: str, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of the tables with these columns."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if tuple(cells) == tuple(columns):
            inside = True
        elif not cells:
            inside = False
        elif inside and set("".join(cells)) != {"-"}:
            yield cells


def find_object(text: str) -> Target:
    """Return the object that a row names: a public name, an experiment, or any other by its module; also as a call.

    >>> find_object("GenLabel(top_k=2)")[::4], find_object("table4").name
    (('genlabel.labeling.GenLabel', ('top_k',)), 'genlabel_paper.experiments.table4')
    """
    tree = ast.parse(text, mode="eval").body
    call = tree if isinstance(tree, ast.Call) else None
    name = ast.unparse(call.func if call else tree)
    name = EXPERIMENTS + name if name in IDS else public_name(name) or name
    module, inner = _split(name)
    value: Any = import_module(module)
    for part in inner.split(".") if inner else ():
        value = getattr(value, part)
    home = getattr(value, "__module__", module) if inner else module
    keywords = tuple(one.arg or "" for one in call.keywords) if call else ()
    return Target(name, value, Path(sys.modules[home].__file__ or ""), inner, keywords)


def find_test(name: str) -> tuple[Path, str]:
    """Return the file of a test and its function; raise ValueError if there is none."""
    file, _, function = name.partition("::")
    path = ROOT / file
    if not path.is_file() or function not in {owner for owner, _, _ in owners_in(path)}:
        raise ValueError(f"there is no test {name}")
    return path, function


def _split(name: str) -> tuple[str, str]:
    """Return the module of a dotted name, and the rest."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            if find_spec(module) is not None:
                return module, ".".join(parts[count:])
        except ModuleNotFoundError:
            continue
    raise ImportError(f"no module has {name}")


def _link_row(line: str) -> str:
    """Return a row whose names are links, and whose places are not broken over two lines."""
    _, paper, *rest = line.split("|")
    paper = re.sub(r"(?<=[a-z.]) (?=\(?\d|[A-F]\b)", NO_BREAK, paper)
    linked = [CODE.sub(lambda name: _test_link(name[1]) if "::" in name[1] else _object_link(name[1]), one)
              for one in rest[1:]]  # fmt: skip
    return "|".join(["", paper, *rest[:1], *linked])


def _object_link(text: str) -> str:
    try:
        target = find_object(text)
    except (AttributeError, ImportError, SyntaxError):  # a test's name, or any other code
        return f"`{text}`"
    if target.name.startswith(EXPERIMENTS):
        return experiment_link(text)
    if _is_public(target):
        return f"{{py:obj}}`{text} <{target.name}>`"
    return f"[`{text.rpartition('.')[2]}`](#{_label(target.name)})"


def _test_link(name: str) -> str:
    return f"[{find_test(name)[1].removeprefix('test_').replace('_', ' ')}](#{_label(name)})"


def _is_public(target: Target) -> bool:
    return target.name.startswith(EXPERIMENTS) or public_name(target.name) is not None


def _label(name: str) -> str:
    return "code-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _code_sections(rows: list[Row]) -> Iterator[str]:
    """Yield the code of objects that have no page, then of tests, each once."""
    targets = {target.name: target for row in rows for target in map(find_object, row.objects)}
    inner = {name: (one.file, one.inner) for name, one in sorted(targets.items()) if not _is_public(one)}
    tests = {name: find_test(name) for name in sorted({name for row in rows for name in row.tests})}
    for name, (file, function) in (inner | tests).items():
        first, last = next((first, last) for owner, first, last in owners_in(file) if owner == function)
        options = f":language: python\n:lines: {first}-{last}"
        code = f"```{{literalinclude}} {relpath(file, ROOT / 'docs')}\n{options}\n```"
        yield f"\n({_label(name)})=\n## {function}\n\n`{file.relative_to(ROOT)}`\n\n{code}\n"


def _citation_table(citations: list[Citation]) -> Iterator[str]:
    """Yield the lines of a table of all places that the code cites."""
    yield "## Every citation in the code\n\nRead from the sources when the site is built.\n"
    yield "| paper | cited by |\n|---|---|"
    for place, group in groupby(citations, key=lambda one: one.place):
        yield f"| {place.replace(' ', NO_BREAK)} | {', '.join(dict.fromkeys(map(_source, group)))} |"


def _source(one: Citation) -> str:
    if one.file.stem in IDS:
        return experiment_link(one.file.stem)
    name = public_name(one.owner) if one.owner else None
    if name is not None and find_object(one.owner.split(".")[0]).file == one.file:
        return f"{{py:obj}}`{one.owner} <{name}>`"
    return f"`{one.file.relative_to(ROOT / 'src').as_posix()}{' ' + one.owner if one.owner else ''}`"
