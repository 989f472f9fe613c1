"""Charts: marks at their values with tooltips, escaped user names, and the discriminant projection."""

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from genlabel.reporting.charts import (
    PALETTE,
    THEME_COLORS,
    Bar,
    Curve,
    HeatCell,
    Interval,
    draw_bars,
    draw_curves,
    draw_heat_map,
    draw_intervals,
    new_figure,
)
from genlabel.reporting.report.projection import (
    add_class_legend,
    class_color,
    discriminant_directions,
    draw_classes,
    draw_halves,
    draw_regions,
)
from genlabel.reporting.svg import inline_svg

HOSTILE = "<script>\"'&</svg>$_{\x00\u202e"
RNG = np.random.default_rng(0)
POINTS, INDEX = RNG.normal(size=(40, 2)), np.arange(40) % 20
NAMES = [f"{HOSTILE} {c}" for c in range(20)]
ROWS = [
    Interval(HOSTILE, 0.3, 0.1, 0.4, PALETTE[1]),
    Interval("b", -1.25, float("nan"), float("nan")),
    Interval("c", 0.5, 0.5, 0.5, note="a note"),
]
CELLS = [HeatCell(i, j, i / 20, f"{i}", f"{HOSTILE} {i} {j}") for i in range(20) for j in range(i + 1)]
CURVE = Curve([0.25, 0.75], [0.5, 0.1], [HOSTILE, "three quarters"], low=[0.4, 0.05], high=[0.6, 0.3])
EDGES, REGIONS = (np.linspace(-2, 2, 9), np.linspace(-1, 1, 6)), RNG.integers(0, 3, (5, 8))
LEFT, RIGHT = np.array([0, 19, 1]), np.array([1, 19, 0])
CHARTS: dict[str, Callable[[Any], None]] = {
    "intervals": lambda ax: draw_intervals(ax, ROWS, "axis"),
    "one interval": lambda ax: draw_intervals(ax, ROWS[2:], "axis"),
    "bars": lambda ax: draw_bars(ax, [Bar(HOSTILE, 3.0, "3 rows"), Bar("b", 0.0, "none")], "rows"),
    "heat map": lambda ax: draw_heat_map(ax, NAMES, CELLS, across="one", down="other"),
    "curves": lambda ax: draw_curves(ax, [CURVE, Curve([], [], [])], "x", "y"),
    "classes": lambda ax: draw_classes(ax, POINTS, INDEX, 20, 5.0),
    "one place": lambda ax: draw_classes(ax, np.zeros((3, 2)), np.zeros(3, dtype=np.intp), 1, 5.0),
    "halves": lambda ax: draw_halves(ax, POINTS[:3], LEFT, RIGHT, [HOSTILE, "same", "other"]),
    "regions": lambda ax: draw_regions(ax, *EDGES, REGIONS),
}
each_chart = pytest.mark.parametrize("name", CHARTS)


def draw_chart(name: str) -> tuple[Any, Any]:
    """Return the axes of a chart and its SVG as a tree."""
    figure = new_figure(6.0, 4.0)
    ax = figure.subplots()
    CHARTS[name](ax)
    ax.autoscale_view()
    if name in ("classes", "regions"):
        add_class_legend(figure, NAMES)
    return ax, ElementTree.fromstring(inline_svg(figure, "a", HOSTILE, HOSTILE, THEME_COLORS))


def tooltips(tree: Any) -> list[str]:
    return [title.text for part in tree.iter() if part.tag != "svg" for title in part.findall("title")]


@each_chart
def test_chart_is_well_formed_with_title_and_description(name: str) -> None:
    _, tree = draw_chart(name)
    assert [part.tag for part in tree][:2] == ["title", "desc"]
    assert all("script" in str(tree.findtext(part)) for part in ("title", "desc"))
    assert not re.search(r"\b(nan|inf)\b", " ".join(v for part in tree.iter() for v in part.attrib.values()))
    assert not {part.tag for part in tree.iter()} & {"script", "style", "foreignObject"}


@each_chart
def test_colors_follow_the_theme(name: str) -> None:
    _, tree = draw_chart(name)
    styles = " ".join(part.get("style", "") for part in tree.iter() if part.tag not in ("text", "tspan"))
    assert not re.search(r"#[0-9a-f]{6}", styles)
    assert "var(--" in styles


@pytest.mark.parametrize(
    "name, count", {"intervals": 3, "bars": 2, "heat map": len(CELLS), "curves": 2, "halves": 3}.items()
)
def test_every_mark_has_a_tooltip(name: str, count: int) -> None:
    _, tree = draw_chart(name)
    titles = tooltips(tree)
    assert len(titles) == count
    assert any(text.startswith('<script>"') for text in titles)


def test_dots_and_lines_are_at_their_values() -> None:
    ax, _ = draw_chart("intervals")
    lines = [line.get_xdata() for line in ax.lines if line.get_marker() == "None" and len(set(line.get_xdata())) == 2]
    assert [list(line) for line in lines] == [[0.1, 0.4]]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"] == [row.value for row in ROWS]
    assert [text.get_text() for text in ax.texts][::1][:2] == ["0.300", "\N{MINUS SIGN}1.250"]
    low, high = ax.get_xlim()
    assert low < -1.25 < 0.5 < high


def test_bars_are_as_long_as_their_values() -> None:
    ax, _ = draw_chart("bars")
    assert [patch.get_width() for patch in ax.patches] == [3.0, 0.0]


def test_cells_are_darker_for_larger_values() -> None:
    ax, _ = draw_chart("heat map")
    (cells,) = ax.collections
    depths = cells.get_facecolors()[:, 3]
    np.testing.assert_allclose(depths, [0.05 + 0.95 * cell.depth for cell in CELLS])
    centers = np.array([path.vertices[:4].mean(0) for path in cells.get_paths()])
    np.testing.assert_allclose(centers, [(cell.column, cell.row) for cell in CELLS])
    ax = Figure().subplots()
    draw_heat_map(ax, ["a"], [HeatCell(0, 0, 2.0, "200 %", "tip")], across="one", down="other")
    assert ax.collections[0].get_facecolors()[0, 3] == 1.0


def test_points_of_curves_are_at_their_values() -> None:
    ax, _ = draw_chart("curves")
    (dots,) = (part for part in ax.collections if len(part.get_offsets()) == 2)
    np.testing.assert_allclose(dots.get_offsets(), [(0.25, 0.5), (0.75, 0.1)])
    (line, _) = ax.lines
    np.testing.assert_allclose(line.get_xydata(), dots.get_offsets())


def test_rows_have_the_position_color_and_shape_of_their_class() -> None:
    ax, tree = draw_chart("classes")
    assert len(ax.patches) == 20
    for c, patch in enumerate(ax.patches):
        np.testing.assert_allclose(patch.get_path().vertices[::2], POINTS[c == INDEX])
        assert patch.get_capstyle() == ("projecting" if 8 <= c < 16 else "round")
    marks = [part.get("d") for part in tree.iter("path") if len(re.findall("M", part.get("d", ""))) == 2]
    assert len(marks) == 20
    legend = ax.figure.legends[0].get_texts()
    assert len(legend) == 17
    assert legend[-1].get_text() == "4 other classes"
    assert class_color(16) == class_color(19)


def test_halves_have_the_colors_of_both_labels() -> None:
    ax, _ = draw_chart("halves")
    small, large, halves = ax.collections
    assert len(small.get_offsets()) == 1
    np.testing.assert_allclose(large.get_offsets(), POINTS[[0, 2]])
    np.testing.assert_allclose(halves.get_offsets(), POINTS[[0, 2]])
    assert (large.get_facecolors() == halves.get_facecolors()[::-1]).all()


def test_regions_have_the_area_of_their_cells() -> None:
    ax, _ = draw_chart("regions")
    areas = []
    for patch in ax.patches:
        corners = patch.get_path().vertices.reshape(-1, 5, 2)
        areas.append(float(np.prod(corners.max(1) - corners.min(1), axis=1).sum()))
    np.testing.assert_allclose(np.array(areas) / sum(areas), np.bincount(REGIONS.ravel()) / REGIONS.size)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_projection_finds_the_plane_of_the_class_means(k: int) -> None:
    rng = np.random.default_rng(k)
    index = np.arange(50 * k) % k
    centers = np.zeros((k, 8))
    centers[:, 2], centers[:, 5] = 6.0 * np.cos(np.arange(k)), 4.0 * np.sin(np.arange(k))
    directions, share = discriminant_directions(rng.normal(size=(50 * k, 8)) + centers[index], index)
    assert share > 0.95
    loadings = directions[:, :1] if k == 2 else directions
    assert (np.abs(loadings[[2, 5]]).sum(0) > 5 * np.abs(np.delete(loadings, [2, 5], axis=0)).max(0)).all()
