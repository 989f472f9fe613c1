"""The report: one valid HTML file that needs no other, has every printed value, and says what reproduced."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from genlabel_paper.registry import find
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.layout import count_agreements, lines_of
from genlabel_paper.report.page import report_html, write_report
from genlabel_paper.report.page_parts import grid_table
from genlabel_paper.report.pieces import Claim, Grid, Measured, Printed, Shown, Value
from genlabel_paper.report.text import print_shown

VOID = {"meta", "img", "br", "link", "input"}
EXPERIMENTS = {one.id: one for one in find(["all"])}
PARTS = [one for one in EXPERIMENTS.values() if one.id != "statistics"]


class Reader(HTMLParser):
    """Checks that tags are balanced, and keeps what a test asks for."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cells = dict.fromkeys(cell for experiment in PARTS for cell in experiment.cells("quick"))
    frame = pd.DataFrame([{"id": cell.id, **cell.fields} for cell in cells])
    frame["accuracy"] = rng.uniform(60.0, 100.0, len(frame))
    frame["robust_accuracy"] = np.where(frame["setting"].str.contains("robust"), 0.5 * frame["accuracy"], np.nan)
    frame["train_accuracy"] = np.where(frame["method"].str.startswith("generative"), 99.0, np.nan)
    frame["smallest_margin"] = frame["median_margin"] = np.where(frame["setting"] == "plane", 0.5, np.nan)
    return frame.assign(
        seconds=2.0, parameters=[{}] * len(frame), versions=[{"torch": "2.9", "genlabel": "<1>"}] * len(frame)
    )


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    return made_up()


@pytest.fixture(scope="module")
def shown(records: pd.DataFrame) -> dict[str, Shown]:
    return {one.id: one.render(records) for one in PARTS}


@pytest.fixture(scope="module")
def page(records: pd.DataFrame, shown: dict[str, Shown]) -> str:
    rendered = [replace(one, render=lambda _, part=shown[one.id]: part) for one in PARTS]
    return report_html(records, rendered, description="a < b & c", command="genlabel reproduce all")


@pytest.fixture(scope="module")
def text_of_page(page: str) -> str:
    return "".join(read(page).text)


def test_the_page_is_balanced_and_says_what_its_parts_are(page: str) -> None:
    reader = read(page)
    names = [tag for tag, _ in reader.tags]
    assert names.count("main") == names.count("h1") == names.count("nav") == 1
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {one.id for one in PARTS} <= set(ids)
    assert names.count("table") == names.count("caption") == sum(tag == "thead" for tag in names)
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in reader.tags if tag == "th")
    assert all(attributes.get("alt") for tag, attributes in reader.tags if tag == "img")
    assert names.count("img") == 9


def test_the_page_needs_nothing_else(page: str) -> None:
    for tag, attributes in read(page).tags:
        assert tag not in {"link", "iframe", "object"}
        for key in ("src", "href"):
            target = attributes.get(key) or "#"
            assert target.startswith(("#", "data:image/svg+xml;base64,")) or (
                tag == "a" and target.startswith("https://arxiv.org/")
            )
    assert "url(" not in page
    assert "@import" not in page
    links = [attributes["href"] for tag, attributes in read(page).tags if tag == "a"]
    ids = {attributes.get("id") for _, attributes in read(page).tags}
    assert all(str(link)[1:] in ids for link in links if str(link).startswith("#"))


@pytest.mark.parametrize("experiment", PARTS, ids=lambda one: one.id)
@pytest.mark.parametrize("empty", [False, True], ids=["records", "none"])
def test_every_printed_value_is_on_the_page(experiment: Experiment, text_of_page: str, empty: bool) -> None:
    text = text_of_page
    if empty:
        text = "".join(read(report_html(pd.DataFrame(), [experiment])).text)
    for value in experiment.paper.values():
        two = {"table1", "table4", "table5", "table6", "table7", "table8", "table9", "table15"}
        digits = 2 if experiment.id in two else 1
        words = f"{value.mean:g}" if value.mean == int(value.mean) and digits == 1 else f"{value.mean:.{digits}f}"
        assert words + (f"±{value.spread:.2f}" if value.spread is not None else "") in text


def test_text_is_escaped_and_facts_are_told(page: str) -> None:
    assert "a &lt; b &amp; c" in page
    assert "genlabel &lt;1&gt;, torch 2.9" in page
    text = "".join(read(page).text)
    assert "genlabel reproduce all" in text
    assert "hours" in text
    assert "softmax regression; Adam, 100 epochs" in text


def test_the_summary_counts_the_statements(shown: dict[str, Shown], page: str) -> None:
    claims = [claim for part in shown.values() for claim in part.claims]
    counts = [sum(claim.holds is holds for claim in claims) for holds in (True, False, None)]
    text = "".join(read(page).text)
    assert (
        f"Of {len(claims)} statements that the paper makes about these tables and figures, {counts[0]} hold here, "
        f"{counts[1]} do not, {counts[2]} cannot be judged"
    ) in text
    assert page.index('id="summary"') < page.index('id="table1"')
    assert all(claim.found in text for claim in claims)


def test_the_same_records_give_the_same_file(tmp_path: Path, records: pd.DataFrame) -> None:
    chosen = [EXPERIMENTS[name] for name in ("table6", "figure3")]
    for name in "ab":
        write_report(records, tmp_path / name, chosen, description="today")
    first, second = ((tmp_path / name).read_text() for name in "ab")
    assert first == second
    assert "today" in first


def test_without_records_the_page_says_so() -> None:
    text = "".join(read(report_html(pd.DataFrame(), [one for one in PARTS if one.trains])).text)
    assert "none yet" in text
    assert "96 missing: not run" in text
    assert "0 hold here, 0 do not" in text


GRID = Grid(
    "T",
    ["61", "36"],
    [
        ("A", [Value(Measured(90.0, 1.0, 1, 2), Printed(90.5, 0.1)), Value(None, Printed(80.0), "lost")]),
        ("B", [Value(Measured(80.0, 1.0, 1, 2), Printed(91.0, 0.1)), Value(Measured(70.0, None, 1, 1), Printed(69.2))]),
    ],
    best=["A", "B"],
)


def test_a_table_has_a_line_for_each_dataset_and_marks_the_best() -> None:
    html = grid_table(GRID)
    assert '<td class="agrees"><b>90.00</b>±1.00 <abbr title="agrees" class="sign">=</abbr>' in html
    assert "<small>90.50±0.10 (-0.50)</small>" in html
    assert "<small><b>91.00</b>±0.10 (-11.00)</small>" in html
    assert '<td class="missing" title="lost">' in html
    assert "1 missing: lost" in html
    assert count_agreements(GRID) == {"agrees": 1, "near": 1, "differs": 1, "missing": 1}
    assert [line.name for line in lines_of(GRID)] == ["61", "36"]


@pytest.mark.parametrize("experiment", PARTS, ids=lambda one: one.id)
def test_the_terminal_has_the_same_values_in_100_columns(
    experiment: Experiment, shown: dict[str, Shown], as_text: Callable[[Experiment, Shown, int], str]
) -> None:
    text = as_text(experiment, shown[experiment.id], 100)
    assert max(map(len, text.splitlines())) <= 100
    for grid in shown[experiment.id].grids:
        for _, row in grid.rows:
            for value in row:
                assert value.ours is None or f"{value.ours.mean:.{grid.digits}f}" in text
                assert value.paper is None or f"({value.paper.mean:.{grid.digits}f}" in text
    assert "…" not in text


def test_an_experiment_is_printed_with_its_title_and_statements() -> None:
    console = Console(width=60, record=True, force_terminal=False)
    shown = Shown([GRID], [Claim("A is [b]better[/b].", "on all", "on none", False)], notes=["word " * 30])
    print_shown(EXPERIMENTS["table4"], shown, console)
    text = console.export_text()
    assert text.startswith("table4: Clean accuracy on 16 chosen OpenML sets")
    assert "✗ does not hold: A is [b]better[/b]." in text
    assert re.search(r"\n  word word", text)
