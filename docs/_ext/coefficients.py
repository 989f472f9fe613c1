"""Coefficients A and B with sliders: against c, and against sigma_1, with those of mixup and their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from _ext.sliders import SIGMA, control, curve, log_ticks, slider_figure
from genlabel_paper.theory import limit_coefficients, taylor_coefficients
from genlabel_paper.theory.coefficients import MIXUP

STEP = 6  # points of a curve from a computed value to the next; between them it is a cubic spline
SIGMA_1 = f"{SIGMA}\N{SUBSCRIPT ONE}"
LINES = {"A": "blue", "B": "green"}


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
    return taylor_coefficients(2.0 ** (c / 2), 0.0, 2, 2.0 ** (sigma_1 / 2))


def figure(settings: Settings = SETTINGS) -> str:
    """Return the figure: A and B against c, and against sigma_1."""
    table = coefficient_table(settings)
    c, sigma_1 = ([2.0 ** (power / 2) for power in powers] for powers in settings)
    controls = [
        control("c", "c", "how much narrower class 1 is", c, 2.0),
        control("sigma_1", SIGMA_1, "one over the width of class 0", sigma_1, 2.0),
    ]
    caption = (
        "The coefficients of the expansion of the GenLabel loss for two features without correlation. Left: against c "
        f"at the {SIGMA_1} of the slider. Right: against {SIGMA_1} at its c. The theorem needs A below 1/3 and B below "
        "1/6, mixup's; A \N{MINUS SIGN} B is 1/6 always. The dots are values of taylor_coefficients; between them, the "
        "lines are splines."
    )
    return slider_figure("coefficients", controls, [_against_c(c, table), _against_sigma(c, sigma_1, table)], caption)


def _against_c(c: Sequence[float], table: NDArray[np.float64]) -> dict[str, object]:
    fine = _refine(np.log(c))
    limits = np.array([limit_coefficients(math.exp(x)) for x in fine])
    curves = [curve(f"limit {name} of c", "grey dotted", (), fine, limits[:, k]) for k, name in enumerate("AB")]
    values = [_smooth(np.log(c), table[..., k].T) for k in range(2)]
    curves += [
        curve(name, kind, ("sigma_1",), fine, values[k], "c", STEP) for k, (name, kind) in enumerate(LINES.items())
    ]
    return _panel("c", c, curves)


def _against_sigma(c: Sequence[float], sigma_1: Sequence[float], table: NDArray[np.float64]) -> dict[str, object]:
    x = np.log(sigma_1)
    limits = np.array([limit_coefficients(one) for one in c])
    ends = [np.repeat(limits[:, k, None], 2, axis=1) for k in range(2)]
    curves = [curve(f"limit {name}", "grey dotted", ("c",), x[[0, -1]], ends[k]) for k, name in enumerate("AB")]
    values = [_smooth(x, table[..., k]) for k in range(2)]
    curves += [curve(name, LINES[name], ("c",), _refine(x), values[k], "sigma_1", STEP) for k, name in enumerate("AB")]
    return _panel(SIGMA_1, sigma_1, curves)


def _refine(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a grid with STEP times as many points."""
    return np.interp(np.arange((len(x) - 1) * STEP + 1) / STEP, np.arange(len(x)), x)


def _smooth(x: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a cubic spline through values (..., len(x)) on the finer grid."""
    return np.asarray(CubicSpline(x, values, axis=-1)(_refine(x)))


def _panel(label: str, values: Sequence[float], curves: Sequence[object]) -> dict[str, object]:
    legend = [*LINES.items(), ("limits", "grey dotted"), ("mixup's", "orange dashed")]
    levels = [{"y": y, "kind": "orange dashed", "text": text} for y, text in zip(MIXUP, ("1/3", "1/6"), strict=True)]
    return {
        "title": f"A and B against {label}", "size": [396, 318], "box": [50, 34, 320, 240],
        "x": [math.log(values[0]), math.log(values[-1])], "y": [0.0, 0.45], "x_ticks": log_ticks(values[::2]),
        "y_ticks": [(value / 10, f"{value / 10:g}") for value in range(5)], "x_label": label, "legend": legend,
        "levels": levels, "curves": curves,
    }  # fmt: skip
