"""Figures of comparisons, diagnoses, points and decision regions, by matplotlib's `Figure` without pyplot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from genlabel.evaluation.comparison import accuracy_in_percent, interval
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import NO_MIXING, PairedExperiment
from genlabel.reporting import charts
from genlabel.reporting.html import name_of, percent
from genlabel.reporting.svg import set_tips

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Colors that differ under the common kinds of color blindness (Okabe and Ito, 2008)."""
RIVALS = (OKABE_ITO[0], "#999999", OKABE_ITO[1])
"""Colors of better, the same, worse."""
TOL_NINE = ("#4F44C4", "#DDCC77", "#CC6677", "#88CCEE", "#5C5C5C", "#117733", "#AA4499", "#EE8866", "#44AA99")
"""Nine colors after Paul Tol's "muted" and "light" schemes, in an order in which neighbors on a grid differ.

Indigo and black are lighter than in his schemes, to be visible on a dark page too.
"""
MAX_CLASSES_PANEL, MAX_CLASSES = 8, 26
"""Largest number of classes drawn as a heat map: in a panel, in its own figure; else the worst pairs are listed."""
MAX_PAIRS, MAX_CURVES = 12, 3


def plot_comparison(results: pd.DataFrame, title: str = "", *, test_size: float = 0.3, narrow: bool = False) -> Figure:
    """Draw accuracy and log-loss of every method: each split as a point, the mean and its 95 % interval.

    Parameters
    ----------
    results : DataFrame
        Results of `genlabel.evaluation.comparison.compare`: columns method, split, accuracy, log_loss.
    title : str
    test_size : float
        Share of the rows in each test set, as given to `compare`.
    narrow : bool
        True puts the log-loss below the accuracy, for the screen of a phone.

    Examples
    --------
    >>> results = pd.DataFrame({"method": ["a", "a"], "split": [0, 1], "accuracy": [0.9, 0.95], "log_loss": [0.2, 0.1]})
    >>> [ax.get_xlabel().splitlines()[0] for ax in plot_comparison(results, "two splits").axes]
    ['accuracy on unseen rows (%)', 'log-loss on unseen rows']
    """
    results = accuracy_in_percent(results)
    methods = list(dict.fromkeys(results["method"]))
    if narrow:
        figure = charts.new_figure(charts.PAGE_WIDTH, 2.0 + len(methods))
        left, right = figure.subplots(2, 1, sharey=True)
    else:
        figure = charts.new_figure(10.0, 1.4 + 0.25 * (title.count("\n") + bool(title)) + 0.62 * len(methods))
        left, right = figure.subplots(1, 2, sharey=True)
    _plot_score(left, results, methods, "accuracy", 1, test_size)
    _plot_score(right, results, methods, "log_loss", 3, test_size)
    left.set(xlabel="accuracy on unseen rows (%)\nhigher is better →", ylim=(len(methods) - 0.4, -0.7))
    left.set_yticks(
        range(len(methods)), [charts.plain_text(name, charts.MAX_LINE if narrow else 28) for name in methods]
    )
    scale = " (logarithmic axis)" if right.get_xscale() == "log" else ""
    right.set_xlabel(f"log-loss on unseen rows{scale}\n← lower is better")
    if title:
        figure.suptitle(title)
    key: Sequence[tuple[str, dict[str, Any]]] = (
        ("one split", {"marker": "o", "markersize": 4, "alpha": 0.6, "linewidth": 0}),
        ("mean over the splits", {"marker": "D", "markersize": 6, "linewidth": 0}),
        ("95 % interval of the mean over the splits", {"linewidth": 2.5}),
    )
    handles = [Line2D([], [], color=charts.GRAY, label=label, **look) for label, look in key]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if narrow else 3, frameon=False, fontsize=9)
    return figure


def _plot_score(ax: Axes, results: pd.DataFrame, methods: list[str], score: str, digits: int, test_size: float) -> None:
    """Draw a row for each method: its splits, spread out a little, the interval, the mean and its value."""
    values = {name: results.loc[results["method"] == name, score].to_numpy(dtype=np.float64) for name in methods}
    means = np.array([scores.mean() for scores in values.values()])
    smallest = min(scores.min() for scores in values.values())
    log_axis = score == "log_loss" and smallest > 0 and means.max() > 20 * means.min()
    if log_axis:
        ax.set_xscale("log")
    floor, ceiling = smallest / 2 if log_axis else 0.0, 100.0 if score == "accuracy" else np.inf
    others = sorted(set(methods) - charts.ARM_COLORS.keys())  # the same colors in any order of the rows
    for row, (name, scores) in enumerate(values.items()):
        color = charts.ARM_COLORS.get(name) or charts.PALETTE[3 + others.index(name) % 5]
        mean = scores.mean()
        low, high = np.clip(interval(scores, test_size), floor, ceiling)
        ax.scatter(
            scores, row + np.linspace(0.14, 0.36, len(scores)), s=13, color=color, alpha=0.55, linewidths=0, zorder=2
        )
        ax.plot([low, high], [row, row], color=color, linewidth=2.5, solid_capstyle="round", zorder=3)
        (mark,) = ax.plot([mean], [row], "D", color=color, markeredgecolor="white", markersize=7, zorder=4)
        ends = f" (95 % interval {low:.{digits}f} to {high:.{digits}f})" if high > low else ""
        text = f"{mean:.{digits}f}"
        set_tips(mark, [f"{name}: {text}{ends}"])
        ax.annotate(text, (mean, row), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=9)
    charts.finish_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.08)


def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw the result of `genlabel.diagnose`: one panel where the stacked density is not trusted, else four.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import diagnose
    >>> len(plot_diagnosis(diagnose(*load_iris(return_X_y=True), cv=2)).axes)
    4
    """
    mixed, experiment = diagnosis.mixed, diagnosis.experiment
    figure = charts.new_figure(7.0, 3.6) if mixed is None else charts.new_figure(11.5, 8.4)
    size = diagnosis.size
    figure.suptitle(f"{diagnosis.verdict.sentence}\n{size}", fontsize=12)
    if mixed is None:
        draw_density_check(figure.subplots(), diagnosis.density_check)
        return figure
    (check, intrusion), (labels, gains) = figure.subplots(2, 2)
    draw_density_check(check, diagnosis.density_check)
    draw_intrusion(intrusion, diagnosis, mixed, MAX_CLASSES_PANEL)
    draw_label_distance(labels, diagnosis, mixed)
    if experiment is None:
        gains.set_axis_off()
    else:
        draw_gains(gains, experiment)
    return figure


def draw_density_check(ax: Axes, check: DensityCheck) -> None:
    """Draw the log-losses of the stacked density, of logistic regression and of the class priors, with intervals."""
    gains = {"logistic regression": check.over_logistic, "class priors": check.over_prior}
    losses = {"stacked density": check.density, "logistic regression": check.logistic, "class priors": check.prior}
    high = {name: check.density + gain.high for name, gain in gains.items() if np.isfinite(gain.low)}
    bars = []
    for name, value in losses.items():
        color, alpha = (charts.GRAY, 0.4) if name in gains else (charts.PALETTE[2], 1.0)
        bars.append(charts.Bar(name, value, f"{value:.3f}", color, alpha, high.get(name, value)))
    axis = f"log-loss on {check.rows} unseen rows\n← lower is better"
    charts.draw_bars(ax, bars, f"{axis}\nlines: 95 % interval of the difference\nto the stacked density")
    for y, (name, gain) in enumerate(gains.items(), 1):
        if name in high:
            ax.plot([check.density + gain.low, high[name]], [y, y], color="black", linewidth=1.5)
    if np.isfinite(check.density):
        ax.axvline(check.density, color=charts.PALETTE[2], linewidth=1.0, linestyle=":")
    ax.set_title(f"The stacked density is {'' if check.trusted else 'not '}trusted", fontsize=10)


def draw_intrusion(ax: Axes, diagnosis: Diagnosis, mixed: MixedSampleStats, max_classes: int = MAX_CLASSES) -> None:
    """Draw how often mixed samples land among another class: a heat map of the pairs, or a list of the worst ones."""
    pairs, k = mixed.pairs, len(diagnosis.classes)
    title = f"Mixed rows among another class:\n{percent(mixed.means['intrusion'])}"
    title += f" ({percent(mixed.chance)} with random labels)"
    names = short_names(diagnosis.classes, 14 if k <= 4 else 12)
    if k > max_classes:
        worst = diagnosis.to_frame("pairs", MAX_PAIRS)[["class_1", "class_2", "intrusion", "low", "high"]]
        rows = [
            charts.Interval(f"{names[first]} with {names[second]}", share, low, high, charts.PALETTE[1])
            for first, second, share, low, high in worst.itertuples(index=False)
        ]
        charts.draw_intervals(ax, rows, "share of mixed rows; line: 95 % interval", digits=2)
        ax.set_title(title, fontsize=10)
        return
    classes = diagnosis.classes.tolist()
    top = max(0.3, float(pairs["intrusion"].max()))
    cells = []
    for pair in pairs.to_dict("records"):
        share, low, high = (100 * float(pair[name]) for name in ("intrusion", "low", "high"))
        text = f"{share:.0f} %\n{low:.0f} to {high:.0f}" if k <= 4 else f"{share:.0f}"
        tip = (
            f"{name_of(pair['class_1'])} with {name_of(pair['class_2'])}: {percent(pair['intrusion'])} of "
            f"{pair['n_mixed']} mixed rows (95 % interval {percent(pair['low'], 0)} to {percent(pair['high'], 0)})\n"
            f"with random labels {percent(pair['permuted'], 0)}, unlike any row {percent(pair['atypical'], 0)}"
        )
        row, column = classes.index(pair["class_2"]), classes.index(pair["class_1"])
        cells.append(charts.HeatCell(row, column, share / 100 / top, text, tip))
    charts.draw_heat_map(ax, list(names.values()), cells, across="class of one parent", down="class of the other")
    if k <= 4:
        ax.set_xlabel(f"{ax.get_xlabel()}\nbelow the share: 95 % interval, in %")
    ax.set_title(title, fontsize=10)


def draw_label_distance(ax: Axes, diagnosis: Diagnosis, mixed: MixedSampleStats) -> None:
    """Draw the distance of the two labels along lambda, for all mixed samples and for the pairs where it is largest."""
    lambdas, names = mixed.lambdas, short_names(diagnosis.classes, 12)
    weighted = lambdas.merge(mixed.pairs[["class_1", "class_2", "weight"]], on=["class_1", "class_2"])
    mass = weighted["weight"] * weighted["n_mixed"]
    bins = [weighted["lam_low"], weighted["lam_high"]]
    overall = (mass * weighted["total_variation"]).groupby(bins).sum() / mass.groupby(bins).sum()
    middles = [(low + high) / 2 for low, high in overall.index]
    ax.plot(middles, overall, "o-", color="black", linewidth=2, label="all mixed rows")
    worst = mixed.pairs.sort_values("total_variation", ascending=False).head(MAX_CURVES)
    for color, first, second in zip(charts.PALETTE, worst["class_1"], worst["class_2"], strict=False):
        of_pair = lambdas[(lambdas["class_1"] == first) & (lambdas["class_2"] == second)]
        middle = (of_pair["lam_low"] + of_pair["lam_high"]) / 2
        ax.plot(middle, of_pair["total_variation"], "o--", color=color, label=f"{names[first]} with {names[second]}")
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="lambda: weight of the first class")
    ax.set_ylabel("total variation: 0 same, 1 disjoint")
    ax.legend(fontsize=8, frameon=False, loc="best")
    charts.finish_axes(ax, "Distance of mixup's label to the stacked density's")


def draw_gains(ax: Axes, experiment: PairedExperiment) -> None:
    """Draw the gains of the paired experiment with their intervals, around a line at zero."""
    ax.axvline(0.0, color="black", linewidth=1.0)
    rows = []
    for name, gain in experiment.gains.items():
        rows.append(charts.Interval(name, *gain, charts.ARM_COLORS[name.partition(" over ")[0]]))
    charts.draw_intervals(ax, rows, "fall of the log-loss; line: 90 % interval\nhigher is better →")
    reach = 1.15 * max(abs(end) for end in ax.get_xlim())
    if np.isfinite(reach):
        ax.set_xlim(-reach, reach)
    ax.xaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    ax.set_title(f"Without mixing the log-loss is {experiment.log_loss[NO_MIXING]:.3f}", fontsize=10)


def short_names(classes: Any, length: int) -> dict[Any, str]:
    """Return the name of each class in at most `length` characters; names that begin alike get a number.

    >>> short_names(["lily", "lily of the valley", "lily of the Nile"], 12)
    {'lily': 'lily', 'lily of the valley': '2: lily of …', 'lily of the Nile': '3: lily of …'}
    """
    cut = [name if len(name) <= length else name[: length - 1] + "…" for name in map(str, classes)]
    return {
        key: charts.plain_text(name if cut.count(name) == 1 else f"{number}: {name[: length - 4]}…")
        for number, (key, name) in enumerate(zip(classes, cut, strict=True), 1)
    }


def class_colors(k: int) -> list[str]:
    """Return `k` colors for classes, safe for color-blind readers up to nine."""
    if k <= 9:
        return list((OKABE_ITO if k <= 4 else TOL_NINE)[:k])
    return [to_hex(color) for color in colormaps["turbo"](np.linspace(0.05, 0.95, k))]


def plot_points(ax: Axes, X: ArrayLike, y: ArrayLike, *, size: float = 6.0) -> None:
    """Draw points (n, 2) in the colors of their classes (n,), or of the largest column of their soft labels (n, k).

    >>> ax = Figure().subplots()
    >>> plot_points(ax, [[0.0, 0.0]], [[0.2, 0.8]])
    >>> bool((ax.collections[0].get_facecolor()[0, :3] == to_rgb(class_colors(2)[1])).all())
    True
    """
    labels = np.asarray(y)
    if labels.ndim == 2:
        classes, index = np.arange(labels.shape[1]), labels.argmax(axis=1)
    else:
        classes, index = np.unique(labels, return_inverse=True)
    colors = np.array([to_rgb(color) for color in class_colors(len(classes))])
    order = np.random.default_rng(0).permutation(len(index))  # no class lies on top of the others
    first, second = np.asarray(X, dtype=np.float64)[order].T
    ax.scatter(first, second, c=colors[index[order]], s=size, linewidths=0, rasterized=True)


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
    classes = np.unique(y)
    margin = 0.08 * np.maximum(np.ptp(points, axis=0), 1e-9)
    (left, bottom), (right, top) = points.min(axis=0) - margin, points.max(axis=0) + margin
    if ax.get_autoscalex_on():
        ax.set_xlim(left, right)
    if ax.get_autoscaley_on():
        ax.set_ylim(bottom, top)
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
    plot_points(ax, points, y, size=size)
