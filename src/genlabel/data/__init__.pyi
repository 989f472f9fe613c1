from .datasets import list_tables, load_images, load_openml, load_table, make_moon
from .tables import Table, drop_leaks, make_splits, read_table, table_pipeline

__all__ = [
    "Table",
    "drop_leaks",
    "list_tables",
    "load_images",
    "load_openml",
    "load_table",
    "make_moon",
    "make_splits",
    "read_table",
    "table_pipeline",
]
