"""The nearest-neighbour rule against a loop over the points."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from genlabel.data.datasets.synthetic import make_nine_gaussians
from genlabel.mixing import MixParams, Mixup, intrudes, intrusion
from genlabel.mixing.intrusion import distance_to_rivals
from genlabel_paper.theory import make_example1


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    d=st.integers(1, 20),
    k=st.integers(2, 4),
    far=st.sampled_from([0.0, 300.0, -1e4]),
)
def test_equals_the_definition(seed: int, n: int, d: int, k: int, far: float) -> None:
    """Also far from the origin, and where the points of two classes coincide."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) + far, rng.integers(0, k, n)
    if n > 8:
        X[:3] = X[3:6]
    draw = Mixup().draw(n, rng)
    X_mix = Mixup().mix(X, draw)
    expected = []
    for i, point in enumerate(X_mix):
        nearest = y[np.linalg.norm(X - point, axis=1).argmin()]
        expected.append(nearest not in (y[i], y[draw.partner[i]]))
    np.testing.assert_array_equal(intrudes(X_mix, draw, X, y), expected)
    known = {"pool": (X, y), "rows": np.arange(n), "rival_distance": distance_to_rivals(X, y)}
    np.testing.assert_array_equal(intrudes(X_mix, draw, X, y, **known), expected)
    as_torch = intrudes(torch.from_numpy(X_mix), draw, torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_array_equal(as_torch, expected)


def test_example_1_intrudes_in_the_middle() -> None:
    X, y = make_example1()
    lam = np.linspace(0, 1, 12)
    pairs = MixParams(np.full(12, 2), lam)  # -1 with +1, both of class 0; 0 of class 1 lies between
    left = np.zeros(12, dtype=int)
    X_mix = lam[:, None] * X[left] + (1 - lam[:, None]) * X[2]
    rows = np.vstack([X[left][:2], X[2:3], X[left][3:]])
    labels = np.array([0, 0, 0] + [0] * 9)
    hit = intrudes(X_mix, pairs, rows, labels, pool=(X, y))
    np.testing.assert_array_equal(hit, np.abs(X_mix[:, 0]) < 0.5)


def test_with_two_classes_a_pair_of_both_never_intrudes_but_a_pair_of_one_may() -> None:
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array(["a", "b", "a"])
    across = MixParams(np.array([1, 0, 1]), np.full(3, 0.5))
    assert not intrudes([[-0.1], [-0.9], [0.1]], across, X, y).any()
    within = MixParams(np.array([2, 1, 0]), np.full(3, 0.45))
    assert intrudes([[0.1], [0.0], [-0.1]], within, X, y).tolist() == [True, False, True]


def test_the_middle_gaussians_are_intruded() -> None:
    """At lam = 1/2, a pair of opposite corners lands in the middle class; a pair of neighbours between the two."""
    X, y = make_nine_gaussians(20, random_state=0)
    first = [int(np.flatnonzero(y == c)[0]) for c in range(9)]
    corners, centres = X[first], y[first]
    opposite = MixParams(np.arange(9)[::-1].copy(), np.full(9, 0.5))
    hit = intrudes((corners + corners[::-1]) / 2, opposite, corners, centres, pool=(X, y))
    assert hit.tolist() == [True] * 4 + [False] + [True] * 4
    beside = MixParams(np.array([1, 0, 1, 4, 3, 4, 7, 6, 7]), np.full(9, 0.6))
    mixed = 0.6 * corners + 0.4 * corners[beside.partner]
    assert not intrudes(mixed, beside, corners, centres, pool=(X, y)).any()


def test_a_draw_of_other_rows_is_refused() -> None:
    X, y = np.zeros((4, 1)), np.zeros(4)
    with pytest.raises(ValueError, match="draw"):
        intrudes(np.zeros((3, 1)), Mixup().draw(3, 0), X, y)


def test_arrays_of_any_layout_are_taken() -> None:
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])
    draw = MixParams(np.array([2, 1, 0]), np.full(3, 0.5))
    for points in (X[::-1][::-1], np.asfortranarray(X), X.astype(np.float32), X.astype(int)):
        points.flags.writeable = False
        assert intrudes(np.zeros((3, 1)), draw, points, y).tolist() == [True, False, True]
        np.testing.assert_array_equal(distance_to_rivals(points, y), [1.0, 1.0, 1.0])


LINE, TWO = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])


@pytest.mark.parametrize(
    "X_mix, X, y, said",
    [
        (LINE[:2], LINE, TWO, "draw"),
        (LINE, LINE, TWO[:2], "draw"),
        (LINE, LINE[:, 0], TWO, "shapes"),
        (LINE, LINE[:2], TWO, "shapes"),
        (LINE, LINE[:, :0], TWO, "shapes"),
        (np.ones((3, 2)), LINE, TWO, "features"),
        (LINE, np.array([[0.0], [np.nan], [1.0]]), TWO, "NaN"),
        (np.array([[0.0], [np.inf], [1.0]]), LINE, TWO, "NaN"),
        (LINE, 1e200 * LINE, TWO, "size"),
        (LINE, LINE, np.array([[0], [1], [0]]), "shape"),
        (LINE, LINE, np.array([0.0, np.nan, 1.0]), "NaN"),
    ],
)
def test_what_cannot_be_near_anything_is_named(X_mix: object, X: object, y: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        intrudes(X_mix, MixParams(np.array([2, 1, 0]), np.full(3, 0.5)), X, y)


def test_distances_to_rivals_need_a_label_a_row() -> None:
    with pytest.raises(ValueError, match="shapes"):
        distance_to_rivals(LINE, TWO[:2])


def test_an_empty_batch_has_no_intruders() -> None:
    nothing = MixParams(np.empty(0, dtype=np.int64), np.empty(0))
    assert intrudes(LINE[:0], nothing, LINE[:0], TWO[:0], pool=(LINE, TWO)).shape == (0,)


def test_the_reach_of_the_points_spares_most_searches_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 6.0 * np.array([[0, 0], [1, 0], [2, 0]])[y]
    asked: list[int] = []
    search = intrusion._nearest
    monkeypatch.setattr(intrusion, "_nearest", lambda q, p: asked.append(len(q)) or search(q, p))
    reach, rows = distance_to_rivals(X, y), np.arange(300)
    draw = Mixup(0.3).draw(300, rng)
    mixed = Mixup().mix(X, draw)
    asked.clear()
    expected = intrudes(mixed, draw, X, y)
    for known in ({"rival_distance": reach}, {"rows": rows}, {"rival_distance": reach, "rows": rows}):
        np.testing.assert_array_equal(intrudes(mixed, draw, X, y, **known), expected)
    assert expected.any()
    assert asked[:3] == [300] * 3
    near = np.linalg.norm(mixed - X, axis=1) < 0.49 * reach
    other = np.linalg.norm(mixed - X[draw.partner], axis=1) < 0.49 * reach[draw.partner]
    assert expected.sum() <= asked[3] <= 300 - (near | other).sum() < 200
