"""Experiments in the terminal: tables of ours beside the paper's, the statements, the notes."""

from __future__ import annotations

from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.layout import SYMBOLS, Place, count_agreements, has_printed, lines_of, reasons
from genlabel_paper.report.pieces import Claim, Grid, Measured, Printed, Shown, agreement

STYLES = {"agrees": "blue", "near": "yellow", "differs": "red", "missing": "dim"}
SIGNS = {True: "✓", False: "✗", None: "?"}
VERDICTS = {True: "holds", False: "does not hold", None: "cannot be said"}


def print_shown(experiment: Experiment, shown: Shown, console: Console) -> None:
    """Print an experiment: its title, its tables, the statements of the paper and the notes.

    Parameters
    ----------
    experiment : Experiment
    shown : Shown
        What its `render` returned.
    console : rich.console.Console
    """
    console.print(Text(f"{experiment.id}: {experiment.title} ({experiment.source})", style="bold"))
    for grid in shown.grids:
        console.print()
        _print_grid(grid, console)
    for claim in shown.claims:
        sign, words = verdict(claim)
        console.print()
        _print_indented(f"{words}: {claim.text}", f"{sign} ", console)
        _print_indented(claim.printed, "    paper: ", console)
        _print_indented(claim.found, "    ours:  ", console)
    if shown.notes:
        console.print()
    for note in shown.notes:
        _print_indented(note, "- ", console)


def number(value: Measured | Printed | None, digits: int = 2) -> str:
    """Write a mean with its spread.

    >>> number(Printed(88.0, 1.094)), number(Printed(24.0))
    ('88.00±1.09', '24.00')
    """
    if value is None:
        return "–"  # noqa: RUF001
    mean = round(value.mean, digits) + 0.0  # no negative zero
    return f"{mean:.{digits}f}" + (f"±{value.spread:.{digits}f}" if value.spread is not None else "")


def verdict(claim: Claim) -> tuple[str, str]:
    """Return a sign and words for whether a statement holds here; "so far" if the full budget was not spent on it.

    >>> verdict(Claim("", "", "", None))
    ('?', 'cannot be said')
    """
    early = claim.holds is not None and claim.trials < claim.full
    return SIGNS[claim.holds], VERDICTS[claim.holds] + " so far" * early


def _print_indented(words: str, start: str, console: Console) -> None:
    """Print a paragraph whose further lines stand below its first word."""
    lines = wrap(words, console.width, initial_indent=start, subsequent_indent=" " * len(start))
    console.print(Text("\n".join(lines)))


def _print_grid(grid: Grid, console: Console) -> None:
    unit = f" ({grid.unit})" if grid.unit else ""
    console.print(Text(grid.title + unit))
    most = len(grid.rows)
    while most > 1 and _least_width(grid, range(most)) > console.width:
        most -= 1
    for start in range(0, len(grid.rows), max(most, 1)):
        console.print(_table(grid, range(start, min(start + most, len(grid.rows)))))
    for words in [*_legend(grid), *reasons(grid)]:
        _print_indented(words, "", console)


def _least_width(grid: Grid, rows: range) -> int:
    """Letters of a line that holds the columns: the names, and each number behind a gap of 3."""
    names = [grid.corner, *grid.columns]
    first = max(map(len, names)) if grid.columns and len(grid.columns[0]) < 12 else 12
    return first + sum((column.min_width or 0) + 3 for column in _table(grid, rows).columns[1:])


def _table(grid: Grid, rows: range) -> Table:
    """Some columns of a grid; a number is never cut."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column(grid.corner, no_wrap=len(grid.columns[0]) < 12 if grid.columns else True)
    lines = [(line.name, [_place(line.places[row], grid.digits) for row in rows]) for line in lines_of(grid)]
    for column, row in enumerate(rows):
        widest = max((len(part) for _, texts in lines for part in texts[column].plain.split("\n")), default=0)
        table.add_column(grid.rows[row][0], justify="right", min_width=max(widest, 7))
    for name, texts in lines:
        table.add_row(Text(name), *texts)
    return table


def _place(place: Place, digits: int) -> Text:
    """Ours above, the paper's below it in brackets."""
    value = place.value
    text = Text(number(value.ours, digits), style="bold" if place.best_ours else "")
    if value.paper is not None:
        sign = agreement(value)
        text.append(f" {SYMBOLS[sign]}" if value.ours else "", style=STYLES[sign])
        text.append(f"\n({number(value.paper, digits)})", style="dim")
    return text


def _legend(grid: Grid) -> list[str]:
    if not has_printed(grid):
        return []
    counts = count_agreements(grid)
    words = ", ".join(f"{SYMBOLS[name]} {name} {count}" for name, count in counts.items())
    spread = any(value.ours and value.ours.spread is not None for _, row in grid.rows for value in row)
    ours = "ours±spread" if spread else "ours"
    return [f"{ours}, below it (the paper's). Of {sum(counts.values())} printed values: {words}."]
