"""Margins of training points, and decision regions and points of the plane encoded as strings of a record."""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
from numpy.typing import NDArray

from genlabel.attacks import margins

PLOT_LIMITS = {"nine-gaussians": (15.0, 15.0), "two-circle": (2.5, 1.3)}
"""Half the width and half the height of the recorded part of the plane, by dataset."""
GRID_CELLS = 500
"""Cells of the recorded regions along each axis."""
MAX_MARGINS = 300
"""Largest number of training points whose margins are measured."""
MAX_COORDINATE = 32_767
"""Integer of an encoded coordinate at the edge of the figure."""

Floats = NDArray[np.float64]


def margin_points(n: int, seed: int) -> NDArray[np.int64]:
    """Return the indices of the training points whose margins are measured, the same for all methods.

    >>> len(margin_points(1000, seed=0)), len(margin_points(40, seed=0))
    (300, 40)
    """
    return np.random.default_rng([seed, 2]).choice(n, min(n, MAX_MARGINS), replace=False)


def measure_margins(model: Any, X: Floats, y: NDArray[Any], seed: int) -> dict[str, float]:
    """Return the smallest and the median margin of 300 training points, and how many of them are classified correctly.

    A margin is the distance to the decision boundary, found by search; misclassified points do not count.

    Parameters
    ----------
    model : fitted classifier
    X, y : arrays (n, 2), (n,)
        Training points.
    seed : int
        Seed of `margin_points`.
    """
    chosen = margin_points(len(X), seed)
    result = margins(model, X[chosen], y[chosen])
    metrics = {"smallest_margin": result.smallest, "median_margin": result.median, "right_points": result.correct.sum()}
    return {name: float(value) for name, value in metrics.items() if isfinite(value)}


def describe_plane(dataset: str) -> dict[str, Any]:
    """Return the number of margins and the recorded part of the plane, for fingerprints.

    >>> describe_plane("two-circle")
    {'margins': 300, 'limits': (2.5, 1.3), 'steps': 500}
    """
    return {"margins": MAX_MARGINS, "limits": PLOT_LIMITS[dataset], "steps": GRID_CELLS}


class Regions(NamedTuple):
    """Predicted classes on a grid around the origin of the plane."""

    cells: NDArray[np.uint8]
    """Class indices (steps, steps), one row per height, the lowest first."""
    limits: tuple[float, float]

    def encode(self) -> str:
        """Return the cells as a compressed string, see `decode`."""
        changes = self.cells ^ np.vstack([np.zeros_like(self.cells[:1]), self.cells[:-1]])
        return b85encode(compress(changes.tobytes(), level=9)).decode()

    @classmethod
    def decode(cls, text: str, limits: tuple[float, float]) -> Regions:
        """Return the regions of an encoded string.

        >>> regions = predict_regions(lambda X: (X[:, 0] > X[:, 1]).astype(int), (1.0, 2.0), steps=50)
        >>> bool((Regions.decode(regions.encode(), regions.limits).cells == regions.cells).all())
        True
        """
        flat = np.frombuffer(decompress(b85decode(text)), dtype=np.uint8)
        steps = round(flat.size**0.5)
        return cls(np.bitwise_xor.accumulate(flat.reshape(steps, steps), axis=0), limits)

    def predict(self, X: Floats) -> NDArray[np.int64]:
        """Return the class of the cell of each point (m, 2), of the nearest cell for points outside."""
        steps = len(self.cells)
        index = ((X / self.limits + 1.0) * 0.5 * steps).astype(np.int64).clip(0, steps - 1)
        return self.cells[index[:, 1], index[:, 0]].astype(np.int64)


def predict_regions(
    predict: Callable[[Floats], NDArray[Any]], limits: tuple[float, float], steps: int = GRID_CELLS
) -> Regions:
    """Return the regions of a classifier with classes 0, 1, ..., evaluated at the centers of the cells.

    >>> regions = predict_regions(lambda X: (X[:, 0] > 0).astype(int), (1.0, 2.0), steps=4)
    >>> regions.cells[0].tolist(), regions.predict(np.array([[0.9, -1.9], [-7.0, 0.0]])).tolist()
    ([0, 0, 1, 1], [1, 0])
    """
    centers = (np.arange(steps) + 0.5) / steps * 2.0 - 1.0
    grid = np.stack(np.meshgrid(limits[0] * centers, limits[1] * centers), axis=-1)
    return Regions(predict(grid.reshape(-1, 2)).reshape(steps, steps).astype(np.uint8), limits)


def encode_points(points: Floats, pair: NDArray[np.int64], limits: tuple[float, float]) -> str:
    """Return points (s, 2) with their pairs of classes (s, 2) as a string; points outside the figure are left out.

    >>> text = encode_points(np.array([[0.5, -1.0], [9.0, 0.0]]), np.array([[0, 2], [0, 1]]), (2.0, 2.0))
    >>> points, pair = decode_points(text, (2.0, 2.0))
    >>> points.round(3).tolist(), pair.tolist()
    ([[0.5, -1.0]], [[0, 2]])
    """
    inside = (np.abs(points) <= limits).all(axis=1)
    coordinates = np.rint(points[inside] / limits * MAX_COORDINATE)
    integers = np.column_stack([coordinates, pair[inside]]).astype("<i2")
    return b85encode(compress(np.ascontiguousarray(integers.T).tobytes(), level=9)).decode()


def decode_points(text: str, limits: tuple[float, float]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the points (s, 2) and pairs (s, 2) of an encoded string."""
    integers = np.frombuffer(decompress(b85decode(text)), dtype="<i2").reshape(4, -1).T
    return integers[:, :2] / MAX_COORDINATE * np.array(limits), integers[:, 2:].astype(np.int64)
