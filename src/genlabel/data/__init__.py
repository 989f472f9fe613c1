"""Tables and datasets: file formats, column types, leaks, splits, synthetic datasets, OpenML and images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.data.datasets import list_tables, load_images, load_openml, load_table, make_moon
    from genlabel.data.tables import Table, drop_leaks, make_splits, read_table, table_pipeline

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

_MODULES = {
    "datasets": ("list_tables", "load_images", "load_openml", "load_table", "make_moon"),
    "tables": ("Table", "drop_leaks", "make_splits", "read_table", "table_pipeline"),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
