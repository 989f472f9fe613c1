"""The report: one HTML file with what reproduced and what did not, and each table and figure beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel.reporting import Markup, element, facts, item_list, join, page, section
from genlabel_paper.report.drawing import picture
from genlabel_paper.report.experiment import PARTS, Experiment
from genlabel_paper.report.page_parts import claim_list, grid_table, judged, legend, not_run
from genlabel_paper.report.pieces import Shown
from genlabel_paper.report.style import CSS
from genlabel_paper.report.summary import Entry, conclusion, contents, in_short, part_title
from genlabel_paper.runs.settings import SETTINGS

PAPER = "https://arxiv.org/abs/2201.02354"
TITLE = "GenLabel: what of the paper reproduces"
ABOUT = (
    "The tables and figures of the paper, trained or computed again from its text with this repository; every value "
    "stands beside the printed one."
)
READING = (
    "In the tables ours is above, the paper's below it with the difference, ours minus the paper's. The sign and the "
    "colour say how far ours is from the paper's; the best method of a line is bold, in ours and in the paper's. A "
    "click on a heading sorts by ours."
)
MORE = {"in-short": "Every verdict in short", "reading": "How to read the tables", "made": "How this page was made"}


def write_report(
    records: pd.DataFrame,
    path: str | Path,
    experiments: Sequence[Experiment],
    *,
    description: str = "",
    command: str = "",
) -> None:
    """Write what the records say as one HTML file that needs no other; the same records give the same file.

    Parameters
    ----------
    records : DataFrame
        Of `genlabel.evaluation.records.read_records`.
    path : path
    experiments : sequence of Experiment
    description : str
        A sentence more about this run.
    command : str
        Which made the report.
    """
    text = report_html(records, experiments, description=description, command=command)
    atomic_write(path, text)


def report_html(
    records: pd.DataFrame,
    experiments: Sequence[Experiment],
    *,
    description: str = "",
    command: str = "",
) -> str:
    """Return the page of `write_report`.

    >>> report_html(pd.DataFrame(), []).startswith("<!DOCTYPE html>")
    True
    """
    shown = [Entry(experiment, experiment.render(records)) for experiment in experiments]
    entries = [entry for entry in shown if entry.shown.measured]
    rest = [entry.experiment for entry in shown if not entry.shown.measured]
    header = join(
        element("h1", TITLE),
        element("p", conclusion(shown), class_="lead", id="conclusion"),
        element("p", ABOUT, " ", element("a", "The paper on arXiv", href=PAPER), ".", class_="soft"),
        *_paragraph(description),
        *_left_out(rest),
    )
    parts = [_part(part, [one for one in entries if one.experiment.part == part]) for part in PARTS]
    reading = section("reading", MORE["reading"], element("p", READING), legend())
    made = _made(_facts(records, experiments, command))
    return page(TITLE, header, contents(entries, MORE), in_short(entries), reading, *parts, made, css=CSS)


def _paragraph(words: str) -> list[Markup]:
    return [element("p", words)] if words else []


def _left_out(experiments: Sequence[Experiment]) -> list[Markup]:
    """One line about what there is nothing of."""
    if not experiments:
        return []
    command = f"genlabel reproduce {' '.join(one.id for one in experiments)}"
    names = ", ".join(one.name for one in experiments)
    return [element("p", f"Not run: {names}. ", element("code", command), class_="not-run", id="not-run")]


def _part(name: str, entries: Sequence[Entry]) -> Markup:
    """The experiments of a kind."""
    if not entries:
        return Markup()
    heading = element("h2", part_title(name), class_="part")
    return element("section", heading, *(_section(*entry) for entry in entries), id=f"part-{name}")


def _section(experiment: Experiment, shown: Shown) -> Markup:
    """One table or figure of the paper: the verdicts, what they are of, what was not run, and notes."""
    back = element("a", "Contents", href="#contents")
    parts = [
        element("h3", f"{experiment.name}: {experiment.title}"),
        element("p", f"{experiment.source}. ", back, class_="source"),
        *([claim_list(experiment, judged(shown))] if judged(shown) else []),
        *(picture(one, f"{experiment.id}-p{place}") for place, one in enumerate(shown.pictures, 1)),
        element("div", *(grid_table(grid) for grid in shown.grids if grid.measured), class_="tables"),
        *not_run(shown),
    ]
    if shown.notes:
        title = element("summary", f"Notes ({len(shown.notes)})")
        parts.append(element("details", title, item_list(shown.notes, "notes")))
    return element("section", *parts, id=experiment.id)


def _made(told: dict[str, str]) -> Markup:
    """What the page is made of, and how everything was trained (arXiv Tables 10 to 14)."""
    settings = facts({name: setting.about for name, setting in SETTINGS.items()})
    folded = element("details", element("summary", f"Settings ({len(SETTINGS)})"), settings, id="settings")
    return section("made", MORE["made"], facts(told), folded)


def _facts(records: pd.DataFrame, chosen: Sequence[Experiment], command: str) -> dict[str, str]:
    """Numbers of the records; their time, what they were made with, and the command of the page."""
    needed = not chosen or any(experiment.trains for experiment in chosen)
    made = {"made by": element("code", command)} if command else {}
    if not needed or not len(records):
        return {"records": "none yet" if needed else "none needed", **made}
    sets, splits, seeds = (records[name].nunique() for name in ("dataset", "split", "seed"))
    numbers = {"records": f"{len(records):,}", "datasets": str(sets), "splits": str(splits), "seeds": str(seeds)}
    return {**numbers, "time of all trials": _hours(records), "versions": _versions(records), **made}


def _hours(records: pd.DataFrame) -> str:
    seconds = float(records["seconds"].sum()) if "seconds" in records else 0.0
    return f"{seconds:,.0f} seconds ({seconds / 3600:.1f} hours)"


def _versions(records: pd.DataFrame) -> str:
    if "versions" not in records:
        return ""
    lines = [line for line in records["versions"] if isinstance(line, Mapping)]
    found = {(name, str(number)) for line in lines for name, number in line.items()}
    return ", ".join(f"{name} {number}" for name, number in sorted(found))
