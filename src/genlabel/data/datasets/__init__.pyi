from .catalog import list_tables, load_table
from .images import ImageDataset, load_images
from .openml import load_openml
from .synthetic import (
    SYNTHETIC,
    make_circle,
    make_circle_3d,
    make_cube_2d,
    make_cube_3d,
    make_example1,
    make_example2,
    make_example3,
    make_four_gaussians,
    make_ket,
    make_moon,
    make_nine_gaussians,
    make_two_circle,
    make_v,
    make_y,
)

__all__ = [
    "SYNTHETIC",
    "ImageDataset",
    "list_tables",
    "load_images",
    "load_openml",
    "load_table",
    "make_circle",
    "make_circle_3d",
    "make_cube_2d",
    "make_cube_3d",
    "make_example1",
    "make_example2",
    "make_example3",
    "make_four_gaussians",
    "make_ket",
    "make_moon",
    "make_nine_gaussians",
    "make_two_circle",
    "make_v",
    "make_y",
]
