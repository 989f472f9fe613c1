"""Mixup with generative labels as a sampler, for any model that is trained on rows."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel._arrays import Standardization
from genlabel.densities.candidates import named_density
from genlabel.labeling.generative import GenLabel
from genlabel.mixing import Mixup, Sampler
from genlabel.mixing.base import BatchInfo
from genlabel.mixing.sampler import Synthetic, resolve_n_aug
from genlabel.registry import SAMPLERS


@final
@SAMPLERS.register("genlabel")
class GenLabelSampler(Sampler):
    """Add mixed points lam' x_a + (1 - lam') x_b, labeled by their posteriors under learned class densities.

    arXiv Alg. 1 as a sampler: mixup makes the points, :class:`GenLabel` labels them.

    Parameters
    ----------
    density : str or ClassDensity
        A density or its registered name, such as "gaussian", "kernel" or "stacked". By name, "gaussian" is shrunk by
        Ledoit and Wolf's rule; the paper's GM is `GaussianDensity()`.
    gamma : float in [0, 1]
        Weight of the generative label; the rest is mixup's label.
    alpha : float
        Parameter of the mixing weights' distribution, Beta(alpha, alpha).
    n_aug : float or int
        Number of points: a fraction of the rows if it is a float, a number if it is an int. Every row is a parent
        equally often, up to one.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors of the generative label, see :class:`GenLabel`.
    standardize : bool
        If True, the density is fitted to standardized features.
    random_state : int, Generator or None

    Attributes
    ----------
    labeler_ : GenLabel
        Labeler with its density fitted to `scaler_(X)`.
    scaler_ : Standardization
    pair_ : ndarray (s, 2)
        Classes of the parents, which may be equal.
    lam_ : ndarray (s,)
        Weight of the second parent.
    parents_ : ndarray (s, 2)
        Rows of the parents.
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
        count = resolve_n_aug(self.n_aug, len(X))
        density = named_density(self.density)
        self.scaler_ = Standardization.fit(X) if self.standardize else Standardization.identity(X)
        points = self.scaler_(X)
        labeler = GenLabel(density, self.gamma, priors=self.priors)
        self.labeler_ = labeler.fit(points, self.classes_[index])
        parts, mixup, rows = [], Mixup(self.alpha), np.arange(len(X))
        for _ in range(-(-count // len(X))):  # mix each row once; the density is evaluated at the standardized points
            draw = mixup.draw(len(X), rng)
            info = BatchInfo(rows=rows, points=points)
            labels = self.labeler_.label(mixup.mix(points, draw), self.classes_[index], draw, info)
            parents = np.stack([rows, draw.partner], 1)
            parts.append(Synthetic(mixup.mix(X, draw), labels, index[parents], 1.0 - draw.lam, parents))
        made = Synthetic.concatenate(parts)
        return made.select(np.sort(rng.permutation(len(made.points))[:count]))
