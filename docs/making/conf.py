"""Settings of Sphinx. `make docs` builds the site; the pages come from build/site-source, see `build.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import genlabel

project = "genlabel"
author = "the genlabel developers"
copyright = author
release = version = genlabel.__version__
language = "en"
smartquotes = False  # quotes are as written
nitpicky = False  # types of numpy, torch and scikit-learn have no page here, and no network is asked for theirs

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "making.mathml",
    "making.reading",
    "making.sidebar",
    "making.assets",
    "making.polish",
]
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = False  # $5.00 is a price
myst_heading_anchors = 4
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_use_legacy_class_based = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
default_role = "name"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
viewcode_follow_imported_members = True
viewcode_line_numbers = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"genlabel {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]

html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses to pages of the file system
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c99", "color-brand-content": "#0b5c99"},
    "dark_css_variables": {"color-brand-primary": "#7cc0f0", "color-brand-content": "#7cc0f0"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
