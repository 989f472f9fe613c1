"""The parts of the report as HTML: tables with our values beside the paper's, lists of statements, the legend."""

from __future__ import annotations

from collections.abc import Sequence

from genlabel.pages import Markup, element, join
from genlabel_paper.report.layout import (
    AGREEMENTS,
    SYMBOLS,
    Line,
    Place,
    count_agreements,
    has_printed,
    lines_of,
    reasons,
)
from genlabel_paper.report.pieces import Claim, Grid, agreement
from genlabel_paper.report.text import number, verdict

__all__ = ["claim_list", "grid_table", "legend"]


def grid_table(grid: Grid) -> Markup:
    """Return a grid as a table in a box that scrolls: a line for each dataset, a column for each method.

    >>> grid_table(Grid("Shares", [], []))[:45]
    '<div class="scroll" role="region" tabindex="0'
    """
    unit = f" ({grid.unit})" if grid.unit else ""
    head = [element("th", grid.corner, scope="col"), *(element("th", title, scope="col") for title, _ in grid.rows)]
    body = [_line(line, grid.digits) for line in lines_of(grid)]
    table = element(
        "table",
        element("caption", grid.title + unit),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    box = element("div", table, class_="scroll", role="region", tabindex="0", aria_label=grid.title)
    return join(box, *(element("p", words, class_="counts") for words in [*_counts(grid), *reasons(grid)]))


def claim_list(claims: Sequence[tuple[str, Claim]]) -> Markup:
    """Return statements of the paper with what came out here, each under the id of its experiment.

    >>> "holds" in claim_list([("table1", Claim("Mixup is worse.", "on all", "on all", True))])
    True
    """
    return element("ul", *(_claim(name, claim) for name, claim in claims), class_="claims")


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


def _line(line: Line, digits: int) -> Markup:
    about = element("span", line.about, class_="about") if line.about else Markup()
    return element("tr", element("th", line.name, about, scope="row"), *(_cell(place, digits) for place in line.places))


def _cell(place: Place, digits: int) -> Markup:
    """Ours and its sign above; below, smaller, the paper's and the difference."""
    value, gap = place.value, place.value.difference
    ours = _bold(number(value.ours, digits), place.best_ours)
    if value.paper is None:
        return element("td", ours, title=None if value.ours else value.why)
    name = agreement(value)
    sign = element("abbr", SYMBOLS[name], title=name, class_="sign")
    paper = _bold(number(value.paper, digits), place.best_paper)
    change = f" ({gap:+.{digits}f})" if gap is not None else ""
    why = value.why if value.ours is None else None
    return element("td", ours, " ", sign, element("small", paper, change), class_=name, title=why)


def _bold(words: str, best: bool) -> str:
    """The mean in bold, its spread not."""
    mean, mark, spread = words.partition("±")
    return join(element("b", mean), mark + spread) if best else words


def _counts(grid: Grid) -> list[str]:
    if not has_printed(grid):
        return []
    counts = count_agreements(grid)
    words = ", ".join(f"{SYMBOLS[name]} {name} {count}" for name, count in counts.items())
    return [f"Of {sum(counts.values())} printed values: {words}."]


def _claim(name: str, claim: Claim) -> Markup:
    sign, words = verdict(claim)
    kind = {True: "holds", False: "fails", None: "open"}[claim.holds]
    numbers = [
        element("div", f"Paper: {claim.printed}", class_="numbers"),
        element("div", f"Here: {claim.found}", class_="numbers"),
    ]
    where = join(element("a", name, href=f"#{name}"), ": ") if name else Markup()
    said = element("span", f"{sign} {words}", class_="verdict")
    return element("li", said, " ", where, claim.text, *numbers, class_=kind)
