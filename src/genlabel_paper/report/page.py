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
from genlabel_paper.report.experiment import SECTIONS, Experiment, rerun_command
from genlabel_paper.report.layout import (
    AGREEMENTS,
    SIGNS,
    SYMBOLS,
    GridCell,
    count_agreements,
    count_verdicts,
    describe_counts,
    describe_missing,
    format_value,
    format_verdict,
    grid_lines,
    has_printed,
    measured_subgrid,
)
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Rendering, agreement
from genlabel_paper.report.verdicts import METHOD
from genlabel_paper.runs.manifest import dataset_title, manifest, reasons_to_leave_out
from genlabel_paper.runs.protocols import PAPER, PROTOCOLS, Protocol, records_by_protocol
from genlabel_paper.runs.settings import SETTINGS

READING = (
    "In the tables ours is above, the paper's below it with the difference, ours minus the paper's. The sign and the "
    "color say how far ours is from the paper's; the best method of a line is bold, in ours and in the paper's. Click "
    "a heading to sort by ours."
)
CSS_CLASSES = {False: "fails", None: "open", True: "holds"}


class Statement(NamedTuple):
    """Statement of the paper under each protocol, by its key."""

    id: str
    claims: dict[str, Claim]

    @property
    def claim(self) -> Claim:
        """The statement under the paper's own protocol."""
        return self.claims[PAPER.key]

    @property
    def measured(self) -> list[Claim]:
        """The claims with records, one where the protocols do not differ."""
        return list({id(claim): claim for claim in self.claims.values() if claim.measured}.values())


class Entry(NamedTuple):
    """Experiment with its rendering under each protocol, by its key."""

    experiment: Experiment
    renderings: dict[str, Rendering]

    @property
    def differs(self) -> bool:
        """True if the protocols differ."""
        return len({id(one) for one in self.renderings.values()}) > 1

    @property
    def parts(self) -> list[tuple[Protocol | None, Rendering]]:
        """Renderings with their protocols: those with a measured statement, else with a value; one for both."""
        if not self.differs:
            return [(None, self.renderings[PAPER.key])]
        every = [(one, self.renderings[one.key]) for one in PROTOCOLS]
        judged = [(one, rendering) for one, rendering in every if any(claim.measured for claim in rendering.claims)]
        return [*(judged or [(one, rendering) for one, rendering in every if rendering.measured])]

    @property
    def rendering(self) -> Rendering:
        """Rendering under the paper's own protocol, or the other one if nothing is measured under it."""
        return self.parts[0][1] if self.parts else self.renderings[PAPER.key]

    @property
    def statements(self) -> list[Statement]:
        """Statements that are measured under a protocol."""
        every = zip(*(self.renderings[one.key].claims for one in PROTOCOLS), strict=True)
        keys = [one.key for one in PROTOCOLS]
        statements = [
            Statement(f"{self.experiment.id}-{index}", dict(zip(keys, claims, strict=True)))
            for index, claims in enumerate(every, 1)
        ]
        return [one for one in statements if one.measured]

    @property
    def tally(self) -> str:
        """Number of statements by the sign of the verdict, under each protocol."""
        tallies = []
        for _, rendering in self.parts:
            counts = {holds: sum(c.measured and c.holds is holds for c in rendering.claims) for holds in SIGNS}
            tallies.append(" ".join(f"{SIGNS[holds]}{count}" for holds, count in counts.items() if count))
        return " | ".join(filter(None, tallies))


def read_entries(records: pd.DataFrame, experiments: Sequence[Experiment]) -> list[Entry]:
    """Return the experiments with their renderings of records."""
    frames = records_by_protocol(records)
    return [Entry(experiment, experiment.render_protocols(frames)) for experiment in experiments]


def count_statements(entries: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """Return how many statements of the paper have each verdict, by the key of the protocol.

    Every page and document counts by this function.

    >>> count_statements([])["last"]
    {'holds': 0, 'fails': 0, 'cannot be told': 0, 'not run': 0}
    """
    return {
        one.key: count_verdicts(claim for entry in entries for claim in entry.renderings[one.key].claims)
        for one in PROTOCOLS
    }


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
    entries = read_entries(records, experiments)
    measured = [entry for entry in entries if entry.rendering.measured]
    template = _environment().get_template("report.j2")
    return template.render(
        conclusion=conclusion(entries),
        description=description,
        not_run=[entry.experiment for entry in entries if not entry.rendering.measured],
        sections=[
            {
                "name": name,
                "title": section_title(name),
                "entries": chosen,
            }
            for name in SECTIONS
            if (chosen := [entry for entry in measured if entry.experiment.section == name])
        ],
        rerun={entry.experiment.id: rerun_command(entry.experiment, records) for entry in measured},
        protocols=PROTOCOLS,
        method=METHOD,
        left_out=_left_out_table(),
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
        "before_semicolon": lambda text: text.split(";")[0],
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

    >>> conclusion([])[:96]
    "Of 0 statements of the paper, 0 hold, 0 fail and 0 cannot be told under the paper's own protocol"
    """
    counts = count_statements(entries)
    total = sum(counts[PAPER.key].values())
    own, today = (f"{describe_counts(counts[one.key])} under {one.title}" for one in PROTOCOLS)
    sentences = [f"Of {total} statements of the paper, {own}; {today}."]
    sentences += [entry.rendering.headline for entry in entries if entry.rendering.headline]
    sentences += next(filter(None, (_agreement_counts(entries, protocol) for protocol in PROTOCOLS)), [])
    claims = [claim for entry in entries for one in entry.statements for claim in one.measured]
    preliminary = sum(format_verdict(claim)[1].endswith("so far") for claim in claims)
    if preliminary:
        sentences.append(f'{preliminary} verdicts rest on fewer trials or datasets than planned, and say "so far".')
    return " ".join(sentences)


def _agreement_counts(entries: Sequence[Entry], protocol: Protocol) -> list[str]:
    """Return how many printed values agree with ours under a protocol."""
    grids = [grid for entry in entries for grid in entry.renderings[protocol.key].grids if has_printed(grid)]
    counts = [count_agreements(grid) for grid in grids]
    agree, near, differ = (sum(count[name] for count in counts) for name in ("agrees", "near", "differs"))
    total = agree + near + differ
    if not total:
        return []
    values = f"Of {total:,} printed values {agree:,} agree with ours, {near:,} are near, and {differ:,} differ"
    return [f"{values} under {protocol.title}."]


def _left_out_table() -> DataTable:
    """Return the datasets of the cache that the paper's rule leaves out, with the reason."""
    rows = []
    for name, reason in reasons_to_leave_out().items():
        line = manifest().loc[name]
        sizes = [TableCell("" if pd.isna(line[key]) else f"{line[key]:,}") for key in ("n", "d", "k")]
        rows.append([TableCell(dataset_title(name)), *sizes, TableCell(reason)])
    return DataTable(f"Datasets left out ({len(rows)})", ["dataset", "rows", "features", "classes", "why"], rows)


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
