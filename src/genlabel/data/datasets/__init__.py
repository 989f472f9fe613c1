"""Datasets: the paper's synthetic datasets, tables by name, OpenML, and images.

Names are loaded on first use, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.data.datasets.catalog import list_tables, load_table
    from genlabel.data.datasets.images import ImageDataset, load_images
    from genlabel.data.datasets.openml import load_openml
    from genlabel.data.datasets.synthetic import (
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

_MODULES = {
    "catalog": ("list_tables", "load_table"),
    "images": ("ImageDataset", "load_images"),
    "openml": ("load_openml",),
    "synthetic": ("SYNTHETIC", *(name for name in __all__ if name.startswith("make_"))),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
