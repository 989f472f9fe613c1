"""Base classes of the class-conditional densities, `fit(X, y)` and `log_prob(X)`; densities given instead of fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, final

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import MultivariateNormal

from genlabel._arrays import Array, as_numpy, as_tensor, chunks, like
from genlabel._validation import check_magnitude, check_weights, deduplicate_warnings, read_classes, restore_on_error
from genlabel.densities.samples import ClassSample, class_samples

if TYPE_CHECKING:
    from genlabel.data.folds import Fold
    from genlabel.densities.covariance import Gaussians
    from genlabel.densities.stacked import StackedDensity

MIN_STACK_WEIGHT = 0.02  # weight below which a member is left out of a stack


class DensityWarning(UserWarning):
    """Warning that a density cannot do what was requested; the message names the classes and what is done instead."""


class Manifolds(Protocol):
    """Manifolds of the classes; log p_c decreases with the distance to that of class c."""

    def project(self, X: Tensor) -> Tensor:
        """Return the nearest point of each manifold to points (m, d), (m, k, d)."""

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Return log p_c (m, k) of points (m, d) with given projections (m, k, d)."""


class ClassDensity(BaseEstimator, ABC):
    """Base class of the class-conditional densities p_c(x), one for each class.

    A subclass implements `_fit` and `_log_prob` on torch tensors, or derives from :class:`PerClassDensity`; the other
    methods and properties have defaults. :func:`genlabel.testing.check_density` tests a new density.

    Attributes
    ----------
    classes_ : ndarray (k,)
        Sorted classes, in the order of the columns of :meth:`log_prob`.
    class_prior_ : ndarray (k,)
        Weighted class frequencies of the training points.
    n_features_in_ : int
    """

    chunk_rows: ClassVar[int] = 65536
    fit_dtype: ClassVar[torch.dtype] = torch.float64
    """Precision of the points and weights that `_fit` receives."""
    fit_device: ClassVar[str | None] = "cpu"
    """Device of the points and weights that `_fit` receives; None keeps that of `X`."""
    is_calibrated: ClassVar[bool] = False
    """True if the posterior is averaged with that of a network by default."""
    normalized: ClassVar[bool] = True
    """True if exp(log_prob) integrates to 1; False for a distance or a bound instead of a log-density."""

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit p_c to the rows of `X` (n, d) with labels `y` (n,); weights (n,) count as repetitions."""
        x = as_tensor(X).detach()
        points = x.to(self.fit_device or x.device, self.fit_dtype).contiguous()
        labels = as_numpy(y)
        if points.ndim != 2 or labels.shape != (len(points),):
            raise ValueError(f"X {tuple(points.shape)} and y {labels.shape} must have shapes (n, d) and (n,)")
        if len(points) == 0:
            raise ValueError("X has 0 samples; a density needs at least one point of each class")
        check_points(points)
        weight = check_weights(1.0 if sample_weight is None else as_numpy(sample_weight), len(points))
        if not weight.all():
            mask = weight > 0
            points = points[torch.from_numpy(mask).to(points.device)]
            labels, weight = labels[mask], weight[mask]
        classes, index = read_classes(labels)
        mass = np.bincount(index, weights=weight, minlength=len(classes))
        with restore_on_error(self), deduplicate_warnings():
            self.classes_ = classes
            self.n_features_in_ = int(points.shape[1])
            self.class_prior_ = mass / mass.sum()
            self._fit(points, torch.from_numpy(index).to(points.device), torch.from_numpy(weight).to(points))
        return self

    @final
    def log_prob(self, X: Any) -> Any:
        """Return log p_c(x), shape (m, k), columns in the order of `classes_`.

        A numpy array gives a float64 array, a torch tensor a tensor of its dtype and device, differentiable if `X`
        requires a gradient.
        """
        x = self._check_query(X)
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_)), X)
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            parts = [self._log_prob(x[rows]) for rows in chunks(len(x), self.chunk_rows)]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        # A log-density is NaN only where the distance of a point overflows; its density is 0 there.
        return like(values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), X)

    @final
    def gradient(self, X: Any) -> Any:
        """Return the gradients of log p_c(x) in x, shape (m, k, d), as an array of the kind of `X`."""
        x = self._check_query(X).detach()
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_), self.n_features_in_), X)
        parts = []
        for rows in chunks(len(x), self.chunk_rows):
            with torch.enable_grad():  # rows are independent: the gradient of a column's sum is that of each row
                part = x[rows].requires_grad_()
                columns = self._log_prob(part).unbind(1)
                gradients = [torch.autograd.grad(column.sum(), part, retain_graph=True)[0] for column in columns]
            parts.append(torch.stack(gradients, 1))
        return like(torch.cat(parts), X)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c (m, k) of mixed points `X` (m, d) whose parents are the given training rows.

        A cross-fitted density uses models that were fitted without either parent. One may compute from `points` and
        `lam` (m,), if `X` is lam x + (1 - lam) x' for rows of these, where that is faster.
        """
        return self.log_prob(X)

    def gaussians(self) -> Gaussians | None:
        """Return the Gaussians of the classes if the fitted density is one Gaussian per class, else None."""
        return None

    def manifolds(self) -> Manifolds | None:
        """Return the projection onto the class manifolds if log p_c is a negative distance to one, else None."""
        return None

    def to_cpu(self) -> Self:
        """Move everything learned to the CPU."""
        return self

    def prepare_for_cv(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> CrossFittedDensity:
        """Return the densities to fit in the folds of a cross-validation, after the choices that a density makes."""
        return CrossFittedDensity(self)

    @property
    def default_priors(self) -> str:
        """Priors for labels: "uniform" as in the paper, "empirical" for a density that is calibrated with them."""
        return "uniform"

    @property
    def cross_fitted(self) -> bool:
        """True if :meth:`log_prob_of_pairs` excludes the parents, and so depends on their row numbers."""
        return False

    @property
    def supports_latent_space(self) -> bool:
        """True if the density may be fitted to features that were learned from the labels of the same rows."""
        return True

    @property
    def min_stack_weight(self) -> float:
        """Smallest weight in a stack that is worth the cost of the density."""
        return MIN_STACK_WEIGHT

    @abstractmethod
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        """Fit points (n, d) with class indices (n,) and positive weights (n,)."""

    @abstractmethod
    def _log_prob(self, X: Tensor) -> Tensor:
        """Return log p_c for the rows of one chunk, shape (m, k), in the dtype of `X`."""

    def _check_query(self, X: Any) -> Tensor:
        """Return the query points of a fitted density as a floating tensor (m, d)."""
        check_is_fitted(self, "classes_")
        x = as_tensor(X)
        if x.ndim != 2 or x.shape[1] != self.n_features_in_:
            name, d = type(self).__name__, self.n_features_in_
            raise ValueError(f"X has shape {tuple(x.shape)}, but {name} was fitted with {d} features")
        return x.contiguous()


class CrossFittedDensity(NamedTuple):
    """Densities to fit in the folds of a cross-validation and to all rows: see `ClassDensity.prepare_for_cv`."""

    full: ClassDensity  # density of all rows; already fitted if `stacked` is given
    folds: Sequence[ClassDensity] = ()  # unfitted densities of the folds; if empty, `full` is fitted in every fold
    stacked: StackedDensity | None = None  # stacked density that chose them

    def fit(self, fold: int | None, X: Any, y: Any, sample_weight: Any = None) -> ClassDensity:
        """Return the density of a fold, fitted to its training rows, or that of all rows if `fold` is None."""
        if fold is None and self.stacked is not None:
            return self.full
        density = self.folds[fold] if self.folds and fold is not None else self.full
        return clone(density).fit(X, y, sample_weight)


class LogDensity(Protocol):
    """Object with `log_prob(x)`: one of ours, a `torch.distributions` object, or a normalizing flow."""

    def log_prob(self, x: Tensor, /) -> Tensor:
        """Return the log-density of each row of `x`, shape (m,)."""


class PerClassDensity(ClassDensity):
    """Base class of the densities that are fitted to each class separately by one method, `_fit_class`.

    >>> from torch.distributions import Independent, Laplace
    >>> class LaplaceDensity(PerClassDensity):
    ...     def _fit_class(self, sample):
    ...         center = sample.X.mean(0)
    ...         scale = (sample.X - center).abs().mean(0).clamp_min(1e-3)  # a feature may be constant in a class
    ...         return Independent(Laplace(center, scale), 1)
    >>> density = LaplaceDensity().fit([[0.0], [1.0], [4.0], [6.0]], ["a", "a", "b", "b"])
    >>> density.log_prob([[0.5]]).round(2)
    array([[ 0.  , -5.19]])
    """

    native: ClassVar[bool] = False
    """True if the models accept queries of any dtype on any device; else they receive float64 on the CPU."""

    @final
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.models_ = [self._fit_class(sample) for sample in class_samples(self.classes_, X, index, weight)]
        for model in self.models_:
            if not callable(getattr(model, "log_prob", None)):
                name = type(self).__name__
                raise TypeError(f"{name}._fit_class returned {model!r}; return an object with a method log_prob(x)")

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = X if self.native else X.cpu().double()
        columns = [model.log_prob(x) for model in self.models_]
        for column in columns:
            if column.shape != x.shape[:1]:
                raise ValueError(
                    f"a model of {type(self).__name__} gave log_prob of shape {tuple(column.shape)}, expected "
                    f"({len(x)},), one value a row; torch.distributions.Independent sums over the features"
                )
        return torch.stack(columns).to(X).T

    @abstractmethod
    def _fit_class(self, sample: ClassSample) -> LogDensity:
        """Return the density of one class: any object with `log_prob(x)`, (m, d) -> (m,)."""


@final
@dataclass(eq=False, repr=False)
class FixedDensity(PerClassDensity):
    """Given densities, for example the true ones of a synthetic dataset, in the order of the sorted classes.

    Parameters
    ----------
    models : sequence of objects with `log_prob(x)`, such as `torch.distributions` with float64 parameters
    """

    models: Sequence[LogDensity]

    def _fit_class(self, sample: ClassSample) -> LogDensity:
        k = len(self.classes_)
        if len(self.models) != k:
            raise ValueError(f"FixedDensity has {len(self.models)} models for {k} classes; pass one for each class")
        return self.models[self.classes_.tolist().index(sample.name)]


@final
@dataclass(frozen=True)
class SphericalGaussian:
    """Gaussian with a given mean and the same variance in all directions."""

    mean: tuple[float, ...]
    variance: float

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-densities of points (m, d), (m,)."""
        center = torch.tensor(self.mean, dtype=x.dtype, device=x.device)
        if x.shape[-1] != len(center):
            raise ValueError(f"X has {x.shape[-1]} features, but the given means have {len(center)}")
        model: LogDensity = MultivariateNormal(center, self.variance * torch.eye(len(center)).to(center))
        return model.log_prob(x)


def fixed_gaussians(means: Array | Sequence[Sequence[float]], variance: float = 1.0) -> FixedDensity:
    """Return spherical Gaussians at the given `means` (k, d), as in the paper for the cubes and the 9 Gaussians.

    >>> density = fixed_gaussians([[0.0, 0.0], [3.0, 4.0]], variance=4.0).fit([[0.0, 0.0], [3.0, 4.0]], [0, 1])
    >>> log_prob = density.log_prob([[0.0, 0.0]])[0]
    >>> float(log_prob[0] - log_prob[1])  # |(3, 4)|^2 / (2 * 4)
    3.125
    """
    return FixedDensity([SphericalGaussian(tuple(mean), variance) for mean in as_tensor(means).tolist()])


def check_points(X: Tensor) -> None:
    """Raise unless points (n, d) have at least one feature and finite values with finite squares."""
    if X.shape[1] == 0:
        raise ValueError(f"X has 0 feature(s) (shape={tuple(X.shape)}) while a minimum of 1 is required by a density")
    if not bool(torch.isfinite(X).all()):
        raise ValueError("X contains NaN or infinity; impute or drop those rows before fitting a density")
    check_magnitude(float(X.abs().max()) if len(X) else 0.0)
