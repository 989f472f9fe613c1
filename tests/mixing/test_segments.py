"""The parts of the search on segments, each by itself: GenMix throws away what they miss, so that it does not tell."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from scipy.stats import chisquare
from torch.distributions import MultivariateNormal

from genlabel.densities.base import FixedDensity
from genlabel.mixing.finders import (
    INNER_NODES,
    Brackets,
    SegmentFinder,
    bracketed_roots,
    draw_rows,
    next_fraction,
)

NARROW, WIDE = 0.5, 3.0


class Counted:
    """A round Gaussian that counts how often it is asked."""

    asked = 0

    def __init__(self, mean: list[float], deviation: float) -> None:
        eye = torch.eye(len(mean), dtype=torch.float64)
        self.model = MultivariateNormal(torch.tensor(mean, dtype=torch.float64), deviation**2 * eye)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        Counted.asked += 1
        return self.model.log_prob(x)


def finder(X: Any, y: Any, models: list[Counted], tolerance: float = 1e-9) -> SegmentFinder:
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    return SegmentFinder(FixedDensity(models).fit(X, y), X, y, tolerance)


def round_classes(d: int = 2) -> list[Counted]:
    """A wide class with a narrow one in its middle; far off, a third."""
    return [Counted([0.0] * d, WIDE), Counted([0.0] * d, NARROW)]


def difference(x: Any, height: float = 0.0) -> np.ndarray:
    """log p_narrow - log p_wide in two dimensions, by hand."""
    square = (np.asarray(x) ** 2).sum(-1)
    return -0.5 * square * (NARROW**-2 - WIDE**-2) + 2 * np.log(WIDE / NARROW) - height


def lines(start: Any, end: Any, height: Any) -> Brackets:
    start, end = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    m = len(start)
    return Brackets(start, end - start, np.zeros(m), np.ones(m), difference(start) - height, difference(end) - height)


PAIR = np.array([[0, 1]])


@pytest.mark.parametrize("low, high, crossed", [
    (-1.0, 1.0, True), (1.0, -1.0, True), (0.0, 5.0, True), (5.0, 0.0, True), (0.0, -5.0, True), (0.0, 0.0, True),
    (0.3, 0.5, False), (-0.3, -0.5, False), (np.nan, 1.0, False),
])  # fmt: skip
def test_a_line_is_crossed_where_the_sign_changes(low: float, high: float, crossed: bool) -> None:
    parts = [np.zeros((1, 2)), np.ones((1, 2)), *(np.array([value]) for value in (0.0, 1.0, low, high))]
    assert Brackets(*parts).crossed.tolist() == [crossed]


def test_every_row_of_a_class_is_drawn_as_often() -> None:
    index = np.array([2, 0, 1, 0, 2, 2, 0, 2])
    pair = np.tile([[0, 2], [2, 1]], (4000, 1))
    found = draw_rows(index, pair, np.random.default_rng(0))
    np.testing.assert_array_equal(index[found], pair)
    for column, rows in (((0, 0), [1, 3, 6]), ((0, 1), [0, 4, 5, 7]), ((1, 0), [0, 4, 5, 7])):
        counts = np.bincount(found[column[0] :: 2, column[1]], minlength=8)[rows]
        assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_between_two_ends_of_one_side_the_first_change_of_sign_is_bracketed(share: float) -> None:
    """Through the middle of the narrow class, off the middle and from either end."""
    height = np.full(3, logit(share))
    start, end = [[-4.0, 0.0], [-3.0, 0.2], [5.0, 0.0]], [[4.0, 0.0], [5.0, 0.2], [-2.0, 0.1]]
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    ends = lines(start, end, height)
    assert not ends.crossed.any()
    found = search.brackets_inside(ends, np.repeat(PAIR, 3, 0), height)
    np.testing.assert_array_equal(found.origin, ends.origin)
    np.testing.assert_array_equal(found.direction, ends.direction)
    places = np.linspace(0.0, 1.0, INNER_NODES + 2)
    for i in range(3):
        values = difference(ends.origin[i] + places[:, None] * ends.direction[i], height[i])
        first = int(np.flatnonzero(np.diff(np.sign(values)))[0])
        assert (found.low[i], found.high[i]) == (places[first], places[first + 1])
        assert (found.at_low[i], found.at_high[i]) == pytest.approx((values[first], values[first + 1]))


def test_where_a_segment_passes_by_the_gradient_at_its_nearest_place_leads_to_the_surface() -> None:
    """Twice as far as the surface would be if it were flat, but no further than half of the segment."""
    height = np.array([0.3, 0.3, 0.3])
    start, end = [[-4.0, 2.0], [-1.0, 2.5], [-4.0, -3.0]], [[4.0, 2.0], [1.0, 2.5], [4.0, -3.0]]
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    found = search.brackets_inside(lines(start, end, height), np.repeat(PAIR, 3, 0), height)
    nearest = np.array([[0.0, 2.0], [0.0, 2.5], [0.0, -3.0]])
    np.testing.assert_allclose(found.origin, nearest, atol=1e-12)
    value, slope = difference(nearest, 0.3), -nearest[:, 1] * (NARROW**-2 - WIDE**-2)
    length = np.minimum(2 * np.abs(value / slope), 0.5 * np.array([8.0, 2.0, 8.0]))
    assert length[1] == 1.0  # it would be further
    np.testing.assert_allclose(
        found.direction, np.column_stack([np.zeros(3), -np.sign(nearest[:, 1]) * length]), atol=1e-9
    )
    np.testing.assert_allclose(found.at_low, value)
    np.testing.assert_allclose(found.at_high, difference(nearest + found.direction, 0.3))
    assert (found.low == 0).all()
    assert (found.high == 1).all()
    assert found.crossed.tolist() == [True, False, True]


def test_a_gentle_slope_leads_as_far_as_a_steep_one() -> None:
    origin = np.array([[0.0, 0.2], [0.1, 0.0]])
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    found = search.brackets_along_gradient(origin, np.full(2, 9.0), np.repeat(PAIR, 2, 0), np.full(2, 3.0))
    value, slope = difference(origin, 3.0), -origin * (NARROW**-2 - WIDE**-2)
    assert (np.linalg.norm(slope, axis=1) < 1.0).all()
    np.testing.assert_allclose(found.direction, -2 * value[:, None] * slope / (slope**2).sum(1, keepdims=True))


def test_where_the_density_is_flat_there_is_no_gradient_to_follow() -> None:
    equal = [Counted([0.0, 0.0], 1.0), Counted([0.0, 0.0], 1.0)]
    search = finder([[0, 0], [1, 1]], [0, 1], equal)
    found = search.brackets_along_gradient(np.ones((1, 2)), np.ones(1), PAIR, np.array([2.0]))
    assert found.direction.tolist() == [[0.0, 0.0]]
    assert (found.at_low.tolist(), found.at_high.tolist()) == ([-2.0], [-2.0])


def test_no_gradient_is_followed_where_a_third_class_is_the_most_likely() -> None:
    third = Counted([0.0, 2.0], 0.3)
    search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
    height = np.zeros(2)
    ends = lines([[-4.0, 2.0], [-4.0, -2.0]], [[4.0, 2.0], [4.0, -2.0]], height)
    found = search.brackets_inside(ends, np.repeat(PAIR, 2, 0), height)
    assert found.crossed.tolist() == [False, True]
    np.testing.assert_array_equal(found.origin[0], ends.origin[0])


def test_lines_whose_root_would_lie_in_a_third_class_are_left() -> None:
    """Two of three lines cross the surface; one of them where the third class is the most likely."""
    third = Counted([1.0, 0.0], 0.2)
    search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
    start, end = np.zeros((3, 2)), [[2.0, 0.0], [0.0, 2.0], [0.1, 0.0]]
    brackets = lines(start, end, 0.0)
    assert brackets.crossed.tolist() == [True, True, False]
    share = np.abs(brackets.at_low) / (np.abs(brackets.at_low) + np.abs(brackets.at_high))
    guess = share[:, None] * brackets.direction
    assert (search.density.log_prob(guess).argmax(1) == 2).tolist()[:2] == [True, False]
    pair, height = np.repeat(PAIR, 3, 0), np.zeros(3)
    assert search.promising(brackets, pair, height).tolist() == [1]
    none = brackets._replace(at_low=np.ones(3), at_high=np.ones(3))
    assert search.promising(none, pair, height).tolist() == []
    Counted.asked = 0
    two = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    assert two.promising(brackets, pair, height).tolist() == [0, 1]
    assert Counted.asked == 0  # of two classes there is no third to ask for


@pytest.mark.parametrize("at_low, at_high, root", [(3.0, -1.0, 0.75), (0.1, -0.3, 0.25), (0.0, 0.0, 0.5)])
def test_the_root_is_guessed_where_it_were_if_the_surface_were_flat(at_low: float, at_high: float, root: float) -> None:
    """A third class that is the most likely just there, and nowhere else, makes one line be left."""
    guess = -1.0 + 4.0 * (0.25 + 0.5 * root)
    parts = [np.array([[-1.0, 0.0]]), np.array([[4.0, 0.0]]), *(np.array([x]) for x in (0.25, 0.75, at_low, at_high))]
    for place, expected in ((guess, []), (guess + 0.1, [0]), (guess - 0.1, [0])):
        third = Counted([place, 0.0], 0.005)
        search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
        assert search.promising(Brackets(*parts), PAIR, np.zeros(1)).tolist() == expected


def test_small_differences_of_one_sign_are_no_change() -> None:
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    ends = lines([[-0.8, 1.3]], [[0.8, 1.3]], 0.0)
    values = difference(ends.origin + np.linspace(0, 1, INNER_NODES + 2)[:, None] * ends.direction)
    assert (values[:4] < 0).tolist() == [True, True, True, False]
    assert values[0] * values[1] < 1.0
    found = search.brackets_inside(ends, PAIR, np.zeros(1))
    assert (found.low[0], found.high[0]) == (0.25, 0.375)


def test_only_segments_whose_ends_lie_on_one_side_are_looked_into() -> None:
    X = [[-4.0, 0.0], [4.0, 0.0], [0.0, 0.2]]
    search = finder(X, [0, 1, 1], round_classes())
    found = search.brackets_between(np.array([[0, 1], [0, 2]]), np.repeat(PAIR, 2, 0), np.zeros(2))
    assert found.crossed.all()
    assert found.low.tolist() == [0.25, 0.0]
    assert found.high.tolist() == [0.375, 1.0]
    np.testing.assert_allclose(found.at_high, difference([[-1.0, 0.0], [0.0, 0.2]]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_search_ends_as_soon_as_it_is_near(share: float) -> None:
    """By the share of the second class, whatever the height: a hundredth takes a few questions, 1e-12 some more."""
    X = np.array([[3.0, 0.0], [0.0, 0.1], [0.0, -3.0], [0.1, 0.0]])
    asked = []
    for tolerance in (1e-2, 1e-12):
        search = finder(X, [0, 1, 0, 1], round_classes(), tolerance)
        Counted.asked = 0
        found = search.find(np.repeat(PAIR, 40, 0), np.full(40, logit(share)), np.random.default_rng(0))
        asked.append(Counted.asked // 2)
        assert np.abs(expit(np.diff(found.log_prob)[:, 0]) - share).max() <= tolerance
        np.testing.assert_allclose(np.diff(found.log_prob)[:, 0], difference(found.points), atol=1e-9)
    assert asked[0] <= 9
    assert asked[0] < asked[1] <= 16


def test_interpolation_is_exact_for_inverse_quadratics_and_left_where_it_is_not_safe() -> None:
    """Safe is where 1 - sqrt(1 - xi) < phi < sqrt(xi), as Chandrupatla (1997) has it."""
    rng = np.random.default_rng(0)
    fa, fb, fc = rng.uniform(0.1, 1, 500), -rng.uniform(0.1, 1, 500), rng.uniform(1, 3, 500)
    bend = rng.uniform(-0.5, 0.5, 500)
    a, b, c = (0.3 + f + bend * f * f for f in (fa, fb, fc))
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    inside = (xi > 0) & (xi < 1)
    with np.errstate(invalid="ignore"):
        safe = inside & (1 - np.sqrt(1 - xi) < phi) & (phi < np.sqrt(xi))
    t = next_fraction(a, b, c, fa, fb, fc)
    exact = (0.3 - a) / (b - a)
    proper = safe & (exact > 0) & (exact < 1)
    assert proper.sum() > 100
    assert (inside & ~safe).sum() > 20
    np.testing.assert_allclose(t[proper], exact[proper], rtol=1e-9)
    assert (t[inside & ~safe] == 0.5).all()


def test_no_more_is_asked_of_functions_whose_root_is_known() -> None:
    calls: list[np.ndarray] = []
    places: list[np.ndarray] = []

    def function(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        calls.append(which)
        places.append(t)
        return t - np.array([0.0, 1.0, 0.3])[which]

    low, high = np.zeros(3), np.ones(3)
    ends = function(low, np.arange(3)), function(high, np.arange(3))
    found = bracketed_roots(function, low, high, *ends, lambda value, which: np.abs(value) < 1e-14)
    np.testing.assert_allclose(found, [0.0, 1.0, 0.3], atol=1e-14)
    assert [part.tolist() for part in calls[2:]] == [[2]] * len(calls[2:])
    assert len(calls) - 2 <= 3
    assert places[2].tolist() == [0.5]
    assert (
        bracketed_roots(function, low[:0], high[:0], *(end[:0] for end in ends), lambda value, which: value > 0).size
        == 0
    )
