from .catalog import list_tables, load_table
from .images import ImageDataset, load_images
from .openml import load_openml
from .synthetic import SYNTHETIC

__all__ = [
    "SYNTHETIC",
    "ImageDataset",
    "list_tables",
    "load_images",
    "load_openml",
    "load_table",
]
