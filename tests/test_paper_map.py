"""The paper map: every line holds, every citation of the code is in it, no place of the paper is passed over."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from genlabel_paper.registry import IDS

ROOT = Path(__file__).parents[1]
TEX = ROOT.parent / "shared" / "paper" / "genlabel.tex"
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "making").exists(), reason="needs the source tree")

HEAD = "| paper | what | here | test |\n|---|---|---|---|\n"


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the site's own code, by name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return lambda name: import_module(f"making.{name}")


def map_text() -> str:
    return (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")


def test_every_line_of_the_map_holds_and_nothing_is_missing(making: Any) -> None:
    citations = making("citations").find_citations(ROOT / "src")
    assert len(citations) > 200
    assert len(making("paper_map").read_map(map_text())) > 60
    assert list(making("paper_map").map_faults(map_text(), citations)) == []


def test_every_reproduced_table_and_figure_has_its_line(making: Any) -> None:
    rows = making("paper_map").read_map(map_text())
    lines = {(name, place) for row in rows for name in row.objects for place in row.places}
    known = {name: re.sub(r"(table|figure)(\d+)", r"\1 \2", name).capitalize() for name in IDS if name[-1].isdigit()}
    assert len(known) == 22
    assert [name for name, place in known.items() if (name, place) not in lines] == []


def test_the_tests_that_stand_in_for_what_is_not_computed_exist(making: Any) -> None:
    said = making("paper_map").left_out(map_text())
    named = {name for why in said.values() for name in re.findall(r"`(test_\w+)`", why)}
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
        ("`GenLabel` | `tests/mixing/test_mixup.py::test_bad_alpha_is_named` |", "no test of the line names GenLabel"),
        ("`GenLabel` | |", "a line has a place, an object and a test"),
        ("`GenLabel` | `tests/labeling/test_labelers.py::test_rows_are_on_the_simplex` |", "Eq. (2) has no line"),
        ("`GenLabel` | |\n\n| paper | why |\n|---|---|\n| Eqs. (1) and (2) | b |", "Eq. (1) has an object and a"),
        ("`GenLabel` | |", "Alg. 3 is cited in the code and not in the map"),
    ],
    ids=["object", "test", "parameter", "citation", "unnamed", "bare", "place", "twice", "cited"],
)  # fmt: skip
def test_a_line_that_does_not_hold_is_told(making: Any, line: str, fault: str) -> None:
    citations = making("citations").find_citations(ROOT / "src" / "genlabel" / "labeling")
    assert any(fault in one for one in making("paper_map").map_faults(f"{HEAD}| Eq. (1) | y_gen | {line}\n", citations))


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
def test_citations_are_read_to_their_end(making: Any, tmp_path: Path, text: str, places: list[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text(text + "\n")
    assert [one.place for one in making("citations").citations_in(path)] == places


def test_a_citation_belongs_to_what_it_stands_in(making: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""arXiv Alg. 1."""\nA = 1\n"""arXiv Alg. 2."""\n\n\nclass B:\n    """arXiv Alg. 3."""\n\n'
        '    def c(self) -> None:\n        """arXiv Alg. 4."""\n'
    )
    assert [one.owner for one in making("citations").citations_in(path)] == ["", "A", "B", "B.c"]


@pytest.mark.parametrize(
    ("text", "told"), [("# arXiv, the proof", "line 1: arXiv is followed by no place"), ("# arXiv Alg. 5", "no Alg. 5")]
)
def test_what_is_no_place_is_refused(making: Any, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.py").write_text(text + "\n")
    with pytest.raises(ValueError, match=told):
        making("citations").find_citations(tmp_path)


@pytest.mark.parametrize("name", ["citations", "paper_map"])
def test_the_examples_in_the_code_of_the_map_hold(making: Any, name: str) -> None:
    found = doctest.testmod(making(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
def test_the_places_are_those_of_the_source(making: Any) -> None:
    """Counted in LaTeX's way: an equation is a row of a numbered environment, a section a letter after the appendix."""
    text = re.sub(r"(?<!\\)%.*", "", TEX.read_text())
    kinds = {"Alg.": "algorithm", "Table": "(?:wrap)?table", "Figure": "(?:wrap)?figure"}
    kinds |= {name: name.lower() for name in ("Theorem", "Lemma", "Proposition", "Example", "Remark")}
    found = {name: len(re.findall(rf"\\begin\{{{kind}\}}", text)) for name, kind in kinds.items()}
    rows = 0
    for kind, body in re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", text, flags=re.S):
        plain = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "x", body, flags=re.S)
        parts = plain.split(r"\\") if kind == "align" else [plain]
        rows += sum(bool(part.strip()) and r"\notag" not in part for part in parts)
    assert found | {"Eq.": rows} == making("citations").COUNTS
    sections, chapter, inside, appendix = [], 0, 0, text.index(r"\appendix")
    for one in re.finditer(r"\\(sub)?section\{", text):
        chapter, inside = (chapter, inside + 1) if one[1] else (chapter + 1, 0)
        first = chr(ord("A") + chapter - 9) if one.start() > appendix else str(chapter)
        sections.append(f"{first}.{inside}" if inside else first)
    assert tuple(sections) == making("citations").SECTIONS
