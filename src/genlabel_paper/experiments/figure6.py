"""Figure 6: GenLabel fixes manifold intrusion; labels, decision regions and margins on two datasets of the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from genlabel import GenLabel, LinearLabel, Mixup
from genlabel.attacks import linear_margins
from genlabel.data.datasets.synthetic import NINE_CENTERS
from genlabel.densities import ClassDensity
from genlabel.mixing import MixParams
from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import plot_points, plot_regions
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score, select_records
from genlabel_paper.report.results import (
    FULL_TRIALS,
    NOTHING_MEASURED,
    CaptionedFigure,
    Claim,
    Grid,
    Measured,
    Rendering,
    Value,
)
from genlabel_paper.report.statements import PairedMeans, above, judge
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.data import load_split
from genlabel_paper.runs.plane import GRID_CELLS, PLOT_LIMITS, Regions, margin_points
from genlabel_paper.runs.table_settings import NINE, RINGS

GENLABEL = {"nine-gaussians": "genlabel-gm", "two-circle": "genlabel-kde"}
"""GenLabel method of each dataset."""
NAMES = {"nine-gaussians": "9-class Gaussian", "two-circle": "Two-circle"}
TITLES = {"vanilla": "Vanilla", "mixup": "Mixup", "genlabel": "Mixup + GenLabel"}
METRICS = {
    "accuracy": ("Test accuracy", "%"),
    "smallest_margin": ("Smallest margin", ""),
    "median_margin": ("Median margin", ""),
}
CONFLICT, RESOLVED = 10.0, 1.0
"""Percentages of mixed points with a conflict that count as many and as few."""
BRIEFS = ("the largest smallest margin", "labels without conflicts")
NOTES = (
    "9-class Gaussian: 1000 points of each class, network (64, 128). Two-circle: 1000 of each circle, network (64, "
    "128, 128). GenLabel has gamma 1; for the 9 classes the true means and identity covariance, as in the paper; for "
    "Two-circle kernels whose bandwidth, which is not printed, is that of the best leave-one-out likelihood.",
    "A margin is the distance to the decision boundary, found by search, in the units of the axes; over those of 300 "
    "correctly classified training points.",
    "The paper prints no number here. The figure is of the first split and seed, from the recorded regions.",
)


class LabeledMixture(NamedTuple):
    """Dataset with plotted mixed points and their labels."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    mixed: NDArray[np.float64]
    linear: NDArray[np.float64]
    """Labels (n, k) of the mixed points by mixup."""
    generative: NDArray[np.float64]
    """Labels (n, k) of the mixed points by GenLabel."""
    lam: str
    """Description of the mixing."""

    def conflicts(self, labels: NDArray[np.float64]) -> float:
        """Return the percentage of mixed points whose largest label is not the class of the nearest training point."""
        _, nearest = cKDTree(self.X).query(self.mixed)
        return float(100.0 * (labels.argmax(axis=1) != self.y[nearest]).mean())


@cache
def _labeled_mixture(dataset: str) -> LabeledMixture:
    """Return the first draw of a dataset, mixed once: lam is 0.6 for the 9 classes, as in the paper, else uniform."""
    data = load_split(dataset, split=0)
    n, rng = len(data.X), np.random.default_rng([0, 1])
    if dataset == "nine-gaussians":
        draw, lam = MixParams(rng.permutation(n), np.full(n, 0.6)), "$\\lambda$ = 0.6"
    else:
        draw, lam = Mixup(alpha=1.0).draw(n, rng), "uniform $\\lambda$"
    mixed = Mixup().mix(data.X, draw)
    density: ClassDensity = NINE if dataset == "nine-gaussians" else RINGS
    linear, generative = (
        labeler.fit(data.X, data.y).label(mixed, data.y, draw) for labeler in (LinearLabel(), GenLabel(density))
    )
    return LabeledMixture(data.X, data.y, mixed, linear, generative, lam)


def render(records: pd.DataFrame) -> Rendering:
    """Show accuracy and margins on both datasets, and the regions that are recorded; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None, None]
    """
    chosen = select_records(records, "plane").replace({"method": dict.fromkeys(GENLABEL.values(), "genlabel")})
    grids = [_grid(chosen, metric) for metric in METRICS]
    claims = [_margin_claim(chosen), _label_claim(bool(len(chosen)))]
    regions = _regions(chosen)
    figures = [_figure(regions, chosen)] if regions else []
    notes = [coverage(chosen, list(NAMES), list(TITLES)), *NOTES, *([_true_margins_note()] if len(chosen) else [])]
    return Rendering(grids, claims, figures, notes)


def _true_margins_note() -> str:
    """Return a note on the margins of the true boundary of the 9 classes, over the measured points."""
    data = load_split("nine-gaussians", split=0)
    chosen = margin_points(len(data.X), seed=0)
    exact = linear_margins(NINE_CENTERS, data.X[chosen], data.y[chosen], -0.5 * (NINE_CENTERS**2).sum(axis=1))
    return (
        "The nearest center, the true boundary of the 9 classes, has margins whose smallest is "
        f"{exact.min():.3g} and whose median is {np.median(exact):.3g}, over the same points of the first split."
    )


def _grid(records: pd.DataFrame, metric: str) -> Grid:
    title, unit = METRICS[metric]
    rows = [
        (heading, [Value(mean_score(records, name, method, metric), None, "not run") for name in NAMES])
        for method, heading in TITLES.items()
    ]
    return Grid(title, list(NAMES.values()), rows, unit, list(TITLES.values()), "dataset", digits=2 if unit else 3)


def _margin_claim(records: pd.DataFrame) -> Claim:
    """Return the claim that GenLabel's smallest margin is the largest, on average, on both datasets."""
    scores = {name: [mean_score(records, name, method, "smallest_margin") for method in TITLES] for name in NAMES}
    text = (
        "Vanilla training and mixup have small margins for some samples, GenLabel has large ones for all: its smallest "
        "margin is the largest of the three on both datasets."
    )
    quote = "mixup combined with GenLabel enjoys a large margin for all samples"
    known = [values for values in map(_complete, scores.values()) if values]
    if len(known) < len(NAMES):
        return Claim(text, quote, NOTHING_MEASURED, None, brief=BRIEFS[0])
    words = [
        f"{NAMES[name]}: {ours.mean:.3g} against {vanilla.mean:.3g} (vanilla) and {mixup.mean:.3g} (mixup)"
        for name, (vanilla, mixup, ours) in zip(NAMES, known, strict=True)
    ]
    paired = PairedMeans(records, list(NAMES), "smallest_margin")
    holds, interval = judge(above("genlabel", ("vanilla", "mixup")), paired, list(NAMES))
    trials = min(value.splits * value.seeds for values in known for value in values)
    return Claim(text, quote, "; ".join([*words, interval]), holds, trials, brief=BRIEFS[0])


def _complete(values: Sequence[Measured | None]) -> list[Measured]:
    """Return the values, or an empty list if one is missing."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _label_claim(has_records: bool) -> Claim:
    """Return the claim that mixup's labels conflict with the classes of mixed points, and GenLabel's do not."""
    text = (
        f"Mixup's largest label conflicts with the nearest training point's class for many mixed points (over "
        f"{CONFLICT:g} %) of both datasets; GenLabel's does not (below {RESOLVED:g} %)."
    )
    quote = "the conventional labeling causes the conflict for a large number of points; GenLabel has resolved it"
    if not has_records:
        return Claim(text, quote, NOTHING_MEASURED, None, brief=BRIEFS[1])
    shares = {
        name: (mixture.conflicts(mixture.linear), mixture.conflicts(mixture.generative))
        for name, mixture in _labeled_mixtures()
    }
    words = [f"{NAMES[name]}: {mixup:.1f} % (mixup), {ours:.1f} % (GenLabel)" for name, (mixup, ours) in shares.items()]
    holds = all(mixup > CONFLICT and ours < RESOLVED for mixup, ours in shares.values())
    return Claim(text, quote, "; ".join(words), holds, FULL_TRIALS, brief=BRIEFS[1])


def _labeled_mixtures() -> list[tuple[str, LabeledMixture]]:
    return [(name, _labeled_mixture(name)) for name in NAMES]


def _regions(records: pd.DataFrame) -> dict[tuple[str, str], Regions]:
    """Return the regions by dataset and method; none if one is not recorded."""
    first = records[(records["split"] == 0) & (records["seed"] == 0)]
    regions = {
        (str(row["dataset"]), str(row["method"])): Regions.decode(
            row["parameters"]["regions"], PLOT_LIMITS[row["dataset"]]
        )
        for row in first.to_dict("records")
        if "regions" in row["parameters"]
    }
    return regions if len(regions) == len(NAMES) * len(TITLES) else {}


def _figure(regions: Mapping[tuple[str, str], Regions], records: pd.DataFrame) -> CaptionedFigure:
    """Plot both datasets: points, labels of mixed points, regions."""
    figure = Figure(figsize=(17.0, 5.4), dpi=DPI, layout="constrained")
    ratios = [PLOT_LIMITS[name][1] / PLOT_LIMITS[name][0] for name in NAMES]
    grid = figure.subplots(len(NAMES), 6, gridspec_kw={"height_ratios": ratios})
    first = records[(records["split"] == 0) & (records["seed"] == 0)]
    for axes, (name, mixture) in zip(grid, _labeled_mixtures(), strict=True):
        for ax in axes:
            width, height = PLOT_LIMITS[name]
            ax.set(xlim=(-width, width), ylim=(-height, height), aspect=1.0)
            ax.tick_params(labelsize=8)
        _plot_labels(axes[:3], mixture)
        axes[0].set_ylabel(NAMES[name], fontsize=13)
        for ax, method in zip(axes[3:], TITLES, strict=True):
            plot_regions(ax, regions[name, method].predict, mixture.X, mixture.y, size=2.0, steps=GRID_CELLS)
            record = first[(first["dataset"] == name) & (first["method"] == method)]
            ax.set_xlabel(_describe_scores(record), fontsize=10)
    for ax, title in zip(grid[0], _titles(), strict=True):
        ax.set_title(title, fontsize=12)
    caption = (
        "Training points; mixed points in the color of their largest label under mixup and under GenLabel; the "
        "decision regions of vanilla training, mixup and GenLabel. Top: 9-class Gaussian. Bottom: Two-circle."
    )
    return CaptionedFigure(caption, figure)


def _titles() -> list[str]:
    titles = ["training points"]
    titles += [f"labels of mixed points:\n{name}" for name in ("mixup", "GenLabel")]
    titles += [f"decision regions:\n{name}" for name in ("vanilla", "mixup", "GenLabel")]
    return [f"({letter}) {part}" for letter, part in zip("abcdef", titles, strict=True)]


def _plot_labels(axes: Sequence[Axes], mixture: LabeledMixture) -> None:
    plot_points(axes[0], mixture.X, mixture.y, size=3.0)
    axes[0].set_xlabel(f"{len(mixture.X)} points; color: class", fontsize=10)
    plot_points(axes[1], mixture.mixed, mixture.linear, size=3.0)
    axes[1].set_xlabel(f"{mixture.lam}; color: top-1 label", fontsize=10)
    plot_points(axes[2], mixture.mixed, mixture.generative, size=3.0)
    axes[2].set_xlabel("the same points; color: top-1 label", fontsize=10)


def _describe_scores(record: pd.DataFrame) -> str:
    """Return the accuracy and the smallest margin of the one record as text."""
    scores = record.iloc[0]
    margin = f"smallest of {scores['right_points']:.0f} margins {scores['smallest_margin']:.2g}"
    return f"test accuracy {scores['accuracy']:.1f} %\n{margin}"


def _cells(budget: str) -> list[Cell]:
    """Return vanilla training, mixup and the dataset's GenLabel."""
    return [
        cell
        for name, genlabel in GENLABEL.items()
        for cell in make_cells("plane", [name], ["vanilla", "mixup", genlabel], budget)
    ]


EXPERIMENT = Experiment(
    "figure6",
    "GenLabel fixes manifold intrusion: labels, regions and margins",
    "arXiv Figure 6, Section 5.1",
    _cells,
    render,
    section="toys",
)
