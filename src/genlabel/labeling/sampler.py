"""Mixup with generative labels behind `fit_resample`, for any model that can be trained on rows."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel._standardization import Standardization
from genlabel.densities import named_density
from genlabel.labeling.generative import GenLabel
from genlabel.mixing import BatchInfo, Mixup, Sampler, Synthetic
from genlabel.mixing.sampler import count_of


@final
class GenLabelSampler(Sampler):
    """Add mixed points, lam' x_a + (1 - lam') x_b, whose labels are their posteriors under learned class densities.

    arXiv Alg. 1 as a sampler: mixup makes the points, :class:`GenLabel` labels them.

    Parameters
    ----------
    density : str or ClassDensity
        "gaussian", "kernel", "mixture", "flow", "vae", "gan" or "stacked". By name, "gaussian" is shrunk by Ledoit
        and Wolf's rule; the paper's GM is `GaussianDensity()`.
    gamma : float in [0, 1]
        Weight of the generative label beside mixup's; 0 is mixup itself.
    alpha : float
        Of the mixing weights, Beta(alpha, alpha).
    n_aug : float or int
        How many points: a share of the rows if it is a float, a number if it is an int. Every row is a parent equally
        often, or nearly so.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    priors : "auto", "uniform", "empirical" or array (k,)
        Of the generative label, see :class:`GenLabel`.
    standardize : bool
        Whether the density works on standardised features; else on those given.
    random_state : int, Generator or None

    Attributes
    ----------
    labeler_ : GenLabel
        With its density fitted to `scaler_(X)`.
    pair_ : ndarray (s, 2)
        The classes of the parents; a point may lie within one class.
    lam_ : ndarray (s,)
        The weight of the second parent.
    parents_ : ndarray (s, 2)
        Their rows.
    classes_, is_synthetic_, sample_weight_
        See :class:`genlabel.mixing.Sampler`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sampler = GenLabelSampler(n_aug=0.5, output="soft", random_state=0)
    >>> points, labels = sampler.fit_resample(X, y)
    >>> points.shape, labels.shape, sampler.parents_.shape
    ((225, 4), (225, 3), (75, 2))
    """

    def __init__(
        self,
        density: Any = "gaussian",
        gamma: float = 1.0,
        alpha: float = 1.0,
        n_aug: float = 1.0,
        output: str = "hard",
        *,
        priors: Any = "auto",
        standardize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.density = density
        self.gamma = gamma
        self.alpha = alpha
        self.n_aug = n_aug
        self.output = output
        self.priors = priors
        self.standardize = standardize
        self.random_state = random_state

    def _synthesize(self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator) -> Synthetic:
        count = count_of(self.n_aug, len(X))
        density = named_density(self.density)
        self.scaler_ = Standardization.fit(X) if self.standardize else Standardization.identity(X)
        points = self.scaler_(X)
        labeler = GenLabel(density, self.gamma, priors=self.priors)
        self.labeler_ = labeler.fit(points, self.classes_[index])
        parts = [self._mix(X, points, index, rng) for _ in range(-(-count // len(X)))]
        made = Synthetic.join(parts)
        return made.take(np.sort(rng.permutation(len(made.points))[:count]))

    def _mix(
        self, X: NDArray[np.float64], points: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator
    ) -> Synthetic:
        """Each row mixed once; the density is asked of the standardised points."""
        draw, mixup = Mixup(self.alpha).draw(len(X), rng), Mixup()
        rows = np.arange(len(X))
        origin = BatchInfo(rows=rows, points=points)
        labels = self.labeler_.label(mixup.mix(points, draw), self.classes_[index], draw, origin)
        parents = np.stack([rows, draw.partner], 1)
        return Synthetic(mixup.mix(X, draw), labels, index[parents], 1.0 - draw.lam, parents)
