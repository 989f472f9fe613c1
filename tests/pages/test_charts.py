"""Charts: where a mark is drawn follows from its number, against the numbers that are written along the axes."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genlabel.reporting.charts import (
    Bar,
    HeatCell,
    Interval,
    Mixed,
    Panel,
    Point,
    Series,
    bar_chart,
    heat_map,
    interval_plot,
    panels,
    region_map,
    scatter,
)
from genlabel.reporting.charts.canvas import ticks
from genlabel.reporting.report.planes import project

HOSTILE = "<script>\"'&</svg>"
RNG = np.random.default_rng(0)
PLACES, INDEX = RNG.normal(size=(40, 2)), np.arange(40) % 20
NAMES = [f"{HOSTILE} {c}" for c in range(20)]
ROWS = [
    Interval(HOSTILE, 0.3, 0.1, 0.4),
    Interval("b", -1.25, float("nan"), float("nan"), 2),
    Interval("c", 0.5, 0.5, 0.5),
]
CELLS = [[HeatCell(i / 20, f"{i}", f"{HOSTILE} {i} {j}") if j <= i else None for j in range(20)] for i in range(20)]
CURVE = Series(HOSTILE, [Point(0.25, 0.5, "quarter", 0.4, 0.6), Point(0.75, 0.1, "three quarters")])
MIXED = [Mixed(0.5, 0.25, 0, 1, HOSTILE), Mixed(-0.5, 0.75, 19, 19, "same")]
EDGES = np.linspace(-2, 2, 9), np.linspace(-1, 1, 6)
REGIONS = {HOSTILE: RNG.integers(0, 3, (5, 8))}
CHARTS = {
    "intervals": interval_plot(HOSTILE, HOSTILE, ROWS, HOSTILE, zero=True),
    "one interval": interval_plot("t", "d", ROWS[2:], "axis"),
    "bars": bar_chart(HOSTILE, HOSTILE, [Bar(HOSTILE, 3.0, "3 rows"), Bar("b", 0.0, "none", 1)], "rows"),
    "heat": heat_map(HOSTILE, HOSTILE, NAMES, NAMES, CELLS, across="one", down="other"),
    "small heat": heat_map("t", "d", ["a"], ["a"], [[HeatCell(2.0, "200 %", "said")]], across="one", down="other"),
    "panels": panels(
        HOSTILE, HOSTILE, [Panel(HOSTILE, [CURVE])] * 3, "x", "y", entries=[(HOSTILE, "s1")], diagonal=True
    ),
    "scatter": scatter(HOSTILE, HOSTILE, PLACES, INDEX, NAMES, MIXED, (HOSTILE, "y")),
    "one place": scatter("t", "d", np.zeros((3, 2)), np.zeros(3, dtype=np.intp), ["a"]),
    "regions": region_map(HOSTILE, "d", EDGES, REGIONS, PLACES, INDEX % 3, NAMES[:3], ("x", "y")),
}
LIFTED = {"x": 0.0, "y": 4.0}
"""How far below its line a number is written."""
every = pytest.mark.parametrize("name", CHARTS)


def read(name: str) -> Any:
    return ElementTree.fromstring(CHARTS[name])


def scale(tree: Any, axis: str) -> tuple[float, float]:
    """The line from a place on the canvas to a number, by the numbers that are written along an axis."""
    kind = {"x": "small dim mid", "y": "small dim end"}[axis]
    found = {float(one.get(axis)): one.text for one in tree.iter("text") if one.get("class") == kind}
    places, numbers = (
        [place - LIFTED[axis] for place in found],
        [float(text.replace("\N{MINUS SIGN}", "-")) for text in found.values()],
    )
    slope, start = np.polyfit(places, numbers, 1)
    np.testing.assert_allclose(np.polyval([slope, start], places), numbers, atol=abs(slope))
    return float(slope), float(start)


@every
def test_a_chart_is_well_formed_and_says_what_it_shows(name: str) -> None:
    tree = read(name)
    assert tree.tag == "svg"
    assert [one.tag for one in tree][:2] == ["title", "desc"]
    assert all(tree.findtext(part) for part in ("title", "desc"))
    numbers = " ".join(value for one in tree.iter() for value in one.attrib.values())
    assert "nan" not in numbers
    assert "inf" not in numbers.replace("info", "")


@every
def test_all_is_within_the_canvas(name: str) -> None:
    tree = read(name)
    _, _, width, height = map(float, tree.get("viewBox").split())
    for one in tree.iter():
        for key, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert -1 <= float(one.get(key, 0)) <= most + 1


def test_dots_stand_at_their_values() -> None:
    tree = read("intervals")
    slope, start = scale(tree, "x")
    dots = [float(one.get("cx")) for one in tree.iter("circle")]
    np.testing.assert_allclose(slope * np.array(dots) + start, [row.value for row in ROWS], atol=slope)
    (line,) = [one.get("d") for one in tree.iter("path") if one.get("class") == "line s1"]
    ends = [float(text) for text in re.findall(r"M([\d.]+) |H([\d.]+)", line) for text in text if text]
    np.testing.assert_allclose(slope * np.array(ends) + start, [0.1, 0.4], atol=slope)


def test_bars_are_as_long_as_their_values() -> None:
    widths = [float(one.get("width")) for one in read("bars").iter("rect")]
    assert widths[0] > 0.0
    assert widths[1] == 0.0


def test_cells_are_deeper_the_more() -> None:
    depths = [float(one.get("fill-opacity")) for one in read("heat").iter("rect")]
    assert len(depths) == sum(cell is not None for line in CELLS for cell in line)
    expected = [cell.depth for line in CELLS for cell in line if cell is not None]
    np.testing.assert_allclose(np.argsort(depths, kind="stable"), np.argsort(expected, kind="stable"))
    assert max(float(one.get("fill-opacity")) for one in read("small heat").iter("rect")) <= 1.0


def test_points_of_curves_stand_at_their_shares() -> None:
    tree = read("panels")
    dots = [
        (float(one.get("cx")), float(one.get("cy"))) for one in tree.iter("circle") if one.find("title") is not None
    ]
    assert len(dots) == 6
    slope, start = scale(tree, "y")
    np.testing.assert_allclose(slope * np.array(dots)[:2, 1] + start, [0.5, 0.1], atol=abs(slope))


def test_every_row_and_blend_is_drawn_at_its_place() -> None:
    tree = read("scatter")
    lines = {axis: scale(tree, axis) for axis in "xy"}
    paths = [one.get("d") for one in tree.iter("path") if one.get("stroke-linecap")]
    found = np.array([(float(x), float(y)) for path in paths for x, y in re.findall(r"M(\S+) (\S+)h0", path)])
    there = np.stack([slope * found[:, i] + start for i, (slope, start) in enumerate(lines.values())], axis=1)
    expected = np.concatenate([PLACES[np.array(INDEX) == c] for c in range(20)])
    assert np.abs(there - expected).max() < 0.02
    assert len(list(tree.iter("g"))) == 1


def test_regions_have_the_area_of_their_places() -> None:
    tree = read("regions")
    paths = [one.get("d") for one in tree.iter("path") if one.get("fill-opacity")]
    areas = []
    for path in paths:
        runs = re.findall(r"M(\S+) (\S+)H(\S+)V(\S+)H(\S+)z", path)
        areas.append(sum((float(right) - float(left)) * (float(low) - float(top)) for left, top, right, low, _ in runs))
    (regions,) = REGIONS.values()
    np.testing.assert_allclose(np.array(areas) / sum(areas), np.bincount(regions.ravel()) / regions.size, atol=0.01)


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6), about=st.integers(3, 8))
def test_ticks_are_even_round_and_inside(low: float, span: float, about: int) -> None:
    if low + span <= low or span < 1e-9 * abs(low):
        return
    found = ticks(low, low + span, about)
    room = 1e-6 * span + 1e-9 * abs(low)
    assert 1 <= len(found) <= 2.6 * about
    assert low - room <= found[0] <= found[-1] <= low + span + room
    if len(found) > 2:
        np.testing.assert_allclose(np.diff(found), found[1] - found[0], rtol=1e-3)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_projection_finds_the_plane_in_which_the_classes_differ(k: int) -> None:
    rng = np.random.default_rng(k)
    index = np.arange(50 * k) % k
    centres = np.zeros((k, 8))
    centres[:, 2], centres[:, 5] = 6.0 * np.cos(np.arange(k)), 4.0 * np.sin(np.arange(k))
    directions, share = project(rng.normal(size=(50 * k, 8)) + centres[index], index)
    assert share > 0.95
    seen = directions[:, :1] if k == 2 else directions
    assert (np.abs(seen[[2, 5]]).sum(0) > 5 * np.abs(np.delete(seen, [2, 5], axis=0)).max(0)).all()
