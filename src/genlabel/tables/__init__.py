"""Tables: files of any usual kind as labelled rows, what leaks in them, and honest splits.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel.lazy import load_when_used

if TYPE_CHECKING:
    from genlabel.tables.columns import MANY, Column, convert_columns, kind_of, plan_columns, tell_columns
    from genlabel.tables.files import (
        SUFFIXES,
        check_columns,
        find_format,
        listed,
        near_name,
        read_as_written,
        read_columns,
        read_frame,
        stem_of,
    )
    from genlabel.tables.leaks import Leak, find_leaks, group_duplicates, guard_table
    from genlabel.tables.plan import Plan
    from genlabel.tables.reading import read_table
    from genlabel.tables.saving import OUTPUTS, check_ending, write_frame
    from genlabel.tables.splits import Split, cut_splits, merge_groups, name_splits
    from genlabel.tables.table import FEWEST_ROWS, Table, drop_rare, table_pipeline, take_rows
    from genlabel.tables.targets import read_target
    from genlabel.tables.values import parse_dates, read_amounts, read_dates
    from genlabel.tables.writing import Writing, find_writing

__all__ = [
    "FEWEST_ROWS",
    "MANY",
    "OUTPUTS",
    "SUFFIXES",
    "Column",
    "Leak",
    "Plan",
    "Split",
    "Table",
    "Writing",
    "check_columns",
    "check_ending",
    "convert_columns",
    "cut_splits",
    "drop_rare",
    "find_format",
    "find_leaks",
    "find_writing",
    "group_duplicates",
    "guard_table",
    "kind_of",
    "listed",
    "merge_groups",
    "name_splits",
    "near_name",
    "parse_dates",
    "plan_columns",
    "read_amounts",
    "read_as_written",
    "read_columns",
    "read_dates",
    "read_frame",
    "read_table",
    "read_target",
    "stem_of",
    "table_pipeline",
    "take_rows",
    "tell_columns",
    "write_frame",
]

_MODULES = {
    "columns": ("MANY", "Column", "convert_columns", "kind_of", "plan_columns", "tell_columns"),
    "files": (
        "SUFFIXES",
        "check_columns",
        "find_format",
        "listed",
        "near_name",
        "read_as_written",
        "read_columns",
        "read_frame",
        "stem_of",
    ),
    "leaks": ("Leak", "find_leaks", "group_duplicates", "guard_table"),
    "plan": ("Plan",),
    "reading": ("read_table",),
    "saving": ("OUTPUTS", "check_ending", "write_frame"),
    "splits": ("Split", "cut_splits", "merge_groups", "name_splits"),
    "table": ("FEWEST_ROWS", "Table", "drop_rare", "table_pipeline", "take_rows"),
    "targets": ("read_target",),
    "values": ("parse_dates", "read_amounts", "read_dates"),
    "writing": ("Writing", "find_writing"),
}
__getattr__ = load_when_used(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
