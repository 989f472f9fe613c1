"""The paper map: docs/paper-map.md, whose lines are places of the paper, objects and tests, read and checked."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from genlabel_paper.registry import IDS
from making.citations import COUNTS, Citation, owners_in, places_in, rank
from making.names import file_of, full_name, written_in
from making.stage import ROOT

__all__ = ["HEAD", "Row", "Target", "find_object", "find_test", "left_out", "map_faults", "read_map"]

HEAD = ("paper", "what", "here", "test")
"""The columns of a table of the map."""
EXCUSES = ("paper", "why")
"""Those of what is not computed."""
CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """A line of the map."""

    paper: str
    what: str
    objects: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def places(self) -> list[str]:
        """The places of the paper that it is about."""
        return places_in(self.paper)


class Target(NamedTuple):
    """An object that a line names."""

    name: str
    """With its module."""
    value: Any
    file: Path
    inner: str
    """Its name within the file; nothing for a module."""
    keywords: tuple[str, ...] = ()
    """The parameters with which it is called in the line."""


def read_map(text: str) -> list[Row]:
    r"""Return the lines of all tables of the map.

    >>> read_map("| paper | what | here | test |\n|---|---|---|---|\n| Eq. (1) | y_gen | `GenLabel` | `tests/a.py::b`")
    [Row(paper='Eq. (1)', what='y_gen', objects=('GenLabel',), tests=('tests/a.py::b',))]
    """
    lines = _lines(text, HEAD)
    return [Row(paper, what, tuple(CODE.findall(here)), tuple(CODE.findall(test))) for paper, what, here, test in lines]


def left_out(text: str) -> dict[str, str]:
    """Return the places that have no object, and why."""
    return {place: why for paper, why in _lines(text, EXCUSES) for place in places_in(paper)}


def map_faults(text: str, citations: Sequence[Citation]) -> Iterator[str]:
    """Say what is wrong with the map, a line each: nothing if all is well."""
    rows, excused = read_map(text), left_out(text)
    mapped = {place for row in rows for place in row.places}
    for row in rows:
        yield from (f"{row.paper}: {fault}" for fault in _row_faults(row, citations))
    for place in sorted({one.place for one in citations} - mapped, key=rank):
        yield f"{place} is cited in the code and not in the map"
    for kind, count in COUNTS.items():
        for number in range(1, count + 1):
            place = f"{kind} ({number})" if kind == "Eq." else f"{kind} {number}"
            if (place in mapped) == (place in excused):
                yield f"{place} has an object and a reason for none" if place in mapped else f"{place} has no line"


def find_object(text: str) -> Target:
    """Return what a line names: a public name, an experiment, or any other by its module; also as a call.

    >>> find_object("GenLabel(top_k=2)")[::4], find_object("table4").name
    (('genlabel.labeling.GenLabel', ('top_k',)), 'genlabel_paper.experiments.table4')
    """
    tree = ast.parse(text, mode="eval").body
    called = tree if isinstance(tree, ast.Call) else None
    name = ast.unparse(called.func if called else tree)
    keywords = tuple(one.arg or "" for one in called.keywords) if called else ()
    name = f"genlabel_paper.experiments.{name}" if name in IDS else full_name(name) or name
    module, inner = _split(name)
    value: Any = import_module(module)
    for part in inner.split(".") if inner else ():
        value = getattr(value, part)
    home = written_in(module, inner.split(".")[0]) if inner else module
    return Target(name, value, file_of(home), inner, keywords)


def find_test(name: str) -> tuple[Path, str]:
    """Return the file of a test and its function; raise if there is none."""
    file, _, function = name.partition("::")
    path = ROOT / file
    if not path.is_file() or function not in {owner for owner, _, _ in owners_in(path)}:
        raise ValueError(f"there is no test {name}")
    return path, function


def _row_faults(row: Row, citations: Sequence[Citation]) -> Iterator[str]:
    targets, cited = [], set[str]()
    for text in row.objects:
        try:
            target = find_object(text)
            targets.append(target)
        except (AttributeError, ImportError, SyntaxError) as error:
            yield f"there is no {text} ({error})"
            continue
        places = {one.place for one in citations if one.file == target.file} & set(row.places)
        cited |= places
        if not places:
            yield f"{target.file.name}, where {text} is, does not cite it"
        unknown = set(target.keywords) - set(inspect.signature(target.value).parameters if target.keywords else ())
        yield from (f"{text}: there is no parameter {name}" for name in sorted(unknown))
    yield from (f"no module of the line cites {place}" for place in row.places if place not in cited)
    yield from _test_faults(row, targets)


def _test_faults(row: Row, targets: Sequence[Target]) -> Iterator[str]:
    files = {}
    for name in row.tests:
        try:
            files[name] = _words(find_test(name)[0])
        except ValueError as error:
            yield str(error)
    known = {(target.inner or target.name).rpartition(".")[2] for target in targets}
    yield from (f"no test of the line names {one}" for one in sorted(known - set().union(*files.values())))
    asked = {keyword for target in targets for keyword in target.keywords}
    yield from (f"no test of the line names {one}=" for one in sorted(asked - set().union(*files.values())))
    yield from (f"{name} names nothing of the line" for name, words in files.items() if not words & known)
    if not row.tests or not row.objects or not row.places:
        yield "a line has a place, an object and a test"


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def _lines(text: str, head: Sequence[str]) -> Iterator[list[str]]:
    """The lines of the tables with these columns."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if tuple(cells) == tuple(head):
            inside = True
        elif not cells:
            inside = False
        elif inside and set("".join(cells)) != {"-"}:
            yield cells


def _split(name: str) -> tuple[str, str]:
    """The module of a dotted name, and what remains."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        if _is_module(module):
            return module, ".".join(parts[count:])
    raise ImportError(f"no module has {name}")


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
