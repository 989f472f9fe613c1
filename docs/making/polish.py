"""What is left to mend for keyboard and screen reader: code, pictures and tables that scroll, lists without terms."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["polish", "setup"]

PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")
"""The parameters of a long signature: a list of descriptions of nothing."""
SCROLLS = re.compile(r'(<pre|<div class="(?:drawn|table-wrapper [^"]*)")>')
"""What may be wider than a narrow screen."""


def setup(app: Any) -> dict[str, bool]:
    """Mend pages before they are written."""
    app.connect("html-page-context", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def polish(body: str) -> str:
    r"""Return a page whose code, pictures and tables take the focus, and whose signatures have lines instead of lists.

    >>> polish('<pre>a</pre> <div class="drawn"></div>')
    '<pre tabindex="0">a</pre> <div class="drawn" tabindex="0"></div>'
    >>> polish('<div class="table-wrapper docutils"></div>')
    '<div class="table-wrapper docutils" tabindex="0"></div>'
    >>> polish("<dl>\n<dd>b,</dd>\n</dl>")
    '<span class="lines">\n<span>b,</span>\n</span>'
    """
    lines = PARAMETERS.sub(lambda found: f'<span class="lines">\n{_as_spans(found[1])}</span>', body)
    return SCROLLS.sub(r'\1 tabindex="0">', lines)


def _as_spans(items: str) -> str:
    return items.replace("<dd>", "<span>").replace("</dd>", "</span>")


def _mend(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = polish(context["body"])
