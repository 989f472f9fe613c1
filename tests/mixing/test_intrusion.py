"""Test the nearest-neighbor rule of intrusion against a loop over the points."""

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


def test_example_1_intrudes_near_the_middle_class() -> None:
    X, y = make_example1()
    lam = np.linspace(0, 1, 12)
    pairs = MixParams(np.full(12, 2), lam)  # pairs -1 and +1 of class 0; class 1 lies at 0
    first = np.zeros(12, dtype=int)
    X_mix = lam[:, None] * X[first] + (1 - lam[:, None]) * X[2]
    rows = np.vstack([X[first][:2], X[2:3], X[first][3:]])
    labels = np.array([0, 0, 0] + [0] * 9)
    hit = intrudes(X_mix, pairs, rows, labels, pool=(X, y))
    np.testing.assert_array_equal(hit, np.abs(X_mix[:, 0]) < 0.5)


def test_with_two_classes_only_pairs_of_one_class_intrude() -> None:
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array(["a", "b", "a"])
    across = MixParams(np.array([1, 0, 1]), np.full(3, 0.5))
    assert not intrudes([[-0.1], [-0.9], [0.1]], across, X, y).any()
    within = MixParams(np.array([2, 1, 0]), np.full(3, 0.45))
    assert intrudes([[0.1], [0.0], [-0.1]], within, X, y).tolist() == [True, False, True]


def test_the_middle_gaussians_are_intruded() -> None:
    """At lam = 1/2 a pair of opposite corners lands in the middle class; a pair of neighbors does not intrude."""
    X, y = make_nine_gaussians(20, random_state=0)
    first_rows = [int(np.flatnonzero(y == c)[0]) for c in range(9)]
    corners, labels = X[first_rows], y[first_rows]
    opposite = MixParams(np.arange(9)[::-1].copy(), np.full(9, 0.5))
    hit = intrudes((corners + corners[::-1]) / 2, opposite, corners, labels, pool=(X, y))
    assert hit.tolist() == [True] * 4 + [False] + [True] * 4
    neighbors = MixParams(np.array([1, 0, 1, 4, 3, 4, 7, 6, 7]), np.full(9, 0.6))
    mixed = 0.6 * corners + 0.4 * corners[neighbors.partner]
    assert not intrudes(mixed, neighbors, corners, labels, pool=(X, y)).any()


def test_a_draw_of_another_size_raises() -> None:
    X, y = np.zeros((4, 1)), np.zeros(4)
    with pytest.raises(ValueError, match="draw"):
        intrudes(np.zeros((3, 1)), Mixup().draw(3, 0), X, y)


def test_memory_layout_and_dtype_do_not_matter() -> None:
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])
    draw = MixParams(np.array([2, 1, 0]), np.full(3, 0.5))
    for points in (X[::-1][::-1], np.asfortranarray(X), X.astype(np.float32), X.astype(int)):
        points.flags.writeable = False
        assert intrudes(np.zeros((3, 1)), draw, points, y).tolist() == [True, False, True]
        np.testing.assert_array_equal(distance_to_rivals(points, y), [1.0, 1.0, 1.0])


LINE, LABELS = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])


@pytest.mark.parametrize(
    "X_mix, X, y, match",
    [
        (LINE[:2], LINE, LABELS, "draw"),
        (LINE, LINE, LABELS[:2], "draw"),
        (LINE, LINE[:, 0], LABELS, "shapes"),
        (LINE, LINE[:2], LABELS, "shapes"),
        (LINE, LINE[:, :0], LABELS, "shapes"),
        (np.ones((3, 2)), LINE, LABELS, "features"),
        (LINE, np.array([[0.0], [np.nan], [1.0]]), LABELS, "NaN"),
        (np.array([[0.0], [np.inf], [1.0]]), LINE, LABELS, "NaN"),
        (LINE, 1e200 * LINE, LABELS, "size"),
        (LINE, LINE, np.array([[0], [1], [0]]), "shape"),
        (LINE, LINE, np.array([0.0, np.nan, 1.0]), "NaN"),
    ],
)
def test_bad_input_raises(X_mix: object, X: object, y: object, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        intrudes(X_mix, MixParams(np.array([2, 1, 0]), np.full(3, 0.5)), X, y)


def test_distance_to_rivals_with_too_few_labels_raises() -> None:
    with pytest.raises(ValueError, match="shapes"):
        distance_to_rivals(LINE, LABELS[:2])


def test_an_empty_batch_has_no_intruders() -> None:
    nothing = MixParams(np.empty(0, dtype=np.int64), np.empty(0))
    assert intrudes(LINE[:0], nothing, LINE[:0], LABELS[:0], pool=(LINE, LABELS)).shape == (0,)


def test_known_distances_save_searches_and_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 6.0 * np.array([[0, 0], [1, 0], [2, 0]])[y]
    searched: list[int] = []
    search = intrusion._nearest
    monkeypatch.setattr(intrusion, "_nearest", lambda q, p: searched.append(len(q)) or search(q, p))
    reach, rows = distance_to_rivals(X, y), np.arange(300)
    draw = Mixup(0.3).draw(300, rng)
    mixed = Mixup().mix(X, draw)
    searched.clear()
    expected = intrudes(mixed, draw, X, y)
    for known in ({"rival_distance": reach}, {"rows": rows}, {"rival_distance": reach, "rows": rows}):
        np.testing.assert_array_equal(intrudes(mixed, draw, X, y, **known), expected)
    assert expected.any()
    assert searched[:3] == [300] * 3
    near = np.linalg.norm(mixed - X, axis=1) < 0.49 * reach
    near_partner = np.linalg.norm(mixed - X[draw.partner], axis=1) < 0.49 * reach[draw.partner]
    assert expected.sum() <= searched[3] <= 300 - (near | near_partner).sum() < 200
