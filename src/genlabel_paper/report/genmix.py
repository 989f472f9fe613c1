"""Records and panels of the GenMix experiments: points, added points and decision regions of the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from genlabel.reporting.figures import plot_points, plot_regions
from genlabel_paper.report.experiment import mean_score
from genlabel_paper.report.results import Grid, Value
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS
from genlabel_paper.runs.methods import TITLES
from genlabel_paper.runs.plane import Regions, decode_points

PAIR_COLORS = {(0, 1): "#d62728", (0, 2): "#b58900", (1, 2): "#17a2b8", (0, 3): "#8c564b", (1, 3): "#e377c2"}
"""Colors of added points by their pair of classes: red, yellow and cyan as in arXiv Figure 13, and two more."""
METRICS = {
    "accuracy": ("Test accuracy", "%", 2),
    "smallest_margin": ("Smallest margin of the correctly classified training points", "", 3),
    "median_margin": ("Median margin of the correctly classified training points", "", 3),
    "class_margin": ("Smallest median margin of a class; misclassified points have none", "", 3),
    "equidistance_median": ("Median of |d_i - d_j| / max(d_i, d_j), d the distances of an added point to the true "
                            "curves of its two classes", "", 3),
    "equidistance_share": ("Added points for which that is at most 5 %", "%", 1),
}  # fmt: skip
"""Title, unit and decimals of each metric."""
AXES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "v": ((-1.4, 1.4), (-1.2, 1.4)),
    "ket": ((-1.4, 1.4), (-1.4, 1.4)),
    "y": ((-1.5, 1.5), (-1.6, 1.4)),
    "four-gaussians": ((-5.0, 5.0), (-3.2, 5.8)),
    "circle": ((-1.4, 1.4), (-1.4, 1.4)),
    "moon": ((-1.5, 2.4), (-1.0, 1.5)),
}
"""Axis limits of each dataset."""


def select_genmix_records(records: pd.DataFrame, datasets: Sequence[str]) -> pd.DataFrame:
    """Return the records of the GenMix setting on some datasets, with the error and the time to add points.

    >>> len(select_genmix_records(pd.DataFrame(), ["v"]))
    0
    """
    if "setting" not in records:
        names = ["setting", "dataset", "method", "alpha", "split", "seed", "parameters", "accuracy"]
        records = records.reindex(columns=names)
    chosen = records[(records["setting"] == "genmix") & records["dataset"].isin(list(datasets))]
    seconds = [parameters.get("augment_seconds", np.nan) for parameters in chosen["parameters"]]
    return chosen.assign(error=100.0 - chosen["accuracy"], augment_seconds=np.array(seconds, dtype=np.float64))


def first_records(records: pd.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records of the first split and seed, which have plot data, by dataset and method."""
    first = records[(records["split"] == 0) & (records["seed"] == 0)]
    rows: list[dict[str, Any]] = [{str(name): value for name, value in row.items()} for row in first.to_dict("records")]
    return {(row["dataset"], row["method"]): row for row in rows if "regions" in row["parameters"]}


def genmix_grid(records: pd.DataFrame, datasets: Sequence[str], methods: Sequence[str], metric: str) -> Grid:
    """Return a table of methods and datasets without printed values."""
    title, unit, digits = METRICS[metric]
    rows = [
        (TITLES[row], [Value(mean_score(records, name, row, metric), None, "not run") for name in datasets])
        for row in methods
    ]
    titles = [GENMIX_DATASETS[name].title for name in datasets]
    return Grid(title, titles, rows, unit, corner="dataset", digits=digits)


def plot_added_points(ax: Axes, record: dict[str, Any], X: NDArray[np.float64], y: NDArray[Any]) -> None:
    """Plot training points, and the added points of a record in the colors of their pairs."""
    limits = GENMIX_DATASETS[record["dataset"]].limits
    assert limits is not None
    _set_axes(ax, record["dataset"])
    plot_points(ax, X, y, size=3.0)
    points, pair = decode_points(record["parameters"]["points"], limits)
    pair = np.sort(pair, axis=1)
    for one in np.unique(pair, axis=0):
        x, height = points[(pair == one).all(axis=1)].T
        color = PAIR_COLORS.get(tuple(one.tolist()), "#7f7f7f")
        label = f"classes {one[0]} and {one[1]}"
        ax.scatter(x, height, s=7.0, color=color, linewidths=0, label=label, zorder=3, rasterized=True)


def plot_recorded_regions(ax: Axes, record: dict[str, Any], X: NDArray[np.float64], y: NDArray[Any]) -> None:
    """Plot the decision regions of a record, and the training points."""
    limits = GENMIX_DATASETS[record["dataset"]].limits
    assert limits is not None
    _set_axes(ax, record["dataset"])
    regions = Regions.decode(record["parameters"]["regions"], limits)
    plot_regions(ax, regions.predict, X, y, size=3.0, steps=400)


def _set_axes(ax: Axes, name: str) -> None:
    xlim, ylim = AXES[name]
    ax.set(xlim=xlim, ylim=ylim, aspect=1.0)
    ax.tick_params(labelsize=8)
