"""The paper's synthetic sets: circles, moons, cubes, nine Gaussians, and the points of Examples 1 to 3."""

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_count, check_positive
from genlabel.data.datasets.drawing import Arrays, Seed, perturb, shuffle
from genlabel.data.datasets.strokes import make_circle_3d, make_four_gaussians, make_ket, make_v, make_y

__all__ = [
    "CUBE_2D_CENTRES",
    "CUBE_3D_CENTRES",
    "NINE_CENTRES",
    "SYNTHETIC",
    "make_circle",
    "make_circle_3d",
    "make_cube_2d",
    "make_cube_3d",
    "make_example1",
    "make_example2",
    "make_example3",
    "make_four_gaussians",
    "make_ket",
    "make_moon",
    "make_nine_gaussians",
    "make_two_circle",
    "make_v",
    "make_y",
]

# Row c is the centre of class c; rows are in lexicographic order of the coordinates, the first one slowest.
# NOTE[PAPER]: of the eight cubes the paper numbers the first, of the nine Gaussians the first and the last;
# the order of the others is ours.
CUBE_2D_CENTRES: NDArray[np.float64] = np.array([[-1.0, 0.0], [1.0, 0.0]])
"""Centres of the two squares of `make_cube_2d`, (2, 2)."""
CUBE_3D_CENTRES: NDArray[np.float64] = np.array(list(product((-1.0, 1.0), repeat=3)))
"""Centres of the eight cubes of `make_cube_3d`, (8, 3)."""
NINE_CENTRES: NDArray[np.float64] = np.array(list(product((-10.0, 0.0, 10.0), repeat=2)))
"""Centres of the classes of `make_nine_gaussians`, (9, 2)."""


def make_circle(n_samples: int = 1000, *, noise: float = 0.02, random_state: Seed = None) -> Arrays:
    """Draw the Circle set: two concentric circles, one inside the other, under Laplace noise.

    `x = r (cos t, sin t) + e` with `r = 1` for class 0 and `r = 0.8` for class 1, each coordinate of `e` from
    Laplace(0, noise). The angles `t` are scikit-learn's, evenly spaced, so two sets of one size differ in the
    noise and the order of the rows only; one seed gives the same rows whatever the noise.

    Citation: arXiv Section E.1, Synthetic datasets.

    Parameters
    ----------
    n_samples : int, the number of points over both classes, at least 2; an odd one goes to class 1.
    noise : float, the Laplace scale (the paper's "exponential decay"), 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_circle(noise=0, random_state=0)
    >>> X.shape, float(np.hypot(*X[y == 1].T).mean().round(3))
    ((1000, 2), 0.8)
    """
    check_count("n_samples", n_samples, low=2)
    X, y = _circles(n_samples)
    return perturb(X, y, noise, random_state)


def make_moon(n_samples: int = 1000, *, noise: float = 0.1, random_state: Seed = None) -> Arrays:
    """Draw the Moon set: two interleaving half circles under Laplace noise.

    For `t` evenly spaced over [0, pi], class 0 is `(cos t, sin t) + e` and class 1 is
    `(1 - cos t, 1/2 - sin t) + e`, each coordinate of `e` from Laplace(0, noise).

    Citation: arXiv Section E.1, Synthetic datasets.

    Parameters
    ----------
    n_samples : int, the number of points over both classes, at least 2; an odd one goes to class 1.
    noise : float, the Laplace scale (the paper's "exponential decay"), 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_moon(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((1000, 2), [500, 500])
    """
    check_count("n_samples", n_samples, low=2)
    from sklearn.datasets import make_moons

    X, y = make_moons(n_samples, shuffle=False)
    return perturb(X, y, noise, random_state)


def make_two_circle(n_per_circle: int = 1000, *, noise: float = 0.01, random_state: Seed = None) -> Arrays:
    """Draw the Two-circle set: two Circle sets side by side, the labels of the left one flipped.

    Around (+1.2, 0) class 0 has radius 1 and class 1 radius 0.8; around (-1.2, 0) class 0 has radius 0.8 and
    class 1 radius 1. Every coordinate carries its own Laplace(0, noise).

    Citation: arXiv Section E.1, Synthetic datasets, and Figure 6.

    Parameters
    ----------
    n_per_circle : int, the number of points of each of the two Circle sets, at least 2.
    noise : float, the Laplace scale (the paper's "exponential decay"), 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_two_circle(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((2000, 2), [1000, 1000])
    """
    check_count("n_per_circle", n_per_circle, low=2)
    X, y = _circles(n_per_circle)
    # NOTE[PAPER]: the shift is not given, so the centres are ours; the text flips the set shifted to the
    # right where we flip the left one, which only swaps the names of the two classes.
    centre = np.array([1.2, 0.0])
    return perturb(np.vstack([X + centre, X - centre]), np.concatenate([y, 1 - y]), noise, random_state)


def make_cube_2d(n_per_class: int = 20, *, random_state: Seed = None) -> Arrays:
    """Draw the 2D cube set: two adjacent squares of side 2, uniformly filled.

    Class c is uniform on `{x : |x - mu_c|_inf <= 1}` with `mu_c = CUBE_2D_CENTRES[c]`.

    Citation: arXiv Section E.1, Synthetic datasets.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1 (the paper tests on 10000).
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_cube_2d(random_state=0)
    >>> X.shape, bool((y == (X[:, 0] > 0)).all())
    ((40, 2), True)
    """
    return _make_cubes(CUBE_2D_CENTRES, n_per_class, random_state)


def make_cube_3d(n_per_class: int = 20, *, random_state: Seed = None) -> Arrays:
    """Draw the 3D cube set: eight adjacent cubes of side 2, one an octant, uniformly filled.

    Class c is uniform on `{x : |x - mu_c|_inf <= 1}` with `mu_c = CUBE_3D_CENTRES[c]`; class 0 has centre
    (-1, -1, -1), class 1 (-1, -1, 1), and class 7 (1, 1, 1).

    Citation: arXiv Section E.1, Synthetic datasets.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1 (the paper tests on 10000).
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_cube_3d(random_state=0)
    >>> X.shape, bool((np.sign(X) == CUBE_3D_CENTRES[y]).all())
    ((160, 3), True)
    """
    return _make_cubes(CUBE_3D_CENTRES, n_per_class, random_state)


def make_nine_gaussians(n_per_class: int = 5000, *, random_state: Seed = None) -> Arrays:
    """Draw the 9-class Gaussian set: round clusters on a three by three grid.

    Class c is `N(mu_c, I / 10)` with `mu_c = NINE_CENTRES[c]`; class 0 has centre (-10, -10), class 1
    (-10, 0), and class 8 (10, 10).

    Citation: arXiv Section E.1, Synthetic datasets, and Figure 6.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_nine_gaussians(random_state=0)
    >>> X.shape, X[y == 8].mean(axis=0).round(1).tolist()
    ((45000, 2), [10.0, 10.0])
    """
    check_count("n_per_class", n_per_class)
    rng = np.random.default_rng(random_state)
    y = np.repeat(np.arange(9), n_per_class)
    return shuffle(NINE_CENTRES[y] + np.sqrt(0.1) * rng.standard_normal((y.size, 2)), y, rng)


def make_example1() -> Arrays:
    """Return the three points on the line where mixup meets manifold intrusion.

    `S = {(-1, e_1), (0, e_2), (+1, e_1)}`; class `e_c` is the label c - 1.

    Citation: arXiv Example 1.

    Examples
    --------
    >>> X, y = make_example1()
    >>> X.ravel().tolist(), y.tolist()
    ([-1.0, 0.0, 1.0], [0, 1, 0])
    """
    return np.array([[-1.0], [0.0], [1.0]]), np.array([0, 1, 0], dtype=np.int64)


def make_example2(d: float = 5.0) -> Arrays:
    """Return the three points of the plane where linear labels shrink the margin.

    `S = {((-d, d), e_1), ((d, d), e_2), ((-d, -d), e_3)}`; class `e_c` is the label c - 1.

    Citation: arXiv Example 2.

    Parameters
    ----------
    d : float, the positive coordinate.

    Examples
    --------
    >>> X, y = make_example2()
    >>> X.tolist(), y.tolist()
    ([[-5.0, 5.0], [5.0, 5.0], [-5.0, -5.0]], [0, 1, 2])
    """
    d = check_positive("d", d, "the paper's is 5")
    return d * np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]), np.arange(3, dtype=np.int64)


def make_example3(n: int = 30) -> Arrays:
    """Return two positive points and `n` copies of a negative one, whose weight turns the boundary.

    `S = {((1, 0), +1), ((0, 1), +1)}` and `n` times `((-1, 0), -1)`; `y` holds the paper's -1 and +1.

    Citation: arXiv Example 3 and Figure 7.

    Parameters
    ----------
    n : int, the number of copies of the negative point, at least 1.

    Examples
    --------
    >>> X, y = make_example3(n=2)
    >>> X.astype(int).tolist(), y.tolist()
    ([[1, 0], [0, 1], [-1, 0], [-1, 0]], [1, 1, -1, -1])
    """
    # NOTE[PAPER]: n is not given; the paper's vanilla angle of 0.22 pi at r = 25 needs n from 18 to 59.
    check_count("n", n)
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    return X.repeat([1, 1, n], axis=0), np.array([1, 1, -1], dtype=np.int64).repeat([1, 1, n])


def _circles(n_samples: int) -> Arrays:
    """Circles of radius 1 and 0.8, half of the points on each; scikit-learn is imported when they are drawn."""
    from sklearn.datasets import make_circles

    return make_circles(n_samples, shuffle=False, factor=0.8)


def _make_cubes(centres: NDArray[np.float64], n_per_class: int, random_state: Seed) -> Arrays:
    """Fill the unit ball of the maximum norm around each centre uniformly."""
    check_count("n_per_class", n_per_class)
    rng = np.random.default_rng(random_state)
    y = np.repeat(np.arange(len(centres)), n_per_class)
    return shuffle(centres[y] + rng.uniform(-1.0, 1.0, (y.size, centres.shape[1])), y, rng)


SYNTHETIC: dict[str, Callable[..., Arrays]] = {
    "circle": make_circle,
    "moon": make_moon,
    "two-circle": make_two_circle,
    "cube-2d": make_cube_2d,
    "cube-3d": make_cube_3d,
    "nine-gaussians": make_nine_gaussians,
    "v": make_v,
    "ket": make_ket,
    "y": make_y,
    "four-gaussians": make_four_gaussians,
    "circle-3d": make_circle_3d,
}
"""The synthetic sets by name: functions that draw points and classes."""
