"""Pages of the reproduction: each table and figure of the paper, written from the records; nothing is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from genlabel.evaluation.records import load_records
from genlabel.reporting import Markup, element, item_list
from genlabel.reporting.frame import script, style
from genlabel_paper.registry import find
from genlabel_paper.report.drawing import picture
from genlabel_paper.report.experiment import PARTS, Experiment
from genlabel_paper.report.page import READING
from genlabel_paper.report.page_parts import claim_list, grid_table, judged, legend, not_run
from genlabel_paper.report.pieces import Claim, Shown
from genlabel_paper.report.style import CSS
from genlabel_paper.report.summary import SIGNS, Entry, conclusion, part_title
from genlabel_paper.runs.cells import STUDY
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import is_current

ROOT = Path(__file__).parents[2]
ORDER = (False, None, True)  # verdicts: statements that do not hold come first
FLOATING_RULE = re.compile(r"^(?:dialog\.larger-view|\.tip)[^{]*\{[^}]*\}", flags=re.M)


def setup(app: Any) -> dict[str, bool]:
    """Register the writing of pages in front of the reading, and their style and script, which are the report's."""
    app.connect("builder-inited", _write_pages)
    app.connect("html-page-context", _add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Any) -> None:
    for name, text in {**pages(), "records.css": css(), "records.js": js()}.items():
        path = Path(app.srcdir, "reproduction" if name.endswith(".md") else "_static", name)
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _add_assets(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if 'class="records"' in context.get("body", ""):
        app.add_css_file("records.css")
        app.add_js_file("records.js", loading_method="defer")


def css() -> str:
    """Return the style of the report, for the parts of a page that are made of records."""
    text = style()
    colors = text[text.index(":root {") : text.index(":root[data-theme")]
    rules = text[text.index(".soft,") : text.index("@media (prefers-reduced-motion")]
    return "\n".join([colors, *FLOATING_RULE.findall(text), ".records {", rules, CSS, "}", ""])


def js() -> str:
    """Return the script of the report without its theme switch: the site has one."""
    text = script()
    return text[: text.index("  // Theme")] + text[text.index("  // Parts") :]


def pages() -> dict[str, str]:
    """Return a page for each table and figure, and the list of all, by file name."""
    records = load_records(ROOT / "results" / "paper", STUDY).frame
    records = records[is_current(records)].reset_index(drop=True)
    entries = [Entry(one, one.render(records)) for one in find(["all"])]
    return {f"{one.experiment.id}.md": page_of(one, records) for one in entries} | {"index.md": _index(entries)}


def page_of(entry: Entry, records: pd.DataFrame) -> str:
    """Return the page of a table or figure: statements, pictures, our values beside the paper's, settings."""
    one, shown = entry
    parts = [
        f"# {one.name}: {one.title}",
        f"{one.source}. {_command(one)}",
        _in_short(judged(shown)),
        _section("What the paper says, and what came out", _claims(one, shown)),
        _section("Pictures", [picture(p, f"{one.id}-p{n}") for n, p in enumerate(shown.pictures, 1)]),
        _section("Ours beside the paper's", _grids(shown)),
        _section("Notes", [item_list(shown.notes)] if shown.notes else []),
        _section("Settings", _settings(one, records)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _command(one: Experiment) -> str:
    only = f"`genlabel report -o report.html --records results/paper --only {one.id}` shows the same"
    if not one.trains:
        return f"Computed, nothing is trained: `genlabel reproduce {one.id}`. {only}."
    return f"Trained by `genlabel reproduce {one.id} --budget full`; {only}."


def _in_short(claims: list[Claim]) -> str:
    """Return the number of statements that hold.

    >>> _in_short([Claim("a", "", "", True), Claim("b", "", "", False), Claim("c", "", "", False)])
    "Of the paper's 3 statements here 1 holds, 2 do not."
    """
    counts = [sum(claim.holds is holds for claim in claims) for holds in (True, False, None)]
    words = ["holds" if counts[0] == 1 else "hold", "does not" if counts[1] == 1 else "do not", "cannot be said"]
    said = ", ".join(f"{count} {word}" for count, word in zip(counts, words, strict=True) if count)
    return f"Of the paper's {len(claims)} statements here {said}." if len(claims) > 1 else ""


def _section(title: str, parts: list[Markup]) -> str:
    if not parts:
        return ""
    inside = "\n".join(['<div class="records">', *parts, "</div>"])
    return f"## {title}\n\n```{{raw}} html\n{inside}\n```"


def _claims(one: Experiment, shown: Shown) -> list[Markup]:
    claims = judged(shown)
    return [claim_list(one, claims)] if claims else []


def _grids(shown: Shown) -> list[Markup]:
    tables = [grid_table(grid) for grid in shown.grids if grid.measured]
    if not tables:
        return not_run(shown)
    return [element("p", READING), legend(), element("div", *tables, class_="tables"), *not_run(shown)]


def _settings(one: Experiment, records: pd.DataFrame) -> list[Markup]:
    """Return the settings of the trained cells, with the numbers of splits and seeds on record."""
    used = {cell.setting for cell in one.cells("full")}
    lines = []
    for name in SETTINGS:
        part = records[records["setting"] == name]
        if name in used and len(part):
            counts = f"{part['split'].nunique()} splits, {part['seed'].nunique()} seeds"
            lines.append(element("li", element("b", name), f": {SETTINGS[name].about} On record: {counts}."))
    return [element("ul", *lines)] if lines else []


def _index(entries: list[Entry]) -> str:
    parts = [
        "# Every table and figure",
        conclusion(entries),
        "[How it was run, the protocol, doubts](../reproduction.md).",
    ]
    for part in PARTS:
        inside = [entry for entry in entries if entry.experiment.part == part]
        lines = [_line(entry) for entry in inside]
        head = "| | what it is | statements that do not hold ✗, cannot be said ?, hold ✓ |\n|---|---|---|"
        parts += [f"## {part_title(part)}", "\n".join([head, *lines]), _toctree(inside)] if inside else []
    return "\n\n".join(parts) + "\n"


def _line(entry: Entry) -> str:
    one = entry.experiment
    name = one.name.replace(" ", "\N{NO-BREAK SPACE}")
    return f"| [{name}]({one.id}.md) | {one.title} | {_tally(entry.shown)} |"


def _tally(shown: Shown) -> str:
    counts = {holds: sum(claim.holds is holds for claim in judged(shown)) for holds in ORDER}
    return " ".join(f"{SIGNS[holds]} {count}" for holds, count in counts.items() if count) or "none"


def _toctree(entries: list[Entry]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *(entry.experiment.id for entry in entries), "```"])
