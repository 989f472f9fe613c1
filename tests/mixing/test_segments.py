"""Test each part of the search on segments: tests of GenMix would not notice points that they miss."""

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


class CountingGaussian:
    """A spherical Gaussian that counts its calls."""

    calls = 0

    def __init__(self, mean: list[float], deviation: float) -> None:
        eye = torch.eye(len(mean), dtype=torch.float64)
        self.model = MultivariateNormal(torch.tensor(mean, dtype=torch.float64), deviation**2 * eye)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        CountingGaussian.calls += 1
        return self.model.log_prob(x)


def finder(X: Any, y: Any, models: list[CountingGaussian], tolerance: float = 1e-9) -> SegmentFinder:
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    return SegmentFinder(FixedDensity(models).fit(X, y), X, y, tolerance)


def round_classes(d: int = 2) -> list[CountingGaussian]:
    """A wide class with a narrow one at its center."""
    return [CountingGaussian([0.0] * d, WIDE), CountingGaussian([0.0] * d, NARROW)]


def log_ratio(x: Any, height: float = 0.0) -> np.ndarray:
    """log p_narrow - log p_wide - height in two dimensions, by hand."""
    square = (np.asarray(x) ** 2).sum(-1)
    return -0.5 * square * (NARROW**-2 - WIDE**-2) + 2 * np.log(WIDE / NARROW) - height


def brackets_of(start: Any, end: Any, height: Any) -> Brackets:
    start, end = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    m = len(start)
    return Brackets(start, end - start, np.zeros(m), np.ones(m), log_ratio(start) - height, log_ratio(end) - height)


PAIR = np.array([[0, 1]])


@pytest.mark.parametrize("low, high, crossed", [
    (-1.0, 1.0, True), (1.0, -1.0, True), (0.0, 5.0, True), (5.0, 0.0, True), (0.0, -5.0, True), (0.0, 0.0, True),
    (0.3, 0.5, False), (-0.3, -0.5, False), (np.nan, 1.0, False),
])  # fmt: skip
def test_brackets_are_crossed_where_the_sign_changes(low: float, high: float, crossed: bool) -> None:
    parts = [np.zeros((1, 2)), np.ones((1, 2)), *(np.array([value]) for value in (0.0, 1.0, low, high))]
    assert Brackets(*parts).crossed.tolist() == [crossed]


def test_rows_of_a_class_are_drawn_uniformly() -> None:
    index = np.array([2, 0, 1, 0, 2, 2, 0, 2])
    pair = np.tile([[0, 2], [2, 1]], (4000, 1))
    rows_drawn = draw_rows(index, pair, np.random.default_rng(0))
    np.testing.assert_array_equal(index[rows_drawn], pair)
    for column, rows in (((0, 0), [1, 3, 6]), ((0, 1), [0, 4, 5, 7]), ((1, 0), [0, 4, 5, 7])):
        counts = np.bincount(rows_drawn[column[0] :: 2, column[1]], minlength=8)[rows]
        assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_brackets_inside_hold_the_first_change_of_sign(share: float) -> None:
    """Segments through the center of the narrow class and next to it, in both directions."""
    height = np.full(3, logit(share))
    start, end = [[-4.0, 0.0], [-3.0, 0.2], [5.0, 0.0]], [[4.0, 0.0], [5.0, 0.2], [-2.0, 0.1]]
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    ends = brackets_of(start, end, height)
    assert not ends.crossed.any()
    result = search.brackets_inside(ends, np.repeat(PAIR, 3, 0), height)
    np.testing.assert_array_equal(result.origin, ends.origin)
    np.testing.assert_array_equal(result.direction, ends.direction)
    fractions = np.linspace(0.0, 1.0, INNER_NODES + 2)
    for i in range(3):
        values = log_ratio(ends.origin[i] + fractions[:, None] * ends.direction[i], height[i])
        first = int(np.flatnonzero(np.diff(np.sign(values)))[0])
        assert (result.low[i], result.high[i]) == (fractions[first], fractions[first + 1])
        assert (result.at_low[i], result.at_high[i]) == pytest.approx((values[first], values[first + 1]))


def test_brackets_follow_the_gradient_where_a_segment_does_not_cross() -> None:
    """The bracket is twice as long as a Newton step, and at most half as long as the segment."""
    height = np.array([0.3, 0.3, 0.3])
    start, end = [[-4.0, 2.0], [-1.0, 2.5], [-4.0, -3.0]], [[4.0, 2.0], [1.0, 2.5], [4.0, -3.0]]
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    result = search.brackets_inside(brackets_of(start, end, height), np.repeat(PAIR, 3, 0), height)
    nearest = np.array([[0.0, 2.0], [0.0, 2.5], [0.0, -3.0]])
    np.testing.assert_allclose(result.origin, nearest, atol=1e-12)
    value, slope = log_ratio(nearest, 0.3), -nearest[:, 1] * (NARROW**-2 - WIDE**-2)
    length = np.minimum(2 * np.abs(value / slope), 0.5 * np.array([8.0, 2.0, 8.0]))
    assert length[1] == 1.0  # limited by the segment
    np.testing.assert_allclose(
        result.direction, np.column_stack([np.zeros(3), -np.sign(nearest[:, 1]) * length]), atol=1e-9
    )
    np.testing.assert_allclose(result.at_low, value)
    np.testing.assert_allclose(result.at_high, log_ratio(nearest + result.direction, 0.3))
    assert (result.low == 0).all()
    assert (result.high == 1).all()
    assert result.crossed.tolist() == [True, False, True]


def test_a_small_gradient_gives_the_same_bracket() -> None:
    origin = np.array([[0.0, 0.2], [0.1, 0.0]])
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    result = search.brackets_along_gradient(origin, np.full(2, 9.0), np.repeat(PAIR, 2, 0), np.full(2, 3.0))
    value, slope = log_ratio(origin, 3.0), -origin * (NARROW**-2 - WIDE**-2)
    assert (np.linalg.norm(slope, axis=1) < 1.0).all()
    np.testing.assert_allclose(result.direction, -2 * value[:, None] * slope / (slope**2).sum(1, keepdims=True))


def test_a_zero_gradient_gives_an_empty_bracket() -> None:
    equal = [CountingGaussian([0.0, 0.0], 1.0), CountingGaussian([0.0, 0.0], 1.0)]
    search = finder([[0, 0], [1, 1]], [0, 1], equal)
    result = search.brackets_along_gradient(np.ones((1, 2)), np.ones(1), PAIR, np.array([2.0]))
    assert result.direction.tolist() == [[0.0, 0.0]]
    assert (result.at_low.tolist(), result.at_high.tolist()) == ([-2.0], [-2.0])


def test_brackets_do_not_follow_the_gradient_in_a_third_class() -> None:
    third = CountingGaussian([0.0, 2.0], 0.3)
    search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
    height = np.zeros(2)
    ends = brackets_of([[-4.0, 2.0], [-4.0, -2.0]], [[4.0, 2.0], [4.0, -2.0]], height)
    result = search.brackets_inside(ends, np.repeat(PAIR, 2, 0), height)
    assert result.crossed.tolist() == [False, True]
    np.testing.assert_array_equal(result.origin[0], ends.origin[0])


def test_promising_drops_roots_in_a_third_class() -> None:
    """Two of three brackets cross the surface, one of them where the third class is most likely."""
    third = CountingGaussian([1.0, 0.0], 0.2)
    search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
    start, end = np.zeros((3, 2)), [[2.0, 0.0], [0.0, 2.0], [0.1, 0.0]]
    brackets = brackets_of(start, end, 0.0)
    assert brackets.crossed.tolist() == [True, True, False]
    share = np.abs(brackets.at_low) / (np.abs(brackets.at_low) + np.abs(brackets.at_high))
    guess = share[:, None] * brackets.direction
    assert (search.density.log_prob(guess).argmax(1) == 2).tolist()[:2] == [True, False]
    pair, height = np.repeat(PAIR, 3, 0), np.zeros(3)
    assert search.promising(brackets, pair, height).tolist() == [1]
    none = brackets._replace(at_low=np.ones(3), at_high=np.ones(3))
    assert search.promising(none, pair, height).tolist() == []
    CountingGaussian.calls = 0
    two_classes = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    assert two_classes.promising(brackets, pair, height).tolist() == [0, 1]
    assert CountingGaussian.calls == 0  # without a third class no density is evaluated


@pytest.mark.parametrize("at_low, at_high, root", [(3.0, -1.0, 0.75), (0.1, -0.3, 0.25), (0.0, 0.0, 0.5)])
def test_promising_guesses_the_root_linearly(at_low: float, at_high: float, root: float) -> None:
    """The bracket is dropped only if the third class is most likely at the linear guess."""
    guess = -1.0 + 4.0 * (0.25 + 0.5 * root)
    parts = [np.array([[-1.0, 0.0]]), np.array([[4.0, 0.0]]), *(np.array([x]) for x in (0.25, 0.75, at_low, at_high))]
    for center, expected in ((guess, []), (guess + 0.1, [0]), (guess - 0.1, [0])):
        third = CountingGaussian([center, 0.0], 0.005)
        search = finder([[0, 0], [1, 1], [2, 2]], [0, 1, 2], [*round_classes(), third])
        assert search.promising(Brackets(*parts), PAIR, np.zeros(1)).tolist() == expected


def test_a_change_of_sign_needs_opposite_signs() -> None:
    search = finder([[0, 0], [1, 1]], [0, 1], round_classes())
    ends = brackets_of([[-0.8, 1.3]], [[0.8, 1.3]], 0.0)
    values = log_ratio(ends.origin + np.linspace(0, 1, INNER_NODES + 2)[:, None] * ends.direction)
    assert (values[:4] < 0).tolist() == [True, True, True, False]
    assert values[0] * values[1] < 1.0
    result = search.brackets_inside(ends, PAIR, np.zeros(1))
    assert (result.low[0], result.high[0]) == (0.25, 0.375)


def test_only_segments_with_ends_of_equal_sign_are_subdivided() -> None:
    X = [[-4.0, 0.0], [4.0, 0.0], [0.0, 0.2]]
    search = finder(X, [0, 1, 1], round_classes())
    result = search.brackets_between(np.array([[0, 1], [0, 2]]), np.repeat(PAIR, 2, 0), np.zeros(2))
    assert result.crossed.all()
    assert result.low.tolist() == [0.25, 0.0]
    assert result.high.tolist() == [0.375, 1.0]
    np.testing.assert_allclose(result.at_high, log_ratio([[-1.0, 0.0], [0.0, 0.2]]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_search_stops_at_its_tolerance(share: float) -> None:
    """The tolerance applies to the posterior of the second class at any height: 1e-2 takes few calls, 1e-12 more."""
    X = np.array([[3.0, 0.0], [0.0, 0.1], [0.0, -3.0], [0.1, 0.0]])
    calls = []
    for tolerance in (1e-2, 1e-12):
        search = finder(X, [0, 1, 0, 1], round_classes(), tolerance)
        CountingGaussian.calls = 0
        result = search.find(np.repeat(PAIR, 40, 0), np.full(40, logit(share)), np.random.default_rng(0))
        calls.append(CountingGaussian.calls // 2)
        assert np.abs(expit(np.diff(result.log_prob)[:, 0]) - share).max() <= tolerance
        np.testing.assert_allclose(np.diff(result.log_prob)[:, 0], log_ratio(result.points), atol=1e-9)
    assert calls[0] <= 9
    assert calls[0] < calls[1] <= 16


def test_interpolation_is_exact_for_inverse_quadratics_and_bisects_where_unsafe() -> None:
    """Interpolation is safe where 1 - sqrt(1 - xi) < phi < sqrt(xi) (Chandrupatla, 1997)."""
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


def test_solved_functions_are_not_called_again() -> None:
    calls: list[np.ndarray] = []
    positions: list[np.ndarray] = []

    def function(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        calls.append(which)
        positions.append(t)
        return t - np.array([0.0, 1.0, 0.3])[which]

    low, high = np.zeros(3), np.ones(3)
    ends = function(low, np.arange(3)), function(high, np.arange(3))
    roots = bracketed_roots(function, low, high, *ends, lambda value, which: np.abs(value) < 1e-14)
    np.testing.assert_allclose(roots, [0.0, 1.0, 0.3], atol=1e-14)
    assert [part.tolist() for part in calls[2:]] == [[2]] * len(calls[2:])
    assert len(calls) - 2 <= 3
    assert positions[2].tolist() == [0.5]
    assert (
        bracketed_roots(function, low[:0], high[:0], *(end[:0] for end in ends), lambda value, which: value > 0).size
        == 0
    )
