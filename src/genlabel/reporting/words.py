"""Numbers and names within the sentences of a report."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np
from numpy.typing import NDArray

from genlabel.reporting.html import TableCell, shorten

MAX_NAME = 40
"""Characters of a user's name within a sentence."""


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent.

    >>> percent(0.956), percent(0.5, 0)
    ('95.6 %', '50 %')
    """
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign.

    >>> signed(0.25), signed(-0.25)
    ('+0.250', '−0.250')
    """
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def name_of(text: object, length: int = MAX_NAME) -> str:
    """Return a name of the user's within a sentence, in quotes if it looks like a number.

    >>> name_of("setosa"), name_of(3)
    ('setosa', '“3”')
    """
    short = shorten(text, length)
    try:
        float(short or "0")
    except ValueError:
        return short
    return f"\N{LEFT DOUBLE QUOTATION MARK}{short}\N{RIGHT DOUBLE QUOTATION MARK}"


def format_label(label: NDArray[np.float64], names: Sequence[str], most: int = 3) -> str:
    """Return the most probable classes of a soft label (k,).

    >>> format_label(np.array([0.0, 0.25, 0.75]), ["a", "b", "c"])
    'c 0.75, b 0.25'
    """
    order = np.argsort(-label, kind="stable")[:most]
    return ", ".join(f"{names[c]} {label[c]:.2f}" for c in order if label[c] >= 0.005)


def list_names(names: Sequence[object], most: int = 6) -> str:
    """Return names as a list in words.

    >>> list_names(["a", "b", "c"]), list_names(["a"]), list_names(["a", "b", "c"], 2)
    ('a, b and c', 'a', 'a, b and 1 more')
    """
    shown = [name_of(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown) or "none"


def count_of(number: int, noun: str) -> str:
    """Return a number of things.

    >>> count_of(1, "row"), count_of(1200, "row"), count_of(2, "class")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def number_cell(value: float, digits: int) -> TableCell:
    """Return a cell of a number, by which its column is sorted; empty for NaN.

    >>> number_cell(0.256, 2).text, number_cell(float("nan"), 2).text
    ('0.26', '')
    """
    return TableCell("" if isnan(value) else f"{value:.{digits}f}", float(value))


def percent_cell(value: float) -> TableCell:
    """Return a cell of a share; empty for NaN."""
    return TableCell("" if isnan(value) else percent(value), float(value))
