"""Results in the terminal: lines, tables that fit its width, and the view of a comparison."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from genlabel._console import FILE_WIDTH, open_console
from genlabel._text import count_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from genlabel.data.tables import Table
    from genlabel.estimators.classifier import ProbabilityClassifier
    from genlabel.evaluation.diagnosis import Diagnosis
    from genlabel.evaluation.explanation import Explanation
    from genlabel.evaluation.records.schema import RecordSet
    from genlabel.reporting.findings import Findings

MAX_WARNINGS = 5
COLUMNS = (
    ("log-loss", "log_loss", 3, True),
    ("accuracy %", "accuracy", 1, True),
    ("balanced %", "balanced_accuracy", 1, False),
    ("AUC", "auc", 3, False),
    ("Brier", "brier", 3, False),
    ("s per fit", "seconds", 2, False),
)
"""Title, score, digits, and whether the standard deviation is shown."""
POOL_WEIGHTS = ("pool_weights", "average")
"""Names of the pool weights among the chosen parameters, in new and in old records."""


def print_line(line: str, stderr: bool = False) -> None:
    """Print a line of any length without wrapping or markup."""
    open_console(stderr).print(Text(line), soft_wrap=True)


def plus_minus() -> str:
    """Return the sign ±, or +/- where the output cannot encode it."""
    encoded = "±".encode(getattr(sys.stdout, "encoding", None) or "utf-8", errors="replace")
    return "+/-" if encoded == b"?" else "±"


def warning_lines(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return each warning once with its number, the most frequent first.

    >>> warning_lines([{"few rows": 2}, {"few rows": 1, "slow": 1}])
    ['few rows (3 times)', 'slow']
    """
    total = sum(map(Counter, counts), Counter[str]())
    lines = [f"{text} ({times} times)" if times > 1 else text for text, times in total.most_common(MAX_WARNINGS)]
    more = len(total) - len(lines)
    return [*lines, f"further warnings: {more}"] if more > 0 else lines


def failure_lines(failures: Mapping[Any, str]) -> list[str]:
    """Return a line for each failure; equal errors of one dataset make one line with the number of further trials.

    >>> from genlabel.evaluation.records.schema import Fit
    >>> failure_lines({Fit(61, "mixup", 0): "OSError: not there", Fit(61, "plain training", 0): "OSError: not there"})
    ['failed: 61, mixup and 1 more: OSError: not there']
    """
    trials: dict[tuple[Any, str], list[Any]] = {}
    for trial, error in failures.items():
        trials.setdefault((trial.dataset, error), []).append(trial)
    lines = []
    for (dataset, error), failed in trials.items():
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"failed: {dataset}, {failed[0].method}{more}: {error}")
    return lines


def describe_table(table: Table) -> str:
    """Return the name and the size of a table."""
    (n, d), k = table.X.shape, table.y.nunique()
    return f"{table.name}: {count_of(n, 'row')}, {count_of(d, 'column')}, {count_of(k, 'class')}"


def describe_costs(classifier: ProbabilityClassifier) -> list[str]:
    """Return a line on how predictions follow from probabilities, if a class was given a cost."""
    if not hasattr(classifier, "costs_"):
        return []
    classes, costs = classifier.classes_.tolist(), classifier.costs_.tolist()
    if len(classes) == 2:
        favored = int(costs[1] >= costs[0])
        threshold = costs[1 - favored] / sum(costs)
        return [
            f"prediction: {classes[favored]!s} from a probability of {threshold:.4g} on, else {classes[1 - favored]!s}"
        ]
    listed = ", ".join(f"{name!s}: {cost:.4g}" for name, cost in zip(classes, costs, strict=True))
    return [f"prediction: the class of the lowest expected cost; cost of a wrong prediction by class: {listed}"]


def table_dict(table: Table) -> dict[str, Any]:
    """Return name, size, columns and classes of a table as plain values."""
    return {
        "table": table.name,
        "rows": len(table.X),
        "features": [str(name) for name in table.X.columns],
        "columns": [asdict(column) for column in table.columns],
        "classes": {str(name): int(count) for name, count in table.y.value_counts().items()},
    }


class ComparisonView(NamedTuple):
    """Comparison of methods on a table, to be printed, written or drawn."""

    table: Table
    results: pd.DataFrame
    test_size: float
    settings: str
    """Splits and settings in words."""
    notes: list[str]
    failures: list[str]
    fit_command: str = ""
    """Command that fits a model to the table, without its method."""

    @classmethod
    def from_records(
        cls,
        table: Table,
        records: RecordSet,
        test_size: float,
        settings: str,
        warning_counts: dict[str, int],
        fit_command: str = "",
    ) -> ComparisonView:
        """Return the view of the records of a comparison, with the warnings issued outside its fits."""
        from genlabel.data.tables.splits import describe_splits
        from genlabel.evaluation.comparison import as_results

        results = as_results(records.frame)
        splits = results["split"].nunique()
        return cls(
            table,
            results,
            test_size if table.time is None else test_size / splits,
            f"{describe_splits(table)}: {splits}, {test_size:.0%} of the rows held out, {settings}",
            [*table.notes, *warning_lines([warning_counts, *records.frame["warnings"]])],
            failure_lines(records.failures),
            fit_command,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table and its comparison as plain values."""
        about = {"splits": self.settings, "notes": self.notes, "failed": self.failures}
        return table_dict(self.table) | about | self.findings.to_dict()

    @property
    def findings(self) -> Findings:
        """Values and sentences of the comparison."""
        from genlabel.reporting.findings import Findings

        return Findings(self.results, None, self.test_size, self.fit_command)

    def print(self, *lines: str) -> None:
        """Print the verdict, the scores, the table, the chosen parameters, notes, further lines, and failures."""
        from genlabel.data.tables.columns import describe_columns
        from genlabel.evaluation.comparison import accuracy_in_percent, summarize

        findings = self.findings
        print_findings(findings)
        print_scores(summarize(accuracy_in_percent(self.results)), findings.ranking)
        columns = describe_columns(self.table.columns, self.table.X)
        about = [f"{describe_table(self.table)}; {self.settings}", *columns, *chosen_lines(self.results)]
        notes = [f"note: {text}" for text in self.notes]
        for line in [*about, *notes, *lines, *self.failures]:
            print_line(line)

    def write_report(
        self,
        path: Path,
        diagnosis: Diagnosis | None,
        notes: list[str],
        command: str,
        explanation: Explanation | None = None,
    ) -> None:
        """Write the HTML report, with a diagnosis and an explanation of held-out rows if there are any."""
        from genlabel.reporting import write_report

        choices = {"choices": "; ".join(chosen_lines(self.results)), "failed": "; ".join(self.failures)}
        options: dict[str, Any] = {"settings": {"splits": self.settings, **choices}, "command": command}
        options["explanation"] = explanation
        all_notes = [*self.notes, *notes]
        options |= {"notes": all_notes, "fit_command": self.fit_command}
        write_report(path, self.table, self.results, diagnosis, test_size=self.test_size, **options)

    def plot(self) -> Figure:
        """Draw all methods but the prior baseline, which lies far from the others."""
        from genlabel.evaluation.comparison import PRIOR_BASELINE
        from genlabel.reporting.charts import plain_text
        from genlabel.reporting.figures import plot_comparison

        shown = self.results[self.results["method"] != PRIOR_BASELINE]
        title = f"{plain_text(describe_table(self.table))}\n{plain_text(self.settings)}"
        return plot_comparison(shown if len(shown) else self.results, title, test_size=self.test_size)


def print_findings(findings: Findings) -> None:
    """Print what to train, whether mixing matters and how far to trust it, with the next command."""
    for line in findings.headline:
        print_line(line)
    if findings.next_command:
        print_line(f"next: {findings.next_command}")
    for question, lines in findings.answers.items():
        print_line(f"\n{question}")
        for line in lines:
            print_line(f"  {line}")


def chosen_lines(results: pd.DataFrame) -> list[str]:
    """Return a line for each method with the parameters that its searches chose, and the mean pool weights.

    The density is left out where gamma is 0, because it has no effect there.
    """
    lines = []
    for name, group in results.groupby("method", sort=False):
        chosen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for params in group["params"]:
            for key, value in params.items():
                if key not in POOL_WEIGHTS and (key != "density" or params.get("gamma")):
                    chosen[key][str(value)] += 1
        parts = [
            f"{key.replace('_', ' ')} {', '.join(f'{value} ({times}x)' for value, times in counts.most_common())}"
            for key, counts in chosen.items()
        ]
        weights = [params[key] for params in group["params"] for key in POOL_WEIGHTS if key in params]
        if weights:
            network, density, prior = (sum(column) / len(weights) for column in zip(*weights, strict=True))
            mean = f"{network:.2f} network, {density:.2f} stacked density, {prior:.2f} class priors"
            parts.append(f"weights in the combined prediction (they need not add up to 1): {mean}")
        if parts:
            lines.append(f"{name} chose {'; '.join(parts)}")
    return lines


def score_texts(
    summary: pd.DataFrame, method: str, columns: Sequence[tuple[str, str, int, bool]], sign: str = "±"
) -> list[str]:
    """Return the means of a method in some of the `COLUMNS`, with their standard deviations where these are shown."""
    texts = []
    for _, score, digits, with_std in columns:
        mean, std = (float(summary[score, part][method]) for part in ("mean", "std"))
        spread = f" {sign} {std:.{digits}f}" if with_std and not isnan(std) else ""
        texts.append("" if isnan(mean) else f"{mean:.{digits}f}{spread}")
    return texts


def print_scores(summary: pd.DataFrame, ranking: list[str]) -> None:
    """Print a row of scores for each method, the lowest log-loss first, with as many columns as fit the terminal.

    Columns are left out from the right, except the seconds per fit, which go last; the log-loss is always shown.
    """
    sign, console = plus_minus(), open_console()
    caption = f"the lowest log-loss first; mean {sign} standard deviation over the splits"
    choices = [COLUMNS[:count] + COLUMNS[-1:] for count in range(len(COLUMNS) - 1, 0, -1)]
    for columns in [*choices, COLUMNS[:1]]:
        grid = Grid(Column("method", no_wrap=True), box=box.SIMPLE_HEAD, caption=caption)
        for title, *_ in columns:
            grid.add_column(title, justify="right", no_wrap=True)
        for name in ranking:
            grid.add_row(Text(name), *score_texts(summary, name, columns, sign))
        unwrapped = console.measure(grid, options=console.options.update_width(10 * FILE_WIDTH))
        if unwrapped.maximum <= console.width:
            break
    console.print(grid)
    omitted = ", ".join(column[0] for column in COLUMNS if column not in columns)
    if omitted:
        print_line(f"this terminal is too narrow for: {omitted}; widen it, or use --json")
