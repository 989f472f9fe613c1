"""Explanations of predictions in the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from genlabel.evaluation.explanation import Explanation, class_index
from genlabel.reporting.html import shorten
from genlabel.reporting.terminal import plus_minus, print_line, table_console

MAX_COLUMNS = 8
"""Columns that are shown for a row; the others are added up in one line."""
MAX_CHARACTERS = 24
"""Characters of a value."""
STANDS_OUT = 10.0
"""Gain in log-density from which a column is named as untypical."""


def print_explanation(explanation: Explanation, label: Any = None) -> None:
    """Print the explanation of each row, for its predicted class or the class `label`."""
    rule = "exact" if explanation.exact else f"estimates {plus_minus()} standard error"
    print_line(
        f"Contributions to the {explanation.scale} of a class, relative to its mean over {explanation.n_background} "
        f"training rows; {rule}"
    )
    chosen = (
        explanation.predicted if label is None else [class_index(explanation.classes, label)] * len(explanation.values)
    )
    for i, c in enumerate(chosen):
        _print_row(explanation, i, int(c))


def _print_row(explanation: Explanation, i: int, c: int) -> None:
    """Print the contributions of row i to class c, with the values of the nearest training rows."""
    names = [str(name) for name in explanation.classes.tolist()]
    output, base = explanation.output[i, c], explanation.base[c]
    predicted = names[explanation.predicted[i]]
    print_line(
        f"\nrow {explanation.values.index[i]}: predicted {predicted!r}; {explanation.scale} of {names[c]!r} "
        f"{output:.3f} = mean {base:.3f} {output - base:+.3f}"
    )
    near = explanation.neighbors.reset_index(names="position").reset_index(names="line")
    near = near[near["position"] == i].drop_duplicates("class").head(2)
    console, sign = table_console(), plus_minus()
    grid = Grid("column", "value", Column("contribution", justify="right", no_wrap=True), box=box.SIMPLE_HEAD)
    for label, number, distance in zip(near["class"], near["training_row"], near["distance"], strict=True):
        grid.add_column(Text(f"nearest {shorten(label, 16)!r}: row {number}, distance {distance:.2f}"))
    values, errors = explanation.contributions[i, :, c], explanation.standard_error[i, :, c]
    order = np.argsort(-np.abs(values), kind="stable")
    for j in order[:MAX_COLUMNS]:
        error = "" if explanation.exact else f" {sign} {errors[j]:.3f}"
        others = [_text(explanation.neighbor_values.iat[line, j]) for line in near["line"]]
        grid.add_row(
            Text(shorten(explanation.columns[j], 40)),
            _text(explanation.values.iat[i, j]),
            f"{values[j]:+.3f}{error}",
            *others,
        )
    rest = order[MAX_COLUMNS:]
    if len(rest):
        grid.add_row(f"{len(rest)} other columns", "", f"{values[rest].sum():+.3f}")
    console.print(grid)
    if explanation.typicality is not None:
        print_line(f"typicality {explanation.typicality[i]:.3f}{_untypical_columns(explanation, i)}")


def _untypical_columns(explanation: Explanation, i: int) -> str:
    """Return words on the columns whose values make a row untypical."""
    if explanation.typicality_gain is None:
        return ""
    gain = explanation.typicality_gain[i]
    columns = [j for j in np.argsort(-gain, kind="stable")[:3] if gain[j] >= STANDS_OUT]
    named = ", ".join(f"{explanation.columns[j]} ({_text(explanation.values.iat[i, j])})" for j in columns)
    return f"; unusual: {named}" if named else ""


def _text(value: Any) -> Text:
    """Return a value in a few characters."""
    if value is None or value != value or value == "":
        return Text("(missing)")
    return Text(f"{value:.6g}" if isinstance(value, float) else shorten(value, MAX_CHARACTERS))
