"""What all synthetic sets are drawn with: Laplace noise, and one random order of the rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Points (n, d) and class indices (n,)."""
Seed: TypeAlias = int | np.random.Generator | None


def perturb(X: NDArray[np.float64], y: NDArray[np.intp], noise: float, random_state: Seed) -> Arrays:
    """Add Laplace noise of scale `noise` to every coordinate, then shuffle the rows.

    >>> X, y = perturb(np.zeros((3, 2)), np.array([0, 0, 1]), 0.0, random_state=0)
    >>> X.tolist(), sorted(y.tolist())
    ([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1])
    """
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise={noise!r} is not a Laplace scale; pass a finite number of at least 0, 0 for no noise")
    rng = np.random.default_rng(random_state)
    return shuffle(X + noise * rng.laplace(size=X.shape), y, rng)


def shuffle(X: NDArray[np.float64], y: NDArray[np.intp], rng: np.random.Generator) -> Arrays:
    """Put the rows of `X` and `y` into one random order.

    >>> X, y = shuffle(np.arange(3.0)[:, None], np.arange(3), np.random.default_rng(0))
    >>> bool((X[:, 0] == y).all())
    True
    """
    order = rng.permutation(len(y))
    return X[order], y[order].astype(np.int64)
