"""Tables: files of any usual format as labeled rows, detection of leaks, and honest splits.

Names are loaded on first use, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.data.tables.columns import ColumnSpec, describe_columns, kind_of
    from genlabel.data.tables.files import check_columns, join_names, read_columns, read_frame, read_raw, write_frame
    from genlabel.data.tables.formats import FORMATS, TableFormat
    from genlabel.data.tables.leaks import drop_leaks, find_leaks, group_duplicates
    from genlabel.data.tables.reading import TableReadSpec, read_table
    from genlabel.data.tables.splits import Split, describe_splits, make_splits
    from genlabel.data.tables.table import Table, drop_rare_classes, select_rows, table_pipeline

__all__ = [
    "FORMATS",
    "ColumnSpec",
    "Split",
    "Table",
    "TableFormat",
    "TableReadSpec",
    "check_columns",
    "describe_columns",
    "describe_splits",
    "drop_leaks",
    "drop_rare_classes",
    "find_leaks",
    "group_duplicates",
    "join_names",
    "kind_of",
    "make_splits",
    "read_columns",
    "read_frame",
    "read_raw",
    "read_table",
    "select_rows",
    "table_pipeline",
    "write_frame",
]

_MODULES = {
    "columns": ("ColumnSpec", "describe_columns", "kind_of"),
    "files": ("check_columns", "join_names", "read_columns", "read_frame", "read_raw", "write_frame"),
    "formats": ("FORMATS", "TableFormat"),
    "leaks": ("drop_leaks", "find_leaks", "group_duplicates"),
    "reading": ("TableReadSpec", "read_table"),
    "splits": ("Split", "describe_splits", "make_splits"),
    "table": ("Table", "drop_rare_classes", "select_rows", "table_pipeline"),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
