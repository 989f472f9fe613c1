from .files import read_frame, write_frame
from .formats import FORMATS, TableFormat
from .leaks import drop_leaks, find_leaks, group_duplicates
from .reading import TableReadSpec, read_table
from .splits import make_splits
from .table import Table, table_pipeline

__all__ = [
    "FORMATS",
    "Table",
    "TableFormat",
    "TableReadSpec",
    "drop_leaks",
    "find_leaks",
    "group_duplicates",
    "make_splits",
    "read_frame",
    "read_table",
    "table_pipeline",
    "write_frame",
]
