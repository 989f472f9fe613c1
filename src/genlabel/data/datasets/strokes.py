"""The sets of the GenMix experiments: V, Ket and Y of straight strokes, four Gaussians, and two spheres.

NOTE[PAPER]: the paper names these sets and gives no geometry; what is below is our design.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_count
from genlabel.data.datasets.drawing import Arrays, Seed, perturb, shuffle

Floats = NDArray[np.float64]

STROKES: dict[str, tuple[Floats, ...]] = {
    "v": (
        np.array([[-1.0, 1.0], [-0.15, -0.8]]),
        np.array([[1.0, 1.0], [0.15, -0.8]]),
    ),
    "ket": (
        np.array([[-0.8, -1.0], [-0.8, 1.0]]),
        np.array([[0.0, -1.0], [0.8, 0.0], [0.0, 1.0]]),
    ),
    "y": (
        np.array([[-1.0, 1.0], [-0.25, 0.25]]),
        np.array([[1.0, 1.0], [0.25, 0.25]]),
        np.array([[0.0, -0.35], [0.0, -1.3]]),
    ),
}
"""The corners (2 or 3, 2) of the one stroke of each class: straight, but for the ">" of Ket, which has a corner."""
SPHERES = (1.0, 0.8)
"""The radii of the two classes of Circle 3D, those of the circles of the plane."""
FOUR_CENTRES: Floats = np.array([[0.0, 0.0], [-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
"""Row c is the centre of class c of the four Gaussians; class 0 lies half way between classes 1 and 2."""
FOUR_DEVIATIONS: Floats = np.array([[0.4, 0.8], [0.5, 0.5], [0.5, 0.5], [0.8, 0.4]])
"""Row c has the standard deviations of class c along the two axes.

Where classes 1 and 2 are equally likely, on the line x = 0, class 0 is more likely than both: it is nearer and has the
larger deviation along the line. So no point can be added between classes 1 and 2 (arXiv Alg. 4 leaves all of them out).
"""


def make_v(n_per_class: int = 300, *, noise: float = 0.03, random_state: Seed = None) -> Arrays:
    """Draw the V set: the two strokes of the letter, a class each, that come near each other at the bottom.

    Points are evenly spaced along the strokes `STROKES["v"]`, each coordinate with its own Laplace(0, noise).

    Citation: arXiv Figure 13; the geometry is ours.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1.
    noise : float, the Laplace scale, 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_v(noise=0, random_state=0)
    >>> X.shape, bool(((X[:, 0] > 0) == (y == 1)).all())
    ((600, 2), True)
    """
    return _make_strokes("v", n_per_class, noise, random_state)


def make_ket(n_per_class: int = 300, *, noise: float = 0.03, random_state: Seed = None) -> Arrays:
    """Draw the Ket set: the bar of a ket |x> is class 0, its angle is class 1.

    The mean of the angle lies between the two, where neither class is. Points are evenly spaced along the strokes
    `STROKES["ket"]`, each coordinate with its own Laplace(0, noise).

    Citation: arXiv Figure 13; the geometry is ours.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1.
    noise : float, the Laplace scale, 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_ket(noise=0, random_state=0)
    >>> X[y == 0, 0].max().item(), bool(X[y == 1, 0].min() > 0)
    (-0.8, True)
    """
    return _make_strokes("ket", n_per_class, noise, random_state)


def make_y(n_per_class: int = 300, *, noise: float = 0.03, random_state: Seed = None) -> Arrays:
    """Draw the Y set: the three strokes of the letter, a class each, that come near each other in the middle.

    Points are evenly spaced along the strokes `STROKES["y"]`, each coordinate with its own Laplace(0, noise).

    Citation: arXiv Figure 13; the geometry is ours.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1.
    noise : float, the Laplace scale, 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_y(noise=0, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((900, 2), [300, 300, 300])
    """
    return _make_strokes("y", n_per_class, noise, random_state)


def make_four_gaussians(n_per_class: int = 250, *, random_state: Seed = None) -> Arrays:
    """Draw four Gaussians of the plane, of which class 0 lies between classes 1 and 2.

    Class c is `N(mu_c, diag(s_c)^2)` with `mu_c = FOUR_CENTRES[c]` and `s_c = FOUR_DEVIATIONS[c]`. To mix classes 1 and
    2 is to intrude class 0, everywhere.

    Citation: arXiv Figure 14; centres and covariances are ours.

    Parameters
    ----------
    n_per_class : int, the number of points of each class, at least 1.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_four_gaussians(random_state=0)
    >>> X.shape, int(X[y == 3, 1].mean().round())
    ((1000, 2), 4)
    """
    check_count("n_per_class", n_per_class)
    rng = np.random.default_rng(random_state)
    y = np.repeat(np.arange(4), n_per_class)
    return shuffle(FOUR_CENTRES[y] + FOUR_DEVIATIONS[y] * rng.standard_normal((y.size, 2)), y, rng)


def make_circle_3d(n_samples: int = 1000, *, noise: float = 0.02, random_state: Seed = None) -> Arrays:
    """Draw the Circle 3D set: two concentric spheres in space, one inside the other, under Laplace noise.

    Class 0 is uniform on the sphere of radius 1, class 1 on that of radius 0.8; each coordinate has its own
    Laplace(0, noise).

    Citation: arXiv Table 15; that "Circle (3D)" means spheres is our reading.

    Parameters
    ----------
    n_samples : int, the number of points over both classes, at least 2; an odd one goes to class 1.
    noise : float, the Laplace scale, 0 for none.
    random_state : None, int or numpy Generator.

    Examples
    --------
    >>> X, y = make_circle_3d(noise=0, random_state=0)
    >>> X.shape, float(np.linalg.norm(X[y == 1], axis=1).mean().round(3))
    ((1000, 3), 0.8)
    """
    check_count("n_samples", n_samples, low=2)
    rng = np.random.default_rng(random_state)
    y = (np.arange(n_samples) >= n_samples // 2).astype(np.int64)
    far = rng.standard_normal((n_samples, 3))
    X = np.array(SPHERES)[y, None] * far / np.linalg.norm(far, axis=1, keepdims=True)
    return perturb(X, y, noise, rng)


def _make_strokes(name: str, n_per_class: int, noise: float, random_state: Seed) -> Arrays:
    check_count("n_per_class", n_per_class)
    strokes = STROKES[name]
    X = np.vstack([_spaced(corners, n_per_class) for corners in strokes])
    return perturb(X, np.repeat(np.arange(len(strokes)), n_per_class), noise, random_state)


def _spaced(corners: Floats, n: int) -> Floats:
    """Points (n, 2) along a stroke of given corners, evenly spaced, each in the middle of its part."""
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    at = (np.arange(n) + 0.5) / n * ends[-1]
    return np.column_stack([np.interp(at, ends, column) for column in corners.T])
