"""Pictures that explain themselves: methods on one table, on many, and points, labels and regions in the plane.

Drawn with matplotlib's `Figure` and without pyplot, so that no display is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from genlabel.evaluation.comparison import interval

DPI = 160
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Colours that remain apart under the common kinds of colour blindness (Okabe and Ito, 2008)."""
RIVALS = (OKABE_ITO[0], "#999999", OKABE_ITO[1])
"""Better, the same, worse."""
TOL_NINE = ("#4F44C4", "#DDCC77", "#CC6677", "#88CCEE", "#5C5C5C", "#117733", "#AA4499", "#EE8866", "#44AA99")
"""Nine more (after Paul Tol's "muted" and "light" schemes), in an order in which neighbours on a grid differ.

Indigo and black are lighter than his, so that they are seen on a dark page too.
"""


def plot_comparison(results: pd.DataFrame, title: str, *, test_size: float = 0.3) -> Figure:
    """Draw accuracy and log-loss of every method: each split a point, the mean and its 95 % interval.

    Parameters
    ----------
    results : DataFrame
        What `genlabel.evaluation.comparison.compare` returns: columns method, split, accuracy, log_loss.
    title : str
    test_size : float
        The share that was held out, as given to `compare`; see `genlabel.evaluation.comparison.interval`.

    Examples
    --------
    >>> results = pd.DataFrame({"method": ["a", "a"], "split": [0, 1], "accuracy": [90, 95], "log_loss": [0.2, 0.1]})
    >>> [ax.get_xlabel() for ax in plot_comparison(results, "two splits").axes]
    ['test accuracy (%): higher is better →', '← test log-loss (nats): lower is better']
    """
    methods = list(dict.fromkeys(results["method"]))
    figure = Figure(figsize=(10.0, 1.9 + 0.62 * len(methods)), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _plot_score(left, results, methods, "accuracy", "{:.1f}", test_size)
    _plot_score(right, results, methods, "log_loss", "{:.3f}", test_size)
    left.set_xlabel("test accuracy (%): higher is better →")
    scale = ", logarithmic axis" if right.get_xscale() == "log" else ""
    right.set_xlabel(f"← test log-loss (nats{scale}): lower is better")
    left.set_yticks(range(len(methods)), methods)
    left.set_ylim(len(methods) - 0.4, -0.7)
    figure.suptitle(title)
    figure.legend(handles=_key(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def class_colors(k: int) -> list[str]:
    """Return `k` colours for classes, safe for colour-blind readers up to nine.

    >>> class_colors(2)
    ['#0072B2', '#D55E00']
    """
    if k <= 9:
        return list((OKABE_ITO if k <= 4 else TOL_NINE)[:k])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(color) for color in colormaps["turbo"](np.linspace(0.05, 0.95, k))]


def plot_points(ax: Axes, X: ArrayLike, y: ArrayLike, *, size: float = 6.0) -> None:
    """Draw points (n, 2) in the colours of their classes `y` (n,).

    >>> ax = Figure().subplots()
    >>> plot_points(ax, [[0.0, 0.0], [1.0, 1.0]], ["a", "b"])
    >>> len(ax.collections[0].get_offsets())
    2
    """
    points = np.asarray(X, dtype=np.float64)
    classes, index = np.unique(np.asarray(y), return_inverse=True)
    _scatter(ax, points, index, len(classes), size)


def plot_soft_labels(ax: Axes, X_mix: ArrayLike, labels: ArrayLike, *, size: float = 6.0) -> None:
    """Draw mixed points (n, 2) in the colour of their top-1 label, the largest column of `labels` (n, k).

    >>> ax = Figure().subplots()
    >>> plot_soft_labels(ax, [[0.0, 0.0]], [[0.2, 0.8]])
    >>> bool((ax.collections[0].get_facecolor()[0, :3] == to_rgb(class_colors(2)[1])).all())
    True
    """
    shares = np.asarray(labels)
    _scatter(ax, np.asarray(X_mix, dtype=np.float64), shares.argmax(axis=1), shares.shape[1], size)


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
        Limits that were set are kept, others leave a margin around the points.
    predict : callable, (m, 2) -> (m,)
        Returns labels of the kind of `y`.
    X, y : arrays (n, 2), (n,)
        The training points; their classes give the colours.
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
    _set_limits(ax, points)
    xs, ys = _centres(ax.get_xlim(), steps), _centres(ax.get_ylim(), steps)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1)
    region = np.searchsorted(classes, np.asarray(predict(grid.reshape(-1, 2)))).reshape(steps, steps)
    extent = (*ax.get_xlim(), *ax.get_ylim())
    pale = ListedColormap([to_rgba(color, 0.38) for color in class_colors(len(classes))])  # on any ground
    ax.imshow(
        region, cmap=pale, vmin=-0.5, vmax=len(classes) - 0.5, extent=extent, origin="lower", aspect=ax.get_aspect()
    )
    for c in np.unique(region)[1:]:
        ax.contour(xs, ys, region == c, levels=[0.5], colors="#333333", linewidths=0.8)
    _scatter(ax, points, index, len(classes), size)


def _set_limits(ax: Axes, points: NDArray[np.float64]) -> None:
    """Leave a margin around the points, along each axis whose limits are not set."""
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.08 * np.maximum(high - low, 1e-9)
    if ax.get_autoscalex_on():
        ax.set_xlim(low[0] - pad[0], high[0] + pad[0])
    if ax.get_autoscaley_on():
        ax.set_ylim(low[1] - pad[1], high[1] + pad[1])


def _centres(limits: tuple[float, float], steps: int) -> NDArray[np.float64]:
    """Centres of `steps` cells between the limits."""
    return limits[0] + (limits[1] - limits[0]) * (np.arange(steps) + 0.5) / steps


def _scatter(ax: Axes, points: NDArray[np.float64], index: NDArray[Any], k: int, size: float) -> None:
    """One collection for all points, in random order: no class lies on top of the others."""
    colors = np.array([to_rgb(color) for color in class_colors(k)])
    order = np.random.default_rng(0).permutation(len(points))
    x, y = points[order].T
    ax.scatter(x, y, c=colors[index[order]], s=size, linewidths=0, rasterized=True)


def _plot_score(ax: Axes, results: pd.DataFrame, methods: list[str], score: str, number: str, test_size: float) -> None:
    """A row for each method: its splits, spread a little to remain apart, the interval, the mean and its number."""
    values = {name: results.loc[results["method"] == name, score].to_numpy(dtype=np.float64) for name in methods}
    log_axis = _needs_log_axis(values) and score == "log_loss"
    if log_axis:
        ax.set_xscale("log")
    floor, ceiling = (0.0, 100.0) if score == "accuracy" else (min(v.min() for v in values.values()) / 2, np.inf)
    for row, name in enumerate(methods):
        color, scores = OKABE_ITO[row % 7], values[name]
        low, high = np.clip(interval(scores, test_size), floor if log_axis or score == "accuracy" else 0.0, ceiling)
        spread = row + np.linspace(0.14, 0.36, len(scores))
        ax.scatter(scores, spread, s=13, color=color, alpha=0.55, linewidths=0, zorder=2)
        ax.plot([low, high], [row, row], color=color, linewidth=2.5, solid_capstyle="round", zorder=3)
        ax.plot([scores.mean()], [row], "D", color=color, markeredgecolor="white", markersize=7, zorder=4)
        ax.annotate(
            number.format(scores.mean()),
            (scores.mean(), row),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color="#222222",
        )
    ax.grid(axis="x", color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.08)


def _needs_log_axis(values: dict[str, NDArray[np.float64]]) -> bool:
    """Would the smallest mean vanish beside the largest?"""
    means = np.array([scores.mean() for scores in values.values()])
    return bool(min(scores.min() for scores in values.values()) > 0 and means.max() > 20 * means.min())


def _key() -> list[Line2D]:
    """What the marks mean, in grey, for every method alike."""
    return [
        Line2D([], [], marker="o", markersize=4, alpha=0.6, linewidth=0, color="#555555", label="one split"),
        Line2D([], [], marker="D", markersize=6, linewidth=0, color="#555555", label="mean over the splits"),
        Line2D(
            [], [], linewidth=2.5, color="#555555", label="95 % interval of the mean, widened for overlapping splits"
        ),
    ]
