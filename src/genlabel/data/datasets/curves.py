"""The true curves of the synthetic sets: on which each class lies without noise, and how far points are from them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_choice
from genlabel.data.datasets.strokes import SPHERES, STROKES

Floats: TypeAlias = NDArray[np.float64]
NORMS = ("l1", "l2", "linf")
"""The norms in which a distance is measured."""
CORNERS = 2000
"""Straight pieces that stand for a whole turn: a chord is nearer than 2e-6 to its arc of radius 1."""
AT_ONCE = 1 << 21
"""Distances of points to pieces that are computed in one go."""


def true_curves(name: str) -> list[list[Floats]]:
    """Return the curves of each class of a set of the plane, each by its corners (s, 2), arcs in short straight pieces.

    Parameters
    ----------
    name : str
        "circle", "moon", "two-circle", "v", "ket" or "y".

    Examples
    --------
    >>> [len(curves) for curves in true_curves("two-circle")]
    [2, 2]
    """
    check_choice("name", name, [*_ROUND, *STROKES])
    return _ROUND[name] if name in _ROUND else [[corners] for corners in STROKES[name]]


def curve_distances(X: Floats, name: str, norm: str = "l2") -> Floats:
    """Return how far points are from the true curve of each class, in a norm.

    Exact for straight strokes and for spheres, within 2e-6 for arcs.

    Parameters
    ----------
    X : array (m, d)
    name : str
        As of :func:`true_curves`, or "circle-3d", whose classes are spheres: "l2" only.
    norm : "l1", "l2" or "linf"

    Returns
    -------
    array (m, k)

    Examples
    --------
    >>> curve_distances(np.array([[0.0, 0.9]]), "circle").round(3).tolist()
    [[0.1, 0.1]]
    """
    check_choice("norm", norm, NORMS)
    points = np.asarray(X, dtype=np.float64)
    if name == "circle-3d":
        if norm != "l2":
            raise ValueError(f"norm={norm!r}: the distance to the spheres of 'circle-3d' is known in 'l2' only")
        return np.abs(np.linalg.norm(points, axis=1)[:, None] - np.array(SPHERES))
    classes = [[_to_polyline(points, corners, norm) for corners in curves] for curves in true_curves(name)]
    return np.column_stack([np.min(found, axis=0) for found in classes])


def equidistance_error(X: Floats, name: str, pair: NDArray[np.int64], norm: str = "l2") -> Floats:
    """Return |d_i - d_j| / max(d_i, d_j), where d_i and d_j are the distances to the true curves of two classes.

    0 is as far from the one as from the other, 1 is on one of them: what arXiv Figure 15 shows to the eye.

    Parameters
    ----------
    X : array (m, d)
    name : str
        As of :func:`curve_distances`.
    pair : array (m, 2)
        The two classes of each point.
    norm : "l1", "l2" or "linf"

    Returns
    -------
    array (m,)

    Examples
    --------
    >>> equidistance_error(np.array([[0.0, 0.9], [0.0, 0.85]]), "circle", np.array([[0, 1], [0, 1]])).round(2).tolist()
    [0.0, 0.67]
    """
    both = np.take_along_axis(curve_distances(X, name, norm), np.asarray(pair), axis=1)
    gap, larger = np.abs(both[:, 0] - both[:, 1]), both.max(axis=1)
    return np.divide(gap, larger, out=np.zeros_like(gap), where=larger > 0)


def _arc(centre: tuple[float, float], radius: float, begin: float, end: float) -> Floats:
    """Corners along an arc, from one angle to another."""
    angles = np.linspace(begin, end, round(CORNERS * abs(end - begin) / (2.0 * np.pi)) + 1)
    return np.array(centre) + radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _ring(radius: float, at: float = 0.0) -> Floats:
    return _arc((at, 0.0), radius, 0.0, 2.0 * np.pi)


_ROUND: dict[str, list[list[Floats]]] = {
    "circle": [[_ring(1.0)], [_ring(0.8)]],
    "moon": [[_arc((0.0, 0.0), 1.0, 0.0, np.pi)], [_arc((1.0, 0.5), 1.0, np.pi, 2.0 * np.pi)]],
    "two-circle": [[_ring(1.0, 1.2), _ring(0.8, -1.2)], [_ring(0.8, 1.2), _ring(1.0, -1.2)]],
}


def _to_polyline(points: Floats, corners: Floats, norm: str) -> Floats:
    """The distance (m,) of points (m, 2) to the straight pieces between corners (s, 2)."""
    size = max(1, AT_ONCE // len(corners))
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    return np.concatenate([_to_corners(part, corners, norm) for part in parts]) if parts else np.empty(0)


def _to_corners(points: Floats, corners: Floats, norm: str) -> Floats:
    """The same of few points; only pieces are asked that may be the nearest, by the distances of their corners.

    A point of a piece is at most half of its length from a corner of it.
    """
    ends = _length(points[:, None] - corners, norm)
    begin, along = corners[:-1], np.diff(corners, axis=0)
    nearer = np.minimum(ends[:, :-1], ends[:, 1:])
    reach = 0.5 * _length(along, norm) * (1.0 + 1e-9)
    rows, pieces = np.nonzero(nearer - reach <= ends.min(axis=1, keepdims=True))
    found = _to_pieces(points[rows] - begin[pieces], along[pieces], norm)
    least: Floats = np.minimum.reduceat(found, np.searchsorted(rows, np.arange(len(points))))
    return least


def _to_pieces(gap: Floats, along: Floats, norm: str) -> Floats:
    """The least norm of `gap - t along`, t in [0, 1], (q,): convex in t, so one of few t is the best.

    In l2 it is the foot of the perpendicular. In l1 and linf the distance is linear between the t where a coordinate of
    the gap, or the sum or difference of the two, is zero.
    """
    if norm == "l2":
        times = [(gap * along).sum(-1) / (along**2).sum(-1)]
    else:
        (x, y), (v, w) = gap.T, along.T
        breaks = [(x, v), (y, w)] if norm == "l1" else [(x, v), (y, w), (x + y, v + w), (x - y, v - w)]
        times = [np.divide(a, b, out=np.zeros_like(a), where=b != 0.0) for a, b in breaks]
        times += [np.zeros_like(x), np.ones_like(x)]
    lengths = [_length(gap - t.clip(0.0, 1.0)[..., None] * along, norm) for t in times]
    least: Floats = np.minimum.reduce(lengths)
    return least


def _length(gap: Floats, norm: str) -> Floats:
    """The norm of vectors along the last axis."""
    if norm == "l2":
        return np.hypot(gap[..., 0], gap[..., 1])
    x, y = np.abs(gap[..., 0]), np.abs(gap[..., 1])
    return x + y if norm == "l1" else np.maximum(x, y)
