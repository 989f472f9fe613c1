"""Two hooks of sphinx-gallery: figures that are drawn without pyplot, and warnings that are errors."""

from __future__ import annotations

import warnings
from typing import Any

from sphinx_gallery.scrapers import figure_rst


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
        warnings.simplefilter("error")
    else:
        warnings.resetwarnings()
