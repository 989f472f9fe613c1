"""Citations of the paper in the code: every `arXiv Eq. (1)` or `arXiv Alg. 2, line 3` of the sources, by place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

COUNTS = {
    "Eq.": 37, "Alg.": 4, "Theorem": 2, "Lemma": 9, "Proposition": 1, "Example": 3, "Remark": 1, "Table": 15,
    "Figure": 16,
}  # fmt: skip
"""Number of each kind in the paper (arXiv 2201.02354)."""
SECTIONS = (
    "1", "1.1", "1.2", "2", "3", "3.1", "3.2", "4", "4.1", "4.2", "5", "5.1", "5.2", "5.3", "6", "6.1", "6.2", "6.3",
    "7", "7.1", "7.2", "8", "A", "A.1", "A.2", "B", "C", "C.1", "C.2", "C.3", "C.4", "C.5", "C.6", "C.7", "D",
    "E", "E.1", "E.2", "F", "F.1", "F.2", "F.3", "F.4", "F.5", "F.6",
)  # fmt: skip
STATEMENT = re.compile(r"\barXiv\b(?! \d{4}\.\d)")
END = re.compile(r'"""|\n\s*\n|(?<!Eq)(?<!Eqs)(?<!Alg)(?<!Algs)\.\s+(?=[A-Z`(])|\barXiv\b')
NUMBER = r"(?:[A-F](?:\.\d)?|\(?\d+(?:\.\d)?\)?)(?:[a-g](?:-[a-g])?)?(?![\w^])"
PLACE = re.compile(
    r"\b(Eq|Alg|Theorem|Lemma|Proposition|Example|Remark|Table|Figure|Section)s?\.?\s+"
    rf"({NUMBER}(?:(?:,\s+and|,|\s+and|\s+or|\s+to|-)\s*{NUMBER})*)"
)


class Citation(NamedTuple):
    """A place of the paper that a line of a file cites; `owner` is the function, class or constant around the line."""

    place: str
    file: Path
    line: int
    owner: str


def find_citations(folder: Path) -> list[Citation]:
    """Return all citations in the modules of a folder, in the order of the paper."""
    citations = [one for path in sorted(folder.rglob("*.py")) for one in citations_in(path)]
    return sorted(citations, key=lambda one: (rank(one.place), str(one.file), one.line))


def citations_in(path: Path) -> Iterator[Citation]:
    """Yield the citations of a module; raise ValueError where it says arXiv and names no place."""
    text = path.read_text(encoding="utf-8")
    owners = owners_in(path)
    for found in STATEMENT.finditer(text):
        if text[: found.start()].endswith("on "):
            continue
        line = text.count("\n", 0, found.start()) + 1
        places = places_in(_scope(text[found.end() :]))
        if not places:
            raise ValueError(f"{path.name}, line {line}: arXiv is followed by no place; write such as arXiv Eq. (1)")
        owner = min(((last - first, name) for name, first, last in owners if first <= line <= last), default=(0, ""))
        yield from (Citation(place, path, line, owner[1]) for place in places)


def places_in(text: str) -> list[str]:
    """Return the places that a text names, each in one spelling.

    >>> places_in("Tables 10-12 and Alg. 1, lines 5 and 6; Eqs. (5) to (7), Figure 4e-g, Section 3.1 and Section F.2.")
    ['Table 10', 'Table 11', 'Table 12', 'Alg. 1', 'Eq. (5)', 'Eq. (6)', 'Eq. (7)', 'Figure 4', 'Section 3.1',
     'Section F.2']
    """
    found = [_spelling(kind, number) for kind, numbers in PLACE.findall(text) for number in _numbers(numbers)]
    return list(dict.fromkeys(found))


def rank(place: str) -> tuple[int, int]:
    """Return the order of a place: by kind, then by number; raise ValueError if the paper has no such place."""
    kind, _, number = place.partition(" ")
    if kind == "Section" and number in SECTIONS:
        return len(COUNTS), SECTIONS.index(number)
    count = int(number.strip("()")) if number.strip("()").isdigit() else 0
    if not 1 <= count <= COUNTS.get(kind, 0):
        raise ValueError(f"the paper has no {place}")
    return list(COUNTS).index(kind), count


@cache
def owners_in(path: Path) -> list[tuple[str, int, int]]:
    """Return the functions, classes and constants of a module, each with its first and last line."""
    return list(_owners(ast.parse(path.read_text(encoding="utf-8")).body))


def _scope(text: str) -> str:
    """Return the text up to the end of the sentence, or of the parentheses around the citation."""
    text = re.sub(r"\n\s*#", " ", text)
    end = END.search(text)
    text, depth = text[: end.start()] if end else text, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return text[:place]
    return text


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a list, such as 6, 7 and 9 to 12."""
    clean = re.sub(r"[()]|(?<=\d)[a-g](?:-[a-g])?", "", text)
    for part in re.split(r",\s+and|,|\s+and|\s+or", clean):
        ends = re.split(r"\s+to\s+|-", part.strip())
        yield from ends if len(ends) == 1 else map(str, range(int(ends[0]), int(ends[1]) + 1))


def _spelling(kind: str, number: str) -> str:
    return f"Eq. ({number})" if kind == "Eq" else f"Alg. {number}" if kind == "Alg" else f"{kind} {number}"


def _owners(body: list[ast.stmt], outer: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield the names that a body defines, with first and last lines; the docstring below a constant belongs to it."""
    for node, below in zip(body, [*body, None][1:], strict=True):
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{outer}{node.name}", min([node.lineno, *(one.lineno for one in node.decorator_list)]), last
            yield from _owners(node.body, f"{outer}{node.name}.") if isinstance(node, ast.ClassDef) else ()
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            yield f"{outer}{ast.unparse(target)}", node.lineno, (below.end_lineno or last) if text and below else last
