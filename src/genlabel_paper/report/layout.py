"""Layout of a grid for page and terminal: one line per dataset, one cell per method, with the best values marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from genlabel_paper.report.results import Claim, Grid, Measured, Printed, Value, agreement

SYMBOLS = {"agrees": "=", "near": "≈", "differs": "≠", "missing": "–"}  # noqa: RUF001
"""Sign of each agreement between our value and the printed one."""
AGREEMENTS = {
    "agrees": "within one joint spread of the paper's value: at least half a point, or half a unit of the last printed "
    "digit of a number that is computed",
    "near": "within two",
    "differs": "further away",
    "missing": "ours is missing",
}
SIGNS = {True: "✓", False: "✗", None: "?"}
VERDICTS = {True: "holds", False: "fails", None: "cannot be told"}


@dataclass(frozen=True)
class GridCell:
    """Value in its line, and whether our value and the printed one are the best there."""

    value: Value
    best_ours: bool
    best_paper: bool


@dataclass(frozen=True)
class GridLine:
    """Displayed line: one column of a grid, such as a dataset."""

    name: str
    about: str
    cells: Sequence[GridCell]


def grid_lines(grid: Grid) -> list[GridLine]:
    """Return one line per column of the grid, with the best values of each line marked.

    >>> rows = [("A", [Value(Measured(90.0, None, 1, 1), None)]), ("B", [Value(Measured(91.0, None, 1, 1), None)])]
    >>> [cell.best_ours for cell in grid_lines(Grid("t", ["61"], rows, best=["A", "B"]))[0].cells]
    [False, True]
    """
    compared = [title in grid.best for title, _ in grid.rows]
    lines = []
    for number, name in enumerate(grid.columns):
        values = [row[number] for _, row in grid.rows]
        best_ours = _best([value.ours.mean if value.ours else None for value in values], compared)
        best_paper = _best([value.paper.mean if value.paper else None for value in values], compared)
        cells = [GridCell(*cell) for cell in zip(values, best_ours, best_paper, strict=True)]
        lines.append(GridLine(name, grid.about.get(name, ""), cells))
    return lines


def _best(means: Sequence[float | None], compared: Sequence[bool]) -> list[bool]:
    """Return which of the compared means are the largest, to two decimals."""
    rounded = [
        round(mean, 2) if is_compared and mean is not None else None
        for mean, is_compared in zip(means, compared, strict=True)
    ]
    known = [value for value in rounded if value is not None]
    if len(known) < 2:
        return [False] * len(means)
    return [value == max(known) for value in rounded]


def has_printed(grid: Grid) -> bool:
    """Return whether the paper prints any value of the grid.

    >>> has_printed(Grid("t", ["61"], [("A", [Value(None, None)])]))
    False
    """
    return any(value.paper is not None for _, row in grid.rows for value in row)


def count_agreements(grid: Grid) -> dict[str, int]:
    """Count how many printed values of a grid agree with ours, are near, differ, or are missing on our side.

    >>> count_agreements(Grid("t", ["61"], [("A", [Value(None, Printed(90.0))])]))
    {'agrees': 0, 'near': 0, 'differs': 0, 'missing': 1}
    """
    counts = Counter(agreement(value) for _, row in grid.rows for value in row if value.paper is not None)
    return {name: counts[name] for name in SYMBOLS}


def missing_reasons(grid: Grid) -> list[str]:
    """Return why values of ours are missing, with a count for each reason.

    >>> missing_reasons(Grid("t", ["61"], [("A", [Value(None, Printed(90.0), "not run")])]))
    ['1 missing: not run']
    """
    counts = Counter(value.why for _, row in grid.rows for value in row if value.ours is None)
    return [f"{count} missing: {why or 'no records'}" for why, count in counts.items()]


def measured_subgrid(grid: Grid) -> Grid:
    """Return the grid without columns and rows that have no value of ours.

    >>> rows = [("A", [Value(None, None), Value(Measured(90.0, None, 1, 1), None)]), ("B", [Value(None, None)] * 2)]
    >>> measured_subgrid(Grid("t", ["61", "36"], rows)).columns
    ['36']
    """
    columns = [index for index in range(len(grid.columns)) if any(row[index].ours for _, row in grid.rows)]
    rows = [(title, [row[index] for index in columns]) for title, row in grid.rows]
    rows = [(title, row) for title, row in rows if any(value.ours for value in row)]
    return replace(grid, columns=[grid.columns[index] for index in columns], rows=rows)


def describe_missing(grid: Grid) -> list[str]:
    """Return what was not run, in a few words: all of it, whole columns and rows, and single values.

    >>> row = [Value(None, None, "lost"), Value(Measured(90.0, None, 1, 1), None)]
    >>> describe_missing(Grid("t", ["1038", "36"], [("A", row)]))
    ['1038 (lost)']
    """
    if not grid.measured:
        return [*grid.columns]
    measured = measured_subgrid(grid)
    missing = {
        name: grid.rows[0][1][index].why for index, name in enumerate(grid.columns) if name not in measured.columns
    }
    missing |= {title: row[0].why for title, row in grid.rows if title not in dict(measured.rows)}
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        names_by_reason.setdefault(reason, []).append(name)
    single = Counter(value.why for _, row in measured.rows for value in row if value.ours is None)
    missing_parts = [(", ".join(names), reason) for reason, names in names_by_reason.items()]
    missing_parts += [("1 value" if count == 1 else f"{count} values", reason) for reason, count in single.items()]
    return [part if reason in ("", "not run") else f"{part} ({reason})" for part, reason in missing_parts]


def format_value(value: Measured | Printed | None, digits: int = 2) -> str:
    """Return a mean with its spread as text.

    >>> format_value(Printed(88.0, 1.094)), format_value(Printed(24.0))
    ('88.00±1.09', '24.00')
    """
    if value is None:
        return "–"  # noqa: RUF001
    mean = round(value.mean, digits) + 0.0  # no negative zero
    return f"{mean:.{digits}f}" + (f"±{value.spread:.{digits}f}" if value.spread is not None else "")


def count_verdicts(claims: Iterable[Claim]) -> dict[str, int]:
    """Count the statements of the paper by verdict; statements of ours are left out.

    >>> count_verdicts([Claim("a", "", "", True), Claim("b", "", "", None), Claim("", "", "", True, of_paper=False)])
    {'holds': 1, 'fails': 0, 'cannot be told': 1, 'not run': 0}
    """
    counts = Counter(VERDICTS[claim.holds] if claim.measured else "not run" for claim in claims if claim.of_paper)
    return {name: counts[name] for name in (*VERDICTS.values(), "not run")}


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return the counts of `count_verdicts` in words.

    >>> describe_counts({"holds": 2, "fails": 1, "cannot be told": 0, "not run": 3})
    '2 hold, 1 fails, 0 cannot be told and 3 were not run'
    """
    hold, fail = ("holds" if counts["holds"] == 1 else "hold", "fails" if counts["fails"] == 1 else "fail")
    words = [f"{counts['holds']} {hold}", f"{counts['fails']} {fail}", f"{counts['cannot be told']} cannot be told"]
    not_run = counts["not run"]
    return join_words(words + ([f"{not_run} {'was' if not_run == 1 else 'were'} not run"] if not_run else []))


def format_verdict(claim: Claim) -> tuple[str, str]:
    """Return sign and words of a verdict; "so far" if trials or datasets are left to run.

    >>> format_verdict(Claim("", "", "", None))
    ('?', 'cannot be told')
    """
    is_preliminary = claim.holds is not None and (claim.trials < claim.full or not claim.complete)
    return SIGNS[claim.holds], VERDICTS[claim.holds] + (" so far" if is_preliminary else "")


def join_words(names: Sequence[str]) -> str:
    """Join names as in a sentence.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
