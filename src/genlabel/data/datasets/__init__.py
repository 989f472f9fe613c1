"""Datasets: the paper's synthetic sets, tables from files, from scikit-learn or from OpenML, and images.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel.data.datasets.curves import NORMS, curve_distances, equidistance_error, true_curves
    from genlabel.data.datasets.images import IMAGE_SETS, ImageSet, hold_out, load_images
    from genlabel.data.datasets.manifest import DATA_HOME, find_home, manifest_ids, openml_manifest
    from genlabel.data.datasets.openml import load_openml
    from genlabel.data.datasets.sources import EMBEDDED, find_source
    from genlabel.data.datasets.strokes import FOUR_CENTRES, FOUR_DEVIATIONS, SPHERES, STROKES
    from genlabel.data.datasets.synthetic import (
        CUBE_2D_CENTRES,
        CUBE_3D_CENTRES,
        NINE_CENTRES,
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
    from genlabel.data.datasets.tables import Table, load_table, table_pipeline

__all__ = [
    "CUBE_2D_CENTRES",
    "CUBE_3D_CENTRES",
    "DATA_HOME",
    "EMBEDDED",
    "FOUR_CENTRES",
    "FOUR_DEVIATIONS",
    "IMAGE_SETS",
    "NINE_CENTRES",
    "NORMS",
    "SPHERES",
    "STROKES",
    "SYNTHETIC",
    "ImageSet",
    "Table",
    "curve_distances",
    "equidistance_error",
    "find_home",
    "find_source",
    "hold_out",
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
    "manifest_ids",
    "openml_manifest",
    "table_pipeline",
    "true_curves",
]

_MODULES = {
    "curves": ("NORMS", "curve_distances", "equidistance_error", "true_curves"),
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
    "strokes": ("FOUR_CENTRES", "FOUR_DEVIATIONS", "SPHERES", "STROKES"),
    "synthetic": (
        "CUBE_2D_CENTRES",
        "CUBE_3D_CENTRES",
        "NINE_CENTRES",
        "SYNTHETIC",
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
    ),
    "tables": (
        "Table",
        "load_table",
        "table_pipeline",
    ),
}
__getattr__ = lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
