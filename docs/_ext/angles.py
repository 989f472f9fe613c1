"""Figure 7 with sliders: the angles of vanilla training, mixup and GenLabel in Example 3, by n, r, alpha and sigma."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _ext.sliders import ALPHA, PI, SIGMA, THETA, Control, Curve, Panel, draw_panel, explore, level, log_ticks
from genlabel.data.datasets import make_example3
from genlabel.reporting.charts.canvas import Axes, canvas, label, legend, num
from genlabel.reporting.markup import Markup, element, join
from genlabel_paper.theory import example3_angles
from genlabel_paper.theory.example3 import PRINTED

KINDS = {"vanilla": "s3", "mixup": "s2 broken", "genlabel": "s1"}
TITLES = {"vanilla": "vanilla", "mixup": "mixup", "genlabel": "GenLabel"}
OVER = {  # parameters of each angle, beside the norm
    "vanilla": ("n",),
    "mixup": ("n", "alpha"),
    "genlabel": ("n", "alpha", "sigma"),
}
SVM, PRINTED_NORM = 0.25, 25.0  # the angle in units of pi; the norm of the printed angles


class Settings(NamedTuple):
    """Values of the sliders."""

    n: Sequence[int] = (1, 3, 10, 30, 100)
    r: Sequence[float] = (
        1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 70.0, 100.0, 150.0,
        200.0, 300.0, 500.0, 1000.0,
    )  # fmt: skip
    alpha: Sequence[float] = (0.2, 0.5, 1.0, 1.7, 3.0)
    sigma: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4)


SETTINGS = Settings()
SYMBOLS = {"n": "n", "r": "r", "alpha": ALPHA, "sigma": SIGMA}
START = {"n": 30, "r": 25.0, "alpha": 1.0, "sigma": 0.1}
ABOUT = {
    "n": "copies of the negative point",
    "r": f"norm of {THETA}",
    "alpha": f"of the law Beta({ALPHA}, {ALPHA}) that mixes",
    "sigma": "width of GenLabel's densities",
}


def angle_tables(settings: Settings) -> dict[str, NDArray[np.float64]]:
    """Return the angles in units of pi, by scheme: (n, r), (n, alpha, r) and (n, alpha, sigma, r).

    >>> tables = angle_tables(Settings([30], [25.0], [1.0], [0.1]))
    >>> [float(table.ravel()[0].round(4)) for table in tables.values()]
    [0.2207, 0.3198, 0.2486]
    """
    n, r, alphas, sigma = settings
    vanilla = example3_angles("vanilla", r, n)[:, 0]
    mixup = np.stack([example3_angles("mixup", r, n, alpha=alpha)[:, 0] for alpha in alphas], axis=1)
    genlabel = np.stack([example3_angles("genlabel", r, n, sigma, alpha=alpha) for alpha in alphas], axis=1)
    return {"vanilla": vanilla / np.pi, "mixup": mixup / np.pi, "genlabel": genlabel / np.pi}


def figure(settings: Settings = SETTINGS) -> Markup:
    """Return the figure: the boundaries among the points, and the angles against the norm."""
    tables = angle_tables(settings)
    controls = [
        Control(name, SYMBOLS[name], ABOUT[name], values, list(values).index(START[name]))
        for name, values in settings._asdict().items()
    ]
    picture, data = draw_panel(_panel(settings, tables), controls)
    caption = (
        "Example 3 with other parameters. Left: the points and the boundary of each scheme at the norm r. Right: its "
        f"angle against r; crosses are the angles that the paper prints for r = 25 without its n, {ALPHA} and {SIGMA}. "
        f"Vanilla training knows n alone, mixup n and {ALPHA}. The values are those of example3_angles."
    )
    return explore("angles", controls, [_plane(tables, controls), picture], [data], caption)


def _panel(settings: Settings, tables: dict[str, NDArray[np.float64]]) -> Panel:
    """Return the angle against the norm."""
    ends = math.log(settings.r[0]), math.log(settings.r[-1])
    axes = Axes(50, 34, 300, 240, (ends[0], max(ends[1], ends[0] + 1.0)), (0.0, 0.5))
    ticks = [r for r in (1, 3, 10, 25, 100, 300, 1000) if settings.r[0] <= r <= settings.r[-1]]
    entries = [(TITLES[scheme], kind) for scheme, kind in KINDS.items()] + [("SVM", "s8 dashed")]
    frame = join(
        legend(entries, axes.left, 16, axes.width)[0],
        log_ticks(axes, "norm r", ticks),
        axes.beside(f"angle / {PI}"),
        level(axes, SVM, "line s8 dashed"),
        *(_cross(axes.across(math.log(PRINTED_NORM)), axes.up(PRINTED[scheme]), scheme) for scheme in KINDS),
    )
    x = np.log(np.asarray(settings.r))
    curves = [Curve(one, kind, OVER[one], x, tables[one], along="r") for one, kind in KINDS.items()]
    return Panel("Angle against the norm of theta", "Three curves over norms from 1 to 1,000.", (374, 318), axes, frame,
                 curves)  # fmt: skip


def _cross(x: float, y: float, scheme: str) -> Markup:
    """Return the mark of a printed angle."""
    text = element("title", f"{TITLES[scheme]}, printed: {PRINTED[scheme]:.2f}")
    path = f"M{num(x - 5)} {num(y - 5)}l10 10m0 -10l-10 10"
    return element("path", text, d=path, class_=f"line {KINDS[scheme].split()[0]}")


def _plane(tables: dict[str, NDArray[np.float64]], controls: Sequence[Control]) -> Markup:
    """Return the points, and lines through the origin that the script turns."""
    axes = Axes(34, 34, 240, 240, (-1.5, 1.5), (-1.5, 1.5))
    start = {one.name: one.start for one in controls}
    lines = [
        _boundary(axes, float(table[tuple(start[name] for name in (*OVER[scheme], "r"))]), KINDS[scheme], scheme)
        for scheme, table in tables.items()
    ]
    frame = join(axes.below("first feature", 3), axes.beside("", 3), _boundary(axes, SVM, "s8 dashed"))
    desc = (
        "Points of class +1 at (1, 0) and (0, 1), n copies of one of class -1 at (-1, 0), and a line for each scheme."
    )
    return canvas("Boundaries among the points", desc, 290, 318, frame, *lines, *_points(axes))


def _boundary(axes: Axes, angle: float, kind: str, scheme: str | None = None) -> Markup:
    """Return the line that is perpendicular to theta."""
    x, y, reach = axes.across(0.0), axes.up(0.0), 0.46 * axes.height
    turned = f"rotate({90.0 - 180.0 * angle:.2f} {num(x)} {num(y)})"
    path = f"M{num(x - reach)} {num(y)}L{num(x + reach)} {num(y)}"
    return element("path", d=path, class_=f"line {kind}", transform=turned, data_turns=scheme)


def _points(axes: Axes) -> list[Markup]:
    X, y = make_example3(1)
    parts = []
    for (first, second), side in zip(X, y, strict=True):
        x, top = axes.across(float(first)), axes.up(float(second))
        shape = (
            element("circle", cx=num(x), cy=num(top), r="6", class_="f4 edge")
            if side > 0
            else element("path", d=f"M{num(x - 6)} {num(top - 6)}h12v12h-12z", class_="f5 edge")
        )
        parts += [shape, label(x, top - 12, "+1" if side > 0 else "\N{MINUS SIGN}1, n copies", "small mid halo")]
    return parts
