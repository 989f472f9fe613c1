"""Sphinx settings; `make docs` builds the site into build/site."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _ext.names import documented_names, packages, public_names
from jupyter_client import KernelManager
from sphinx.ext import autosummary

import genlabel

project = "genlabel"
author = copyright = "the genlabel developers"
release = version = genlabel.__version__
smartquotes = False
exclude_patterns = ["_ext", "gallery", "auto_examples/*.ipynb"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "_ext.api",
    "_ext.check",
    "_ext.mathml",
    "_ext.pages",
    "_ext.sidebar",
    "_ext.paper_map",
    "_ext.reproduction",
    "_ext.sliders",
]

# Pages
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = False  # $5.00 is a price
myst_heading_anchors = 4
html_math_renderer = "mathml"

# Notebooks
nb_execution_mode = "auto"  # those kept without outputs, which is all
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_output_stderr = "remove-warn"
KernelManager.transport_encryption.default_value = "required"  # a kernel warns of plain TCP
logging.getLogger("traitlets").setLevel(logging.WARNING)

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("_ext.gallery.save_figure",),
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "_ext.gallery.make_warnings_errors"),
    "reset_modules_order": "both",
    "capture_repr": (),
    "min_reported_time": 1000,
    "write_computation_times": False,
    "download_all_examples": False,
    "show_signature": False,
}

# API
autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.", "Alg.")  # where a summary does not end
autosummary_imported_members = True
autosummary_ignore_module_all = False
autosummary_context = {"public": {name: public_names(name) for name in packages()}, "documented": documented_names()}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_mock_imports = ["transformers"]  # its import takes longer than all pages of the API
add_module_names = False
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = False
templates_path = ["_templates"]

# Theme
html_theme = "furo"
html_title = f"genlabel {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_search_summary = False  # a browser refuses the fetch from the file system
html_show_sphinx = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
