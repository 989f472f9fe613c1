"""The report: one HTML file with what reproduced and what did not, and each table and figure beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from genlabel.pages import Markup, element, item_list, join, page
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.markup import picture
from genlabel_paper.report.page_parts import claim_list, grid_table, legend
from genlabel_paper.report.pieces import Claim, Shown
from genlabel_paper.report.style import CSS
from genlabel_paper.study.settings import SETTINGS

__all__ = ["report_html", "write_report"]

PAPER = "https://arxiv.org/abs/2201.02354"
TITLE = "GenLabel: what of the paper reproduces"
ABOUT = (
    "The tables and figures of the paper on low-dimensional data, on images and of its theory, trained or computed "
    "again from its text with this repository. Every value stands beside the printed one."
)


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
        Of `genlabel.records.read_records`.
    path : path
    experiments : sequence of Experiment
    description : str
        A sentence more about this run.
    command : str
        Which made the report.
    """
    text = report_html(records, experiments, description=description, command=command)
    Path(path).write_text(text, encoding="utf-8")


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
    shown = [(experiment, experiment.render(records)) for experiment in experiments]
    header = join(element("h1", TITLE), *_head(records, description, command, experiments))
    sections = [_summary(shown), _contents(experiments), *(_section(*pair) for pair in shown), _settings()]
    return page(TITLE, header, *sections, css=CSS)


def _head(records: pd.DataFrame, description: str, command: str, chosen: Sequence[Experiment]) -> list[Markup]:
    """What this is, and what it is made of."""
    needed = not chosen or any(experiment.trains for experiment in chosen)
    facts = _facts(records) if needed else {"records": "none needed"}
    source = element("a", "arXiv", href=PAPER)
    pairs = [join(element("dt", name), element("dd", words)) for name, words in facts.items() if words]
    if command:
        pairs.append(join(element("dt", "made by"), element("dd", element("code", command))))
    return [element("p", ABOUT, " The paper: ", source, "."), *_paragraph(description), element("dl", *pairs)]


def _paragraph(words: str) -> list[Markup]:
    return [element("p", words)] if words else []


def _facts(records: pd.DataFrame) -> dict[str, str]:
    """Numbers of the records; their time, and what they were made with."""
    if not len(records):
        return {"records": "none yet"}
    sets, splits, seeds = (records[name].nunique() for name in ("dataset", "split", "seed"))
    numbers = {"records": f"{len(records):,}", "datasets": str(sets), "splits": str(splits), "seeds": str(seeds)}
    return {**numbers, "time of all trials": _hours(records), "versions": _versions(records)}


def _hours(records: pd.DataFrame) -> str:
    seconds = float(records["seconds"].sum()) if "seconds" in records else 0.0
    return f"{seconds:,.0f} seconds ({seconds / 3600:.1f} hours)"


def _versions(records: pd.DataFrame) -> str:
    if "versions" not in records:
        return ""
    lines = [line for line in records["versions"] if isinstance(line, Mapping)]
    found = {(name, str(number)) for line in lines for name, number in line.items()}
    return ", ".join(f"{name} {number}" for name, number in sorted(found))


def _summary(shown: Sequence[tuple[Experiment, Shown]]) -> Markup:
    """What reproduced and what did not: each statement of the paper with the numbers."""
    claims = [(experiment.id, claim) for experiment, part in shown for claim in part.claims]
    groups = {True: "What reproduced", False: "What did not", None: "What cannot be said"}
    counts = [f"{len(_of(claims, holds))} {words}" for holds, words in _SAID.items()]
    parts = [
        join(element("h3", f"{title} ({len(_of(claims, holds))})"), claim_list(_of(claims, holds)))
        for holds, title in groups.items()
        if _of(claims, holds)
    ]
    text = f"Of {len(claims)} statements that the paper makes about these tables and figures, {', '.join(counts)}."
    title = element("h2", "What reproduced, and what did not")
    return element("section", title, element("p", text), *parts, id="summary")


_SAID = {True: "hold here", False: "do not", None: "cannot be judged from the records"}


def _of(claims: Sequence[tuple[str, Claim]], holds: bool | None) -> list[tuple[str, Claim]]:
    return [(name, claim) for name, claim in claims if claim.holds is holds]


def _contents(experiments: Sequence[Experiment]) -> Markup:
    links = [element("li", element("a", f"{one.id}: {one.title}", href=f"#{one.id}")) for one in experiments]
    links.append(element("li", element("a", "Settings", href="#settings")))
    how = (
        "In the tables ours is above, the paper's below it with the difference, ours minus the paper's. The sign and "
        "the colour say how far ours is from the paper's; the best method of a line is bold, in ours and in the "
        "paper's."
    )
    nav = element("nav", element("ul", *links), aria_label="Contents")
    return element("section", element("h2", "Contents"), nav, element("p", how), legend(), id="contents")


def _section(experiment: Experiment, shown: Shown) -> Markup:
    """One table or figure of the paper."""
    parts = [
        element("h2", f"{experiment.id}: {experiment.title}"),
        element("p", experiment.source, class_="source"),
        *(picture(one) for one in shown.pictures),
        *(grid_table(grid) for grid in shown.grids),
    ]
    if shown.claims:
        parts += [element("h3", "What the paper says of it"), claim_list([("", claim) for claim in shown.claims])]
    if shown.notes:
        parts += [element("h3", "Notes"), item_list(shown.notes, "notes")]
    return element("section", *parts, id=experiment.id)


def _settings() -> Markup:
    """How everything was trained (arXiv Tables 10 to 14)."""
    pairs = [join(element("dt", name), element("dd", setting.about)) for name, setting in SETTINGS.items()]
    return element("section", element("h2", "Settings"), element("dl", *pairs), id="settings")
