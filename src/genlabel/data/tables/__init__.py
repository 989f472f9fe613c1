"""Tables: files of any usual kind as labelled rows, what leaks in them, and honest splits.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.data.tables.columns import MANY, ColumnSpec, convert_columns, describe_columns, kind_of, plan_columns
    from genlabel.data.tables.csv_dialect import CsvDialect, sniff_csv_dialect
    from genlabel.data.tables.files import (
        SUFFIXES,
        check_columns,
        closest_name,
        find_format,
        join_names,
        read_columns,
        read_frame,
        read_raw,
        table_name,
    )
    from genlabel.data.tables.leaks import Leak, drop_leaks, find_leaks, group_duplicates
    from genlabel.data.tables.parse_values import parse_dates, read_amounts, read_dates
    from genlabel.data.tables.read_spec import TableReadSpec
    from genlabel.data.tables.reading import read_table
    from genlabel.data.tables.splits import Split, describe_splits, make_splits, merge_groups
    from genlabel.data.tables.table import FEWEST_ROWS, Table, drop_rare, select_rows, table_pipeline
    from genlabel.data.tables.targets import read_target
    from genlabel.data.tables.write import OUTPUTS, check_ending, write_frame

__all__ = [
    "FEWEST_ROWS",
    "MANY",
    "OUTPUTS",
    "SUFFIXES",
    "ColumnSpec",
    "CsvDialect",
    "Leak",
    "Split",
    "Table",
    "TableReadSpec",
    "check_columns",
    "check_ending",
    "closest_name",
    "convert_columns",
    "describe_columns",
    "describe_splits",
    "drop_leaks",
    "drop_rare",
    "find_format",
    "find_leaks",
    "group_duplicates",
    "join_names",
    "kind_of",
    "make_splits",
    "merge_groups",
    "parse_dates",
    "plan_columns",
    "read_amounts",
    "read_columns",
    "read_dates",
    "read_frame",
    "read_raw",
    "read_table",
    "read_target",
    "select_rows",
    "sniff_csv_dialect",
    "table_name",
    "table_pipeline",
    "write_frame",
]

_MODULES = {
    "columns": ("MANY", "ColumnSpec", "convert_columns", "kind_of", "plan_columns", "describe_columns"),
    "files": (
        "SUFFIXES",
        "check_columns",
        "find_format",
        "join_names",
        "closest_name",
        "read_raw",
        "read_columns",
        "read_frame",
        "table_name",
    ),
    "leaks": ("Leak", "find_leaks", "group_duplicates", "drop_leaks"),
    "read_spec": ("TableReadSpec",),
    "reading": ("read_table",),
    "write": ("OUTPUTS", "check_ending", "write_frame"),
    "splits": ("Split", "make_splits", "merge_groups", "describe_splits"),
    "table": ("FEWEST_ROWS", "Table", "drop_rare", "table_pipeline", "select_rows"),
    "targets": ("read_target",),
    "parse_values": ("parse_dates", "read_amounts", "read_dates"),
    "csv_dialect": ("CsvDialect", "sniff_csv_dialect"),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
