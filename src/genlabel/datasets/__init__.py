"""Datasets: the paper's synthetic sets, and tables from files, from scikit-learn or from OpenML."""

from genlabel.datasets.openml import load_openml, manifest_ids, openml_manifest
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
from genlabel.datasets.tables import EMBEDDED, Table, load_table, table_pipeline

__all__ = [
    "CUBE_2D_CENTRES",
    "CUBE_3D_CENTRES",
    "EMBEDDED",
    "NINE_CENTRES",
    "SYNTHETIC",
    "Table",
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
