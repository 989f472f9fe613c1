"""Figures: drawn values equal the data, axes have labels, and no text overlaps."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from genlabel.reporting.figures import (
    class_colors,
    plot_comparison,
    plot_points,
    plot_regions,
)
from genlabel_paper.benchmark.figure import plot_benchmark

METHODS = ["plain training", "mixup", "GenLabel", "generative (gaussian)", "generative (kernel)"]


def results(
    repeats: int = 10, spread: float = 2.0, losses: tuple[float, ...] = (0.2, 0.3, 0.25, 0.1, 0.4)
) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "method": name,
            "split": split,
            "accuracy": min(1.0, (92.0 + m + spread * rng.normal()) / 100),
            "log_loss": losses[m] * (1.0 + 0.05 * spread * rng.random()),
        }
        for split in range(repeats)
        for m, name in enumerate(METHODS)
    ]
    return pd.DataFrame(rows)


CASES = {
    "ten splits": results(),
    "one split": results(repeats=1),
    "fifty splits": results(repeats=50),
    "no spread": results(spread=0.0),
    "losses far apart": results(losses=(0.02, 0.3, 0.25, 3.0, 8.0)),
    "perfect": results().assign(accuracy=1.0, log_loss=0.0),
    "one method": results()[lambda frame: frame["method"] == "mixup"],
}
each_case = pytest.mark.parametrize("frame", CASES.values(), ids=CASES)


def visible_texts(figure: Figure) -> list[Text]:
    """Return every drawn text; a tick label only if the tick is within the axis."""
    hidden = set()
    for ax in figure.axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                inside = min(limits) - 1e-9 <= tick.get_loc() <= max(limits) + 1e-9
                hidden |= {id(label) for label in (tick.label1, tick.label2) if not (inside and label.get_visible())}
    texts = figure.findobj(Text)
    return [text for text in texts if text.get_text().strip() and text.get_visible() and id(text) not in hidden]


@each_case
def test_comparison_draws_every_split(frame: pd.DataFrame) -> None:
    figure = plot_comparison(frame, "title")
    for ax, score in zip(figure.axes, ["accuracy", "log_loss"], strict=True):
        drawn = np.concatenate([np.asarray(dots.get_offsets())[:, 0] for dots in ax.collections])
        scale = 100 if score == "accuracy" else 1
        np.testing.assert_allclose(np.sort(drawn), scale * np.sort(frame[score]))
        means = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"]
        np.testing.assert_allclose(means, scale * frame.groupby("method", sort=False)[score].mean())
        low, high = ax.get_xlim()
        assert low < drawn.min() <= drawn.max() < high


@each_case
def test_no_text_overlaps(frame: pd.DataFrame) -> None:
    figure = plot_comparison(
        frame, "a table of some name: 150 rows, 4 columns, 3 classes\nten splits, network logistic"
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = visible_texts(figure)
    assert len(texts) > 10
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts]
    for (first, a), (second, b) in combinations(zip(texts, boxes, strict=True), 2):
        assert not a.padded(-1.0).overlaps(b.padded(-1.0)), (first.get_text(), second.get_text())
    width, height = canvas.get_width_height()
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()  # noqa: PT018


def test_comparison_has_axis_labels_and_a_legend() -> None:
    figure = plot_comparison(results(), "the title")
    left, right = figure.axes
    assert "accuracy on unseen rows (%)" in left.get_xlabel()
    assert "higher is better →" in left.get_xlabel()
    assert "log-loss on unseen rows" in right.get_xlabel()
    assert "lower is better" in right.get_xlabel()
    assert [label.get_text() for label in left.get_yticklabels()] == METHODS
    assert figure.get_suptitle() == "the title"
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key == ["one split", "mean over the splits", "95 % interval of the mean over the splits"]


def test_axis_is_logarithmic_only_where_losses_are_far_apart() -> None:
    assert plot_comparison(CASES["ten splits"], "").axes[1].get_xscale() == "linear"
    ax = plot_comparison(CASES["losses far apart"], "").axes[1]
    assert ax.get_xscale() == "log"
    assert "logarithmic axis" in ax.get_xlabel()


def test_saved_figure_has_a_high_resolution(tmp_path: Path) -> None:
    figure = plot_comparison(results(), "title")
    figure.savefig(tmp_path / "p.png")
    height, width = imread(tmp_path / "p.png").shape[:2]
    assert width >= 150 * figure.get_size_inches()[0]
    assert height >= 150 * figure.get_size_inches()[1]


@pytest.mark.parametrize("k", [1, 2, 4, 5, 9, 10, 26])
def test_class_colors_differ(k: int) -> None:
    colors = np.array([to_rgb(color) for color in class_colors(k)])
    assert len(np.unique(colors.round(3), axis=0)) == k


def test_points_have_the_colors_of_their_classes() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(["a", "b", "c"] * 20)
    ax = Figure().subplots()
    plot_points(ax, X, y)
    (dots,) = ax.collections
    offsets, colors = np.asarray(dots.get_offsets()), np.asarray(dots.get_facecolors())[:, :3]
    assert len(offsets) == 60
    rows = np.array([np.flatnonzero((offset == X).all(axis=1))[0] for offset in offsets])
    expected = np.array([to_rgb(color) for color in class_colors(3)])[np.unique(y, return_inverse=True)[1]]
    np.testing.assert_array_equal(colors, expected[rows])


def test_soft_labels_show_the_largest_share() -> None:
    labels = np.eye(9) * 0.5 + 0.5 / 9
    ax = Figure().subplots()
    plot_points(ax, np.arange(18.0).reshape(9, 2), labels)
    (dots,) = ax.collections
    rows = (np.asarray(dots.get_offsets())[:, 0] / 2).astype(int)
    expected = np.array([to_rgb(color) for color in class_colors(9)])[rows]
    np.testing.assert_array_equal(np.asarray(dots.get_facecolors())[:, :3], expected)


def test_regions_equal_the_predictions() -> None:
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 2])
    ax = Figure().subplots()
    ax.set(xlim=(0.0, 2.0), ylim=(0.0, 1.0))
    plot_regions(ax, lambda Z: np.where(Z[:, 0] > 1.25, 1, np.where(Z[:, 1] > 0.6, 2, 0)), X, y, steps=10)
    assert ax.get_xlim() == (0.0, 2.0)
    assert ax.get_ylim() == (0.0, 1.0)
    (image,) = ax.images
    assert image.get_extent() == [0.0, 2.0, 0.0, 1.0]
    region = np.asarray(image.get_array())
    xs, ys = np.arange(0.1, 2.0, 0.2), np.arange(0.05, 1.0, 0.1)  # centers of the cells
    np.testing.assert_array_equal(region, np.where(xs > 1.25, 1, np.where(ys[:, None] > 0.6, 2, 0)))


def test_regions_have_boundaries_and_points() -> None:
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.array(["n", "p"] * 25)
    ax = Figure().subplots()
    plot_regions(ax, lambda Z: np.where(Z[:, 0] > 0.25, "p", "n"), X, y, steps=100)
    boundary, dots = ax.collections
    line = np.concatenate([path.vertices for path in boundary.get_paths()])
    cell = np.ptp(ax.get_xlim()) / 100
    assert np.abs(line[:, 0] - 0.25).max() <= cell
    assert len(dots.get_offsets()) == 50
    assert ax.get_xlim()[0] < X[:, 0].min()
    assert X[:, 0].max() < ax.get_xlim()[1]


def test_regions_of_a_constant_classifier_have_no_boundary() -> None:
    ax = Figure().subplots()
    plot_regions(ax, lambda Z: np.zeros(len(Z), dtype=int), [[0.0, 0.0], [1.0, 1.0]], [0, 1], steps=5)
    assert len(ax.collections) == 1


def test_benchmark_figure_shows_every_dataset_and_counts_wins() -> None:
    rng = np.random.default_rng(0)
    losses = {"default": rng.uniform(0.1, 1, 40), "a": rng.uniform(0.1, 1, 40), "b": rng.uniform(0.1, 1, 40)}
    records = pd.DataFrame(
        [
            {"dataset": i, "split": s, "method": name, "log_loss": values[i] + 0.01 * s}
            for name, values in losses.items()
            for i in range(40)
            for s in (0, 1)
        ]
    )
    figure = plot_benchmark(records)
    assert [ax.get_xlabel() for ax in figure.axes] == ["a", "b"]
    for ax, name in zip(figure.axes, ("a", "b"), strict=True):
        difference = losses["default"] - losses[name]
        lower, tied, higher = (dots.get_offsets() for dots in ax.collections)
        assert (len(lower), len(higher)) == ((difference < -0.002).sum(), (difference > 0.002).sum())
        assert len(lower) + len(tied) + len(higher) == 40
        assert (lower[:, 1] < lower[:, 0]).all()
        assert f"lower on {len(lower)}" in ax.get_title()
    with pytest.raises(ValueError, match="default"):
        plot_benchmark(records[records["method"] != "default"])
