"""Unusual values: numbers far outside the range of their column in training, and categories that training never had.

A new category is unusual in a column of recurring categories alone: in a column of names or comments most new rows have
one. The share of new rows with a new category is estimated by that of training rows whose category occurs once (Good,
1953). Columns count in ascending order of this share, as long as it is at most 5 % in all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from genlabel.data.tables.columns import as_strings
from genlabel.data.tables.table import EncodedColumn

MAX_NEW_SHARE = 0.05
"""Largest share of usual rows for which a new category may be reported, over all columns together."""
MIN_RANGES_OUTSIDE = 1.0
"""Distance from the range of a column in training, in units of this range, from which on a number is unusual."""


def find_unusual_values(
    columns: Sequence[EncodedColumn],
    X: Any,
    points: NDArray[np.float64],
    minimum: ArrayLike,
    maximum: ArrayLike,
) -> pd.DataFrame:
    """Return a line for each unusual value of a table `X` (m, ...) that was encoded as `points` (m, d).

    `minimum` and `maximum` are the ranges of the features in training, (d,). The result has the position of the row,
    the name of the column, the value, and the range of a column of numbers in training, which is NaN for a category.
    """
    recurring = recurring_columns(columns)
    lowest, highest = (np.broadcast_to(np.asarray(limit), points.shape[1]) for limit in (minimum, maximum))
    lines: list[tuple[int, int, Any, float, float]] = []
    for i, column in enumerate(columns):
        if column.categories:
            is_unusual = is_new_category(column, X) if column.name in recurring else np.zeros(len(points), dtype=bool)
            rows = np.flatnonzero(is_unusual)
            lines += [(int(row), i, X[column.name].iloc[row], np.nan, np.nan) for row in rows]
        else:
            (feature,) = column.features
            low, high = float(lowest[feature]), float(highest[feature])
            with np.errstate(over="ignore"):
                outside = np.maximum(low - points[:, feature], points[:, feature] - high)
            rows = np.flatnonzero((outside > 0) & (outside >= MIN_RANGES_OUTSIDE * (high - low)))
            lines += [(int(row), i, float(points[row, feature]), low, high) for row in rows]
    lines.sort(key=lambda line: line[:2])
    names = ["row", "column", "value", "minimum", "maximum"]
    frame = pd.DataFrame(lines, columns=names).astype({"value": object})
    return frame.assign(column=[columns[i].name for i in frame["column"]])


def recurring_columns(columns: Sequence[EncodedColumn]) -> list[Any]:
    """Return the names of the text columns in which a new category is unusual.

    >>> town, comment = EncodedColumn("town", "text", range(3)), EncodedColumn("comment", "text", range(20))
    >>> recurring_columns([comment._replace(new_share=0.6), town._replace(new_share=0.02)])
    ['town']
    """
    text = sorted((column for column in columns if column.kind == "text"), key=lambda column: column.new_share)
    total = np.cumsum([column.new_share for column in text])
    return [column.name for column, share in zip(text, total, strict=True) if share <= MAX_NEW_SHARE]


def is_new_category(column: EncodedColumn, X: pd.DataFrame) -> NDArray[np.bool_]:
    """Return whether each row of a table has a value in a text column that training did not have, (m,)."""
    values = X[column.name]
    known = as_strings(values.to_frame())[column.name].isin(column.categories)
    return (values.notna() & ~known).to_numpy()


def restore_dates(values: pd.DataFrame, day_features: Mapping[Any, str]) -> pd.DataFrame:
    """Return lines of `find_unusual_values` with dates in place of the day numbers of some features.

    `day_features` has the name of the column of dates of each feature of days since 1970.
    """
    is_day = values["column"].isin(list(day_features))
    if not is_day.any():
        return values
    restored = values[["value", "minimum", "maximum"]].astype(object)
    for name in ("value", "minimum", "maximum"):
        days = np.asarray(restored.loc[is_day, name], dtype=np.float64)
        restored.loc[is_day, name] = (pd.Timestamp(0) + pd.to_timedelta(days, unit="D")).round("s").astype(object)
    return values.assign(**restored, column=values["column"].map(lambda name: day_features.get(name, name)))


def describe_value(column: Any, value: Any, minimum: Any, maximum: Any) -> str:
    """Return an unusual value in words.

    >>> describe_value("amount", 9e8, 250.0, 18424.0)
    'amount = 900000000 (training: 250 to 18424)'
    >>> describe_value("town", "Rome", float("nan"), float("nan"))
    "town = 'Rome' (not in training)"
    """
    if pd.isna(minimum):
        return f"{column} = {str(value)!r} (not in training)"
    return f"{column} = {format_limit(value)} (training: {format_limit(minimum)} to {format_limit(maximum)})"


def format_limit(value: Any) -> str:
    """Return a number or a date in words.

    >>> format_limit(0.1), format_limit(pd.Timestamp("2024-05-31")), format_limit(pd.Timestamp("2024-05-31 12:30"))
    ('0.1', '2024-05-31', '2024-05-31 12:30:00')
    """
    return str(value).removesuffix(" 00:00:00") if isinstance(value, pd.Timestamp) else f"{value:.10g}"
