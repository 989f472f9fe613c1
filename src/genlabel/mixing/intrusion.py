"""Manifold intrusion: whether a mixed point lands among the points of a third class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.arrays import as_numpy, chunks
from genlabel.mixing.base import Mix

__all__ = ["distance_to_rivals", "intrudes"]

AT_ONCE = 1 << 18
"""Products that are computed at once: what a cache holds."""


def intrudes(
    X_mix: Any,
    draw: Mix,
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
    >>> draw = Mix(np.array([2, 1, 0]), np.array([0.5, 0.5, 0.9]))
    >>> intrudes([[0.0], [0.0], [0.8]], draw, X, y)
    array([ True, False, False])
    """
    labels = as_numpy(y)
    points, names = (as_numpy(X), labels) if pool is None else (as_numpy(pool[0]), as_numpy(pool[1]))
    points, mixed = _floats(points), _floats(as_numpy(X_mix))
    if len(labels) != len(draw.partner) or len(mixed) != len(draw.partner):
        raise ValueError(
            f"the draw pairs {len(draw.partner)} rows, but X_mix has {len(mixed)} and y has {len(labels)}; "
            "pass the rows that were mixed, and the whole training set as pool=(X, y)"
        )
    known, at = np.unique(np.concatenate([names, labels]), return_inverse=True)
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
    points, names = _floats(as_numpy(X)), as_numpy(y)
    found = np.full(len(points), np.inf)
    for c in np.unique(names):
        inside, rivals = points[names == c], points[names != c]
        if len(rivals):
            found[names == c] = np.linalg.norm(inside - rivals[_nearest(inside, rivals)], axis=1)
    return found


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


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind == "f" else values.astype(np.float64)
