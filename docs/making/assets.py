"""Styles and scripts of the site: those of the records come from the report, and only its pages load them."""

from __future__ import annotations

import re
from typing import Any

from genlabel.reporting.frame import script, style
from genlabel_paper.report.page import report_css
from making.stage import Stage

__all__ = ["setup", "write_assets"]

FLOATING = re.compile(r"^(?:dialog\.larger-view|\.tip)[^{]*\{[^}]*\}", flags=re.M)
"""Rules of what the script puts at the end of a page."""


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of the files, and which pages need them."""
    app.connect("config-inited", lambda app, config: config.html_static_path.append(str(app.srcdir / "_static")))
    app.connect("html-page-context", _add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_assets(stage: Stage) -> None:
    """Write style and script of the pages that show records."""
    stage.write("_static/records.css", css())
    stage.write("_static/records.js", js())


def css() -> str:
    """Return the style of the report within the parts that are made of records alone, and its colours."""
    whole = style()
    colours = whole[whole.index(":root {") : whole.index(":root[data-theme")]
    rules = whole[whole.index(".soft,") : whole.index("@media (prefers-reduced-motion")]
    return "\n".join([colours, *FLOATING.findall(whole), ".records {", rules, report_css(), "}", ""])


def js() -> str:
    """Return the script of the report without its switch of the theme: the site has one."""
    whole = script()
    return whole[: whole.index("  // Theme")] + whole[whole.index("  // Parts") :]


def _add(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if doctree is not None and page.startswith(("reproduction/", "gallery/", "notebooks/")):
        app.add_css_file("records.css")
        app.add_js_file("records.js", loading_method="defer")
    if page == "theory":
        app.add_css_file("records.css")
        app.add_css_file("explore.css")
        app.add_js_file("explore.js", loading_method="defer")
