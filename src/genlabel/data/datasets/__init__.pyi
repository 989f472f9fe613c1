from .catalog import list_tables, load_openml, load_table
from .images import ImageDataset, load_images

__all__ = ["ImageDataset", "list_tables", "load_images", "load_openml", "load_table"]
