"""The parts of the report as HTML: tables with our values beside the paper's, statements, the legend."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from genlabel.reporting import Cell, Markup, data_table, element, join
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.layout import (
    AGREEMENTS,
    SYMBOLS,
    Line,
    Place,
    count_agreements,
    has_printed,
    lines_of,
    measured_part,
    tell_missing,
)
from genlabel_paper.report.pieces import Claim, Grid, Shown, agreement
from genlabel_paper.report.text import number, verdict

KINDS = {False: "fails", None: "open", True: "holds"}
"""Classes of statements, in the order in which they are shown: what does not hold comes first."""


def judged(shown: Shown) -> list[Claim]:
    """Return the statements that there is anything to judge by, those that do not hold first.

    >>> [claim.holds for claim in judged(Shown(claims=[Claim("a", "", "", True), Claim("b", "", "", False)]))]
    [False, True]
    """
    return [claim for holds in KINDS for claim in shown.claims if claim.measured and claim.holds is holds]


def link(experiment: Experiment, place: int) -> str:
    """Return the id of a statement: that of the experiment, and its place among those of `judged`."""
    return f"{experiment.id}-{place + 1}"


def claim_list(experiment: Experiment, claims: Sequence[Claim]) -> Markup:
    """Return the statements of an experiment with what came out here, each with an id."""
    items = [_claim(link(experiment, place), claim) for place, claim in enumerate(claims)]
    return element("ul", *items, class_="claims")


def grid_table(grid: Grid) -> Markup:
    """Return what is measured of a grid as a table: a line for each dataset, a column for each method.

    >>> grid_table(Grid("Shares", [], []))[:50]
    '<div><div class="scroll" role="region" tabindex="0'
    """
    shown = measured_part(grid)
    unit = f" ({grid.unit})" if grid.unit else ""
    head = [grid.corner, *(title for title, _ in shown.rows)]
    lines = [_line(line, grid.digits) for line in lines_of(shown)]
    table = data_table(shown.title + unit, head, lines, sortable=len(lines) > 2, filterable=False)
    return element("div", table, *(element("p", words, class_="counts") for words in _counts(shown)))


def not_run(shown: Shown) -> list[Markup]:
    """Return one line about what of an experiment was not run, or none."""
    found = {grid.title: "; ".join(tell_missing(grid)) for grid in shown.grids}
    alike = len(set(found.values())) == 1
    words = [part if alike else f"{title}: {part}" for title, part in found.items() if part][: 1 if alike else None]
    count = sum(not claim.measured for claim in shown.claims)
    words += [f"Statements about it: {count}"] if count else []
    return [element("p", f"Not run: {'. '.join(words)}.", class_="not-run")] if words else []


def legend() -> Markup:
    """Return what colours and signs in the tables mean.

    >>> legend().count("<li>")
    4
    """
    items = [
        element("li", element("span", SYMBOLS[name], class_=name), f" {name}: {words}")
        for name, words in AGREEMENTS.items()
    ]
    return element("ul", *items, class_="legend")


def _line(line: Line, digits: int) -> list[Cell]:
    about = element("span", f" {line.about}", class_="about") if line.about else Markup()
    name = Cell(join(line.name, about), float(line.name) if line.name.isdigit() else None)
    return [name, *(_cell(place, digits) for place in line.places)]


def _cell(place: Place, digits: int) -> Cell:
    """Ours and its sign above; below, smaller, the paper's and the difference. Sorted by ours."""
    value, gap = place.value, place.value.difference
    ours = _bold(number(value.ours, digits), place.best_ours)
    key, why = (value.ours.mean, None) if value.ours else (nan, value.why)
    if value.paper is None:
        return Cell(ours, key, title=why)
    name = agreement(value)
    sign = element("abbr", SYMBOLS[name], title=name, class_="sign")
    paper = _bold(number(value.paper, digits), place.best_paper)
    change = f" ({gap:+.{digits}f})" if gap is not None else ""
    return Cell(join(ours, " ", sign, element("small", paper, change)), key, name, why)


def _bold(words: str, best: bool) -> str:
    """The mean in bold, its spread not."""
    mean, mark, spread = words.partition("±")
    return join(element("b", mean), mark + spread) if best else words


def _counts(grid: Grid) -> list[str]:
    if not has_printed(grid):
        return []
    counts = count_agreements(grid)
    words = ", ".join(f"{SYMBOLS[name]} {name} {count}" for name, count in counts.items() if count)
    return [f"Of {sum(counts.values())} printed values: {words}."]


def _claim(name: str, claim: Claim) -> Markup:
    sign, words = verdict(claim)
    numbers = [
        element("div", f"Paper: {claim.printed}", class_="numbers"),
        element("div", f"Here: {claim.found}", class_="numbers"),
    ]
    said = element("span", f"{sign} {words}:", class_="verdict")
    return element("li", said, " ", claim.text, *numbers, class_=KINDS[claim.holds], id=name)
