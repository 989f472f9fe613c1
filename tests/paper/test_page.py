"""The report: one valid self-contained HTML file with every printed value and every verdict."""

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from rich.console import Console

from genlabel_paper.registry import find
from genlabel_paper.report.dataset_tables import UNAVAILABLE
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.layout import count_agreements, grid_lines
from genlabel_paper.report.page import block, report_html, write_report
from genlabel_paper.report.results import Claim, Grid, Measured, Printed, Rendering, Value
from genlabel_paper.report.terminal import print_rendering
from genlabel_paper.runs.protocols import PROTOCOLS
from genlabel_paper.runs.readings import SELECTION_RULES

EXPERIMENTS = {experiment.id: experiment for experiment in find(["all"])}
REPORTED = [experiment for experiment in EXPERIMENTS.values() if experiment.id != "statistics"]


def make_records() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cells = dict.fromkeys(cell for experiment in REPORTED for cell in experiment.cells("quick"))
    frame = pd.DataFrame([{"id": cell.id, **cell.fields} for cell in cells])
    frame["accuracy"] = rng.uniform(60.0, 100.0, len(frame))
    frame["robust_accuracy"] = np.where(frame["setting"].str.contains("robust"), 0.5 * frame["accuracy"], np.nan)
    frame["train_accuracy"] = np.where(frame["method"].str.startswith("generative"), 99.0, np.nan)
    frame["smallest_margin"] = frame["median_margin"] = np.where(frame["setting"] == "plane", 0.5, np.nan)
    for rule in SELECTION_RULES:
        frame[rule.key] = np.where(frame["setting"].str.contains("@"), frame["accuracy"], np.nan)
    return frame.assign(
        seconds=2.0, parameters=[{}] * len(frame), versions=[{"torch": "2.9", "genlabel": "<1>"}] * len(frame)
    )


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    return make_records()


@pytest.fixture(scope="module")
def renderings(records: pd.DataFrame) -> dict[str, Rendering]:
    return {experiment.id: experiment.render(records) for experiment in REPORTED}


@pytest.fixture(scope="module")
def page(records: pd.DataFrame, renderings: dict[str, Rendering]) -> str:
    rendered = [
        replace(experiment, render=lambda _, rendering=renderings[experiment.id]: rendering) for experiment in REPORTED
    ]
    return report_html(records, rendered, description="a < b & c", command="genlabel reproduce all")


@pytest.fixture(scope="module")
def reader(page: str, read_html: Callable[[str], Any]) -> Any:
    return read_html(page)


def test_page_is_valid_and_accessible(renderings: dict[str, Rendering], reader: Any) -> None:
    names = [tag for tag, _ in reader.tags]
    assert names.count("main") == names.count("h1") == names.count("nav") == 1
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {name for name in renderings if name in ids} == {
        name for name, rendering in renderings.items() if rendering.measured
    }
    assert names.count("table") == names.count("caption") == sum(tag == "thead" for tag in names)
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in reader.tags if tag == "th")
    svgs = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert len(svgs) == names.count("figure") == 10
    assert all(attributes["role"] == "img" for attributes in svgs)
    assert [names[index + 1] for index, tag in enumerate(names) if tag == "svg"] == ["title"] * 10


def test_page_is_self_contained(page: str, reader: Any) -> None:
    for tag, attributes in reader.tags:
        assert tag not in {"link", "iframe", "object"}
        for key in ("src", "href"):
            target = attributes.get(key) or "#"
            assert target.startswith(("#", "data:image/png;base64,")) or (
                tag == "a" and target.startswith("https://arxiv.org/")
            )
    assert "url(" not in page.replace("url(#", "")
    assert "@import" not in page
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    ids = {attributes.get("id") for _, attributes in reader.tags}
    assert all(str(link)[1:] in ids for link in links if str(link).startswith("#"))


@pytest.mark.parametrize("experiment", REPORTED, ids=lambda experiment: experiment.id)
def test_page_has_every_printed_value_with_data(experiment: Experiment, reader: Any) -> None:
    text = reader.text
    for (_, dataset), value in experiment.paper.items():
        if dataset in UNAVAILABLE:
            continue
        two_digits = {"table1", "table4", "table5", "table6", "table7", "table8", "table9", "table15"}
        digits = 2 if experiment.id in two_digits else 1
        number = f"{value.mean:g}" if value.mean == int(value.mean) and digits == 1 else f"{value.mean:.{digits}f}"
        assert number + (f"±{value.spread:.2f}" if value.spread is not None else "") in text


def test_text_is_escaped_and_run_facts_are_shown(page: str, reader: Any) -> None:
    assert "a &lt; b &amp; c" in page
    assert "genlabel &lt;1&gt;, torch 2.9" in page
    text = reader.text
    assert "genlabel reproduce all" in text
    assert "hours" in text
    assert "softmax regression; Adam, 100 epochs" in text


def test_conclusion_counts_the_statements_of_the_paper(renderings: dict[str, Rendering], page: str) -> None:
    claims = [claim for rendering in renderings.values() for claim in rendering.claims if claim.of_paper]
    counts = [sum(claim.measured and claim.holds is holds for claim in claims) for holds in (True, False, None)]
    not_run = len(claims) - sum(counts)
    conclusion = re.search(r'id="conclusion">([^<]*)<', page)
    assert conclusion is not None
    text = unescape(conclusion[1])
    words = [f"{counts[0]} hold, {counts[1]} fail, {counts[2]} cannot be told"]
    words += [f"{not_run} were not run"] if not_run else []
    assert text.startswith(f"Of {len(claims)} statements of the paper, ")
    for protocol in PROTOCOLS:  # the fixture renders all of them alike
        assert f"{' and '.join(words)} under {protocol.title}" in text
    assert renderings["table3"].headline in text
    assert not any(claim.of_paper for claim in renderings["densities"].claims)


def test_headline_names_the_rivals_with_a_verdict(renderings: dict[str, Rendering]) -> None:
    above, _, rest = renderings["table3"].headline.partition("not so against")
    for claim in renderings["table3"].claims:
        rival = claim.brief.removeprefix("more often above ")
        named = [bool(re.search(rf"{re.escape(rival)}(,| and| \()", part)) for part in (above, rest)]
        assert named == [claim.holds is True, claim.holds is False]


def test_sections_are_in_order(page: str) -> None:
    """Conclusion, contents, verdicts of every protocol; then real data before synthetic data."""
    marks = ["conclusion", "contents", "in-short", "reading", "table1", "table7", "figure2", "table15", "densities"]
    positions = [page.index(f'id="{mark}"') for mark in [*marks, "datasets", "made"]]
    assert positions == sorted(positions)


def test_each_statement_stands_once_with_a_link(renderings: dict[str, Rendering], page: str, reader: Any) -> None:
    claims = [claim for rendering in renderings.values() for claim in rendering.claims if claim.measured]
    text = reader.text
    for claim in claims:
        assert text.count(claim.text) == sum(other.text.count(claim.text) for other in claims)
        assert claim.ours in text
        assert page.count(f">{escape(claim.brief)}</a>") == sum(other.brief == claim.brief for other in claims)
    items = [str(attributes["id"]) for tag, attributes in reader.tags if tag == "li" and "id" in attributes]
    assert len(items) == len(claims)
    assert all(page.count(f'href="#{name}"') == 1 for name in items)


@pytest.mark.parametrize("experiment", REPORTED, ids=lambda experiment: experiment.id)
def test_statements_have_distinct_short_forms(experiment: Experiment, renderings: dict[str, Rendering]) -> None:
    briefs = [claim.brief for claim in renderings[experiment.id].claims]
    assert len(set(briefs)) == len(briefs)
    assert all(0 < len(brief) <= 56 for brief in briefs)


def test_same_records_give_the_same_file(tmp_path: Path, records: pd.DataFrame) -> None:
    chosen = [EXPERIMENTS[name] for name in ("table6", "figure3")]
    for name in "ab":
        write_report(records, tmp_path / name, chosen, description="today")
    first, second = ((tmp_path / name).read_text() for name in "ab")
    assert first == second
    assert "today" in first


def test_experiments_without_records_are_one_line(read_html: Callable[[str], Any]) -> None:
    trained = [experiment for experiment in REPORTED if experiment.trains]
    page = report_html(pd.DataFrame(), trained)
    text = read_html(page).text
    assert "none yet" in text
    assert re.search(r"Of (\d+) statements of the paper, 0 hold, .* and \1 were not run under the paper's own", text)
    assert text.count("Not run: ") == 1
    assert f"Not run: {', '.join(experiment.name for experiment in trained)}." in text
    assert "genlabel reproduce table1 table2" in text
    assert not any(f'id="{experiment.id}"' in page for experiment in trained)


def test_missing_rows_of_a_table_are_one_line() -> None:
    ours = Value(Measured(90.0, None, 1, 1), None)
    rows = [("A", [ours, Value(None, Printed(1.23), "lost"), Value(None, None, "not run")]), ("B", [ours] * 1)]
    rows = [(title, [*row, *[Value(None, None, "not run")] * (3 - len(row))]) for title, row in rows]
    rows.append(("C", [Value(None, Printed(4.56), "not run")] * 3))
    grid = Grid("T", ["61", "1038", "36"], rows)
    assert block("not_run", Rendering([grid])).strip() == '<p class="not-run">Not run: 1038 (lost); 36, C.</p>'
    table = block("grid_table", grid)
    assert "90.00" in table
    assert not any(word in table for word in ("1038", "1.23", "4.56", ">C<"))
    assert not block("not_run", Rendering([Grid("T", ["61"], [("A", [ours])])])).strip()


GRID = Grid(
    "T",
    ["61", "36"],
    [
        ("A", [Value(Measured(90.0, 1.0, 1, 2), Printed(90.5, 0.1)), Value(None, Printed(80.0), "lost")]),
        ("B", [Value(Measured(80.0, 1.0, 1, 2), Printed(91.0, 0.1)), Value(Measured(70.0, None, 1, 1), Printed(69.2))]),
    ],
    best=["A", "B"],
)


def test_table_has_a_row_for_each_dataset_and_marks_the_best() -> None:
    html = block("grid_table", GRID)
    assert '<td class="agrees" data-v="90"><b>90.00</b>±1.00 <abbr title="agrees" class="sign">=</abbr>' in html
    assert "<small>90.50±0.10 (-0.50)</small>" in html
    assert "<small><b>91.00</b>±0.10 (-11.00)</small>" in html
    assert '<td class="missing" title="lost" data-v="">' in html
    assert '<th scope="row" data-v="61">61</th>' in html
    assert "Not run: 1 value (lost)." in block("not_run", Rendering([GRID]))
    assert count_agreements(GRID) == {"agrees": 1, "near": 1, "differs": 1, "missing": 1}
    assert [line.name for line in grid_lines(GRID)] == ["61", "36"]


@pytest.mark.parametrize("experiment", REPORTED, ids=lambda experiment: experiment.id)
def test_terminal_has_the_same_values_in_100_columns(
    experiment: Experiment, renderings: dict[str, Rendering], as_text: Callable[[Experiment, Rendering, int], str]
) -> None:
    text = as_text(experiment, renderings[experiment.id], 100)
    assert max(map(len, text.splitlines())) <= 100
    for grid in renderings[experiment.id].grids:
        for _, row in grid.rows:
            for value in row:
                assert value.ours is None or f"{value.ours.mean:.{grid.digits}f}" in text
                assert value.paper is None or f"({value.paper.mean:.{grid.digits}f}" in text
    assert "…" not in text


def test_experiment_is_printed_with_its_title_and_statements() -> None:
    console = Console(width=60, record=True, force_terminal=False)
    renderings = Rendering([GRID], [Claim("A is [b]better[/b].", "on all", "on none", False)], notes=["word " * 30])
    print_rendering(EXPERIMENTS["table4"], renderings, console)
    text = console.export_text()
    assert text.startswith("table4: Clean accuracy on 16 chosen OpenML datasets")
    assert "✗ fails: A is [b]better[/b]." in text
    assert re.search(r"\n  word word", text)


@pytest.fixture(scope="module")
def opened(browser: Any, page: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    browser.path = tmp_path_factory.mktemp("report") / "report.html"
    browser.path.write_text(page, encoding="utf-8")
    return browser


def press_on(browser: Any, selector: str) -> None:
    """Press Enter on the first element that a selector finds."""
    browser.run(f"document.querySelector('{selector}').focus()")
    browser.press("\ue007")


def top(name: str) -> str:
    return f"return document.getElementById('{name}').getBoundingClientRect().top + window.scrollY"


def test_contents_are_within_the_first_screens(opened: Any) -> None:
    opened.open(opened.path, 1280, 900)
    assert opened.complaints() == []
    assert [address for address in opened.requests() if not address.startswith("data:")] == [opened.path.as_uri()]
    assert opened.run(top("contents")) < 450
    assert opened.run(top("in-short")) < 900
    opened.open(opened.path, 360, 740)
    assert opened.run(top("contents")) < 740


@pytest.mark.parametrize("width", [360, 700, 1280])
def test_nothing_is_wider_than_the_screen(opened: Any, width: int) -> None:
    opened.open(opened.path, width)
    assert opened.run("return document.documentElement.scrollWidth") <= width


def test_every_statement_is_visible_once(opened: Any, renderings: dict[str, Rendering]) -> None:
    opened.open(opened.path)
    text = opened.run("return document.body.innerText")
    claims = [claim for rendering in renderings.values() for claim in rendering.claims if claim.measured]
    for claim in claims:
        words = " ".join(claim.text.split())
        assert " ".join(text.split()).count(words) == sum(other.text.count(words) for other in claims)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_figures_follow_the_theme_and_open_larger(opened: Any, dark: bool) -> None:
    opened.open(opened.path, dark=dark)
    words = "[...document.querySelectorAll('figure svg text')].filter((one) => !one.style.fill)"
    colors = opened.run(f"return [...new Set({words}.map((one) => getComputedStyle(one).fill))]")
    assert len(colors) == 1
    assert (sum(map(int, re.findall(r"\d+", colors[0]))) > 382) is dark
    sizes = opened.run("return [...document.querySelectorAll('figure svg')].map((one) => one.clientWidth)")
    assert len(sizes) == 10
    assert min(sizes) > 300
    press_on(opened, "#figure3 .larger")
    assert opened.run("return document.querySelector('dialog svg').clientWidth") > sizes[0]
    opened.press("\ue00c")
    assert opened.wait("!document.querySelector('dialog')")


def test_table_sorts_by_our_values_and_by_dataset(opened: Any) -> None:
    opened.open(opened.path)
    column = "return [...document.querySelector('#table4 tbody').rows].map((row) => Number(row.cells[{}].dataset.v))"
    for column_index in (2, 1):
        press_on(opened, f"#table4 thead th:nth-child({column_index}) button")
        values = opened.run(column.format(column_index - 1))
        assert len(values) == 16
        assert values == sorted(values)


def test_short_forms_link_to_their_statement(opened: Any) -> None:
    opened.open(opened.path)
    press_on(opened, "#in-short tbody a")
    target = "document.querySelector('.claims li:target')"
    assert opened.wait(f"{target} && {target}.getBoundingClientRect().top < innerHeight")
    assert "Paper: " in opened.run(f"return {target}.innerText")
