"""The pages of the paper map: its lines with links, all citations of the code, and the code that has no page."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from genlabel_paper.registry import IDS
from making.citations import Citation, find_citations, owners_in
from making.names import full_name
from making.paper_map import Row, Target, find_object, find_test, map_faults, read_map
from making.stage import ROOT, Stage, relink

__all__ = ["write_paper_map"]

SOURCE = "docs/paper-map.md"
NO_BREAK = "\N{NO-BREAK SPACE}"
EXPERIMENTS = "genlabel_paper.experiments."
CODE_PAGE = """# The code behind the paper map

Tests that the [paper map](paper-map.md) names, and objects that are no part of the API.
"""


def write_paper_map(stage: Stage) -> None:
    """Write the map and the page of code; raise if a line of the map does not hold."""
    text, citations = (ROOT / SOURCE).read_text(encoding="utf-8"), find_citations(ROOT / "src")
    faults = list(map_faults(text, citations))
    if faults:
        raise ValueError("\n".join([f"{SOURCE} does not hold:", *faults]))
    rows = read_map(text)
    linked = {one: _object_link(one) for row in rows for one in row.objects}
    linked |= {one: _test_link(one) for row in rows for one in row.tests}
    lines = [_linked(line, linked) if line.startswith("|") else line for line in relink(text, SOURCE).splitlines()]
    stage.write("paper-map.md", "\n".join([*lines, "", _citations(citations), "", _toctree()]) + "\n")
    stage.write("paper-code.md", CODE_PAGE + "\n".join(_code(rows)))


def _linked(line: str, linked: dict[str, str]) -> str:
    """A line of a table whose names are links, and whose places are not broken over two lines."""
    _, paper, *rest = line.split("|")
    paper = re.sub(r"(?<=[a-z.]) (?=\(?\d|[A-F]\b)", NO_BREAK, paper)
    return "|".join(["", paper, *(re.sub(r"`([^`]+)`", lambda one: linked.get(one[1], one[0]), cell) for cell in rest)])


def _object_link(text: str) -> str:
    target = find_object(text)
    if target.name.startswith(EXPERIMENTS):
        return f"[{text}](reproduction/{text}.md)"
    if full_name(target.name) is not None:
        return f"{{py:obj}}`{text} <{target.name}>`"
    return f"[`{text.rpartition('.')[2]}`](#{_label(target.name)})"


def _test_link(name: str) -> str:
    """The words of a test, which lead to its code."""
    return f"[{find_test(name)[1].removeprefix('test_').replace('_', ' ')}](#{_label(name)})"


def _label(name: str) -> str:
    return "code-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _code(rows: list[Row]) -> list[str]:
    """The code of inner objects, then of tests, each once."""
    targets = {target.name: target for row in rows for target in map(find_object, row.objects) if _is_inner(target)}
    tests = {name: find_test(name) for row in rows for name in row.tests}
    parts = [_part(name, target.file, target.inner) for name, target in sorted(targets.items())]
    return [*parts, *(_part(name, *found) for name, found in sorted(tests.items()))]


def _is_inner(target: Target) -> bool:
    return not target.name.startswith(EXPERIMENTS) and full_name(target.name) is None


def _part(name: str, file: Path, inner: str) -> str:
    first, last = next((first, last) for owner, first, last in owners_in(file) if owner == inner)
    code = "\n".join(file.read_text(encoding="utf-8").splitlines()[first - 1 : last])
    where = f"`{file.relative_to(ROOT)}`, line {first}"
    return f"\n({_label(name)})=\n## {inner}\n\n{where}\n\n````python\n{code}\n````\n"


def _citations(citations: list[Citation]) -> str:
    """A table of all places that the code cites, and where."""
    about = (
        "## Every citation in the code\n\nRead from the sources when the site is built; a name leads to its page, "
        "others are the file and what is in it.\n\n| paper | cited by |\n|---|---|"
    )
    lines = [about]
    for place, found in groupby(citations, key=lambda one: one.place):
        lines.append(f"| {place.replace(' ', NO_BREAK)} | {', '.join(dict.fromkeys(map(_where, found)))} |")
    return "\n".join(lines)


def _where(one: Citation) -> str:
    if one.file.stem in IDS:
        return f"[{one.file.stem}](reproduction/{one.file.stem}.md)"
    public = full_name(one.owner) if one.owner and "_paper" not in str(one.file) else None
    if public is not None and find_object(one.owner).file == one.file:
        return f"{{py:obj}}`{one.owner} <{public}>`"
    return f"`{one.file.relative_to(ROOT / 'src').as_posix()}{' ' + one.owner if one.owner else ''}`"


def _toctree() -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", "paper-code", "```"])
