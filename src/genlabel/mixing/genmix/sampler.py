"""GenMix: points where two classes are as likely as asked, found through class densities (arXiv Alg. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from genlabel._standardization import Standardization
from genlabel._validation import check_positive, warn
from genlabel.densities import ClassDensity, named_density
from genlabel.mixing.genmix.projection import ProjectionFinder
from genlabel.mixing.genmix.quadric import QuadricFinder
from genlabel.mixing.genmix.roots import SegmentFinder
from genlabel.mixing.genmix.surface import Finder, Missing, sample_surfaces
from genlabel.mixing.sampler import Sampler, Synthetic, count_of

NAMED = 8
"""Pairs of classes that a warning names at most."""
MARGIN = 1e-9
"""lam="uniform" stays so far from 0 and 1, where there is no surface."""


class GenMixWarning(UserWarning):
    """No point was found between some classes; the message names them and says why that may be."""


@final
class GenMix(Sampler):
    r"""Add points between each two classes whose likelihoods under learned densities are as lambda asks.

    .. math:: \left| \frac{p_j(x)}{p_i(x) + p_j(x)} - \lambda \right| \le \epsilon

    (arXiv Alg. 4, Eq. (37)). A point is kept if i and j are its two most likely classes, and its label is shared by the
    two: p_i / (p_i + p_j) and p_j / (p_i + p_j).

    Where the density is one Gaussian a class, the points are the roots of quadratics along lines from a draw of class i
    to a draw of class j (GenMix+GM, arXiv Section F.2; exact but for rounding). Where it is a distance to manifolds
    (GenMix+GAN, arXiv Section F.3), points move with frozen projections. Of any other density they are sought between
    rows of the two classes, and along gradients.

    Parameters
    ----------
    density : str or ClassDensity
        "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "stacked". By name, "gaussian" is
        shrunk by Ledoit and Wolf's rule; the paper's GM is `GaussianDensity()`.
    n_aug : float or int
        How many points: a share of the rows if it is a float (1.0 doubles the table), a number if it is an int. They
        are spread over all pairs as evenly as can be. Pairs that have no point are named in a :class:`GenMixWarning`;
        what they lack goes to the others.
    lam : float, (low, high) or "uniform"
        The share of p_j, above 0 and below 1; of a range, one is drawn for each trial. "uniform" is (0, 1).
    eps : float
        How far from lambda a point may be. Those that are further are never kept. A density that is evaluated in
        float32, or by an inexact inversion, may need a larger one.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    standardize : bool
        Whether the density works on standardised features; else on those given.
    prefit : bool
        The density is fitted already, and is used as it is; else a copy is fitted to the rows.
    random_state : int, Generator or None

    Attributes
    ----------
    density_ : ClassDensity
        Fitted to `scaler_(X)`.
    classes_, is_synthetic_, pair_, lam_, sample_weight_
        See :class:`Sampler`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> genmix = GenMix(n_aug=20, output="soft", random_state=0)
    >>> points, labels = genmix.fit_resample(X[50:], y[50:])
    >>> points.shape, labels[-1].round(3)
    ((120, 4), array([0.5, 0.5]))
    """

    def __init__(
        self,
        density: Any = "gaussian",
        n_aug: float = 1.0,
        lam: Any = 0.5,
        eps: float = 1e-6,
        output: str = "hard",
        *,
        standardize: bool = False,
        prefit: bool = False,
        random_state: Any = None,
    ) -> None:
        self.density = density
        self.n_aug = n_aug
        self.lam = lam
        self.eps = eps
        self.output = output
        self.standardize = standardize
        self.prefit = prefit
        self.random_state = random_state

    def __sklearn_clone__(self) -> GenMix:
        """A copy, with an unfitted density, or with the same one if it is fitted already."""
        params = self.get_params(deep=False)
        return GenMix(**params if self.prefit else {name: clone(value, safe=False) for name, value in params.items()})

    def _synthesize(self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator) -> Synthetic:
        eps = check_positive("eps", self.eps, "1e-6 is the usual choice")
        low, high = self._range_of_lam()
        count = count_of(self.n_aug, len(X))
        self.scaler_ = Standardization.fit(X) if self.standardize else Standardization.identity(X)
        points = self.scaler_(X)
        self.density_ = self._fitted_density(points, index)
        finder = _finder(self.density_, points, index, eps)
        made, missing = sample_surfaces(
            finder, len(self.classes_), count, lambda n, rng: rng.uniform(low, high, n), eps, rng
        )
        self._warn_of(missing, len(made.points), count)
        return made._replace(points=self.scaler_.inverse(made.points))

    def _fitted_density(self, points: NDArray[np.float64], index: NDArray[np.int64]) -> ClassDensity:
        density = named_density(self.density)
        if not self.prefit:
            return clone(density).fit(points, self.classes_[index])
        if self.standardize:
            raise ValueError(
                "standardize=True and prefit=True: the density was fitted to other features; use one of them"
            )
        check_is_fitted(density, "classes_")
        if not np.array_equal(density.classes_, self.classes_):
            known = density.classes_.tolist()
            raise ValueError(f"y has the classes {self.classes_.tolist()}, but the density was fitted to {known}")
        return density

    def _range_of_lam(self) -> tuple[float, float]:
        lam: Any = (MARGIN, 1.0 - MARGIN) if isinstance(self.lam, str) and self.lam == "uniform" else self.lam
        ends = isinstance(lam, Sequence | np.ndarray) and not isinstance(lam, str) and len(lam) == 2
        low, high = lam if ends else (lam, lam)
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
        if not numbers or not (0.0 < float(low) < 1.0 and 0.0 < float(high) < 1.0):
            raise ValueError(
                f"lam={self.lam!r} must be a number above 0 and below 1, a range (low, high) of such, or 'uniform'"
            )
        if float(low) > float(high):
            raise ValueError(f"lam={self.lam!r} is an empty range; give (low, high) with low <= high")
        return float(low), float(high)

    def _warn_of(self, missing: Missing, made: int, count: int) -> None:
        """Name the pairs that were given up; raise if nothing was found at all."""
        if len(missing.pairs) == 0:
            return
        names = [f"{a!r} and {b!r}" for a, b in self.classes_[missing.pairs[:NAMED]].tolist()]
        more = len(missing.pairs) - len(names)
        between = ", ".join(names) + (f" and {more} more pairs" if more > 0 else "")
        why = "a third class is more likely there, or their densities never have that ratio"
        if missing.nearest < np.inf:
            why += f"; the nearest miss of lam={self.lam!r} was by {missing.nearest:.1g}, with eps={self.eps:g}"
        if made == 0:
            raise ValueError(
                f"GenMix found no point between {between}: {why}; try another density, lam or a larger eps"
            )
        lost = f"; {made} of {count} points were made" if made < count else ""
        message = f"GenMix gave up seeking points between {between}: {why}. Other pairs have more instead{lost}"
        warn(("GenMix", between), message, GenMixWarning)


def _finder(density: ClassDensity, X: NDArray[np.float64], index: NDArray[np.int64], eps: float) -> Finder:
    """What finds points of a fitted density."""
    gaussians = density.gaussians()
    if gaussians is not None:
        return QuadricFinder(density, gaussians)
    manifolds = density.manifolds()
    if manifolds is not None:
        return ProjectionFinder(manifolds, X, index, tolerance=0.5 * eps)
    return SegmentFinder(density, X, index, tolerance=1e-3 * eps)
