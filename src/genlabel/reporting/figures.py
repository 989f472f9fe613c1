"""Figures of methods, points, labels and regions, by matplotlib's `Figure` without pyplot, so without a display.

In a page the colors of `PALETTE` follow its theme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from genlabel.evaluation.comparison.verdict import accuracy_in_percent, interval
from genlabel.reporting.html import clean_text, shorten
from genlabel.reporting.svg import set_tips

DPI = 160
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Colors that differ under the common kinds of color blindness (Okabe and Ito, 2008)."""
RIVALS = (OKABE_ITO[0], "#999999", OKABE_ITO[1])
"""Colors of better, the same, worse."""
TOL_NINE = ("#4F44C4", "#DDCC77", "#CC6677", "#88CCEE", "#5C5C5C", "#117733", "#AA4499", "#EE8866", "#44AA99")
"""Nine more (after Paul Tol's "muted" and "light" schemes), in an order in which neighbors on a grid differ.

Indigo and black are lighter than his, so that they are visible on a dark page too.
"""
PALETTE = ("#0072b2", "#d55e00", "#00865f", "#b85c92", "#c48400", "#5b4fc4", "#2b97cf", "#6b6b6b")
HEAT, COOL = "#e8862e", "#4a9bd4"
THEME_COLORS = {color: f"c{number}" for number, color in enumerate(PALETTE, 1)} | {HEAT: "heat", COOL: "cool"}
"""CSS variables of these colors, which have darker or lighter values on a dark page."""
GRAY = PALETTE[7]
ARM_COLORS = {"vanilla": PALETTE[0], "mixup": PALETTE[1], "GenLabel": PALETTE[2]}
"""Colors of the methods that differ in their mixing alone."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches.

    >>> new_figure(4.0, 3.0).get_size_inches().tolist()
    [4.0, 3.0]
    """
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def plain_text(text: object, length: int = 200) -> str:
    """Return a text of the user's for a figure: short, one line, without characters that SVG or mathtext reads.

    >>> plain_text("5 $ a dollar, or a euro", 12)
    '5 \\\\$ a d…euro'
    """
    return clean_text(shorten(text, length)).replace("$", r"\$")


def finish_axes(ax: Axes, title: str = "", grid: Literal["both", "x", "y"] | None = "x") -> None:
    """Set the title, draw a pale grid below everything, and remove the frame at the top and the right.

    >>> ax = new_figure(4.0, 3.0).subplots()
    >>> finish_axes(ax, "accuracy")
    >>> ax.get_title()
    'accuracy'
    """
    ax.set_title(title, fontsize=10)
    if grid:
        ax.grid(axis=grid, color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def plot_comparison(results: pd.DataFrame, title: str = "", *, test_size: float = 0.3) -> Figure:
    """Draw accuracy and log-loss of every method: each split as a point, the mean and its 95 % interval.

    Parameters
    ----------
    results : DataFrame
        Results of `genlabel.evaluation.comparison.compare`: columns method, split, accuracy, log_loss.
    title : str
    test_size : float
        Share of the rows in each test set, as given to `compare`; see `genlabel.evaluation.comparison.interval`.

    Examples
    --------
    >>> results = pd.DataFrame({"method": ["a", "a"], "split": [0, 1], "accuracy": [0.9, 0.95], "log_loss": [0.2, 0.1]})
    >>> [ax.get_xlabel() for ax in plot_comparison(results, "two splits").axes]
    ['test accuracy (%): higher is better →', '← test log-loss (nats): lower is better']
    """
    results = accuracy_in_percent(results)
    methods = list(dict.fromkeys(results["method"]))
    figure = new_figure(10.0, 1.4 + 0.25 * (title.count("\n") + bool(title)) + 0.62 * len(methods))
    left, right = figure.subplots(1, 2, sharey=True)
    _plot_score(left, results, methods, "accuracy", "{:.1f}", test_size)
    _plot_score(right, results, methods, "log_loss", "{:.3f}", test_size)
    left.set_xlabel("test accuracy (%): higher is better →")
    scale = ", logarithmic axis" if right.get_xscale() == "log" else ""
    right.set_xlabel(f"← test log-loss (nats{scale}): lower is better")
    left.set_yticks(range(len(methods)), [plain_text(name, 28) for name in methods])
    left.set_ylim(len(methods) - 0.4, -0.7)
    if title:
        figure.suptitle(title)
    key: Sequence[tuple[str, dict[str, Any]]] = (
        ("one split", {"marker": "o", "markersize": 4, "alpha": 0.6, "linewidth": 0}),
        ("mean over the splits", {"marker": "D", "markersize": 6, "linewidth": 0}),
        ("95 % interval of the mean, widened for overlapping splits", {"linewidth": 2.5}),
    )
    handles = [Line2D([], [], color=GRAY, label=label, **look) for label, look in key]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plot_score(ax: Axes, results: pd.DataFrame, methods: list[str], score: str, number: str, test_size: float) -> None:
    """Draw a row for each method: its splits, a little apart, the interval, the mean and its value."""
    values = {name: results.loc[results["method"] == name, score].to_numpy(dtype=np.float64) for name in methods}
    means = np.array([scores.mean() for scores in values.values()])
    smallest = min(scores.min() for scores in values.values())
    log_axis = score == "log_loss" and smallest > 0 and means.max() > 20 * means.min()
    if log_axis:
        ax.set_xscale("log")
    floor, ceiling = (0.0, 100.0) if score == "accuracy" else (smallest / 2 if log_axis else 0.0, np.inf)
    others = sorted(name for name in methods if name not in ARM_COLORS)  # the same colors in any order of the rows
    for row, (name, scores) in enumerate(values.items()):
        color = ARM_COLORS.get(name) or PALETTE[3 + others.index(name) % 5]
        mean = scores.mean()
        low, high = np.clip(interval(scores, test_size), floor, ceiling)
        ax.scatter(
            scores, row + np.linspace(0.14, 0.36, len(scores)), s=13, color=color, alpha=0.55, linewidths=0, zorder=2
        )
        ax.plot([low, high], [row, row], color=color, linewidth=2.5, solid_capstyle="round", zorder=3)
        (mark,) = ax.plot([mean], [row], "D", color=color, markeredgecolor="white", markersize=7, zorder=4)
        known = f" (95 % interval {number.format(low)} to {number.format(high)})" if high > low else ""
        set_tips(mark, [f"{name}: {number.format(mean)}{known}"])
        ax.annotate(
            number.format(mean), (mean, row), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=9
        )
    finish_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.08)


def class_colors(k: int) -> list[str]:
    """Return `k` colors for classes, safe for color-blind readers up to nine.

    >>> class_colors(2)
    ['#0072B2', '#D55E00']
    """
    if k <= 9:
        return list((OKABE_ITO if k <= 4 else TOL_NINE)[:k])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(color) for color in colormaps["turbo"](np.linspace(0.05, 0.95, k))]


def plot_points(ax: Axes, X: ArrayLike, y: ArrayLike, *, size: float = 6.0) -> None:
    """Draw points (n, 2) in the colors of their classes `y` (n,).

    >>> ax = Figure().subplots()
    >>> plot_points(ax, [[0.0, 0.0], [1.0, 1.0]], ["a", "b"])
    >>> len(ax.collections[0].get_offsets())
    2
    """
    points = np.asarray(X, dtype=np.float64)
    classes, index = np.unique(np.asarray(y), return_inverse=True)
    _scatter(ax, points, index, len(classes), size)


def plot_soft_labels(ax: Axes, X_mix: ArrayLike, labels: ArrayLike, *, size: float = 6.0) -> None:
    """Draw mixed points (n, 2) in the color of their top-1 label, the largest column of `labels` (n, k).

    >>> ax = Figure().subplots()
    >>> plot_soft_labels(ax, [[0.0, 0.0]], [[0.2, 0.8]])
    >>> bool((ax.collections[0].get_facecolor()[0, :3] == to_rgb(class_colors(2)[1])).all())
    True
    """
    proba = np.asarray(labels)
    _scatter(ax, np.asarray(X_mix, dtype=np.float64), proba.argmax(axis=1), proba.shape[1], size)


def plot_regions(
    ax: Axes,
    predict: Callable[[NDArray[np.float64]], Any],
    X: ArrayLike,
    y: ArrayLike,
    *,
    size: float = 3.0,
    steps: int = 300,
) -> None:
    """Draw the decision regions of a classifier of the plane, their boundaries, and the training points.

    Parameters
    ----------
    ax : Axes
        Limits that were set stay; others leave a margin around the points.
    predict : callable, (m, 2) -> (m,)
        Returns labels of the kind of `y`.
    X, y : arrays (n, 2), (n,)
        Training points; their classes give the colors.
    size : float
        Area of a point, in square points.
    steps : int
        Cells along each axis.

    Examples
    --------
    >>> ax = Figure().subplots()
    >>> plot_regions(ax, lambda X: (X[:, 0] > 0.5).astype(int), [[0.0, 0.0], [1.0, 1.0]], [0, 1], steps=20)
    >>> len(ax.images)
    1
    """
    points = np.asarray(X, dtype=np.float64)
    classes, index = np.unique(np.asarray(y), return_inverse=True)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.08 * np.maximum(high - low, 1e-9)
    if ax.get_autoscalex_on():
        ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    if ax.get_autoscaley_on():
        ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    xs, ys = (
        limits[0] + (limits[1] - limits[0]) * (np.arange(steps) + 0.5) / steps
        for limits in (ax.get_xlim(), ax.get_ylim())
    )
    grid = np.stack(np.meshgrid(xs, ys), axis=-1)
    region = np.searchsorted(classes, np.asarray(predict(grid.reshape(-1, 2)))).reshape(steps, steps)
    extent = (*ax.get_xlim(), *ax.get_ylim())
    pale = ListedColormap([to_rgba(color, 0.38) for color in class_colors(len(classes))])  # for any background
    ax.imshow(
        region, cmap=pale, vmin=-0.5, vmax=len(classes) - 0.5, extent=extent, origin="lower", aspect=ax.get_aspect()
    )
    for c in np.unique(region)[1:]:
        ax.contour(xs, ys, region == c, levels=[0.5], colors="#333333", linewidths=0.8)
    _scatter(ax, points, index, len(classes), size)


def _scatter(ax: Axes, points: NDArray[np.float64], index: NDArray[Any], k: int, size: float) -> None:
    """Draw all points as one collection, in random order: no class lies on top of the others."""
    colors = np.array([to_rgb(color) for color in class_colors(k)])
    order = np.random.default_rng(0).permutation(len(points))
    x, y = points[order].T
    ax.scatter(x, y, c=colors[index[order]], s=size, linewidths=0, rasterized=True)
