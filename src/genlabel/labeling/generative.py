"""GenLabel: the label of a mixed point is its posterior under fitted class densities; as a labeler and as a sampler."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import Standardization, as_numpy, to_device
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities import ClassDensity, DensityWarning, GaussianDensity
from genlabel.densities.candidates import named_density
from genlabel.densities.posterior import log_posterior, log_priors
from genlabel.labeling.base import Labeler
from genlabel.mixing import MixParams, Mixup, Sampler
from genlabel.mixing.base import BatchInfo, blend
from genlabel.mixing.sampler import Synthetic, resolve_n_aug
from genlabel.registry import LABELERS, SAMPLERS


@final
@LABELERS.register("genlabel", density=GaussianDensity())
@dataclass(eq=False, repr=False)
class GenLabel(Labeler):
    r"""Label of a mixed point by its posterior under learned class densities.

    .. math:: y = \gamma \, \operatorname{softmax}_c(\log p_c(x) + \log \pi_c) + (1 - \gamma) \, y^{mix}

    arXiv Eq. (1) and Alg. 1, lines 5 and 6: cross-entropy is linear in the target, so the loss of the blended label is
    the blend of the losses. A point at which every density vanishes keeps mixup's label.

    Parameters
    ----------
    density : ClassDensity
        Fitted density, or one that :meth:`fit` fits a copy of.
    gamma : float in [0, 1]
        Weight of the generative label; 0 is exactly mixup. A tensor with one element may be changed in place.
    top_k : int or None
        Number of most likely classes that share the label (arXiv Alg. 3 and Eq. (4) have 2); None is all.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors pi; uniform is the paper's y_gen. "auto" depends on the density: empirical for a
        :class:`genlabel.densities.StackedDensity`, uniform for any other.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class unchanged (the setting of arXiv Section 5.3).

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> labeler = GenLabel(GaussianDensity()).fit(X, y)
    >>> draw = Mixup().draw(4, rng=0)
    >>> labeler.label(Mixup().mix(X, draw), y, draw).sum(axis=1)
    array([1., 1., 1., 1.])
    """

    density: ClassDensity
    gamma: float = 1.0
    top_k: int | None = None
    priors: Any = "auto"
    same_class: str = "relabel"

    needs_inputs = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a copy of the density, `density_`, to the training set."""
        check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if not isinstance(self.density, ClassDensity):
            raise ValueError(f"density={self.density!r} must be a ClassDensity, such as KernelDensity()")
        self.density_ = clone(self.density).fit(X, y, sample_weight)
        self.classes_ = self.density_.classes_
        return self

    @classmethod
    def from_fitted(cls, density: ClassDensity, **params: Any) -> GenLabel:
        """Return the labeler of a fitted density, which is not copied."""
        labeler = cls(density, **params)
        labeler.density_, labeler.classes_ = density, density.classes_
        return labeler

    def log_posterior(
        self, points: NDArray[np.float64], class_weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the log-posterior (m, k) of points (m, d); class weights are factors of the priors."""
        posterior = log_posterior(self.density_.log_prob(torch.from_numpy(points)), self.log_prior(class_weight))
        return np.ascontiguousarray(posterior.log_proba)

    def log_prior(self, class_weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the logarithms of the class priors (k,) of the labels; class weights are their factors."""
        density = self._fitted_density()
        return log_priors(self.priors, density.class_prior_, density.default_priors, class_weight)

    def to_cpu(self) -> Self:
        """Move the density to the CPU, and return the labeler."""
        self._fitted_density().to_cpu()
        return self

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        gamma: Any = self.gamma
        if not isinstance(gamma, Tensor):
            gamma = check_interval("gamma", gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
            if gamma == 0.0:
                return blend(targets, draw)
        density = self._fitted_density()
        check_is_fitted(density, "classes_")
        # Clean rows keep their labels: the density is evaluated at the other ones.
        mixed = np.arange(len(x_mix)) if info.clean is None else np.flatnonzero(~info.clean)
        index = to_device(mixed, x_mix)
        if info.rows is not None:
            lam = None if info.points is None else as_numpy(draw.lam)[mixed]
            rows, partners = info.rows[mixed], info.rows[as_numpy(draw.partner)][mixed]
            values: Tensor = density.log_prob_of_pairs(x_mix[index], rows, partners, lam, info.points)
        else:
            values = density.log_prob(x_mix[index])
            if density.cross_fitted:
                name = type(density).__name__
                message = f"{name} is cross-fitted, but the rows of the batch are unknown; labels come from the fit to "
                warn(("rows", name), message + "all rows; pass BatchInfo(rows=...)", DensityWarning)
        if info.clean is not None:  # the memory layout of `values` changes the last digits, so it is kept otherwise
            values = values.new_zeros(len(x_mix), len(density.classes_)).index_copy_(0, index, values)
        log_proba, vanished = log_posterior(values, self.log_prior(), top_k=self.top_k)
        y_gen = log_proba.exp_()  # arXiv Eq. (1)
        # On a GPU the check would wait for the result.
        if vanished.device.type == "cpu" and len(mixed) and bool(vanished[index].all()):
            message = f"{density!r} vanishes at all of {len(mixed)} mixed points; they keep mixup's labels"
            warn(("vanishes", repr(density)), message, DensityWarning)
        keeps_mixup = vanished
        if self.same_class == "keep":
            keeps_mixup = vanished | (targets == targets[to_device(draw.partner, targets)]).all(1, keepdim=True)
        if keeps_mixup.is_cuda or bool(keeps_mixup.any()):
            y_gen = torch.where(keeps_mixup, blend(targets, draw), y_gen)
        if not isinstance(gamma, Tensor) and gamma == 1.0:
            return y_gen
        return gamma * y_gen + (1.0 - gamma) * blend(targets, draw)

    def _fitted_density(self) -> ClassDensity:
        return self.density_ if hasattr(self, "density_") else self.density

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self._fitted_density(), "classes_", None)


@final
@SAMPLERS.register("genlabel")
@dataclass(eq=False, repr=False)
class GenLabelSampler(Sampler):
    """Add mixed points lam' x_a + (1 - lam') x_b, labeled by their posteriors under learned class densities.

    arXiv Alg. 1 as a sampler: mixup makes the points, :class:`GenLabel` labels them.

    Parameters
    ----------
    density : str or ClassDensity
        A density or its registered name, such as "gaussian", "kernel" or "stacked". By name, "gaussian" is shrunk by
        Ledoit and Wolf's rule; the paper's GM is `GaussianDensity()`.
    gamma, priors
        As in :class:`GenLabel`.
    alpha : float
        Parameter of the mixing weights' distribution, Beta(alpha, alpha).
    n_aug : float or int
        Number of points: a fraction of the rows (float), or a number (int), at random from passes that mix each row
        once.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    standardize : bool
        If True, the density is fitted to standardized features.
    random_state : int, Generator or None

    Attributes
    ----------
    labeler_ : GenLabel
        Labeler with its density fitted to `scaler_(X)`.
    scaler_ : Standardization
    classes_, is_synthetic_, pair_, lam_, parents_, sample_weight_
        See :class:`genlabel.mixing.Sampler`; a pair are the classes of the parents, which may be equal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sampler = GenLabelSampler(n_aug=0.5, output="soft", random_state=0)
    >>> points, labels = sampler.fit_resample(X, y)
    >>> points.shape, labels.shape, sampler.parents_.shape
    ((225, 4), (225, 3), (75, 2))
    """

    density: Any = "gaussian"
    gamma: float = 1.0
    alpha: float = 1.0
    n_aug: float = 1.0
    output: str = "hard"
    _: KW_ONLY
    priors: Any = "auto"
    standardize: bool = False
    random_state: Any = None

    def _synthesize(self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator) -> Synthetic:
        count = resolve_n_aug(self.n_aug, len(X))
        density, y = named_density(self.density), self.classes_[index]
        self.scaler_ = Standardization.fit(X) if self.standardize else Standardization.identity(X)
        points = self.scaler_(X)
        self.labeler_ = GenLabel(density, self.gamma, priors=self.priors).fit(points, y)
        parts, mixup, rows = [], Mixup(self.alpha), np.arange(len(X))
        for _ in range(-(-count // len(X))):  # mix each row once; the density is evaluated at the standardized points
            draw = mixup.draw(len(X), rng)
            labels = self.labeler_.label(mixup.mix(points, draw), y, draw, BatchInfo(rows=rows, points=points))
            parents = np.stack([rows, draw.partner], 1)
            parts.append(Synthetic(mixup.mix(X, draw), labels, index[parents], 1.0 - draw.lam, parents))
        made = Synthetic.concatenate(parts)
        return made.select(np.sort(rng.permutation(len(made.points))[:count]))
