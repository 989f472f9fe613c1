"""Pages: valid, escaped, without requests; in a browser they sort, filter, switch the theme and open figures larger."""

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from genlabel.reporting.html import DataTable, TableCell, clean_text, environment, shorten

HOSTILE = {
    "script": "<script>document.title = 'owned'</script>",
    "quotes": "\"'`><img src=x onerror=alert(1)>",
    "style": "</style><h1>x</h1></title></svg>",
    "comment": "<!-- &amp; ]]> -->",
    "turned": "\u202eabc\u2066\u200f",
    "control": "a\x00b\x1bc\ud800",
    "emoji": "\N{PILE OF POO} \N{LATIN SMALL LETTER E WITH ACUTE}",
    "long": "x" * 300,
    "empty": "",
}
every_hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


PAGE = """{% extends "page.j2" %}{% import "macros.j2" as ui %}
{% block title %}{{ text }}{% endblock %}
{% block header %}<h1>{{ text }}</h1>{{ ui.contents({"t": "A table", "f": "A figure", "n": "Notes"}) }}{% endblock %}
{% block main %}
{% call ui.section("t", "A table") %}{{ ui.data_table(table) }}{% endcall %}
{% call ui.section("f", "A figure") %}{{ ui.figure(drawing, "It shows " ~ text ~ ".") }}{% endcall %}
{% call ui.section("n", "Notes") %}
{{ ui.facts({"name": text ~ ".", "none": ""}) }}{{ ui.item_list([text]) }}
<details><p id="deep">{{ text }}</p></details>
{% endcall %}
{% endblock %}"""
DRAWING = """<svg viewBox="0 0 40 40" role="img"><title>{{ text }}</title>
<circle cx="20" cy="20" r="9"><title>value {{ text }}</title></circle></svg>"""


def make_page(text: str = "plain") -> str:
    rows: list[list[Any]] = [
        [f"{text} {i}", TableCell(f"{v:.1f}", v), MISSING if i == 3 else str(-v)] for i, v in NUMBERS
    ]
    table = DataTable(f"About {text}", ["name", "value", "minus"], rows)
    env = environment()
    drawing = Markup(env.from_string(DRAWING).render(text=text))
    return env.from_string(PAGE).render(text=text, table=table, drawing=drawing)


MISSING = "\N{EN DASH}"
NUMBERS = list(enumerate([3.0, 10.0, -2.0, 0.5, 100.0, 7.0, 8.0, 9.0]))


@every_hostile
def test_hostile_text_is_escaped_everywhere(text: str, read_html: Callable[[str], Any]) -> None:
    plain, reader = read_html(make_page()), read_html(make_page(text))
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in plain.tags]
    assert len(reader.text) >= 8 * len(text)


@every_hostile
def test_escaped_text_is_unchanged_except_for_forbidden_characters(text: str, read_html: Callable[[str], Any]) -> None:
    shown = read_html(environment().from_string("{{ text }}").render(text=text)).text
    replacements = {"\u202e": "[U+202E]", "\u2066": "[U+2066]", "\x00": "\ufffd", "\x1b": "\ufffd", "\ud800": "\ufffd"}
    assert shown == "".join(replacements.get(character, character) for character in text)
    clean_text(text).encode()


def test_page_makes_no_requests_and_is_reproducible(read_html: Callable[[str], Any]) -> None:
    text = make_page()
    tags = read_html(text).tags
    assert text == make_page()
    assert not {tag for tag, _ in tags} & {"link", "iframe", "object", "img"}
    assert not any("src" in attributes for _, attributes in tags)
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "")
    policies = [a["content"] for tag, a in tags if tag == "meta" and "http-equiv" in a]
    rules = dict(str(rule).split(maxsplit=1) for rule in str(policies[0]).split(";"))
    blocked = {name for name, allowed in rules.items() if allowed == "'none'"}
    assert blocked == {"default-src", "base-uri", "form-action"}
    (body,) = re.findall("<script>(.*)</script>", text, flags=re.S)
    assert rules["script-src"] == f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'"


def test_style_and_script_are_small() -> None:
    sizes = {name: len(environment().get_template(name).render().encode()) for name in ("page.js", "page.css")}
    assert sizes["page.js"] < 8_192
    assert sizes["page.css"] < 12_288


def test_caller_renders_the_cells_of_a_table() -> None:
    table = DataTable("t", ["a", "b"], [["x", TableCell("", content="<i>")]])
    template = (
        '{% import "macros.j2" as ui %}{% call(cell) ui.data_table(table) %}<b>{{ cell.content }}</b>{% endcall %}'
    )
    text = environment().from_string(template).render(table=table)
    assert "<b>&lt;i&gt;</b></td>" in text


def test_long_cells_are_cut_and_have_a_tooltip() -> None:
    table = DataTable("t", ["a"], [[200 * "word "]])
    text = environment().from_string('{% import "macros.j2" as ui %}{{ ui.data_table(table) }}').render(table=table)
    assert f'title="{200 * "word "}"' in text
    assert text.count("word") < 230


@pytest.mark.parametrize("longest", [1, 5, 24])
@every_hostile
def test_shortened_text_keeps_start_and_end(text: str, longest: int) -> None:
    short = shorten(text, longest)
    assert len(short) <= longest
    line = " ".join(text.split())
    first, _, last = short.partition("…")
    assert short == line or (line.startswith(first) and line.endswith(last))


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("pages") / "page.html"
    path.write_text(make_page(), encoding="utf-8")
    browser.path = path
    return browser


def column(browser: Any, index: int, visible: bool = False) -> list[str]:
    hidden = "" if not visible else ":not([hidden])"
    return browser.run(
        f"return [...document.querySelectorAll('tbody tr{hidden}')].map((row) => row.cells[{index}].textContent)"
    )


def test_page_opens_without_errors_or_requests(opened: Any) -> None:
    opened.open(opened.path)
    assert opened.complaints() == []
    assert opened.requests() == [opened.path.as_uri()]


def test_table_sorts_by_click_and_by_key(opened: Any) -> None:
    opened.open(opened.path)
    before = column(opened, 1)
    opened.click("thead th:nth-child(2) button")
    assert column(opened, 1) == sorted(before, key=float)
    assert opened.run("return document.querySelector('thead th:nth-child(2)').ariaSort") == "ascending"
    opened.press("\ue007")
    assert column(opened, 1) == sorted(before, key=float, reverse=True)
    opened.click("thead th:nth-child(3) button")
    texts = column(opened, 2)
    assert texts[-1] == MISSING
    assert [float(text) for text in texts[:-1]] == sorted(float(text) for text in texts[:-1])
    opened.press("\ue007")
    assert column(opened, 2)[-1] == MISSING


def test_filter_hides_rows_and_counts_them(opened: Any) -> None:
    opened.open(opened.path)
    opened.click(".filter input")
    for letter in "10":
        opened.press(letter)
    expected = [row for row in zip(column(opened, 0), column(opened, 1), strict=True) if "10" in "".join(row)]
    assert list(zip(column(opened, 0, True), column(opened, 1, True), strict=True)) == expected
    assert opened.run("return document.querySelector('.filter span').textContent") == f"{len(expected)} of 8 rows"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_theme_follows_the_system_until_switched(opened: Any, dark: bool) -> None:
    opened.open(opened.path, dark=dark)
    background = "return getComputedStyle(document.body).backgroundColor"
    color = "return getComputedStyle(document.body).color"
    light = [sum(map(int, opened.run(background)[4:-1].split(","))) > 382, opened.run(color)]
    assert light[0] is not dark
    opened.click("#theme")
    assert (sum(map(int, opened.run(background)[4:-1].split(","))) > 382) is dark
    assert opened.run(color) != light[1]
    assert opened.run("return document.getElementById('theme').ariaPressed") == str(not dark).lower()


def test_figure_shows_its_values_and_opens_larger(opened: Any) -> None:
    opened.open(opened.path)
    tip = "return document.querySelector('.tip').hidden ? null : document.querySelector('.tip').textContent"
    assert opened.run(tip) is None
    opened.run("document.querySelector('figure svg').focus()")
    opened.press("\ue014")
    assert opened.run(tip) == "value plain"
    size = "return document.querySelector('{} svg').getBoundingClientRect().width"
    opened.run("document.querySelector('.larger').focus()")
    opened.press("\ue007")
    assert opened.run("return document.querySelector('dialog').open")
    assert opened.run(size.format("dialog")) > 0
    opened.press("\ue00c")
    assert opened.wait("!document.querySelector('dialog')")
    assert opened.run("return document.activeElement.className") == "larger"
    assert opened.complaints() == []


def test_link_into_a_folded_section_opens_it(opened: Any) -> None:
    opened.open(opened.path)
    opened.run("location.hash = '#deep'")
    assert opened.wait("document.querySelector('details').open")


def test_invalid_anchor_does_not_stop_the_script(opened: Any) -> None:
    opened.open(opened.path)
    opened.run("location.hash = '#%'; location.reload()")
    assert opened.wait("!document.getElementById('theme').hidden")
    assert opened.run("return document.querySelectorAll('.larger').length") == 1
    assert opened.complaints() == []


@every_hostile
def test_hostile_text_neither_runs_nor_overflows(browser: Any, tmp_path: Path, text: str) -> None:
    width = 360
    path = tmp_path / "hostile.html"
    path.write_text(make_page(text), encoding="utf-8")
    browser.open(path, width)
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]
    assert browser.run("return document.title") != "owned"
    assert browser.run("return document.documentElement.scrollWidth") <= width
