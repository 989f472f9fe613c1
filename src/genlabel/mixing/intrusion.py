"""Manifold intrusion: whether a mixed point lands among the points of a third class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel._arrays import as_numpy, as_tensor, chunks
from genlabel._validation import check_magnitude, read_classes
from genlabel.mixing.base import MixParams

AT_ONCE = 1 << 18
"""Products that are computed at once: what a cache holds."""


def intrudes(
    X_mix: Any,
    draw: MixParams,
    X: Any,
    y: Any,
    *,
    pool: tuple[Any, Any] | None = None,
    rows: Any = None,
    reach: Any = None,
) -> NDArray[np.bool_]:
    """Return which mixed points intrude: their nearest data point is of neither parent's class.

    The relaxed rule of arXiv Section 3.1 ("Manifold intrusion of mixup reduces the margin and accuracy").

    Parameters
    ----------
    X_mix : array (n, d)
        The mixed points.
    draw : Mix
        The draw that made them from the rows of `X`.
    X, y : arrays (n, d), (n,)
        The points that were mixed, with their labels.
    pool : (array (m, d), array (m,)), optional
        Where the neighbours are looked for, if not among `X` itself: the whole training set, say, when
        `X` is one batch of it.
    rows : array (n,), optional
        The row of the pool that each row of `X` is.
    reach : array (m,), optional
        `distance_to_rivals` of the pool: with `rows`, it spares most of the searches.

    Examples
    --------
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])  # arXiv Example 1
    >>> draw = MixParams(np.array([2, 1, 0]), np.array([0.5, 0.5, 0.9]))
    >>> intrudes([[0.0], [0.0], [0.8]], draw, X, y)
    array([ True, False, False])
    """
    labels, mixed = as_numpy(y), _floats(X_mix)
    points, names = (_floats(X), labels) if pool is None else (_floats(pool[0]), as_numpy(pool[1]))
    if labels.shape != draw.partner.shape or mixed.shape[:1] != draw.partner.shape:
        raise ValueError(
            f"the draw pairs {len(draw.partner)} rows, but X_mix has shape {mixed.shape} and y has {labels.shape}; "
            "pass the rows that were mixed, and the whole training set as pool=(X, y)"
        )
    _check_points(points, names, mixed)
    known, at = read_classes(np.concatenate([names, labels]))
    pool_at, first = at[: len(names)], at[len(names) :]
    other = first[draw.partner]
    ask = (first == other) if len(known) == 2 else np.ones(len(mixed), dtype=bool)
    if reach is not None and rows is not None:
        for parent in (rows, rows[draw.partner]):
            ask[ask] = _is_far(mixed[ask], points, parent[ask], np.asarray(reach))
    hit = np.zeros(len(mixed), dtype=bool)
    nearest = pool_at[_nearest(mixed[ask], points)]
    hit[ask] = (nearest != first[ask]) & (nearest != other[ask])
    return hit


def distance_to_rivals(X: Any, y: Any) -> NDArray[np.float64]:
    """Return the distance (n,) of each point to the closest one of another class.

    >>> distance_to_rivals([[-1.0], [0.0], [3.0]], [0, 1, 0])
    array([1., 1., 3.])
    """
    points, names = _floats(X), as_numpy(y)
    _check_points(points, names)
    found = np.full(len(points), np.inf)
    classes, index = read_classes(names)
    for c in range(len(classes)):
        inside, rivals = points[index == c], points[index != c]
        if len(rivals):
            found[index == c] = np.linalg.norm(inside - rivals[_nearest(inside, rivals)], axis=1)
    return found


def _check_points(points: NDArray[Any], names: NDArray[Any], mixed: NDArray[Any] | None = None) -> None:
    """Raise unless there is a label for each of some points (m, d), and mixed points have as many features."""
    if points.ndim != 2 or not points.size or names.shape != points.shape[:1]:
        raise ValueError(f"X {points.shape} and y {names.shape} must have shapes (n, d) and (n,), and rows and columns")
    if mixed is not None and mixed.shape[1:] != points.shape[1:]:
        raise ValueError(f"X_mix {mixed.shape} and the points that it may be near {points.shape} differ in features")
    for part in (points,) if mixed is None else (points, mixed):
        largest = float(np.abs(part).max(initial=0.0))
        if not np.isfinite(largest):
            raise ValueError("X contains NaN or infinity, which are near nothing; impute or drop those rows")
        check_magnitude(largest)


def _is_far(mixed: NDArray[Any], points: NDArray[Any], parent: NDArray[Any], reach: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a mixed point is further from its parent than half the way to the parent's closest rival.

    One that is nearer has its nearest neighbour in the parent's class, by the triangle inequality.
    """
    return np.asarray(np.linalg.norm(mixed - points[parent], axis=1) >= 0.5 * reach[parent] * (1.0 - 1e-5))


def _nearest(queries: NDArray[Any], points: NDArray[Any]) -> NDArray[Any]:
    """Row of the nearest point: of the largest <q, p> - |p|^2 / 2, taken from the middle of the points."""
    middle = points.mean(axis=0, dtype=np.float64)
    q, p = (torch.from_numpy((part - middle).astype(queries.dtype)) for part in (queries, points))
    half = -0.5 * (p * p).sum(1)
    parts = [torch.addmm(half, q[rows], p.T).max(1).indices for rows in chunks(len(q), max(1, AT_ONCE // len(p)))]
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)


def _floats(values: Any) -> NDArray[Any]:
    """Points as they are, if they are floating, else in double precision."""
    return values if isinstance(values, np.ndarray) and values.dtype.kind == "f" else as_numpy(as_tensor(values))
