"""The plane of a table of two features: which class each network, and the stacked density, takes every place for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ACROSS, UP = 88, 64
"""Places along the first feature and along the second."""
MARGIN = 0.08
"""Of the range of a feature, to each side of its rows."""


class Plane(NamedTuple):
    """Regions of the classes over two features."""

    x: NDArray[np.float64]
    """Edges of the places along the first feature, (89,)."""
    y: NDArray[np.float64]
    """Along the second, (65,)."""
    regions: dict[str, NDArray[np.intp]]
    """Class numbers (64, 88) by the name of the model; the first row is that of the smallest y."""


def decision_regions(X: NDArray[np.float64], models: Mapping[str, Callable[[NDArray[np.float64]], Any]]) -> Plane:
    """Ask models for the class of every place of the plane that rows lie in.

    Parameters
    ----------
    X : array (n, 2)
        The rows.
    models : dict of name -> callable
        Takes points (m, 2), returns log-probabilities (m, k).

    Examples
    --------
    >>> halves = lambda at: np.stack([0.5 - at[:, 0], 0.0 * at[:, 0]], axis=1)
    >>> decision_regions(np.array([[0.0, 0.0], [1.0, 1.0]]), {"halves": halves}).regions["halves"][0, [0, -1]].tolist()
    [0, 1]
    """
    edges = [_edges(X[:, axis], places) for axis, places in enumerate((ACROSS, UP))]
    middles = [(line[:-1] + line[1:]) / 2 for line in edges]
    at = np.stack(np.meshgrid(*middles), axis=-1).reshape(-1, 2)
    regions = {name: np.asarray(model(at)).argmax(1).reshape(UP, ACROSS) for name, model in models.items()}
    return Plane(edges[0], edges[1], regions)


def _edges(values: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    low, high = float(values.min()), float(values.max())
    room = MARGIN * (high - low) or 1.0
    return np.linspace(low - room, high + room, places + 1)
