"""Datasets: the paper's synthetic sets, tables from files, from scikit-learn or from OpenML, and images.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel.lazy import load_when_used

if TYPE_CHECKING:
    from genlabel.datasets.images import IMAGE_SETS, ImageSet, hold_out, load_images
    from genlabel.datasets.manifest import DATA_HOME, find_home, manifest_ids, openml_manifest
    from genlabel.datasets.openml import load_openml
    from genlabel.datasets.sources import EMBEDDED, find_source
    from genlabel.datasets.synthetic import (
        CUBE_2D_CENTRES,
        CUBE_3D_CENTRES,
        NINE_CENTRES,
        SYNTHETIC,
        make_circle,
        make_cube_2d,
        make_cube_3d,
        make_example1,
        make_example2,
        make_example3,
        make_moon,
        make_nine_gaussians,
        make_two_circle,
    )
    from genlabel.datasets.tables import Table, load_table, table_pipeline

__all__ = [
    "CUBE_2D_CENTRES",
    "CUBE_3D_CENTRES",
    "DATA_HOME",
    "EMBEDDED",
    "IMAGE_SETS",
    "NINE_CENTRES",
    "SYNTHETIC",
    "ImageSet",
    "Table",
    "find_home",
    "find_source",
    "hold_out",
    "load_images",
    "load_openml",
    "load_table",
    "make_circle",
    "make_cube_2d",
    "make_cube_3d",
    "make_example1",
    "make_example2",
    "make_example3",
    "make_moon",
    "make_nine_gaussians",
    "make_two_circle",
    "manifest_ids",
    "openml_manifest",
    "table_pipeline",
]

_MODULES = {
    "images": (
        "IMAGE_SETS",
        "ImageSet",
        "hold_out",
        "load_images",
    ),
    "manifest": (
        "DATA_HOME",
        "find_home",
        "manifest_ids",
        "openml_manifest",
    ),
    "openml": ("load_openml",),
    "sources": (
        "EMBEDDED",
        "find_source",
    ),
    "synthetic": (
        "CUBE_2D_CENTRES",
        "CUBE_3D_CENTRES",
        "NINE_CENTRES",
        "SYNTHETIC",
        "make_circle",
        "make_cube_2d",
        "make_cube_3d",
        "make_example1",
        "make_example2",
        "make_example3",
        "make_moon",
        "make_nine_gaussians",
        "make_two_circle",
    ),
    "tables": (
        "Table",
        "load_table",
        "table_pipeline",
    ),
}
__getattr__ = load_when_used(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
