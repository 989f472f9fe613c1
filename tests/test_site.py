"""The site: public names are documented, links are rewritten and followed, examples run.

The whole of it is built and checked by `make docs`, which is part of `.ci/run`.
"""

import doctest
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import genlabel

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not (DOCS / "making").exists(), reason="needs the source tree")

HEAVY = ("GenLabelCallback", "GenLabelTrainer")
"""Whose packages take half a minute to import; the build looks at them."""


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the site's own code, by name."""
    monkeypatch.syspath_prepend(str(DOCS))
    return lambda name: import_module(f"making.{name}")


def test_every_room_is_public_or_said_to_be_an_inner_one(making: Any) -> None:
    names = making("names")
    modules = {module.name for module in pkgutil.iter_modules(genlabel.__path__)} - {"__main__"}
    assert sorted([*names.rooms(), *names.INNER]) == sorted(modules)


def test_every_public_name_says_what_it_is(making: Any) -> None:
    api, names = making("api"), making("names")
    offered = [(room, name) for room in names.rooms() for name in import_module(f"genlabel.{room}").__all__]
    light = [one for one in offered if one[1] not in HEAVY]
    assert len(light) > 300
    assert [one for one in light if not api.sentence(f"genlabel.{names.owner(*one)}", one[1])] == []
    assert {names.home_of(name) for name in names.FRONT} <= set(names.rooms())


@pytest.mark.parametrize(
    ("source", "text", "led"),
    [
        ("README.md", "[a](docs/theory.md#errata)", "[a](theory.md#errata)"),
        ("README.md", "![a](docs/images/cost.png)", "![a](images/cost.png)"),
        ("docs/choosing.md", "[a](../README.md#images) [b](tables.md)", "[a](readme.md#images) [b](tables.md)"),
        ("docs/index.md", "[a](notebooks/tables.ipynb) [b](gallery)", "[a](notebooks/tables.md) [b](gallery/index.md)"),
        ("docs/choosing.md", "[a](#images) [b](https://arxiv.org/a.md)", "[a](#images) [b](https://arxiv.org/a.md)"),
        ("docs/choosing.md", "```\n[a](../README.md)\n```\n`[b](../README.md)`", None),
    ],
    ids=["page", "picture", "up", "made", "elsewhere", "code"],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(
    making: Any, source: str, text: str, led: str | None
) -> None:
    assert making("stage").relink(text, source) == (led or text)


def test_a_link_to_what_is_no_page_is_refused(making: Any) -> None:
    with pytest.raises(ValueError, match=r"README.md links to LICENSE, which is no page of the site"):
        making("stage").relink("[a](LICENSE)", "README.md")


def test_links_in_the_plain_files_lead_to_files() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", page.read_text())
    ]
    assert len(links) > 60
    assert [(page.name, link) for page, link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_faults_of_a_site_are_found(making: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">good</a><a href="#x">good</a><a href="b.html#z">bad</a><a href="c.html">bad</a>'
        '<a href="https://arxiv.org">elsewhere</a><script src="https://cdn.org/a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="y">b</h1><img src="gone.png">')
    (tmp_path / "s.css").write_text("a { background: url( https://cdn.org/a.png) }")
    assert making("check").check_site(tmp_path) == [
        "a.html: b.html#z has no such place",
        "a.html: c.html is no file of the site",
        "b.html: gone.png is no file of the site",
        "a.html: loads https://cdn.org/a.js",
        "s.css: loads from a network",
    ]


def test_a_page_that_is_far_from_the_start_is_named(making: Any, tmp_path: Path) -> None:
    chain = ["index", "one", "two", "three", "four"]
    for page, following in zip(chain, [*chain[1:], "index"], strict=True):
        (tmp_path / f"{page}.html").write_text(f'<a href="{following}.html">on</a>')
    assert making("check").check_site(tmp_path) == ["four.html: more than 3 clicks from the start page"]


@pytest.mark.parametrize("name", ["check", "citation", "names", "polish", "reproduction", "sidebar", "stage"])
def test_the_examples_in_the_code_of_the_site_hold(making: Any, name: str) -> None:
    pytest.importorskip("furo", reason="needs the extra docs")
    found = doctest.testmod(making(name))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    ("what", "lines", "mended"),
    [
        ("class", ["Parameters", "----------", "a : int", "", "More: of it."], ["Notes", "-----", "More: of it."]),
        ("class", ["Parameters", "----------", "a : int", "", ">>> 1 | 2", "3"],
         ["Examples", "--------", ">>> 1 | 2", "3"]),
        ("class", ["Attributes", "----------", "a_, b_", "", "c_ : int"], ["a\\_, b\\_", "", "c\\_ : int"]),
        ("attribute", ["A word: more, |x| -- of it."], ["A word: more, \\|x\\| \N{EN DASH} of it."]),
        ("attribute", ["Alias for field number 3"], []),
    ],
    ids=["notes", "examples", "attributes", "attribute", "field"],
)  # fmt: skip
def test_docstrings_are_read_as_they_are_meant(making: Any, what: str, lines: list[str], mended: list[str]) -> None:
    pytest.importorskip("sphinx", reason="needs the extra docs")
    reading = making("reading")
    reading._part(None, what, "", None, None, lines)
    reading._mend(None, what, "", None, None, lines)
    assert lines[len(lines) - len(mended) :] == mended
    assert mended or not lines


def test_a_stage_forgets_what_is_gone_and_leaves_what_is_the_same(making: Any, tmp_path: Path) -> None:
    stage = making("stage").Stage
    first = stage(tmp_path)
    first.write("a/same.md", "1")
    first.write("gone.md", "2")
    before = (tmp_path / "a" / "same.md").stat().st_mtime_ns
    second = stage(tmp_path)
    second.write("a/same.md", "1")
    second.sweep()
    assert [path.name for path in tmp_path.rglob("*.md")] == ["same.md"]
    assert (tmp_path / "a" / "same.md").stat().st_mtime_ns == before


def test_an_example_of_the_gallery_runs_prints_and_draws(making: Any) -> None:
    example = making("gallery").run_example(DOCS / "gallery" / "own_density.py")
    assert example.title == "A density of your own"
    assert example.about.startswith("A pinwheel")
    assert example.printed.splitlines()[1] == "four blades a class: 98.1% of the points right"
    assert len(example.space["figure"].axes) == 2
    assert example.code.startswith("import numpy as np")


def test_the_page_of_a_table_is_made_of_records_and_says_how(making: Any) -> None:
    reproduction = making("reproduction")
    one = reproduction.find(["figure2"])[0]
    page = reproduction.page_of(reproduction.Entry(one, one.render(pd.DataFrame())), pd.DataFrame({"setting": []}))
    assert page.startswith("# Figure 2: ")
    assert "Computed, nothing is trained: `genlabel reproduce figure2`" in page
    assert page.index("does not hold") < page.index("## Pictures")
    assert "7/16" in page or "0.4375" in page
