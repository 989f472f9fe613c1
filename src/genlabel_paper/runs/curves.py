"""True curves of the synthetic datasets, on which each class lies without noise, and distances to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_choice
from genlabel.data.datasets.synthetic import SPHERES, STROKES, Floats

NORMS = ("l1", "l2", "linf")
"""The norms in which a distance is measured."""
SEGMENTS_PER_TURN = 2000
"""Segments that approximate a full circle: a chord is within 2e-6 of its arc of radius 1."""
MAX_DISTANCES = 1 << 21
"""Distances of points to segments that are computed at once."""


def true_curves(name: str) -> list[list[Floats]]:
    """Return the curves of each class of a dataset in the plane, each by its corners (s, 2), arcs in short segments.

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
    """Return the distance of points to the true curve of each class, in a norm.

    Exact for straight strokes and for spheres, within 2e-6 for arcs.

    Parameters
    ----------
    X : array (m, d)
    name : str
        A dataset of :func:`true_curves`, or "circle-3d", whose classes are spheres: "l2" only.
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
    classes = [[_polyline_distance(points, corners, norm) for corners in curves] for curves in true_curves(name)]
    return np.column_stack([np.min(distances, axis=0) for distances in classes])


def equidistance_error(X: Floats, name: str, pair: NDArray[np.int64], norm: str = "l2") -> Floats:
    """Return |d_i - d_j| / max(d_i, d_j), where d_i and d_j are the distances to the true curves of two classes.

    0 is equally far from both, 1 is on one of them (compare arXiv Figure 15).

    Parameters
    ----------
    X : array (m, d)
    name : str
        A dataset of :func:`curve_distances`.
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
    difference, larger = np.abs(both[:, 0] - both[:, 1]), both.max(axis=1)
    return np.divide(difference, larger, out=np.zeros_like(difference), where=larger > 0)


def _arc(center: tuple[float, float], radius: float, begin: float, end: float) -> Floats:
    """Return corners along an arc from one angle to another."""
    angles = np.linspace(begin, end, round(SEGMENTS_PER_TURN * abs(end - begin) / (2.0 * np.pi)) + 1)
    return np.array(center) + radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _ring(radius: float, x: float = 0.0) -> Floats:
    return _arc((x, 0.0), radius, 0.0, 2.0 * np.pi)


_ROUND: dict[str, list[list[Floats]]] = {
    "circle": [[_ring(1.0)], [_ring(0.8)]],
    "moon": [[_arc((0.0, 0.0), 1.0, 0.0, np.pi)], [_arc((1.0, 0.5), 1.0, np.pi, 2.0 * np.pi)]],
    "two-circle": [[_ring(1.0, 1.2), _ring(0.8, -1.2)], [_ring(0.8, 1.2), _ring(1.0, -1.2)]],
}


def _polyline_distance(points: Floats, corners: Floats, norm: str) -> Floats:
    """Return the distance (m,) of points (m, 2) to the segments between corners (s, 2).

    Only segments that may be the nearest are examined: a point of a segment is at most half its length from one of its
    corners.
    """
    size = max(1, MAX_DISTANCES // len(corners))
    begin, along = corners[:-1], np.diff(corners, axis=0)
    reach = 0.5 * _norm(along, norm) * (1.0 + 1e-9)
    parts = [np.empty(0)]
    for start in range(0, len(points), size):
        chunk = points[start : start + size]
        ends = _norm(chunk[:, None] - corners, norm)
        nearer = np.minimum(ends[:, :-1], ends[:, 1:])
        rows, segments = np.nonzero(nearer - reach <= ends.min(axis=1, keepdims=True))
        distances = _segment_distance(chunk[rows] - begin[segments], along[segments], norm)
        parts.append(np.minimum.reduceat(distances, np.searchsorted(rows, np.arange(len(chunk)))))
    return np.concatenate(parts)


def _segment_distance(offset: Floats, along: Floats, norm: str) -> Floats:
    """Return the minimum over t in [0, 1] of the norm of `offset - t along`, (q,).

    The norm is convex in t, so that few t can be the minimum. In l2 it is the foot of the perpendicular. In l1 and linf
    the norm is linear between the t where a coordinate, or the sum or difference of the two coordinates, is zero.
    """
    if norm == "l2":
        times = [(offset * along).sum(-1) / (along**2).sum(-1)]
    else:
        (x, y), (v, w) = offset.T, along.T
        breaks = [(x, v), (y, w)] if norm == "l1" else [(x, v), (y, w), (x + y, v + w), (x - y, v - w)]
        times = [np.divide(a, b, out=np.zeros_like(a), where=b != 0.0) for a, b in breaks]
        times += [np.zeros_like(x), np.ones_like(x)]
    lengths = [_norm(offset - t.clip(0.0, 1.0)[..., None] * along, norm) for t in times]
    minimum: Floats = np.minimum.reduce(lengths)
    return minimum


def _norm(vectors: Floats, norm: str) -> Floats:
    """Return the norm of vectors along the last axis."""
    if norm == "l2":
        return np.hypot(vectors[..., 0], vectors[..., 1])
    x, y = np.abs(vectors[..., 0]), np.abs(vectors[..., 1])
    return x + y if norm == "l1" else np.maximum(x, y)
