from .columns import ColumnSpec, describe_columns, kind_of
from .files import check_columns, join_names, read_columns, read_frame, read_raw, write_frame
from .formats import FORMATS, TableFormat
from .leaks import drop_leaks, find_leaks, group_duplicates
from .reading import TableReadSpec, read_table
from .splits import Split, describe_splits, make_splits
from .table import Table, drop_rare_classes, select_rows, table_pipeline

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
