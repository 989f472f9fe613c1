"""The site: public names are documented, links lead to pages, and faults of a built site are reported.

`make docs` builds and checks the whole site; it is part of `.ci/run`.
"""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not (DOCS / "_ext").exists(), reason="needs the source tree")
pytest.importorskip("sphinx", reason="needs the extra docs")

HEAVY = ("GenLabelCallback", "GenLabelTrainer")
"""Classes whose packages take half a minute to import; the build documents them."""


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import an extension of the site by name."""
    monkeypatch.syspath_prepend(str(DOCS))
    return lambda name: import_module(f"_ext.{name}")


def test_every_public_name_has_a_docstring(extension: Any) -> None:
    names, api = extension("names"), extension("api")
    offered = [(package, name) for package in names.packages() for name in names.public_names(package)]
    assert len(offered) > 200
    for package, name in offered:
        if name == "__version__":
            continue
        value = None if name in HEAVY else getattr(import_module(package), name)
        is_object = inspect.isclass(value) or inspect.isroutine(inspect.unwrap(value)) if callable(value) else False
        assert name in HEAVY or (inspect.getdoc(value) if is_object else api.data_doc(f"{package}.{name}")), name


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("CHANGELOG.md", "[a](docs/theory.md#errata)", "[a](/theory.md#errata)"),
        ("CONTRIBUTING.md", "![a](docs/images/cost.png)", "![a](/images/cost.png)"),
        ("docs/choosing.md", "[a](../CONTRIBUTING.md#b) [b](tables.md)", "[a](/contributing.md#b) [b](/tables.md)"),
        (
            "docs/index.md",
            "[a](n/a.ipynb) [b](gallery)",
            "[a](/n/a.ipynb) [b](/auto_examples/index.rst)",
        ),
        ("docs/choosing.md", "[a](#images) [b](https://arxiv.org/a.md)", "[a](#images) [b](https://arxiv.org/a.md)"),
        ("docs/choosing.md", "```\n[a](../README.md)\n```\n`[b](../README.md)`", None),
    ],
    ids=["page", "picture", "up", "generated", "elsewhere", "code"],
)
def test_repository_links_become_site_links(extension: Any, source: str, text: str, expected: str | None) -> None:
    assert extension("pages").rewrite_links(text, source) == (expected or text)


def test_links_of_the_pages_lead_to_files() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", page.read_text())
    ]
    assert len(links) > 60
    assert [(page.name, link) for page, link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_links_of_the_examples_lead_to_pages() -> None:
    links = [(path, link) for path in (DOCS / "gallery").glob("*.py")
             for link in re.findall(r"<\.\./([\w-]+)\.html[#>]", path.read_text())]  # fmt: skip
    assert len(links) > 5
    assert [(path.name, link) for path, link in links if not (DOCS / f"{link}.md").exists()] == []


def test_faults_of_a_site_are_reported(extension: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">good</a><a href="#x">good</a><a href="b.html#z">bad</a><a href="c.html">bad</a>'
        '<a href="https://arxiv.org">elsewhere</a><script src="https://cdn.org/a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="y">b</h1><img src="gone.png">')
    (tmp_path / "s.css").write_text("a { background: url( https://cdn.org/a.png) }")
    assert extension("check").site_faults(tmp_path) == [
        "a.html: b.html#z has no such anchor",
        "a.html: c.html is no file of the site",
        "b.html: gone.png is no file of the site",
        "a.html: loads https://cdn.org/a.js",
        "s.css: loads from a network",
    ]


def test_page_far_from_the_start_is_reported(extension: Any, tmp_path: Path) -> None:
    chain = ["index", "one", "two", "three", "four"]
    for page, following in zip(chain, [*chain[1:], "index"], strict=True):
        (tmp_path / f"{page}.html").write_text(f'<a href="{following}.html">on</a>')
    assert extension("check").site_faults(tmp_path) == ["four.html: more than 3 clicks from the start page"]


@pytest.mark.parametrize("name", ["api", "names", "pages", "sidebar"])
def test_doctests_of_the_extensions_pass(extension: Any, name: str) -> None:
    result = doctest.testmod(extension(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Parameters", "----------", "a : int", "", "More: of it."], ["Notes", "-----", "More: of it."]),
        (["Parameters", "----------", "a : int", "", ">>> 1 | 2", "3"], ["Examples", "--------", ">>> 1 | 2", "3"]),
        (["Attributes", "----------", "a_, b_", "", "c_ : int"], ["a\\_, b\\_", "", "c\\_ : int"]),
        (["The norm |x| of it."], ["The norm \\|x\\| of it."]),
        (["Alias for field number 3"], []),
    ],
    ids=["notes", "examples", "attributes", "bars", "field"],
)
def test_docstrings_become_numpydoc(extension: Any, lines: list[str], expected: list[str]) -> None:
    api = extension("api")
    api._add_headings(None, "class", "", None, None, lines)
    api._escape(None, "class", "", None, None, lines)
    assert lines[len(lines) - len(expected) :] == expected
    assert expected or not lines


def test_experiment_without_records_links_to_the_list(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduction = extension("reproduction")
    monkeypatch.setattr(reproduction, "_anchors", {"table4"})
    links = [reproduction.experiment_link(name) for name in ("table4", "table5")]
    assert links == ['<a href="study.html#table4">table4</a>', '<a href="study.html#not-run">table5</a>']


def test_citation_page_has_the_paper_of_the_citation_file() -> None:
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["preferred-citation"]
    page = (DOCS / "citation.md").read_text(encoding="utf-8")
    names = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert all(text in page for text in (paper["title"], names, str(paper["year"]), paper["url"]))
