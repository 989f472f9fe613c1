"""Manifold intrusion: detect mixed points that land among the points of a third class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel._arrays import as_numpy, as_tensor, chunks
from genlabel._validation import check_magnitude, read_classes
from genlabel.mixing.base import MixParams

MAX_PRODUCTS = 1 << 18
"""Inner products in one chunk; a cache holds about as many."""


def intrudes(
    X_mix: Any,
    draw: MixParams,
    X: Any,
    y: Any,
    *,
    pool: tuple[Any, Any] | None = None,
    rows: Any = None,
    rival_distance: Any = None,
) -> NDArray[np.bool_]:
    """Return a mask (n,) of mixed points whose nearest data point belongs to neither parent's class.

    The relaxed rule of arXiv Section 3.1 ("Manifold intrusion of mixup reduces the margin and accuracy").

    Parameters
    ----------
    X_mix : array (n, d)
        Mixed points.
    draw : MixParams
        Draw that made them from the rows of `X`.
    X, y : arrays (n, d), (n,)
        Points that were mixed, and their labels.
    pool : (array (m, d), array (m,)), optional
        Points and labels to search for neighbors; `X` and `y` if not given. Pass the whole training set if `X` is one
        batch of it.
    rows, rival_distance : arrays (n,) and (m,), optional
        Row of the pool that each row of `X` is, and the pool's `distance_to_rivals`: both save most of the searches.

    Examples
    --------
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])  # arXiv Example 1
    >>> draw = MixParams(np.array([2, 1, 0]), np.array([0.5, 0.5, 0.9]))
    >>> intrudes([[0.0], [0.0], [0.8]], draw, X, y)
    array([ True, False, False])
    """
    labels, mixed = as_numpy(y), _as_floats(X_mix)
    points, pool_labels = (_as_floats(X), labels) if pool is None else (_as_floats(pool[0]), as_numpy(pool[1]))
    if labels.shape != draw.partner.shape or mixed.shape[:1] != draw.partner.shape:
        message = f"the draw pairs {len(draw.partner)} rows, but X_mix has shape {mixed.shape} and y has {labels.shape}"
        raise ValueError(f"{message}; pass the rows that were mixed, and the whole training set as pool=(X, y)")
    _check_points(points, pool_labels, mixed)
    classes, index = read_classes(np.concatenate([pool_labels, labels]))
    pool_index, first = index[: len(pool_labels)], index[len(pool_labels) :]
    second = first[draw.partner]
    # Of two classes, only pairs of one class can have a third one nearby.
    unclear = (first == second) if len(classes) == 2 else np.ones(len(mixed), dtype=bool)
    if rival_distance is not None and rows is not None:
        for parent in (rows, rows[draw.partner]):
            # A point nearer to the parent than half its rival distance has a nearest point of the parent's class.
            distance = np.linalg.norm(mixed[unclear] - points[parent[unclear]], axis=1)
            unclear[unclear] = distance >= 0.5 * np.asarray(rival_distance)[parent[unclear]] * (1.0 - 1e-5)
    nearest = pool_index[_nearest(mixed[unclear], points)]
    result = np.zeros(len(mixed), dtype=bool)
    result[unclear] = (nearest != first[unclear]) & (nearest != second[unclear])
    return result


def distance_to_rivals(X: Any, y: Any) -> NDArray[np.float64]:
    """Return the distance (n,) of each point to the closest point of another class; infinity if there is none."""
    points, labels = _as_floats(X), as_numpy(y)
    _check_points(points, labels)
    distance = np.full(len(points), np.inf)
    classes, index = read_classes(labels)
    for c in range(len(classes)):
        own, rivals = points[index == c], points[index != c]
        if len(rivals):
            distance[index == c] = np.linalg.norm(own - rivals[_nearest(own, rivals)], axis=1)
    return distance


def _check_points(points: NDArray[Any], labels: NDArray[Any], mixed: NDArray[Any] | None = None) -> None:
    """Raise unless points are (m, d) and finite, with a label each, and mixed points have as many features."""
    if points.ndim != 2 or not points.size or labels.shape != points.shape[:1]:
        raise ValueError(f"X {points.shape} and y {labels.shape} must have shapes (n, d) and (n,), and not be empty")
    if mixed is not None and mixed.shape[1:] != points.shape[1:]:
        raise ValueError(f"X_mix has shape {mixed.shape}, and the pool {points.shape}; both need the same features")
    for values in [points] if mixed is None else [points, mixed]:
        largest = float(np.abs(values).max(initial=0.0))
        if not np.isfinite(largest):
            raise ValueError("X contains NaN or infinity; impute or drop those rows")
        check_magnitude(largest)


def _nearest(queries: NDArray[Any], points: NDArray[Any]) -> NDArray[Any]:
    """Return the row of the nearest point of each query: that of the largest <q, p> - |p|^2 / 2 after centering."""
    center = points.mean(axis=0, dtype=np.float64)
    q, p = (torch.from_numpy((values - center).astype(queries.dtype)) for values in (queries, points))
    half = -0.5 * (p * p).sum(1)
    parts = [torch.addmm(half, q[rows], p.T).max(1).indices for rows in chunks(len(q), max(1, MAX_PRODUCTS // len(p)))]
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)


def _as_floats(values: Any) -> NDArray[Any]:
    """Return a floating array unchanged, anything else as an array in double precision."""
    return values if isinstance(values, np.ndarray) and values.dtype.kind == "f" else as_numpy(as_tensor(values))
