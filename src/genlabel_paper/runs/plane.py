"""What is kept of a classifier of the plane besides its accuracy: margins of training points, its regions as text."""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
from numpy.typing import NDArray

from genlabel.attacks import margins

LIMITS = {"nine-gaussians": (15.0, 15.0), "two-circle": (2.5, 1.3)}
"""Half the width and half the height of the part of the plane whose regions are kept, by dataset."""
STEPS = 500
"""Cells of the regions along each axis."""
MEASURED = 300
"""Training points whose margins are measured."""
LARGEST = 32_767
"""A kept coordinate is a whole number of such parts of half the picture's width or height."""

Floats = NDArray[np.float64]


def choose_points(n: int, draw: int) -> NDArray[np.int64]:
    """Return the places of the training points whose margins are measured, the same for all methods.

    >>> len(choose_points(1000, draw=0)), len(choose_points(40, draw=0))
    (300, 40)
    """
    return np.random.default_rng([draw, 2]).choice(n, min(n, MEASURED), replace=False)


def measure_margins(model: Any, X: Floats, y: NDArray[Any], draw: int) -> dict[str, float]:
    """Return the smallest and the median margin of 300 training points, and how many of these are right.

    A margin is the distance to the decision boundary, found by search; points that are wrong do not count.

    Parameters
    ----------
    model : fitted classifier
    X, y : arrays (n, 2), (n,)
        The training points.
    draw : int
        Seed of `choose_points`.
    """
    chosen = choose_points(len(X), draw)
    found = margins(model, X[chosen], y[chosen])
    metrics = {"smallest_margin": found.smallest, "median_margin": found.median, "right_points": found.right.sum()}
    return {name: float(value) for name, value in metrics.items() if isfinite(value)}


def describe_plane(dataset: str) -> dict[str, Any]:
    """Return how many margins are measured and which regions are kept, for fingerprints.

    >>> describe_plane("two-circle")
    {'margins': 300, 'limits': (2.5, 1.3), 'steps': 500}
    """
    return {"margins": MEASURED, "limits": LIMITS[dataset], "steps": STEPS}


class Regions(NamedTuple):
    """Which class a model predicts in each cell of a part of the plane around the origin."""

    cells: NDArray[np.uint8]
    """Class indices (steps, steps), a row for each height, the lowest first."""
    limits: tuple[float, float]

    @property
    def text(self) -> str:
        """The cells in a few thousand letters; `read` is the way back."""
        changes = self.cells ^ np.vstack([np.zeros_like(self.cells[:1]), self.cells[:-1]])
        return b85encode(compress(changes.tobytes(), level=9)).decode()

    @classmethod
    def read(cls, text: str, limits: tuple[float, float]) -> Regions:
        """Return the regions that a text is of.

        >>> kept = keep_regions(lambda X: (X[:, 0] > X[:, 1]).astype(int), (1.0, 2.0), steps=50)
        >>> bool((Regions.read(kept.text, kept.limits).cells == kept.cells).all())
        True
        """
        flat = np.frombuffer(decompress(b85decode(text)), dtype=np.uint8)
        steps = round(flat.size**0.5)
        return cls(np.bitwise_xor.accumulate(flat.reshape(steps, steps), axis=0), limits)

    def predict(self, X: Floats) -> NDArray[np.int64]:
        """Return the class of the cell in which each point (m, 2) lies, of the nearest one for points outside."""
        steps = len(self.cells)
        place = ((X / self.limits + 1.0) * 0.5 * steps).astype(np.int64).clip(0, steps - 1)
        return self.cells[place[:, 1], place[:, 0]].astype(np.int64)


def keep_regions(predict: Callable[[Floats], NDArray[Any]], limits: tuple[float, float], steps: int = STEPS) -> Regions:
    """Return the regions of a classifier whose classes are the first whole numbers, by the centres of the cells.

    >>> regions = keep_regions(lambda X: (X[:, 0] > 0).astype(int), (1.0, 2.0), steps=4)
    >>> regions.cells[0].tolist(), regions.predict(np.array([[0.9, -1.9], [-7.0, 0.0]])).tolist()
    ([0, 0, 1, 1], [1, 0])
    """
    centres = (np.arange(steps) + 0.5) / steps * 2.0 - 1.0
    grid = np.stack(np.meshgrid(limits[0] * centres, limits[1] * centres), axis=-1)
    return Regions(predict(grid.reshape(-1, 2)).reshape(steps, steps).astype(np.uint8), limits)


def keep_points(points: Floats, pair: NDArray[np.int64], limits: tuple[float, float]) -> str:
    """Return points (s, 2) with their pairs of classes (s, 2) as a text; those outside the picture are left out.

    >>> text = keep_points(np.array([[0.5, -1.0], [9.0, 0.0]]), np.array([[0, 2], [0, 1]]), (2.0, 2.0))
    >>> again, same = read_points(text, (2.0, 2.0))
    >>> again.round(3).tolist(), same.tolist()
    ([[0.5, -1.0]], [[0, 2]])
    """
    inside = (np.abs(points) <= limits).all(axis=1)
    places = np.rint(points[inside] / limits * LARGEST)
    numbers = np.column_stack([places, pair[inside]]).astype("<i2")
    return b85encode(compress(np.ascontiguousarray(numbers.T).tobytes(), level=9)).decode()


def read_points(text: str, limits: tuple[float, float]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the points (s, 2) of a text, and their pairs (s, 2)."""
    numbers = np.frombuffer(decompress(b85decode(text)), dtype="<i2").reshape(4, -1).T
    return numbers[:, :2] / LARGEST * np.array(limits), numbers[:, 2:].astype(np.int64)
