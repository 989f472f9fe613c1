"""The paper's printed values, read from plain tables in the code: a line for each dataset, a column for each method."""

from __future__ import annotations

import pandas as pd

from genlabel_paper.report.experiment import PrintedValues
from genlabel_paper.report.pieces import Printed


def read_printed(text: str) -> dict[tuple[str, str], Printed]:
    """Read a table of numbers with their spreads, "-" where none is; the keys are (column, line): (method, dataset).

    >>> read_printed('''
    ... dataset  mixup
    ... 61       88.00±1.09
    ... ''')
    {('mixup', '61'): Printed(mean=88.0, spread=1.09)}
    """
    head, *lines = [line.split() for line in text.strip().splitlines()]
    return {
        (column, line[0]): _number(word)
        for line in lines
        for column, word in zip(head[1:], line[1:], strict=True)
        if word != "-"
    }


def rows_of(paper: PrintedValues) -> list[str]:
    """Return the rows of a printed table, its methods, each once.

    >>> rows_of({("mixup", "61"): Printed(88.0), ("mixup", "36"): Printed(88.98)})
    ['mixup']
    """
    return list(dict.fromkeys(row for row, _ in paper))


def columns_of(paper: PrintedValues) -> list[str]:
    """Return the columns of a printed table, its datasets, each once.

    >>> columns_of({("mixup", "61"): Printed(88.0), ("mixup", "36"): Printed(88.98)})
    ['61', '36']
    """
    return list(dict.fromkeys(column for _, column in paper))


def printed_means(paper: PrintedValues) -> pd.DataFrame:
    """Return the printed means: a line for each dataset, a column for each method.

    >>> printed_means({("mixup", "61"): Printed(88.0)}).loc["61", "mixup"]
    np.float64(88.0)
    """
    sets = columns_of(paper)
    columns = {row: {name: paper[row, name].mean for name in sets if (row, name) in paper} for row in rows_of(paper)}
    return pd.DataFrame(columns, index=sets, dtype=float)


def _number(word: str) -> Printed:
    mean, _, spread = word.partition("±")
    return Printed(float(mean), float(spread) if spread else None)
