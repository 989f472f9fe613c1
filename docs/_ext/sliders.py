"""Figures with sliders: the values of all settings are JSON in the page, and _static/sliders.js draws them.

The directive `{sliders} name` shows the figure of `_ext/name.py`. Plotly and Bokeh need megabytes of script for sliders
that act together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from docutils import nodes
from numpy.typing import NDArray
from sphinx.util.docutils import SphinxDirective

ALPHA, PI = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER PI}"
SIGMA, THETA = "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER THETA}"
DIGITS = 4  # decimals of the values in the page


class Sliders(SphinxDirective):
    """The figure of a module, as HTML."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw the figure."""
        return [nodes.raw("", import_module(f"_ext.{self.arguments[0]}").figure(), format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive, and its style and script on the pages that have it."""
    app.add_directive("sliders", Sliders)
    app.connect("html-page-context", _add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_assets(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if 'class="sliders"' in context.get("body", ""):
        app.add_css_file("sliders.css")
        app.add_js_file("sliders.js", loading_method="defer")


def control(name: str, symbol: str, about: str, values: Sequence[float], start: float) -> dict[str, Any]:
    """Return a slider: its setting, a symbol, a description, the texts of its values, the index of the first one shown.

    >>> control("c", "c", "ratio of the widths", [2**0.5, 4.0], 4.0)["texts"]
    ['1.41', '4']
    """
    texts = [f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in values]
    return {"name": name, "symbol": symbol, "about": about, "texts": texts, "start": list(values).index(start)}


def curve(
    name: str,
    kind: str,
    over: Sequence[str],
    x: NDArray[np.float64],
    values: NDArray[np.float64],
    along: str = "",
    step: int = 1,
) -> dict[str, Any]:
    """Return a curve in all settings.

    Parameters
    ----------
    name, kind : str
        The kind is the class of its line: a color and a dash.
    over : sequence of str
        Controls that change the curve, one for each leading axis of the values.
    x, values : array (m,) and (..., m)
    along : str
        The control whose value is a dot on the curve; from one of its values to the next are `step` points.
    """
    units = np.rint(values * 10**DIGITS).astype(int).ravel().tolist()
    about = {"name": name, "kind": kind, "over": list(over), "along": along, "step": step}
    return about | {"x": np.round(x, DIGITS).tolist(), "values": units}


def log_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Return places and texts of the ticks of a logarithmic axis."""
    return [(round(float(np.log(value)), DIGITS), f"{value:g}") for value in values]


def slider_figure(name: str, controls: Sequence[object], panels: Sequence[object], caption: str) -> str:
    """Return a figure as HTML; the script has a sentence of its name.

    >>> slider_figure("a", [], [], "A < B.")[:70]
    '<figure class="sliders" id="sliders-a"><figcaption>A &lt; B.</figcapti'
    """
    data = {"name": name, "units": 10**DIGITS, "controls": controls, "panels": panels}
    compact = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<figure class="sliders" id="sliders-{name}"><figcaption>{escape(caption)}</figcaption>'
        "<noscript>The sliders need JavaScript.</noscript>"
        f'<script type="application/json">{compact}</script></figure>'
    )
