"""Figures that follow sliders: drawn here for one setting, with the curves of all settings beside for a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel.reporting.charts.canvas import Axes, canvas, label, num, segment
from genlabel.reporting.markup import Markup, element, join

__all__ = [
    "ALPHA",
    "DIGITS",
    "PI",
    "SIGMA",
    "THETA",
    "Control",
    "Curve",
    "Panel",
    "across",
    "draw_panel",
    "explore",
    "log_ticks",
    "path",
]

ALPHA, PI = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER PI}"
SIGMA, THETA = "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER THETA}"
DIGITS = 4
"""Decimals of the values in the page."""


class Control(NamedTuple):
    """A slider: what it sets, the values it goes through, and the place of the one that is drawn first."""

    name: str
    shown: str
    about: str
    values: Sequence[float]
    start: int

    def said(self, place: int) -> str:
        """Return a value as it is written.

        >>> Control("c", "c", "ratio of the widths", [2**0.5, 4.0], 0).said(0)
        '1.41'
        """
        return f"{self.values[place]:.3g}" if self.values[place] < 1000 else f"{self.values[place]:,.0f}"


class Curve(NamedTuple):
    """A curve of a panel in all settings."""

    name: str
    kind: str
    """Classes of its line; the first is its colour."""
    over: Sequence[str]
    """The controls that change it, one for each leading axis of the values."""
    x: NDArray[np.float64]
    """Where its points lie along the panel, (m,)."""
    values: NDArray[np.float64]
    """(..., m)"""
    along: str = ""
    """The control along the panel, if there is one: a dot is drawn at its value."""
    step: int = 1
    """Points from a value of that control to the next."""


class Panel(NamedTuple):
    """A picture with curves."""

    title: str
    desc: str
    size: tuple[float, float]
    axes: Axes
    frame: Markup
    """What no slider changes: axes, ticks, lines."""
    curves: Sequence[Curve]


def explore(
    name: str, controls: Sequence[Control], pictures: Sequence[Markup], panels: Sequence[object], caption: str
) -> Markup:
    """Return a figure: sliders, which the script uncovers, pictures, a sentence, which the script rewrites, the data.

    Parameters
    ----------
    name : str
        With which its ids begin; the script has a sentence of this name.
    controls : sequence of Control
    pictures : sequence of Markup
        Drawn for the first setting.
    panels : sequence
        What the script needs to draw them for the others.
    caption : str
    """
    setting = ", ".join(f"{one.shown} = {one.said(one.start)}" for one in controls)
    data = {"name": name, "units": 10**DIGITS, "controls": [_about(one) for one in controls], "panels": panels}
    compact = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    said = f"Drawn for {setting}. Where scripts run, sliders change it."
    return element(
        "figure",
        element("fieldset", element("legend", "Settings"), *(_slider(name, one) for one in controls), hidden=True),
        element("div", *pictures, class_="panels"),
        element("p", said, class_="said", aria_live="polite"),
        element("figcaption", caption),
        element("script", Markup(compact), type="application/json"),
        class_="explore",
        id=f"explore-{name}",
    )


def draw_panel(panel: Panel, controls: Sequence[Control]) -> tuple[Markup, dict[str, object]]:
    """Return a panel drawn for the first setting, and what the script needs to draw it for the others."""
    start = {one.name: one.start for one in controls}
    drawn = [_drawn(curve, panel.axes, start) for curve in panel.curves]
    axes, unit = panel.axes, 10.0**-DIGITS
    data = {
        "bottom": round(axes.up(0.0), 2),
        "unit": round(axes.up(0.0) - axes.up(unit), 8),
        "curves": [_data(curve, axes) for curve in panel.curves],
    }
    return canvas(panel.title, panel.desc, *panel.size, panel.frame, *drawn), data


def path(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], kind: str, name: str | None = None) -> Markup:
    """Return a line through points, (m,) each."""
    places = [f"{num(axes.across(float(a)))} {num(axes.up(float(b)))}" for a, b in zip(x, y, strict=True)]
    return element("path", d="M" + "L".join(places), class_=f"line {kind}", data_curve=name)


def across(axes: Axes, value: float, kind: str) -> Markup:
    """Return a line from left to right at a height."""
    return segment(axes.left, axes.up(value), axes.left + axes.width, axes.up(value), kind)


def log_ticks(axes: Axes, words: str, values: Sequence[float]) -> Markup:
    """Return lines and numbers of an x axis of logarithms, and what it is."""
    base, parts = axes.top + axes.height, []
    for value in values:
        x = axes.across(float(np.log(value)))
        parts += [segment(x, axes.top, x, base), label(x, base + 14, f"{value:g}", "small dim mid")]
    return join(*parts, label(axes.left + axes.width / 2, base + 31, words, "mid"))


def _about(control: Control) -> dict[str, object]:
    said = [control.said(place) for place in range(len(control.values))]
    return {"name": control.name, "shown": control.shown, "said": said}


def _slider(name: str, control: Control) -> Markup:
    place, said = f"{name}-{control.name}", control.said(control.start)
    last, start = str(len(control.values) - 1), str(control.start)
    words = element("label", element("b", control.shown), f" {control.about}", for_=place)
    slider = element("input", type="range", id=place, min="0", max=last, value=start, aria_valuetext=said)
    return element("div", words, slider, element("output", said, for_=place))


def _data(curve: Curve, axes: Axes) -> dict[str, object]:
    values = np.rint(curve.values * 10**DIGITS).astype(int).ravel().tolist()
    places = [round(axes.across(float(x)), 1) for x in curve.x]
    about = {"name": curve.name, "over": list(curve.over), "along": curve.along, "step": curve.step}
    return about | {"x": places, "values": values}


def _drawn(curve: Curve, axes: Axes, start: dict[str, int]) -> Markup:
    """The line of a curve, and a dot where the setting is."""
    values = curve.values[tuple(start[name] for name in curve.over)]
    line = path(axes, curve.x, values, curve.kind, curve.name)
    if not curve.along:
        return line
    at = start[curve.along] * curve.step
    x, y = num(axes.across(float(curve.x[at]))), num(axes.up(float(values[at])))
    fill = "f" + curve.kind.split()[0].removeprefix("s")
    return join(line, element("circle", cx=x, cy=y, r="5", class_=f"{fill} edge", data_dot=curve.name))
