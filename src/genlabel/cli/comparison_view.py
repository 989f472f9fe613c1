"""What a comparison came to, as it is shown: a table in the terminal, the verdict, a page, a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from genlabel._progress_display import failure_lines
from genlabel.cli.console import count_messages, has_room, plus_minus, print_grid, print_line
from genlabel.cli.table_options import describe_table, plain_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from genlabel.data.tables import Table
    from genlabel.evaluation.diagnosis import Diagnosis
    from genlabel.evaluation.records import RecordSet


POOL_WEIGHTS = ("pool_weights", "average")
"""Names of the pooling weights in records: today's, and that of version 0.2.0."""
COLUMNS = (
    ("log-loss", "log_loss", 4, True),
    ("accuracy %", "accuracy", 2, True),
    ("balanced %", "balanced_accuracy", 1, False),
    ("AUC", "auc", 3, False),
    ("Brier", "brier", 3, False),
    ("calibration", "calibration_error", 3, False),
    ("s a fit", "seconds", 2, False),
)
"""Title, score, digits, and whether the spread is shown."""


@final
@dataclass(frozen=True)
class ComparisonView:
    """What a comparison came to, to be shown."""

    table: Table
    results: pd.DataFrame
    """As of `genlabel.evaluation.comparison.compare`."""
    share: float
    """Of the rows that are held out in a split, for intervals."""
    settled: str
    """The splits and the settings, in words."""
    notes: list[str]
    failed: list[str]

    @classmethod
    def of(
        cls, table: Table, found: RecordSet, test_size: float, settled: str, heard: dict[str, int]
    ) -> ComparisonView:
        """From the records of a comparison, and the warnings that were heard beside it."""
        from genlabel.data import tables
        from genlabel.evaluation import comparison

        results = comparison.as_results(found.frame)
        splits = results["split"].nunique()
        cutting = f"{tables.describe_splits(table)}: {splits}, {test_size:.0%} of the rows held out"
        return cls(
            table,
            results,
            test_size if table.time is None else test_size / splits,
            f"{cutting}, {settled}",
            [*table.notes, *count_messages([heard, *found.frame["warnings"]])],
            failure_lines(found.failures),
        )

    def as_plain(self) -> dict[str, Any]:
        """All of it, for machines."""
        from genlabel.evaluation import comparison

        said = {"splits": self.settled, "notes": self.notes, "failed": self.failed}
        return plain_table(self.table) | said | comparison.as_plain(self.results, self.share)

    def print(self, left: list[str]) -> None:
        """Print the table, the verdict, and what is to be known beside it; `left` are lines on what was left out."""
        from genlabel.data import tables
        from genlabel.evaluation import comparison

        _print(comparison.summarize(self.results), comparison.rank_methods(self.results))
        columns = tables.describe_columns(self.table.columns, self.table.X)
        about = [f"{describe_table(self.table)}; {self.settled}", *columns, *_choices(self.results)]
        notes = [f"note: {text}" for text in self.notes]
        for line in [*comparison.verdict(self.results, self.share), "", *about, *notes, *left, *self.failed]:
            print_line(line)

    def write(self, path: Path, diagnosis: Diagnosis | None, notes: list[str], command: str) -> None:
        """Write the report, with a diagnosis if there is one."""
        from genlabel.reporting import write_report

        chosen = {"choices": "; ".join(_choices(self.results)), "failed": "; ".join(self.failed)}
        write_report(
            path,
            self.table,
            self.results,
            diagnosis,
            test_size=self.share,
            notes=[*self.notes, *notes],
            settings={"splits": self.settled, **chosen},
            command=command,
        )

    def draw(self) -> Figure:
        """The picture, without the class shares, which lie far from the others."""
        from genlabel.evaluation import comparison
        from genlabel.reporting import figures as plots

        drawn = self.results[self.results["method"] != comparison.PRIOR_BASELINE]
        title = f"{describe_table(self.table)}\n{self.settled}".replace(
            "$", r"\$"
        )  # no mathematics in the name of a file
        return plots.plot_comparison(drawn if len(drawn) else self.results, title, test_size=self.share)


def _choices(results: pd.DataFrame) -> list[str]:
    """How often each method chose what, a line for each, and how it averaged; at gamma = 0 there is no density."""
    lines = []
    for name, group in results.groupby("method", sort=False):
        chosen: dict[str, Counter[Any]] = {}
        for params in group["params"]:
            for key, value in params.items():
                if key not in POOL_WEIGHTS and (key != "density" or params.get("gamma")):
                    chosen.setdefault(key, Counter())[value] += 1
        parts = [f"{key.replace('_', ' ')} {_tally(counts)}" for key, counts in chosen.items()]
        averages = [params[key] for params in group["params"] for key in POOL_WEIGHTS if key in params]
        if averages:
            network, model, doubt = (sum(column) / len(averages) for column in zip(*averages, strict=True))
            said = f"{network:.2f} network, {model:.2f} stacked density, {doubt:.2f} class shares"
            parts.append(f"average {said} (mean weights)")
        if parts:
            lines.append(f"{name} chose {'; '.join(parts)}")
    return lines


def _tally(counts: Counter[Any]) -> str:
    return ", ".join(f"{value} ({times}x)" for value, times in counts.most_common())


def _print(summary: pd.DataFrame, ranking: list[str]) -> None:
    """Print the table, a row for each method in the order of its log-loss; of the columns those that have room.

    What a fit costs is left out last but for log-loss.
    """
    choices = [COLUMNS[:count] + COLUMNS[-1:] for count in range(len(COLUMNS) - 1, 0, -1)] + [COLUMNS[:1]]
    grids = [_grid(summary, ranking, columns) for columns in choices]
    place = next((place for place, grid in enumerate(grids) if has_room(grid)), len(grids) - 1)
    print_grid(grids[place])
    left = ", ".join(column[0] for column in COLUMNS if column not in choices[place])
    if left:
        print_line(f"no room in this terminal for: {left}; widen it, or see --json")


def _grid(summary: pd.DataFrame, ranking: list[str], columns: Sequence[tuple[str, str, int, bool]]) -> Grid:
    """The table, with these scores."""
    sign = plus_minus()
    order = "the lowest log-loss first"
    grid = Grid(box=box.SIMPLE_HEAD, caption=f"{order}; mean {sign} standard deviation over the splits")
    grid.add_column("method", no_wrap=True)
    for title, *_ in columns:
        grid.add_column(title, justify="right", no_wrap=True)
    for name in ranking:
        row = summary.loc[name]
        grid.add_row(Text(name), *(_cell(row[score], digits, sign * spread) for _, score, digits, spread in columns))
    return grid


def _cell(score: Any, digits: int, sign: str) -> str:
    """A mean, and its spread if a sign is given and there is one; nothing where the score does not apply."""
    if score["mean"] != score["mean"]:
        return ""
    spread = f" {sign} {score['std']:.{digits}f}" if sign and score["std"] == score["std"] else ""
    return f"{score['mean']:.{digits}f}{spread}"
