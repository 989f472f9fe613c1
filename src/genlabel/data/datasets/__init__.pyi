from .catalog import list_tables, load_openml, load_table
from .images import ImageDataset, load_images
from .synthetic import SYNTHETIC

__all__ = [
    "SYNTHETIC",
    "ImageDataset",
    "list_tables",
    "load_images",
    "load_openml",
    "load_table",
]
