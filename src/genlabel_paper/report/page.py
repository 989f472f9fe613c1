"""Report as one HTML file: verdicts on the statements of the paper, and its tables and figures next to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from genlabel._atomic_io import atomic_write
from genlabel.reporting.html import DataTable, TableCell, environment
from genlabel.reporting.svg import inline_svg
from genlabel_paper.report.experiment import SECTIONS, Experiment
from genlabel_paper.report.layout import (
    AGREEMENTS,
    SIGNS,
    SYMBOLS,
    GridCell,
    count_agreements,
    describe_missing,
    format_value,
    format_verdict,
    grid_lines,
    has_printed,
    join_words,
    measured_claims,
    measured_subgrid,
)
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Rendering, agreement
from genlabel_paper.runs.settings import SETTINGS

READING = (
    "In the tables ours is above, the paper's below it with the difference, ours minus the paper's. The sign and the "
    "color say how far ours is from the paper's; the best method of a line is bold, in ours and in the paper's. Click "
    "a heading to sort by ours."
)
VERDICT_TITLES = {False: "What did not hold", None: "What cannot be said", True: "What held"}
CSS_CLASSES = {False: "fails", None: "open", True: "holds"}


class Entry(NamedTuple):
    """Experiment with its rendering."""

    experiment: Experiment
    rendering: Rendering

    @property
    def claims(self) -> list[Claim]:
        """Statements with a verdict, those that do not hold first."""
        return measured_claims(self.rendering)

    @property
    def counts(self) -> dict[bool | None, int]:
        """Number of statements by verdict."""
        return {holds: sum(claim.holds is holds for claim in self.claims) for holds in VERDICT_TITLES}

    @property
    def tally(self) -> str:
        """Number of statements by the sign of the verdict."""
        return " ".join(f"{SIGNS[holds]}{count}" for holds, count in self.counts.items() if count)


def write_report(
    records: pd.DataFrame,
    path: str | Path,
    experiments: Sequence[Experiment],
    *,
    description: str = "",
    command: str = "",
) -> None:
    """Write the report on records as one self-contained HTML file; the same records give the same file.

    Parameters
    ----------
    records : DataFrame
        Records as `genlabel_paper.exports.load_records` returns them.
    path : path
    experiments : sequence of Experiment
    description : str
        Additional sentence about the run.
    command : str
        Command that makes the report.
    """
    atomic_write(path, report_html(records, experiments, description=description, command=command))


def report_html(
    records: pd.DataFrame, experiments: Sequence[Experiment], *, description: str = "", command: str = ""
) -> str:
    """Return the page of `write_report`.

    >>> report_html(pd.DataFrame(), []).startswith("<!DOCTYPE html>")
    True
    """
    entries = [Entry(experiment, experiment.render(records)) for experiment in experiments]
    measured = [entry for entry in entries if entry.rendering.measured]
    template = _environment().get_template("report.j2")
    return template.render(
        conclusion=conclusion(entries),
        description=description,
        not_run=[entry.experiment for entry in entries if not entry.rendering.measured],
        sections=[
            {"name": name, "title": section_title(name), "entries": chosen}
            for name in SECTIONS
            if (chosen := [entry for entry in measured if entry.experiment.section == name])
        ],
        in_short=[
            {"holds": holds, "title": title, "groups": _verdict_groups(measured, holds)}
            for holds, title in VERDICT_TITLES.items()
        ],
        reading=READING,
        facts=_record_facts(records, experiments),
        command=command,
        settings={name: setting.about for name, setting in SETTINGS.items()},
    )


def block(name: str, *values: Any) -> Markup:
    """Return a block of the report as HTML, by a macro of templates/blocks.j2.

    >>> block("legend").count("<li>")
    4
    """
    rendered: Markup = getattr(_environment().get_template("blocks.j2").module, name)(*values)
    return rendered


def report_css() -> str:
    """Return the CSS of the report, in addition to that of every page."""
    return _environment().get_template("report.css").render()


@cache
def _environment() -> Environment:
    made = environment("genlabel_paper.report").overlay()
    made.filters = {
        **made.filters,
        "verdict": format_verdict,
        "css_class": lambda claim: CSS_CLASSES[claim.holds],
        "data_table": _data_table,
        "printed_counts": _printed_counts,
        "not_run": _not_run,
        "inline_svg": _inline_svg,
    }
    made.globals = {
        **made.globals,
        "agreements": AGREEMENTS,
        "symbols": SYMBOLS,
        "signs": SIGNS,
        "css_classes": CSS_CLASSES,
    }
    return made


def section_title(name: str) -> str:
    """Return the heading of a section.

    >>> section_title("toys")
    'Toy examples and theory'
    """
    return SECTIONS[name][0].upper() + SECTIONS[name][1:]


def conclusion(entries: Sequence[Entry]) -> str:
    """Return the overall result as one paragraph.

    >>> conclusion([])
    'Of 0 statements of the paper 0 hold here, 0 do not and 0 cannot be said.'
    """
    claims = [claim for entry in entries for claim in entry.claims]
    counts = {holds: sum(claim.holds is holds for claim in claims) for holds in VERDICT_TITLES}
    total = sum(len(entry.rendering.claims) for entry in entries)
    words = [f"{counts[True]} hold here", f"{counts[False]} do not", f"{counts[None]} cannot be said"]
    words += [f"{total - len(claims)} were not run"] if total > len(claims) else []
    sentences = [f"Of {total} statements of the paper {join_words(words)}."]
    sentences += [entry.rendering.headline for entry in entries if entry.rendering.headline]
    sentences += [*_section_counts(entries), *_agreement_counts(entries)]
    preliminary = sum(format_verdict(claim)[1].endswith("so far") for claim in claims)
    if preliminary:
        sentences.append(f'{preliminary} verdicts rest on fewer trials than planned, and say "so far".')
    return " ".join(sentences)


def _section_counts(entries: Sequence[Entry]) -> list[str]:
    """Return how many statements hold in each section."""
    words = []
    for name, title in SECTIONS.items():
        claims = [claim for entry in entries if entry.experiment.section == name for claim in entry.claims]
        verdicts = [claim.holds for claim in claims if claim.holds is not None]
        words += [f"{sum(verdicts)} of {len(verdicts)} about {title}"] if verdicts else []
    return [f"Of the statements that can be judged, {join_words(words)} hold."] if len(words) > 1 else []


def _agreement_counts(entries: Sequence[Entry]) -> list[str]:
    """Return how many printed values agree with ours."""
    counts = [count_agreements(grid) for entry in entries for grid in entry.rendering.grids if has_printed(grid)]
    agree, near, differ = (sum(count[name] for count in counts) for name in ("agrees", "near", "differs"))
    total = agree + near + differ
    if not total:
        return []
    return [f"Of {total:,} printed values {agree:,} agree with ours, {near:,} are near, and {differ:,} differ."]


def _verdict_groups(entries: Sequence[Entry], holds: bool | None) -> list[dict[str, Any]]:
    """Return the statements with one verdict by section: lines of an experiment with ids and brief texts."""
    groups = []
    for name in SECTIONS:
        lines = []
        for entry in entries:
            if entry.experiment.section == name:
                links = [
                    (f"{entry.experiment.id}-{index}", claim.brief or f"statement {index}")
                    for index, claim in enumerate(entry.claims, 1)
                    if claim.holds is holds
                ]
                lines += [(entry.experiment, links)] if links else []
        groups.append({"title": section_title(name), "lines": lines, "count": sum(len(links) for _, links in lines)})
    return groups


def _data_table(grid: Grid) -> DataTable:
    """Return the measured part of a grid as a table of a page, sorted by our values."""
    measured = measured_subgrid(grid)
    unit = f" ({grid.unit})" if grid.unit else ""
    rows = []
    for line in grid_lines(measured):
        number = float(line.name) if line.name.isdigit() else None
        rows.append([TableCell("", number, content={"line": line}), *(_cell(cell, grid.digits) for cell in line.cells)])
    head = [grid.corner, *(title for title, _ in measured.rows)]
    return DataTable(measured.title + unit, head, rows, sortable=len(rows) > 2, filterable=False)


def _cell(cell: GridCell, digits: int) -> TableCell:
    """Return a table cell of our value, and the paper's with the difference if there is one."""
    value = cell.value
    content = {"ours": format_value(value.ours, digits), "best_ours": cell.best_ours, "agreement": None}
    key, why = (value.ours.mean, None) if value.ours else (nan, value.why)
    if value.paper is None:
        return TableCell("", key, title=why, content=content)
    name, difference = agreement(value), value.difference
    content |= {"agreement": name, "sign": SYMBOLS[name]}
    content |= {"paper": format_value(value.paper, digits), "best_paper": cell.best_paper}
    content |= {"change": f" ({difference:+.{digits}f})" if difference is not None else ""}
    return TableCell("", key, name, why, content)


def _printed_counts(grid: Grid) -> str:
    """Return how many printed values of the measured part of a grid agree with ours."""
    measured = measured_subgrid(grid)
    if not has_printed(measured):
        return ""
    counts = count_agreements(measured)
    words = ", ".join(f"{SYMBOLS[name]} {name} {count}" for name, count in counts.items() if count)
    return f"Of {sum(counts.values())} printed values: {words}."


def _not_run(rendering: Rendering) -> str:
    """Return what of an experiment was not run, the same of all grids once."""
    missing = {grid.title: "; ".join(describe_missing(grid)) for grid in rendering.grids}
    if len(set(missing.values())) == 1:
        sentences = [next(iter(missing.values()))]
    else:
        sentences = [f"{title}: {text}" if text else "" for title, text in missing.items()]
    count = sum(not claim.measured for claim in rendering.claims)
    sentences += [f"Statements about it: {count}"] if count else []
    return ". ".join(filter(None, sentences))


def _inline_svg(captioned: CaptionedFigure, id: str) -> Markup:
    return inline_svg(captioned.figure, id, captioned.alt or captioned.caption)


def _record_facts(records: pd.DataFrame, experiments: Sequence[Experiment]) -> dict[str, str]:
    """Return counts, total time and software versions of the records."""
    needed = not experiments or any(experiment.trains for experiment in experiments)
    if not needed or not len(records):
        return {"records": "none yet" if needed else "none needed"}
    seconds = float(records["seconds"].sum()) if "seconds" in records else 0.0
    lines = [line for line in records.get("versions", []) if isinstance(line, Mapping)]
    versions = sorted({(name, str(number)) for line in lines for name, number in line.items()})
    return {
        "records": f"{len(records):,}",
        **{f"{name}s": str(records[name].nunique()) for name in ("dataset", "split", "seed")},
        "time of all trials": f"{seconds:,.0f} seconds ({seconds / 3600:.1f} hours)",
        "versions": ", ".join(f"{name} {number}" for name, number in versions),
    }
