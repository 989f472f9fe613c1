"""Figures with sliders: drawn for one setting, with the curves of all settings as data for static/explore.js.

The directive `{sliders} name` shows the figure of `_ext/name.py`. Plotly and Bokeh need megabytes of script for sliders
that act together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from docutils import nodes
from numpy.typing import NDArray
from sphinx.util.docutils import SphinxDirective

from genlabel.reporting.charts.canvas import Axes, canvas, label, num, segment
from genlabel.reporting.markup import Markup, element, join

ALPHA, PI = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER PI}"
SIGMA, THETA = "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER THETA}"
DIGITS = 4  # decimals of the values in the page


class Sliders(SphinxDirective):
    """The figure of a module, as HTML."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw the figure."""
        figure = import_module(f"_ext.{self.arguments[0]}").figure()
        return [nodes.raw("", f'<div class="records">{figure}</div>', format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive, and its style and script on the pages that have it."""
    app.add_directive("sliders", Sliders)
    app.connect("html-page-context", _add_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_assets(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if 'class="explore"' in context.get("body", ""):
        app.add_css_file("explore.css")
        app.add_js_file("explore.js", loading_method="defer")


class Control(NamedTuple):
    """A slider: the setting, its symbol, its description, its values, and the index of the first one shown."""

    name: str
    symbol: str
    about: str
    values: Sequence[float]
    start: int

    def format(self, index: int) -> str:
        """Return a value as text.

        >>> Control("c", "c", "ratio of the widths", [2**0.5, 4.0], 0).format(0)
        '1.41'
        """
        return f"{self.values[index]:.3g}" if self.values[index] < 1000 else f"{self.values[index]:,.0f}"


class Curve(NamedTuple):
    """A curve of a panel in all settings: points at `x` (m,), with heights `values` (..., m).

    `kind` are the classes of its line, the first of which is its color. `over` are the controls that change the curve,
    one for each leading axis of the values. `along` is the control whose value is a dot on the curve; from one of its
    values to the next are `step` points.
    """

    name: str
    kind: str
    over: Sequence[str]
    x: NDArray[np.float64]
    values: NDArray[np.float64]
    along: str = ""
    step: int = 1


class Panel(NamedTuple):
    """A picture with curves; `frame` is the part that no slider changes."""

    title: str
    desc: str
    size: tuple[float, float]
    axes: Axes
    frame: Markup
    curves: Sequence[Curve]


def explore(
    name: str, controls: Sequence[Control], pictures: Sequence[Markup], panels: Sequence[object], caption: str
) -> Markup:
    """Return a figure: sliders, which the script uncovers, pictures of the first setting, a sentence, the data.

    Parameters
    ----------
    name : str
        Prefix of its ids; the script has a sentence of this name.
    controls : sequence of Control
    pictures : sequence of Markup
    panels : sequence
        Data with which the script draws the pictures for other settings.
    caption : str
    """
    setting = ", ".join(f"{one.symbol} = {one.format(one.start)}" for one in controls)
    texts = {one.name: [one.format(index) for index in range(len(one.values))] for one in controls}
    about = [{"name": one.name, "shown": one.symbol, "said": texts[one.name]} for one in controls]
    data = {"name": name, "units": 10**DIGITS, "controls": about, "panels": panels}
    compact = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    sentence = f"Drawn for {setting}. Where scripts run, sliders change it."
    return element(
        "figure",
        element("fieldset", element("legend", "Settings"), *(_slider(name, one) for one in controls), hidden=True),
        element("div", *pictures, class_="panels"),
        element("p", sentence, class_="said", aria_live="polite"),
        element("figcaption", caption),
        element("script", Markup(compact), type="application/json"),
        class_="explore",
        id=f"explore-{name}",
    )


def draw_panel(panel: Panel, controls: Sequence[Control]) -> tuple[Markup, dict[str, object]]:
    """Return a panel drawn for the first setting, and the data with which the script draws it for the others."""
    start = {one.name: one.start for one in controls}
    axes = panel.axes
    data = {
        "bottom": round(axes.up(0.0), 2),
        "unit": round(axes.up(0.0) - axes.up(10.0**-DIGITS), 8),
        "curves": [_curve_data(curve, axes) for curve in panel.curves],
    }
    drawn = [_draw_curve(curve, axes, start) for curve in panel.curves]
    return canvas(panel.title, panel.desc, *panel.size, panel.frame, *drawn), data


def path(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], kind: str, name: str | None = None) -> Markup:
    """Return a line through points, (m,) each."""
    points = [f"{num(axes.across(float(a)))} {num(axes.up(float(b)))}" for a, b in zip(x, y, strict=True)]
    return element("path", d="M" + "L".join(points), class_=f"line {kind}", data_curve=name)


def level(axes: Axes, value: float, kind: str) -> Markup:
    """Return a line from left to right at a height."""
    return segment(axes.left, axes.up(value), axes.left + axes.width, axes.up(value), kind)


def log_ticks(axes: Axes, title: str, values: Sequence[float]) -> Markup:
    """Return the lines, numbers and title of a logarithmic x axis."""
    base, parts = axes.top + axes.height, []
    for value in values:
        x = axes.across(float(np.log(value)))
        parts += [segment(x, axes.top, x, base), label(x, base + 14, f"{value:g}", "small dim mid")]
    return join(*parts, label(axes.left + axes.width / 2, base + 31, title, "mid"))


def _slider(name: str, control: Control) -> Markup:
    id_, text = f"{name}-{control.name}", control.format(control.start)
    last, start = str(len(control.values) - 1), str(control.start)
    words = element("label", element("b", control.symbol), f" {control.about}", for_=id_)
    slider = element("input", type="range", id=id_, min="0", max=last, value=start, aria_valuetext=text)
    return element("div", words, slider, element("output", text, for_=id_))


def _curve_data(curve: Curve, axes: Axes) -> dict[str, object]:
    values = np.rint(curve.values * 10**DIGITS).astype(int).ravel().tolist()
    about = {"name": curve.name, "over": list(curve.over), "along": curve.along, "step": curve.step}
    return about | {"x": [round(axes.across(float(x)), 1) for x in curve.x], "values": values}


def _draw_curve(curve: Curve, axes: Axes, start: dict[str, int]) -> Markup:
    """Return the line of a curve, and a dot at the setting."""
    values = curve.values[tuple(start[name] for name in curve.over)]
    line = path(axes, curve.x, values, curve.kind, curve.name)
    if not curve.along:
        return line
    at = start[curve.along] * curve.step
    x, y = num(axes.across(float(curve.x[at]))), num(axes.up(float(values[at])))
    fill = "f" + curve.kind.split()[0].removeprefix("s")
    return join(line, element("circle", cx=x, cy=y, r="5", class_=f"{fill} edge", data_dot=curve.name))
