"""Soft labels for mixed points: linear (mixup), logistic, and generative (GenLabel)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel.arrays import as_numpy, as_tensor, like, one_hot, to_device
from genlabel.checks import check_choice, check_interval, check_positive, warn
from genlabel.densities import ClassDensity, DensityWarning
from genlabel.mixing import Mix, Origin, blend
from genlabel.posterior import log_posterior, log_priors

__all__ = ["GenLabel", "Labeler", "LinearLabel", "LogisticLabel"]


class Labeler(BaseEstimator, ABC):
    """A rule that labels mixed points: `label(x_mix, y, draw)` has its rows on the simplex.

    `y` are the labels of the batch *before* mixing: class names (n,), or a matrix (n, k) with rows on the
    simplex, which is taken as it is. The columns are the sorted classes that `fit` saw, or else those in `y`.
    Rows that are `clean` by their origin keep their own labels.

    A labeler that learns while a network trains says from what in `learns_from`, and does so in :meth:`observe`; it
    labels the penultimate features of a batch instead of its points.
    """

    learns_from: ClassVar[str | None] = None
    """Whose features `observe` is given in every step: the "mixed" points of the batch, or, by one more pass through
    the network, in the same mode, its "clean" ones; None is a labeler that does not learn."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn what the rule needs from the training set: here, the classes."""
        self.classes_ = np.unique(as_numpy(y))
        return self

    @property
    def looks_at_points(self) -> bool:
        """Whether a label depends on the mixed point itself, not only on its parents' labels."""
        return False

    def observe(self, features: Tensor, targets: Tensor, draw: Mix) -> None:
        """Learn from the features (n, d) of a batch in training: the step calls it before it asks for labels.

        `targets` (n, k) are the labels before mixing. If the labeler learns from "mixed" points, `draw` tells how they
        were mixed; if from "clean" ones, it is the draw that the batch will be mixed with.
        """
        raise NotImplementedError(f"{type(self).__name__} has learns_from={self.learns_from!r}, but no method observe")

    @final
    def label(self, x_mix: Any, y: Any, draw: Mix, origin: Origin | None = None) -> Any:
        """Return the soft labels of the mixed points, shape (n, k); torch out if `x_mix` is torch.

        Parameters
        ----------
        x_mix : array or tensor (n, ...)
        y : array (n,) or (n, k)
            The labels of the batch before mixing.
        draw : Mix
        origin : Origin, optional
            What is known of the batch: which rows are clean, which rows of the training set they are.
        """
        x = as_tensor(x_mix)
        if not len(x) == len(y) == len(draw.partner):
            raise ValueError(
                f"x_mix has {len(x)} rows, y has {len(y)} and the draw pairs {len(draw.partner)}; pass one batch"
            )
        with torch.no_grad():
            targets, known = self._targets(y, x), origin or Origin()
            labels = self._label(x, targets, draw, known)
            if known.clean is not None:
                labels = torch.where(to_device(known.clean, x)[:, None], targets, labels)
            return like(labels, x_mix)

    def to_cpu(self) -> Self:
        """The labeler with all that it has learned on the CPU."""
        return self

    @abstractmethod
    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        """Label points (n, ...) whose parents have the labels `targets` (n, k)."""

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self, "classes_", None)

    def _targets(self, y: Any, x: Tensor) -> Tensor:
        classes = self._known_classes()
        if np.ndim(y) == 2:
            matrix = to_device(y, x, x.dtype)
            if classes is not None and matrix.shape[1] != len(classes):
                raise ValueError(f"y has {matrix.shape[1]} columns, but {len(classes)} classes are known; fit again")
            return matrix
        labels = as_numpy(y)
        if classes is None:
            classes = np.unique(labels)
        index = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        if not np.array_equal(classes[index], labels):
            unknown = sorted(set(labels.tolist()) - set(classes.tolist()), key=str)
            raise ValueError(f"y contains {unknown}, but the known classes are {classes.tolist()}; fit again")
        return one_hot(torch.from_numpy(index).to(x.device), len(classes), x.dtype)


@final
class LinearLabel(Labeler):
    """Mixup's label, y_mix = lam y_i + (1 - lam) y_j (arXiv Alg. 1, line 4).

    >>> from genlabel.mixing import Mix
    >>> LinearLabel().label([[0.0], [0.0]], ["a", "b"], Mix(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        return blend(targets, draw)


@final
class LogisticLabel(Labeler):
    r"""A logistic curve in lam: y = rho y_i + (1 - rho) y_j with rho = 1 / (1 + exp(-2 (lam - 1/2) / sigma^2)).

    arXiv section 3.2. NOTE[PAPER]: Proposition 1 gives GenLabel's label of two Gaussians of width s without
    the factor 2, so that `sigma` here is sqrt(2) s.

    Parameters
    ----------
    sigma : float
        Above 0; a small one labels with the nearer parent, a large one gives every pair equal shares.

    Examples
    --------
    >>> from genlabel.mixing import Mix
    >>> draw = Mix(np.array([1, 0]), np.array([0.5, 0.75]))
    >>> LogisticLabel(sigma=0.5).label([[0.0], [0.0]], ["a", "b"], draw).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """

    def __init__(self, sigma: float = 0.5) -> None:
        self.sigma = sigma

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        sigma = check_positive("sigma", self.sigma, "it is the width of the logistic curve")
        rho = torch.sigmoid(torch.as_tensor(2.0 * (draw.lam - 0.5) / sigma**2))
        return blend(targets, draw._replace(lam=rho))


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
    top : int or None
        Share the label among the `top` most likely classes only (arXiv Alg. 3 has 2); None is all.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors pi; uniform is the paper's y_gen. "auto" is what suits the density: the frequencies of the classes
        for a :class:`genlabel.densities.LabelModel`, uniform for any other.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class alone (the setting of arXiv section 5.3).

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
        top: int | None = None,
        priors: Any = "auto",
        same_class: str = "relabel",
    ) -> None:
        self.density = density
        self.gamma = gamma
        self.top = top
        self.priors = priors
        self.same_class = same_class

    @property
    def looks_at_points(self) -> bool:
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
    def around(cls, density: ClassDensity, **params: Any) -> GenLabel:
        """The labeler of a density that is fitted already.

        >>> from genlabel.densities import GaussianDensity
        >>> GenLabel.around(GaussianDensity().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), gamma=0.5).classes_
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

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        gamma = check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        if gamma == 0.0:
            return blend(targets, draw)
        y_gen = self._generative(x_mix, targets, draw, origin)
        return y_gen if gamma == 1.0 else gamma * y_gen + (1.0 - gamma) * blend(targets, draw)

    def _generative(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        density = self._fitted_density()
        check_is_fitted(density, "classes_")
        log_prob = _log_prob(density, x_mix, draw, origin)
        logs, lost = log_posterior(log_prob, self._log_priors(), top=self.top)
        y_gen = logs.exp_()
        self._warn_if_lost(lost, origin)
        if self.same_class == "keep":
            partner = to_device(draw.partner, targets)
            lost = lost | (targets == targets[partner]).all(1, keepdim=True)
        some = lost.is_cuda or bool(lost.any())  # on a GPU, to know would be to wait
        return torch.where(lost, blend(targets, draw), y_gen) if some else y_gen

    def _warn_if_lost(self, lost: Tensor, origin: Origin) -> None:
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


def _log_prob(density: ClassDensity, x: Tensor, draw: Mix, origin: Origin) -> Tensor:
    """log p_c of the mixed points, by models that saw neither parent where the density has them; clean rows get 0."""
    if origin.clean is None:
        return _log_prob_of(density, x, draw, origin, slice(None))
    values = x.new_zeros(len(x), len(density.classes_))
    mixed = np.flatnonzero(~origin.clean)
    place = to_device(mixed, x)
    values[place] = _log_prob_of(density, x[place], draw, origin, mixed)
    return values


def _log_prob_of(density: ClassDensity, x: Tensor, draw: Mix, origin: Origin, where: Any) -> Tensor:
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
