"""The paper's synthetic datasets: circles, moons, cubes, Gaussians and strokes, each by a function of a seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_choice, check_count

Floats: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = tuple[Floats, NDArray[np.int64]]
"""Points (n, d) and class indices (n,)."""
Seed: TypeAlias = int | np.random.Generator | None

# Row c is the center of class c; rows are in lexicographic order of the coordinates, the first one slowest.
# NOTE[PAPER]: the paper numbers only the first of the eight cubes, and the first and last of the nine Gaussians;
# the order of the others is ours.
CUBE_2D_CENTERS: Floats = np.array([[-1.0, 0.0], [1.0, 0.0]])
CUBE_3D_CENTERS: Floats = np.array(list(product((-1.0, 1.0), repeat=3)))
NINE_CENTERS: Floats = np.array(list(product((-10.0, 0.0, 10.0), repeat=2)))
# NOTE[PAPER]: the paper names the datasets of the GenMix experiments without their geometry, which is our design.
STROKES: dict[str, tuple[Floats, ...]] = {
    "v": (np.array([[-1.0, 1.0], [-0.15, -0.8]]), np.array([[1.0, 1.0], [0.15, -0.8]])),
    "ket": (np.array([[-0.8, -1.0], [-0.8, 1.0]]), np.array([[0.0, -1.0], [0.8, 0.0], [0.0, 1.0]])),
    "y": (
        np.array([[-1.0, 1.0], [-0.25, 0.25]]),
        np.array([[1.0, 1.0], [0.25, 0.25]]),
        np.array([[0.0, -0.35], [0.0, -1.3]]),
    ),
}
"""Corners (2 or 3, 2) of the stroke of each class: straight, except for the ">" of Ket, which has a corner."""
SPHERES = (1.0, 0.8)
"""Radii of the two classes of Circle 3D, those of the circles in the plane."""
FOUR_CENTERS: Floats = np.array([[0.0, 0.0], [-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
"""Row c is the center of class c of the four Gaussians; class 0 lies halfway between classes 1 and 2."""
FOUR_DEVIATIONS: Floats = np.array([[0.4, 0.8], [0.5, 0.5], [0.5, 0.5], [0.8, 0.4]])
"""Row c has the standard deviations of class c along the two axes.

On the line x = 0, where classes 1 and 2 are equally likely, class 0 is more likely than both: it is nearer and has the
larger deviation along the line. So no point can be added between classes 1 and 2: arXiv Alg. 4 rejects all of them.
"""


def make_circle(n_samples: int = 1000, *, noise: float = 0.02, random_state: Seed = None) -> Arrays:
    """Draw the Circle dataset: two concentric circles under Laplace noise (arXiv Section E.1).

    `x = r (cos t, sin t) + e` with `r = 1` for class 0 and `r = 0.8` for class 1, each coordinate of `e` from
    Laplace(0, noise). The angles `t` are evenly spaced, so two datasets of one size differ only in the noise and the
    order of the rows; one seed gives the same order whatever the noise.

    Parameters
    ----------
    n_samples : int
        Number of points of both classes together, at least 2; class 1 has one more if it is odd.
    noise : float
        Scale of the Laplace noise (the paper's "exponential decay"); 0 for no noise.
    random_state : int, Generator or None

    Examples
    --------
    >>> X, y = make_circle(noise=0, random_state=0)
    >>> X.shape, float(np.hypot(*X[y == 1].T).mean().round(3))
    ((1000, 2), 0.8)
    """
    check_count("n_samples", n_samples, low=2)
    X, y = _make_circles(n_samples)
    return _add_noise(X, y, noise, random_state)


def make_moon(n_samples: int = 1000, *, noise: float = 0.1, random_state: Seed = None) -> Arrays:
    """Draw the Moon dataset: two interleaving half circles under Laplace noise (arXiv Section E.1).

    For `t` evenly spaced over [0, pi], class 0 is `(cos t, sin t) + e` and class 1 is `(1 - cos t, 1/2 - sin t) + e`.
    The parameters are those of `make_circle`.

    Examples
    --------
    >>> make_moon(random_state=0)[0].shape
    (1000, 2)
    """
    check_count("n_samples", n_samples, low=2)
    from sklearn.datasets import make_moons

    X, y = make_moons(n_samples, shuffle=False)
    return _add_noise(X, y, noise, random_state)


def make_two_circle(n_per_circle: int = 1000, *, noise: float = 0.01, random_state: Seed = None) -> Arrays:
    """Draw the Two-circle dataset: two Circle datasets side by side, the labels of the left one flipped.

    Around (+1.2, 0) class 0 has radius 1 and class 1 radius 0.8; around (-1.2, 0) it is the reverse (arXiv Section E.1,
    Figure 6). `n_per_circle` is the number of points of each of the two Circle datasets; the other parameters are those
    of `make_circle`.

    Examples
    --------
    >>> make_two_circle(random_state=0)[0].shape
    (2000, 2)
    """
    check_count("n_per_circle", n_per_circle, low=2)
    X, y = _make_circles(n_per_circle)
    # NOTE[PAPER]: the shift is not given, so the centers are ours; the text flips the one shifted to the
    # right where we flip the left one, which only swaps the names of the two classes.
    center = np.array([1.2, 0.0])
    return _add_noise(np.vstack([X + center, X - center]), np.concatenate([y, 1 - y]), noise, random_state)


def make_cube_2d(n_per_class: int = 20, *, random_state: Seed = None) -> Arrays:
    """Draw the 2D cube dataset: two adjacent squares of side 2, uniformly filled (arXiv Section E.1).

    Class c is uniform on `{x : |x - mu_c|_inf <= 1}` with `mu_c = CUBE_2D_CENTERS[c]`.

    Parameters
    ----------
    n_per_class : int
        Number of points of each class, at least 1 (the paper tests on 10000).
    random_state : int, Generator or None

    Examples
    --------
    >>> X, y = make_cube_2d(random_state=0)
    >>> X.shape, bool((y == (X[:, 0] > 0)).all())
    ((40, 2), True)
    """
    return _draw_classes(CUBE_2D_CENTERS, None, n_per_class, random_state)


def make_cube_3d(n_per_class: int = 20, *, random_state: Seed = None) -> Arrays:
    """Draw the 3D cube dataset: eight adjacent cubes of side 2, one an octant, uniformly filled (arXiv Section E.1).

    Class c has center `CUBE_3D_CENTERS[c]`: class 0 (-1, -1, -1), class 1 (-1, -1, 1), class 7 (1, 1, 1). The
    parameters are those of `make_cube_2d`.

    Examples
    --------
    >>> make_cube_3d(random_state=0)[0].shape
    (160, 3)
    """
    return _draw_classes(CUBE_3D_CENTERS, None, n_per_class, random_state)


def make_nine_gaussians(n_per_class: int = 5000, *, random_state: Seed = None) -> Arrays:
    """Draw the 9-class Gaussian dataset: round clusters on a three by three grid (arXiv Section E.1, Figure 6).

    Class c is `N(mu_c, I / 10)` with `mu_c = NINE_CENTERS[c]`: class 0 has center (-10, -10), class 1 (-10, 0), class 8
    (10, 10). The parameters are those of `make_cube_2d`.

    Examples
    --------
    >>> make_nine_gaussians(random_state=0)[0].shape
    (45000, 2)
    """
    return _draw_classes(NINE_CENTERS, np.full_like(NINE_CENTERS, np.sqrt(0.1)), n_per_class, random_state)


def make_strokes(letter: str, n_per_class: int = 300, *, noise: float = 0.03, random_state: Seed = None) -> Arrays:
    """Draw the V, Ket or Y dataset: each stroke of the letter is a class, and the strokes come near each other.

    Points are evenly spaced along the strokes, each in the middle of its interval, under Laplace noise. "ket" is |x>
    (arXiv Figure 13; the geometry is ours): the mean of its angle lies between the two strokes, where neither class is.

    Parameters
    ----------
    letter : str
        "v", "ket" or "y".
    n_per_class : int
        Number of points of each class, at least 1.
    noise, random_state
        See `make_circle`.

    Examples
    --------
    >>> X, y = make_strokes("y", random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((900, 2), [300, 300, 300])
    """
    check_choice("letter", letter, STROKES)
    check_count("n_per_class", n_per_class)
    strokes = []
    for corners in STROKES[letter]:
        lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
        corner_position = np.concatenate([[0.0], np.cumsum(lengths)])  # along the stroke
        position = (np.arange(n_per_class) + 0.5) / n_per_class * corner_position[-1]
        strokes.append(np.column_stack([np.interp(position, corner_position, column) for column in corners.T]))
    return _add_noise(np.vstack(strokes), np.repeat(np.arange(len(strokes)), n_per_class), noise, random_state)


def make_four_gaussians(n_per_class: int = 250, *, random_state: Seed = None) -> Arrays:
    """Draw four Gaussians in the plane; class 0 lies between classes 1 and 2.

    Class c is `N(mu_c, diag(s_c)^2)` with `mu_c = FOUR_CENTERS[c]` and `s_c = FOUR_DEVIATIONS[c]`, both ours. Every
    mixed sample of classes 1 and 2 intrudes class 0 (arXiv Figure 14). The parameters are those of `make_cube_2d`.

    Examples
    --------
    >>> make_four_gaussians(random_state=0)[0].shape
    (1000, 2)
    """
    return _draw_classes(FOUR_CENTERS, FOUR_DEVIATIONS, n_per_class, random_state)


def make_circle_3d(n_samples: int = 1000, *, noise: float = 0.02, random_state: Seed = None) -> Arrays:
    """Draw the Circle 3D dataset: two concentric spheres in space under Laplace noise.

    Class 0 is uniform on the sphere of radius 1, class 1 on that of radius 0.8. NOTE[PAPER]: we read the "Circle (3D)"
    of arXiv Table 15 as spheres. The parameters are those of `make_circle`.

    Examples
    --------
    >>> make_circle_3d(random_state=0)[0].shape
    (1000, 3)
    """
    check_count("n_samples", n_samples, low=2)
    rng = np.random.default_rng(random_state)
    y = (np.arange(n_samples) >= n_samples // 2).astype(np.int64)
    direction = rng.standard_normal((n_samples, 3))
    X = np.array(SPHERES)[y, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return _add_noise(X, y, noise, rng)


def _make_circles(n_samples: int) -> Arrays:
    """Return circles of radius 1 and 0.8, half of the points on each; scikit-learn is imported on first use."""
    from sklearn.datasets import make_circles

    return make_circles(n_samples, shuffle=False, factor=0.8)


def _draw_classes(centers: Floats, deviations: Floats | None, n_per_class: int, random_state: Seed) -> Arrays:
    """Draw a Gaussian around each center; without deviations, from the unit ball of the maximum norm around it."""
    check_count("n_per_class", n_per_class)
    rng = np.random.default_rng(random_state)
    y = np.repeat(np.arange(len(centers)), n_per_class)
    shape = (y.size, centers.shape[1])
    noise = rng.uniform(-1.0, 1.0, shape) if deviations is None else deviations[y] * rng.standard_normal(shape)
    return _shuffle(centers[y] + noise, y, rng)


def _add_noise(X: Floats, y: NDArray[np.intp], noise: float, random_state: Seed) -> Arrays:
    """Add Laplace noise to every coordinate, then shuffle the rows."""
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise={noise!r} is not a Laplace scale; pass a finite number of at least 0, 0 for no noise")
    rng = np.random.default_rng(random_state)
    return _shuffle(X + noise * rng.laplace(size=X.shape), y, rng)


def _shuffle(X: Floats, y: NDArray[np.intp], rng: np.random.Generator) -> Arrays:
    order = rng.permutation(len(y))
    return X[order], y[order].astype(np.int64)


SYNTHETIC: dict[str, Callable[..., Arrays]] = {
    "circle": make_circle,
    "moon": make_moon,
    "two-circle": make_two_circle,
    "cube-2d": make_cube_2d,
    "cube-3d": make_cube_3d,
    "nine-gaussians": make_nine_gaussians,
    **{letter: partial(make_strokes, letter) for letter in STROKES},
    "four-gaussians": make_four_gaussians,
    "circle-3d": make_circle_3d,
}
"""Functions that draw a synthetic dataset, by its name."""
