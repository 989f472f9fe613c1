"""Explanations of predictions in the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from genlabel._console import open_console
from genlabel._text import count_of
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.evaluation.explanation import Explanation
from genlabel.reporting.html import shorten
from genlabel.reporting.terminal import plus_minus, print_line

MAX_COLUMNS = 8
"""Columns that are shown for a row; the others are added up in one line."""
MAX_CHARACTERS = 24
"""Characters of a value."""
MAX_CHECKED = 3
"""Columns that are named for an unusual row: those with at least half the largest gain in typicality."""


def print_explanation(explanation: Explanation, label: Any = None) -> None:
    """Print the explanation of each row, for its predicted class or the class `label`."""
    for i, c in enumerate(explanation.chosen(label).tolist()):
        for line in _head_lines(explanation, i, c):
            print_line(line)
        _print_columns(explanation, i, c)
        if explanation.typicality is not None:
            print_line(_typicality_line(explanation, i))
        if explanation.unusual_values[i]:
            print_line(f"unusual values: {explanation.unusual_values[i]}")


def _head_lines(explanation: Explanation, i: int, c: int) -> list[str]:
    """Return the prediction for row i, and how it differs from the mean over the background rows."""
    names = [repr(str(name)) for name in explanation.classes.tolist()]
    output, base, scale = explanation.output[i, c], explanation.base[c], explanation.scale
    number, kind = explanation.n_background, "exact" if explanation.exact else f"{plus_minus()} standard error"
    return [
        f"\nrow {explanation.values.index[i]}: predicted {names[explanation.predicted[i]]}",
        f"{scale} of {names[c]}: {output:.3f}; its mean over {number} training rows is {base:.3f}. The columns of the "
        f"row contribute {output - base:+.3f} ({kind}):",
    ]


def _print_columns(explanation: Explanation, i: int, c: int) -> None:
    """Print the contributions to class c, next to the nearest training rows of this class and of another one."""
    lines = np.flatnonzero(explanation.neighbors.index == i)
    near = explanation.neighbors.iloc[lines].assign(line=lines, other=lambda x: x["class"] != explanation.classes[c])
    near = near.drop_duplicates("other").sort_values("other")
    grid = Grid("column", "value", Column("contribution", justify="right", no_wrap=True), box=box.SIMPLE_HEAD)
    for label, number, distance in zip(near["class"], near["training_row"], near["distance"], strict=True):
        grid.add_column(Text(f"nearest {shorten(label, 16)!r}: row {number}, distance {distance:.2f}"))
    values, errors = explanation.contributions[i, :, c], explanation.standard_error[i, :, c]
    order = np.argsort(-np.abs(values), kind="stable")
    for j in order[:MAX_COLUMNS]:
        error = "" if explanation.exact else f" {plus_minus()} {errors[j]:.3f}"
        others = [Text(_short(explanation.neighbor_values.iat[line, j])) for line in near["line"]]
        shown = Text(shorten(explanation.columns[j], 40)), Text(_short(explanation.values.iat[i, j]))
        grid.add_row(*shown, f"{values[j]:+.3f}{error}", *others)
    rest = order[MAX_COLUMNS:]
    if len(rest):
        grid.add_row(count_of(len(rest), "other column"), "", f"{values[rest].sum():+.3f}")
    open_console().print(grid)


def _typicality_line(explanation: Explanation, i: int) -> str:
    """Return the typicality of row i and, if it is unusual, the columns to check first."""
    assert explanation.typicality is not None
    assert explanation.typicality_gain is not None
    typicality, gain = explanation.typicality[i], explanation.typicality_gain[i]
    line = f"typicality {typicality:.3f}: "
    if typicality > TYPICALITY_THRESHOLD:
        return line + "the row is like training rows"
    columns = [j for j in np.argsort(-gain, kind="stable")[:MAX_CHECKED] if gain[j] >= gain.max() / 2]
    named = ", ".join(f"{explanation.columns[j]} = {_short(explanation.values.iat[i, j])}" for j in columns)
    return f"{line}the row is unlike training rows; check first: {named}"


def _short(value: Any) -> str:
    """Return a value in a few characters."""
    if value is None or value != value or value == "":
        return "(missing)"
    return f"{value:.6g}" if isinstance(value, float) else shorten(value, MAX_CHARACTERS)
