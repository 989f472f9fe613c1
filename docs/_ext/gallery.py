"""Two hooks of sphinx-gallery: figures that are drawn without pyplot, and warnings that are errors."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from typing import Any

from sphinx_gallery.scrapers import figure_rst

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # its start and end are no output
_filters = ExitStack()


def save_figure(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the variable `figure` of an example, and return the directive that shows it."""
    figure = block_vars["example_globals"].get("figure")
    if block[0] != "code" or figure is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=150)
    return figure_rst([path], gallery_conf["src_dir"], figure.axes[0].get_title())


def make_warnings_errors(gallery_conf: dict[str, Any], file: str, when: str) -> None:
    """Make warnings errors while an example runs."""
    if when == "before":
        _filters.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
    else:
        _filters.close()
