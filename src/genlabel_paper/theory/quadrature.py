"""Quadrature over lam ~ Beta(alpha, alpha), exact to rounding even where a label jumps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from genlabel._validation import check_positive

ORDER = 10
"""Points of the Gauss-Legendre rule of a panel."""
DEPTH = 24
"""Halvings of the panels towards each end of a piece; the last panel is 6e-8 of it."""
MIN_PROBABILITY = 1e-20
"""Probability below an edge that makes it relevant."""


class Nodes(NamedTuple):
    """Nodes of a quadrature rule: the expectation of g(lam) is `(weight * g(lam)).sum(-1)`."""

    lam: NDArray[np.float64]
    weight: NDArray[np.float64]


def mixing_nodes(alpha: float = 1.0, edges: Iterable[float] = (0.5,)) -> Nodes:
    """Return nodes for lam ~ Beta(alpha, alpha), dense around 0, 1 and the edges, where the integrand may jump.

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution, positive; 1 is the uniform distribution of the paper's theory.
    edges : iterable of float
        Points in [0, 1] at which the integrand may jump.

    Examples
    --------
    >>> lam, weight = mixing_nodes(2.0)
    >>> round(float(weight @ lam**2), 12)  # E[lam^2] = (alpha + 1) / (4 alpha + 2)
    0.3
    """
    check_positive("alpha", alpha, "1 is the paper's")
    quantiles = np.sort(betainc(alpha, alpha, np.clip(np.fromiter(edges, dtype=np.float64), 0.0, 1.0)))
    u, weight = nodes_between(quantiles[(quantiles > MIN_PROBABILITY) & (quantiles < 1.0)])
    return Nodes(u if alpha == 1.0 else betaincinv(alpha, alpha, u), weight)


def nodes_between(edges: NDArray[np.float64], depth: int = DEPTH) -> Nodes:
    """Return nodes (..., q) for the uniform distribution on [0, 1], split at the sorted edges (..., p) of each row.

    An integrand that bends within a known width instead of jumping needs fewer halvings.

    >>> lam, weight = nodes_between(np.array([[0.3], [0.7]]))
    >>> (weight * (lam > [[0.3], [0.7]])).sum(-1).round(12).tolist()
    [0.7, 0.3]
    """
    bounds = np.concatenate([np.zeros((*edges.shape[:-1], 1)), edges, np.ones((*edges.shape[:-1], 1))], -1)
    width = np.diff(bounds, axis=-1)[..., None]
    unit = graded_nodes(depth)
    lam, weight = bounds[..., :-1, None] + width * unit.lam, width * unit.weight
    return Nodes(lam.reshape(*edges.shape[:-1], -1), weight.reshape(*edges.shape[:-1], -1))


@cache
def graded_nodes(depth: int = DEPTH) -> Nodes:
    """Return nodes on [0, 1] in panels that halve towards both ends, each with a Gauss-Legendre rule."""
    half = np.concatenate([[0.0], 0.5 ** np.arange(depth, 0, -1)])
    ends = np.concatenate([half, 1.0 - half[-2::-1]])
    point, weight = np.polynomial.legendre.leggauss(ORDER)
    middle, radius = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    return Nodes((middle[:, None] + radius[:, None] * point).ravel(), (radius[:, None] * weight).ravel())
