"""Soft labels for mixed points: linear (mixup), logistic, and generative (GenLabel)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel.arrays import as_numpy, as_tensor, like, one_hot
from genlabel.checks import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities import ClassDensity, DensityWarning
from genlabel.mixing import Mix, blend

__all__ = ["GenLabel", "Labeler", "LinearLabel", "LogisticLabel", "log_posterior", "log_priors", "posterior"]


class Labeler(BaseEstimator, ABC):
    """A rule that labels mixed points: `label(x_mix, y, draw)` has its rows on the simplex.

    `y` are the labels of the batch *before* mixing: class names (n,), or a matrix (n, k) with rows on the
    simplex, which is taken as it is. The columns are the sorted classes that `fit` saw, or else those in `y`.
    Rows that the draw leaves `clean` keep their own labels.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn what the rule needs from the training set: here, the classes."""
        self.classes_ = np.unique(as_numpy(y))
        return self

    @final
    def label(self, x_mix: Any, y: Any, draw: Mix) -> Any:
        """Return the soft labels of the mixed points, shape (n, k); torch out if `x_mix` is torch."""
        x = as_tensor(x_mix)
        if not len(x) == len(y) == len(draw.partner):
            raise ValueError(
                f"x_mix has {len(x)} rows, y has {len(y)} and the draw pairs {len(draw.partner)}; pass one batch"
            )
        with torch.no_grad():
            targets = self._targets(y, x)
            labels = self._label(x, targets, draw)
            if draw.clean is not None:
                labels = torch.where(torch.as_tensor(draw.clean, device=x.device)[:, None], targets, labels)
            return like(labels, x_mix)

    @abstractmethod
    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix) -> Tensor:
        """Label points (n, d) whose parents have the labels `targets` (n, k)."""

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self, "classes_", None)

    def _targets(self, y: Any, x: Tensor) -> Tensor:
        classes = self._known_classes()
        if np.ndim(y) == 2:
            matrix = torch.as_tensor(y, dtype=x.dtype, device=x.device)
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

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix) -> Tensor:
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

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix) -> Tensor:
        sigma = check_positive("sigma", self.sigma, "it is the width of the logistic curve")
        rho = torch.sigmoid(torch.from_numpy(2.0 * (draw.lam - 0.5) / sigma**2))
        return blend(targets, draw._replace(lam=rho.numpy()))


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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a copy of the density, `density_`, to the training set."""
        check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if not isinstance(self.density, ClassDensity):
            raise ValueError(f"density={self.density!r} must be a ClassDensity, such as KernelDensity()")
        self.density_ = clone(self.density).fit(X, y, sample_weight)
        self.classes_ = self.density_.classes_
        return self

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix) -> Tensor:
        gamma = check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        if gamma == 0.0:
            return blend(targets, draw)
        y_gen = self._generative(x_mix, targets, draw)
        return y_gen if gamma == 1.0 else gamma * y_gen + (1.0 - gamma) * blend(targets, draw)

    def _generative(self, x_mix: Tensor, targets: Tensor, draw: Mix) -> Tensor:
        density = self._fitted_density()
        check_is_fitted(density, "classes_")
        y_gen, lost = posterior(_log_prob(density, x_mix, draw), log_priors(self.priors, density), self.top)
        mixed = lost if draw.clean is None else lost[torch.as_tensor(~draw.clean, device=lost.device)]
        if len(mixed) and bool(mixed.all()):
            message = f"{density!r} vanishes at all of {len(mixed)} mixed points; they keep mixup's labels"
            warn(("lost", repr(density)), message, DensityWarning)
        if self.same_class == "keep":
            partner = torch.as_tensor(draw.partner, device=targets.device)
            lost = lost | (targets == targets[partner]).all(1, keepdim=True)
        return torch.where(lost, blend(targets, draw), y_gen) if bool(lost.any()) else y_gen

    def to_cpu(self) -> Self:
        """The labeler with the twin network of a density in latent space, if it has one, on the CPU."""
        encoder = getattr(self.density_, "encoder", None)
        if isinstance(encoder, torch.nn.Module):
            encoder.cpu()
        return self

    def _fitted_density(self) -> ClassDensity:
        return self.density_ if hasattr(self, "density_") else self.density

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self._fitted_density(), "classes_", None)


def _log_prob(density: ClassDensity, x: Tensor, draw: Mix) -> Tensor:
    """log p_c of the mixed points, by models that saw neither parent where the density has them; clean rows get 0."""
    if draw.clean is None:
        return _log_prob_of(density, x, draw, slice(None))
    mixed = torch.as_tensor(~draw.clean, device=x.device)
    values = x.new_zeros(len(x), len(density.classes_))
    values[mixed] = _log_prob_of(density, x[mixed], draw, ~draw.clean)
    return values


def _log_prob_of(density: ClassDensity, x: Tensor, draw: Mix, where: Any) -> Tensor:
    if draw.rows is None:
        if density.cross_fitted:
            message = f"{type(density).__name__} is cross-fitted, but the draw names no rows: draw._replace(rows=...)"
            warn(("rows", type(density).__name__), f"{message}; labels come from the fit to all rows", DensityWarning)
        values: Tensor = density.log_prob(x)
        return values
    parents = (draw.lam[where], draw.points) if draw.points is not None else ()
    pairs: Tensor = density.log_prob_of_pairs(x, draw.rows[where], draw.rows[draw.partner][where], *parents)
    return pairs


def log_priors(priors: Any, density: ClassDensity) -> NDArray[np.float64]:
    """Return log pi_c, shape (k,): "uniform", "empirical" (`class_prior_`), "auto" (the density's own) or numbers."""
    k = len(density.classes_)
    if isinstance(priors, str):
        check_choice("priors", priors, ["auto", "uniform", "empirical"], also=f"an array of {k} numbers")
        named = density.default_priors if priors == "auto" else priors
        share = np.full(k, 1.0 / k) if named == "uniform" else density.class_prior_
    else:
        share = np.asarray(priors, dtype=np.float64) if np.ndim(priors) == 1 else np.empty(0)
        if share.shape != (k,) or not (share >= 0).all() or not np.isfinite(share).all() or share.sum() <= 0:
            raise ValueError(f"priors={priors!r} must be {k} non-negative numbers, one a class, not all zero")
    with np.errstate(divide="ignore"):
        return np.log(share / share.sum())


def posterior(log_prob: Tensor, log_prior: Any, top: int | None = None) -> tuple[Tensor, Tensor]:
    """Return softmax(log p_c + log pi_c), shape (m, k), and where it is lost, shape (m, 1).

    arXiv Eq. (1) with uniform priors. `top` keeps the most likely classes (arXiv Alg. 3; NOTE[PAPER]: it prints
    argmin, the text above it says the most likely). A row is lost, and is the prior, if every density vanishes there.
    """
    logs, lost = log_posterior(log_prob, log_prior, top)
    return logs.exp_(), lost


def log_posterior(log_prob: Tensor, log_prior: Any, top: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the logarithm of :func:`posterior`, and where it is lost."""
    prior = torch.as_tensor(log_prior, dtype=log_prob.dtype, device=log_prob.device)
    scores = log_prob + prior
    if top is not None and check_count("top", top) < scores.shape[1]:
        worst = scores.topk(scores.shape[1] - top, dim=1, largest=False).indices
        scores = scores.scatter(1, worst, -torch.inf)
    total = scores.logsumexp(1, keepdim=True)
    lost = ~torch.isfinite(total)
    logs = scores.sub_(total)
    return (torch.where(lost, prior, logs) if bool(lost.any()) else logs), lost
