"""Experiments as text in the terminal: tables of our values and the paper's, statements and notes."""

from __future__ import annotations

from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.layout import (
    SYMBOLS,
    GridCell,
    count_agreements,
    format_value,
    format_verdict,
    grid_lines,
    has_printed,
    missing_reasons,
)
from genlabel_paper.report.results import Grid, Rendering, agreement

STYLES = {"agrees": "blue", "near": "yellow", "differs": "red", "missing": "dim"}


def print_rendering(experiment: Experiment, rendering: Rendering, console: Console, protocol: str = "") -> None:
    """Print the title of an experiment, its tables, the statements of the paper and the notes.

    Parameters
    ----------
    experiment : Experiment
    rendering : Rendering
        Result of `experiment.render`.
    console : rich.console.Console
    protocol : str
        Protocol of the rendering, if there are several.
    """
    title = f"{experiment.id}: {experiment.title} ({experiment.source})" + (f", {protocol}" if protocol else "")
    console.print(Text(title, style="bold"))
    for grid in rendering.grids:
        console.print()
        _print_grid(grid, console)
    for claim in rendering.claims:
        sign, words = format_verdict(claim)
        console.print()
        _print_indented(f"{words}: {claim.text}", f"{sign} ", console)
        _print_indented(claim.printed, "    paper: ", console)
        _print_indented(claim.ours, "    ours:  ", console)
    if rendering.notes:
        console.print()
    for note in rendering.notes:
        _print_indented(note, "- ", console)


def _print_indented(words: str, prefix: str, console: Console) -> None:
    """Print a paragraph with a hanging indent."""
    lines = wrap(words, console.width, initial_indent=prefix, subsequent_indent=" " * len(prefix))
    console.print(Text("\n".join(lines)))


def _print_grid(grid: Grid, console: Console) -> None:
    """Print a grid in as many tables as its width needs, with the legend and the reasons of missing values."""
    unit = f" ({grid.unit})" if grid.unit else ""
    console.print(Text(grid.title + unit))
    per_table = len(grid.rows)
    while per_table > 1 and _min_width(grid, range(per_table)) > console.width:
        per_table -= 1
    for start in range(0, len(grid.rows), max(per_table, 1)):
        console.print(_table(grid, range(start, min(start + per_table, len(grid.rows)))))
    for words in [*_legend(grid), *missing_reasons(grid)]:
        _print_indented(words, "", console)


def _min_width(grid: Grid, rows: range) -> int:
    """Return the smallest width of a table that shows some rows of the grid."""
    names = [grid.corner, *grid.columns]
    first = max(map(len, names)) if grid.columns and len(grid.columns[0]) < 12 else 12
    return first + sum((column.min_width or 0) + 3 for column in _table(grid, rows).columns[1:])


def _table(grid: Grid, rows: range) -> Table:
    """Return some rows of a grid as the columns of a table; numbers are never truncated."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column(grid.corner, no_wrap=len(grid.columns[0]) < 12 if grid.columns else True)
    lines = [(line.name, [_cell_text(line.cells[row], grid.digits) for row in rows]) for line in grid_lines(grid)]
    for column, row in enumerate(rows):
        widest = max((len(part) for _, texts in lines for part in texts[column].plain.split("\n")), default=0)
        table.add_column(grid.rows[row][0], justify="right", min_width=max(widest, 7))
    for name, texts in lines:
        table.add_row(Text(name), *texts)
    return table


def _cell_text(cell: GridCell, digits: int) -> Text:
    """Return our value, and below it the paper's in parentheses."""
    value = cell.value
    text = Text(format_value(value.ours, digits), style="bold" if cell.best_ours else "")
    if value.paper is not None:
        sign = agreement(value)
        text.append(f" {SYMBOLS[sign]}" if value.ours else "", style=STYLES[sign])
        text.append(f"\n({format_value(value.paper, digits)})", style="dim")
    return text


def _legend(grid: Grid) -> list[str]:
    if not has_printed(grid):
        return []
    counts = count_agreements(grid)
    words = ", ".join(f"{SYMBOLS[name]} {name} {count}" for name, count in counts.items())
    spread = any(value.ours and value.ours.spread is not None for _, row in grid.rows for value in row)
    ours = "ours±spread" if spread else "ours"
    return [f"{ours}, below it (the paper's). Of {sum(counts.values())} printed values: {words}."]
