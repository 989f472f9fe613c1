"""GenLabel: the label of a mixed point is its posterior under class densities that were fitted before."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import as_numpy, to_device
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities import ClassDensity, DensityWarning
from genlabel.densities.posterior import log_posterior, log_priors
from genlabel.labeling.base import Labeler
from genlabel.mixing import BatchInfo, MixParams, blend


@final
class GenLabel(Labeler):
    r"""The label of a mixed point is its posterior under learned class densities.

    .. math:: y = \gamma \, \operatorname{softmax}_c(\log p_c(x) + \log \pi_c) + (1 - \gamma) \, y^{mix}

    arXiv Eq. (1) and Alg. 1, lines 5 and 6: cross-entropy is linear in the target, so the loss of the blend is
    the blend of the losses. Where every density vanishes, mixup's own label stands in.

    Parameters
    ----------
    density : ClassDensity
        Fitted, or fitted by :meth:`fit`.
    gamma : float in [0, 1]
        0 is exactly mixup.
    top_k : int or None
        Share the label among the `top_k` most likely classes only (arXiv Alg. 3 and Eq. (4) have 2); None is all.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors pi; uniform is the paper's y_gen. "auto" is what suits the density: the frequencies of the classes
        for a :class:`genlabel.densities.StackedDensity`, uniform for any other.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class alone (the setting of arXiv Section 5.3).

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> labeler = GenLabel(GaussianDensity()).fit(X, y)
    >>> draw = Mixup().draw(4, rng=0)
    >>> labeler.label(Mixup().mix(X, draw), y, draw).sum(axis=1)
    array([1., 1., 1., 1.])
    """

    def __init__(
        self,
        density: ClassDensity,
        gamma: float = 1.0,
        top_k: int | None = None,
        priors: Any = "auto",
        same_class: str = "relabel",
    ) -> None:
        self.density = density
        self.gamma = gamma
        self.top_k = top_k
        self.priors = priors
        self.same_class = same_class

    @property
    def needs_inputs(self) -> bool:
        """Yes: its density is asked of them."""
        return True

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
        """The labeler of a density that is fitted already.

        >>> from genlabel.densities import GaussianDensity
        >>> GenLabel.from_fitted(GaussianDensity().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), gamma=0.5).classes_
        array([0, 1])
        """
        labeler = cls(density, **params)
        labeler.density_, labeler.classes_ = density, density.classes_
        return labeler

    def log_posterior_of(
        self, points: NDArray[np.float64], class_weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Log-posterior (m, k) of points (m, d) under the fitted density; class weights (k,) tilt the priors."""
        found = log_posterior(self.density_.log_prob(torch.from_numpy(points)), self._log_priors(class_weight))
        return np.ascontiguousarray(found.log_proba.numpy())

    def _log_priors(self, class_weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        density = self._fitted_density()
        return log_priors(self.priors, density.class_prior_, density.default_priors, class_weight)

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        gamma = check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        if gamma == 0.0:
            return blend(targets, draw)
        y_gen = self._generative(x_mix, targets, draw, origin)
        return y_gen if gamma == 1.0 else gamma * y_gen + (1.0 - gamma) * blend(targets, draw)

    def _generative(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        density = self._fitted_density()
        check_is_fitted(density, "classes_")
        log_prob = _log_prob(density, x_mix, draw, origin)
        logs, lost = log_posterior(log_prob, self._log_priors(), top_k=self.top_k)
        y_gen = logs.exp_()
        self._warn_if_lost(lost, origin)
        if self.same_class == "keep":
            partner = to_device(draw.partner, targets)
            lost = lost | (targets == targets[partner]).all(1, keepdim=True)
        some = lost.is_cuda or bool(lost.any())  # on a GPU, to know would be to wait
        return torch.where(lost, blend(targets, draw), y_gen) if some else y_gen

    def _warn_if_lost(self, lost: Tensor, origin: BatchInfo) -> None:
        """Warn where the density vanishes at every mixed point; nobody waits for a GPU to know."""
        if lost.device.type != "cpu":
            return
        mixed = lost if origin.clean is None else lost[torch.from_numpy(~origin.clean)]
        if len(mixed) and bool(mixed.all()):
            density = self._fitted_density()
            message = f"{density!r} vanishes at all of {len(mixed)} mixed points; they keep mixup's labels"
            warn(("lost", repr(density)), message, DensityWarning)

    def to_cpu(self) -> Self:
        """The labeler with the twin network of a density in latent space, if it has one, on the CPU."""
        self._fitted_density().to_cpu()
        return self

    def _fitted_density(self) -> ClassDensity:
        return self.density_ if hasattr(self, "density_") else self.density

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self._fitted_density(), "classes_", None)


def _log_prob(density: ClassDensity, x: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
    """log p_c of the mixed points, by models that saw neither parent where the density has them; clean rows get 0."""
    if origin.clean is None:
        return _log_prob_of(density, x, draw, origin, slice(None))
    values = x.new_zeros(len(x), len(density.classes_))
    mixed = np.flatnonzero(~origin.clean)
    place = to_device(mixed, x)
    values[place] = _log_prob_of(density, x[place], draw, origin, mixed)
    return values


def _log_prob_of(density: ClassDensity, x: Tensor, draw: MixParams, origin: BatchInfo, where: Any) -> Tensor:
    """log p_c of some rows, `where`, of a batch, at their mixed points x."""
    if origin.rows is None:
        if density.cross_fitted:
            message = (
                f"{type(density).__name__} is cross-fitted, but the rows of the batch are not known: Origin(rows=...)"
            )
            warn(("rows", type(density).__name__), f"{message}; labels come from the fit to all rows", DensityWarning)
        values: Tensor = density.log_prob(x)
        return values
    parents = (as_numpy(draw.lam)[where], origin.points) if origin.points is not None else ()
    rows, partners = origin.rows, origin.rows[as_numpy(draw.partner)]
    pairs: Tensor = density.log_prob_of_pairs(x, rows[where], partners[where], *parents)
    return pairs
