"""Figure 7 with sliders: the angles of vanilla training, mixup and GenLabel in Example 3, by n, r, alpha and sigma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _ext.sliders import ALPHA, PI, SIGMA, THETA, control, curve, log_ticks, slider_figure
from genlabel_paper.theory import example3_angles, make_example3
from genlabel_paper.theory.example3 import PRINTED

SCHEMES = {
    "vanilla": ("vanilla", "green", ("n",)),
    "mixup": ("mixup", "orange broken", ("n", "alpha")),
    "genlabel": ("GenLabel", "blue", ("n", "alpha", "sigma")),
}
"""Title, line, and the parameters beside the norm on which the angle depends."""
SVM, PRINTED_NORM = 0.25, 25.0  # the angle in units of pi; the norm of the printed angles
MINUS = "\N{MINUS SIGN}"


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
START = {"n": 30, "r": 25.0, "alpha": 1.0, "sigma": 0.1}


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


def figure(settings: Settings = SETTINGS) -> str:
    """Return the figure: the boundaries among the points, and the angles against the norm."""
    controls = [
        control("n", "n", "copies of the negative point", settings.n, START["n"]),
        control("r", "r", f"norm of {THETA}", settings.r, START["r"]),
        control("alpha", ALPHA, f"of the law Beta({ALPHA}, {ALPHA}) that mixes", settings.alpha, START["alpha"]),
        control("sigma", SIGMA, "width of GenLabel's densities", settings.sigma, START["sigma"]),
    ]
    caption = (
        "Example 3 with other parameters. Left: the points and the boundary of each scheme at the norm r. Right: its "
        f"angle against r; crosses are the angles that the paper prints for r = 25 without its n, {ALPHA} and {SIGMA}. "
        f"Vanilla training knows n alone, mixup n and {ALPHA}. The values are those of example3_angles."
    )
    return slider_figure("angles", controls, [_plane(), _angles(settings)], caption)


def _plane() -> dict[str, object]:
    """Return the points, and lines through the origin that the script turns."""
    X, y = make_example3(1)
    marks = [
        {"shape": "circle", "kind": "pink", "x": float(a), "y": float(b), "text": "+1"}
        if side > 0
        else {"shape": "square", "kind": "gold", "x": float(a), "y": float(b), "text": f"{MINUS}1, n copies"}
        for (a, b), side in zip(X, y, strict=True)
    ]
    ticks = [(value, str(value).replace("-", MINUS)) for value in (-1, 0, 1)]
    turns = [{"kind": "grey dashed", "angle": SVM}, *({"name": key, "kind": one[1]} for key, one in SCHEMES.items())]
    return {
        "title": "Boundaries among the points", "size": [290, 318], "box": [34, 34, 240, 240], "x": [-1.5, 1.5],
        "y": [-1.5, 1.5], "x_ticks": ticks, "y_ticks": ticks, "x_label": "first feature", "marks": marks,
        "turns": turns,
    }  # fmt: skip


def _angles(settings: Settings) -> dict[str, object]:
    """Return the angles against the norm."""
    x = np.log(np.asarray(settings.r))
    tables = angle_tables(settings)
    marks = [
        {"shape": "cross", "kind": kind.split()[0], "x": float(np.log(PRINTED_NORM)), "y": PRINTED[key]}
        for key, (_, kind, _) in SCHEMES.items()
    ]
    return {
        "title": "Angle against the norm of theta", "size": [374, 318], "box": [50, 34, 300, 240],
        "x": [float(x[0]), max(float(x[-1]), float(x[0]) + 1.0)], "y": [0.0, 0.5],
        "x_ticks": log_ticks([r for r in (1, 3, 10, 25, 100, 300, 1000) if settings.r[0] <= r <= settings.r[-1]]),
        "y_ticks": [(value / 10, f"{value / 10:g}") for value in range(6)], "x_label": "norm r",
        "y_label": f"angle / {PI}", "legend": [*(one[:2] for one in SCHEMES.values()), ("SVM", "grey dashed")],
        "levels": [{"y": SVM, "kind": "grey dashed"}], "marks": marks,
        "curves": [curve(key, kind, over, x, tables[key], "r") for key, (_, kind, over) in SCHEMES.items()],
    }  # fmt: skip
