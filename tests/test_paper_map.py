"""The paper map: every row is valid, has every citation of the code and covers every place of the paper."""

import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from genlabel_paper.registry import IDS

ROOT = Path(__file__).parents[1]
TEX = ROOT.parent / "shared" / "paper" / "genlabel.tex"
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "_ext").exists(), reason="needs the source tree")

HEAD = "| paper | what | here | test |\n|---|---|---|---|\n"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import an extension of the site by name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return lambda name: import_module(f"_ext.{name}")


def map_faults(extension: Any, text: str, citations: list[Any]) -> Iterator[str]:
    """Yield each fault of the map as a line."""
    citing, paper_map = extension("citations"), extension("paper_map")
    rows, excuses = paper_map.read_map(text), paper_map.read_excuses(text)
    mapped = {place for row in rows for place in row.places}
    for row in rows:
        yield from (f"{row.paper}: {fault}" for fault in row_faults(paper_map, row, citations))
    for place in sorted({citation.place for citation in citations} - mapped, key=citing.rank):
        yield f"{place} is cited in the code and not in the map"
    for kind, count in citing.COUNTS.items():
        for number in range(1, count + 1):
            place = f"{kind} ({number})" if kind == "Eq." else f"{kind} {number}"
            if (place in mapped) == (place in excuses):
                yield f"{place} has an object and an excuse" if place in mapped else f"{place} has no row"
    for place in (f"Section {name}" for name in citing.SECTIONS):
        if (place in mapped) == (place in excuses):
            yield f"{place} has an object and an excuse" if place in mapped else f"{place} has no row"


def row_faults(paper_map: Any, row: Any, citations: list[Any]) -> Iterator[str]:
    """Yield the faults of a row: its objects, their citations, its tests."""
    targets, cited = [], set[str]()
    for text in row.objects:
        try:
            target = paper_map.find_object(text)
        except (AttributeError, ImportError, SyntaxError) as error:
            yield f"there is no {text} ({error})"
            continue
        targets.append(target)
        places = {citation.place for citation in citations if citation.file == target.file} & set(row.places)
        cited |= places
        if not places:
            yield f"{target.file.name}, where {text} is, does not cite it"
        unknown = set(target.keywords) - set(inspect.signature(target.value).parameters if target.keywords else ())
        yield from (f"{text}: there is no parameter {name}" for name in sorted(unknown))
    yield from (f"no module of the row cites {place}" for place in row.places if place not in cited)
    yield from _test_faults(paper_map, row, targets)


def _test_faults(paper_map: Any, row: Any, targets: list[Any]) -> Iterator[str]:
    """Yield the faults of the tests of a row: each exists, and its file names an object of the row."""
    files = {}
    for name in row.tests:
        try:
            files[name] = words(paper_map.find_test(name)[0])
        except ValueError as error:
            yield str(error)
    known = {(target.inner or target.name).rpartition(".")[2] for target in targets}
    all_words = set().union(*files.values())
    yield from (f"no test of the row names {name}" for name in sorted(known - all_words))
    keywords = {keyword for target in targets for keyword in target.keywords}
    yield from (f"no test of the row names {name}=" for name in sorted(keywords - all_words))
    yield from (f"{name} names no object of the row" for name, file_words in files.items() if not file_words & known)
    if not row.tests or not row.objects or not row.places:
        yield "a row needs a place, an object and a test"


@cache
def words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def map_text() -> str:
    return (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")


def test_map_is_valid_and_complete(extension: Any) -> None:
    citations = extension("citations").find_citations(ROOT / "src")
    assert len(citations) > 200
    assert len(extension("paper_map").read_map(map_text())) > 60
    assert list(map_faults(extension, map_text(), citations)) == []


def test_every_reproduced_table_and_figure_has_its_row(extension: Any) -> None:
    rows = extension("paper_map").read_map(map_text())
    lines = {(name, place) for row in rows for name in row.objects for place in row.places}
    known = {name: re.sub(r"(table|figure)(\d+)", r"\1 \2", name).capitalize() for name in IDS if name[-1].isdigit()}
    assert len(known) == 22
    assert [name for name, place in known.items() if (name, place) not in lines] == []


def test_tests_named_in_excuses_exist(extension: Any) -> None:
    excuses = extension("paper_map").read_excuses(map_text())
    named = {name for reason in excuses.values() for name in re.findall(r"`(test_\w+)`", reason)}
    assert len(named) == 3
    text = "".join(path.read_text() for path in sorted((ROOT / "tests" / "paper" / "theory").glob("*.py")))
    assert [name for name in named if f"def {name}(" not in text] == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("`Genlabel` | `tests/labeling/test_labelers.py::test_rows_are_on_the_simplex` |", "no Genlabel"),
        ("`GenLabel` | `tests/labeling/test_labelers.py::test_none` |", "test_labelers.py::test_none"),
        ("`GenLabel(tops=2)` | `tests/labeling/test_labelers.py::test_rows_are_on_the_simplex` |", "no parameter tops"),
        ("`Mixup` | `tests/mixing/test_mixup.py::test_bad_alpha_is_named` |", "mixup.py, where Mixup is, does not"),
        ("`GenLabel` | `tests/mixing/test_mixup.py::test_bad_alpha_is_named` |", "no test of the row names GenLabel"),
        ("`GenLabel` | |", "a row needs a place, an object and a test"),
        ("`GenLabel` | `tests/labeling/test_labelers.py::test_rows_are_on_the_simplex` |", "Eq. (2) has no row"),
        ("`GenLabel` | |\n\n| paper | why |\n|---|---|\n| Eqs. (1) and (2) | b |", "Eq. (1) has an object and"),
        ("`GenLabel` | |", "Alg. 3 is cited in the code and not in the map"),
    ],
    ids=["object", "test", "parameter", "citation", "unnamed", "bare", "place", "twice", "cited"],
)  # fmt: skip
def test_invalid_row_is_reported(extension: Any, line: str, fault: str) -> None:
    citations = extension("citations").find_citations(ROOT / "src" / "genlabel" / "labeling")
    assert any(fault in message for message in map_faults(extension, f"{HEAD}| Eq. (1) | y_gen | {line}\n", citations))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('"""A label (arXiv Alg. 1; in latent space Alg. 2). Table 3 is not meant."""', ["Alg. 1", "Alg. 2"]),
        ("# arXiv Tables 6, 7,\n#  9 and 12", ["Table 6", "Table 7", "Table 9", "Table 12"]),
        ('"""arXiv Lemma 1, "GenLabel loss (of two)", proof, step 1, Eqs. (21) to (23). Eq. (1) is not meant."""',
         ["Lemma 1", "Eq. (21)", "Eq. (22)", "Eq. (23)"]),
        ('"""arXiv Figure 4e-g, Sections 3.2 and F.2\n\nTable 1"""', ["Figure 4", "Section 3.2", "Section F.2"]),
        ('"""Burda et al., arXiv 1509.00519; see the paper on arXiv."""', []),
    ],
    ids=["parentheses", "list", "sentence", "sections", "others"],
)  # fmt: skip
def test_citations_are_parsed(extension: Any, tmp_path: Path, text: str, places: list[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text(text + "\n")
    assert [citation.place for citation in extension("citations").citations_in(path)] == places


def test_citation_belongs_to_the_enclosing_object(extension: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""arXiv Alg. 1."""\nA = 1\n"""arXiv Alg. 2."""\n\n\nclass B:\n    """arXiv Alg. 3."""\n\n'
        '    def c(self) -> None:\n        """arXiv Alg. 4."""\n'
    )
    assert [citation.owner for citation in extension("citations").citations_in(path)] == ["", "A", "B", "B.c"]


@pytest.mark.parametrize(("text", "keyword"), [("# arXiv, the proof", "line 1"), ("# arXiv Alg. 5", "Alg. 5")])
def test_unknown_place_is_refused(extension: Any, tmp_path: Path, text: str, keyword: str) -> None:
    (tmp_path / "a.py").write_text(text + "\n")
    with pytest.raises(ValueError, match=keyword):
        extension("citations").find_citations(tmp_path)


@pytest.mark.parametrize("name", ["citations", "paper_map"])
def test_doctests_of_the_extension_pass(extension: Any, name: str) -> None:
    result = doctest.testmod(extension(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
def test_places_equal_those_of_the_latex_source(extension: Any) -> None:
    """Count as LaTeX does: an equation is a row of a numbered environment; sections of the appendix have letters."""
    text = re.sub(r"(?<!\\)%.*", "", TEX.read_text())
    kinds = {"Alg.": "algorithm", "Table": "(?:wrap)?table", "Figure": "(?:wrap)?figure"}
    kinds |= {name: name.lower() for name in ("Theorem", "Lemma", "Proposition", "Example", "Remark")}
    counts = {name: len(re.findall(rf"\\begin\{{{kind}\}}", text)) for name, kind in kinds.items()}
    rows = 0
    for kind, body in re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", text, flags=re.S):
        plain = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "x", body, flags=re.S)
        parts = plain.split(r"\\") if kind == "align" else [plain]
        rows += sum(bool(part.strip()) and r"\notag" not in part for part in parts)
    assert counts | {"Eq.": rows} == extension("citations").COUNTS
    sections, chapter, inside, appendix = [], 0, 0, text.index(r"\appendix")
    for section in re.finditer(r"\\(sub)?section\{", text):
        chapter, inside = (chapter, inside + 1) if section[1] else (chapter + 1, 0)
        first = chr(ord("A") + chapter - 9) if section.start() > appendix else str(chapter)
        sections.append(f"{first}.{inside}" if inside else first)
    assert tuple(sections) == extension("citations").SECTIONS
