"""Closed forms of the soft labels between two points: Proposition 1, and the logistic label of Section 3.2."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from genlabel._validation import check_positive

MAX_RATIO = 1e100
"""Distance in units of sigma from which the label is a step to the last bit; its square is finite."""


@overload
def gaussian_label(lam: float, sigma: float, distance: float = 1.0) -> float: ...
@overload
def gaussian_label(lam: NDArray[np.float64], sigma: float, distance: float = 1.0) -> NDArray[np.float64]: ...
def gaussian_label(lam: float | NDArray[np.float64], sigma: float, distance: float = 1.0) -> Any:
    r"""Return GenLabel's probability of the class with weight `lam`, between two Gaussians of the same width.

    .. math:: y^{gen} = \frac{1}{1 + \exp(-(\lambda - 1/2) \, \Delta^2 / \sigma^2)}

    arXiv Proposition 1, where the means are 0 and 1, so the distance is 1. For means 0 and Delta the mixed point is
    x = lam Delta and log p_1 - log p_0 = (x^2 - (x - Delta)^2) / (2 sigma^2) = (lam - 1/2) Delta^2 / sigma^2; in more
    dimensions the same holds, as only the coordinate along the line differs.

    NOTE[PAPER]: the proposition requires a small sigma, so that both points are close to their means and the mixed
    point is close to lam. At the point lam itself the label is exact for every sigma.

    Parameters
    ----------
    lam : float or array, in [0, 1]
    sigma : float
        Width of both Gaussians, positive; a small one labels with the nearer mean.
    distance : float
        Distance of the two means, positive.

    Returns
    -------
    float or array like `lam`

    Examples
    --------
    >>> gaussian_label(0.5, 0.1), round(gaussian_label(0.51, 0.1), 4)
    (0.5, 0.7311)
    >>> gaussian_label(np.array([0.0, 0.51, 1.0]), 0.1, distance=2.0).round(4)
    array([0.   , 0.982, 1.   ])
    """
    check_positive("sigma", sigma, "it is the width of the Gaussians; a tiny one labels with the nearer mean")
    check_positive("distance", distance, "it is the distance of the two means, 1 in Proposition 1")
    ratio = min(distance / sigma, MAX_RATIO)
    label = expit((check_lam(lam) - 0.5) * ratio * ratio)  # arXiv Proposition 1
    return float(label) if np.ndim(lam) == 0 else label


@overload
def logistic_label(lam: float, sigma: float) -> float: ...
@overload
def logistic_label(lam: NDArray[np.float64], sigma: float) -> NDArray[np.float64]: ...
def logistic_label(lam: float | NDArray[np.float64], sigma: float) -> Any:
    r"""Return the logistic label's probability of the class with weight `lam`.

    .. math:: \rho = \frac{1}{1 + \exp(-2 (\lambda - 1/2) / \sigma^2)}

    arXiv Section 3.2. NOTE[PAPER]: the paper derives this label from Proposition 1, which has no factor 2: the logistic
    label is that of two Gaussians at a distance of sqrt(2), or of width sigma / sqrt(2).

    Parameters
    ----------
    lam : float or array, in [0, 1]
    sigma : float
        Width of the curve, positive; a small one labels with the nearer point.

    Returns
    -------
    float or array like `lam`

    Examples
    --------
    >>> round(logistic_label(0.75, 0.5), 3)
    0.881
    """
    check_positive("sigma", sigma, "it is the width of the logistic curve")
    return gaussian_label(lam, sigma, math.sqrt(2.0))


def check_lam(lam: ArrayLike) -> NDArray[np.float64]:
    """Return the mixing weights as an array; raise unless all are in [0, 1]."""
    weights = np.asarray(lam, dtype=np.float64)
    outside = ~((weights >= 0.0) & (weights <= 1.0))
    if outside.any():
        raise ValueError(f"lam contains {float(weights[outside].flat[0])!r}; mixing weights must be in [0, 1]")
    return weights
