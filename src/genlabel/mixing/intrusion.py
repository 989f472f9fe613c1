"""Manifold intrusion: whether a mixed point lands among the points of a third class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.metrics import pairwise_distances_argmin

from genlabel.arrays import as_numpy
from genlabel.mixing.base import Mix

__all__ = ["intrudes"]

TREE_DIMENSIONS = 6
"""Up to here a tree finds neighbours faster than matrices do."""


def intrudes(X_mix: Any, draw: Mix, X: Any, y: Any, *, pool: tuple[Any, Any] | None = None) -> NDArray[np.bool_]:
    """Return which mixed points intrude: their nearest data point is of neither parent's class.

    The relaxed rule of arXiv section 3.1 ("Manifold intrusion of mixup reduces the margin and accuracy").

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

    Examples
    --------
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0])  # arXiv Example 1
    >>> draw = Mix(np.array([2, 1, 0]), np.array([0.5, 0.5, 0.9]))
    >>> intrudes([[0.0], [0.0], [0.8]], draw, X, y)
    array([ True, False, False])
    """
    labels = as_numpy(y)
    points, names = (as_numpy(X), labels) if pool is None else (as_numpy(pool[0]), as_numpy(pool[1]))
    mixed = as_numpy(X_mix)
    if len(labels) != len(draw.partner) or len(mixed) != len(draw.partner):
        raise ValueError(
            f"the draw pairs {len(draw.partner)} rows, but X_mix has {len(mixed)} and y has {len(labels)}; "
            "pass the rows that were mixed, and the whole training set as pool=(X, y)"
        )
    nearest = names[_nearest(mixed, points)]
    return (nearest != labels) & (nearest != labels[draw.partner])


def _nearest(queries: NDArray[Any], points: NDArray[Any]) -> NDArray[Any]:
    """Row of the nearest point: by a tree in few dimensions, else by matrices."""
    if points.shape[1] <= TREE_DIMENSIONS:
        return np.asarray(KDTree(points).query(queries)[1])
    return np.asarray(pairwise_distances_argmin(queries, points))
