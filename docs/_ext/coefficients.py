"""Coefficients A and B with sliders: against c, and against sigma_1, with those of mixup and their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from _ext.sliders import SIGMA, Control, Curve, Panel, draw_panel, explore, level, log_ticks, path
from genlabel.reporting.charts.canvas import Axes, label, legend
from genlabel.reporting.markup import Markup, join
from genlabel_paper.theory import limit_coefficients, taylor_coefficients
from genlabel_paper.theory.coefficients import MIXUP

STEP = 6  # points of a curve from a computed value to the next; between them it is a cubic spline
SIGMA_1 = f"{SIGMA}\N{SUBSCRIPT ONE}"
ENTRIES = [("A", "s1"), ("B", "s3"), ("limits", "s8 dotted"), ("mixup's", "s2 dashed")]


class Settings(NamedTuple):
    """Powers of the root of 2: the values of the sliders."""

    c: Sequence[int] = range(-4, 5)
    sigma_1: Sequence[int] = range(0, 8)


SETTINGS = Settings()


def coefficient_table(settings: Settings) -> NDArray[np.float64]:
    """Return A and B for two features without correlation, (len(c), len(sigma_1), 2).

    >>> coefficient_table(Settings([0], [0])).round(4).tolist()
    [[[0.3986, 0.2319]]]
    """
    return np.array([[_pair(c, sigma_1) for sigma_1 in settings.sigma_1] for c in settings.c])


@cache
def _pair(c: int, sigma_1: int) -> tuple[float, float]:
    """Return A and B of powers of the root of 2; 1 / c and c sigma_1 have the same, with the classes exchanged."""
    if c < 0:
        return _pair(-c, sigma_1 + c)
    return taylor_coefficients(_power(c), 0.0, 2, _power(sigma_1))


def _power(place: int) -> float:
    return 2.0 ** (place / 2)


def figure(settings: Settings = SETTINGS) -> Markup:
    """Return the figure: A and B against c, and against sigma_1."""
    table = coefficient_table(settings)
    c, sigma_1 = ([_power(place) for place in places] for places in settings)
    controls = [
        Control("c", "c", "how much narrower class 1 is", c, c.index(2.0)),
        Control("sigma_1", SIGMA_1, "one over the width of class 0", sigma_1, sigma_1.index(2.0)),
    ]
    drawn = [draw_panel(panel, controls) for panel in (_against_c(c, table), _against_sigma(c, sigma_1, table))]
    caption = (
        "The coefficients of the expansion of the GenLabel loss for two features without correlation. Left: against c "
        f"at the {SIGMA_1} of the slider. Right: against {SIGMA_1} at its c. The theorem needs A below 1/3 and B below "
        "1/6, mixup's; A \N{MINUS SIGN} B is 1/6 always. The dots are values of taylor_coefficients; between them, the "
        "lines are splines."
    )
    return explore("coefficients", controls, [one for one, _ in drawn], [data for _, data in drawn], caption)


def _against_c(c: Sequence[float], table: NDArray[np.float64]) -> Panel:
    axes = _axes(c, 0.45)
    fine = _between(np.log(c))
    limits = np.array([limit_coefficients(math.exp(x)) for x in fine])
    curves = [
        Curve(name, kind, ("sigma_1",), fine, _smooth(np.log(c), table[..., place].T), along="c", step=STEP)
        for place, (name, kind) in enumerate(ENTRIES[:2])
    ]
    lines = [path(axes, fine, limit, "s8 dotted") for limit in limits.T]
    return _panel("A and B against c", axes, "c", c[::2], curves, lines)


def _against_sigma(c: Sequence[float], sigma_1: Sequence[float], table: NDArray[np.float64]) -> Panel:
    axes = _axes(sigma_1, 0.45)
    x = np.log(sigma_1)
    limits = np.array([limit_coefficients(one) for one in c])
    ends = np.array(axes.x)
    curves = [
        Curve(f"limit {name}", "s8 dotted", ("c",), ends, np.repeat(limits[:, place, None], 2, axis=1))
        for place, name in enumerate("AB")
    ]
    curves += [
        Curve(name, kind, ("c",), _between(x), _smooth(x, table[..., place]), along="sigma_1", step=STEP)
        for place, (name, kind) in enumerate(ENTRIES[:2])
    ]
    return _panel(f"A and B against {SIGMA_1}", axes, SIGMA_1, sigma_1[::2], curves)


def _axes(values: Sequence[float], top: float) -> Axes:
    return Axes(50, 34, 320, 240, (math.log(values[0]), math.log(values[-1])), (0.0, top))


def _between(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a grid with STEP times as many points."""
    return np.interp(np.arange((len(x) - 1) * STEP + 1) / STEP, np.arange(len(x)), x)


def _smooth(x: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a cubic spline through values (..., len(x)) on the finer grid."""
    return np.asarray(CubicSpline(x, values, axis=-1)(_between(x)))


def _panel(
    title: str, axes: Axes, words: str, ticks: Sequence[float], curves: Sequence[Curve], lines: Sequence[Markup] = ()
) -> Panel:
    right = axes.left + axes.width + 5
    frame = join(
        legend(ENTRIES, axes.left, 16, axes.width)[0],
        log_ticks(axes, words, ticks),
        axes.beside("", 5),
        *(level(axes, value, "line s2 dashed") for value in MIXUP),
        *(label(right, axes.up(value) + 4, text, "small") for value, text in zip(MIXUP, ("1/3", "1/6"), strict=True)),
        *lines,
    )
    desc = f"Two curves, their limits, and mixup's 1/3 and 1/6, over {words}."
    return Panel(title, desc, (396, 318), axes, frame, curves)
