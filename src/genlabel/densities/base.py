"""Base class of the class-conditional densities: `fit(X, y)` and `log_prob(X)`, in log space only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, final

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, chunks, like
from genlabel._validation import check_magnitude, check_weights, deduplicate_warnings, read_classes, restore_on_error

if TYPE_CHECKING:
    from genlabel.data.folds import Fold
    from genlabel.densities.covariance import Gaussians
    from genlabel.densities.stacked import StackedDensity

MIN_STACK_WEIGHT = 0.02  # weight below which a member is left out of a stack
MAX_CHUNK_VALUES = 1 << 18
"""Values per intermediate array of the densities that work in chunks, so that memory stays bounded."""


class DensityWarning(UserWarning):
    """Warning that a density cannot do what was requested; the message names the classes and what is done instead."""


class Manifolds(Protocol):
    """Manifolds of the classes; log p_c decreases with the distance to that of class c."""

    def project(self, X: Tensor) -> Tensor:
        """Return the nearest point of each manifold to points (m, d), (m, k, d)."""
        ...

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Return log p_c (m, k) of points (m, d) with given projections (m, k, d)."""
        ...


class ClassDensity(BaseEstimator, ABC):
    """Base class of the class-conditional densities p_c(x), one for each class.

    A subclass implements `_fit` and `_log_prob` on torch tensors; one that fits each class separately derives from
    :class:`PerClassDensity` and implements a single method. `fit`, `log_prob` and `gradient` are final: they validate
    input, convert arrays and work in chunks. The other methods and properties have defaults that suit most densities.
    :func:`genlabel.testing.check_density` tests a new density.

    Attributes
    ----------
    classes_ : ndarray (k,)
        Sorted classes, in the order of the columns of :meth:`log_prob`.
    class_prior_ : ndarray (k,)
        Weighted class frequencies of the training points.
    n_features_in_ : int
    """

    chunk_rows: int = 65536
    fit_dtype: ClassVar[torch.dtype] = torch.float64
    """Precision of the points and weights that `_fit` receives."""
    fit_device: ClassVar[str | None] = "cpu"
    """Device of the points and weights that `_fit` receives; None keeps that of `X`."""
    normalized: ClassVar[bool] = True
    """True if exp(log_prob) integrates to 1; False for a distance or a bound instead of a log-density."""

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit p_c to the rows of `X` (n, d) with labels `y` (n,); weights (n,) count as repetitions."""
        x = as_tensor(X).detach()
        points, labels = x.to(self.fit_device or x.device, self.fit_dtype).contiguous(), as_numpy(y)
        if points.ndim != 2 or labels.shape != (len(points),):
            raise ValueError(
                f"X {tuple(points.shape)} and y {labels.shape} must have shapes (n, d) and (n,); flatten images, or "
                "pass their features"
            )
        if len(points) == 0:
            raise ValueError("X has 0 samples; a density needs at least one point of each class")
        check_points(points)
        weight = np.ones(len(points))
        if sample_weight is not None:
            weight = check_weights(as_numpy(sample_weight), len(points))
            mask = weight > 0
            points, labels, weight = points[torch.from_numpy(mask).to(points.device)], labels[mask], weight[mask]
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
        # NaN arises only where the distance of a point overflows: its density is 0.
        return like(values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), X)

    @final
    def gradient(self, X: Any) -> Any:
        """Return the gradients of log p_c(x) in x, shape (m, k, d), as an array of the kind of `X`.

        >>> from genlabel.densities import fixed_gaussians
        >>> fixed_gaussians([[-1.0], [1.0]]).fit([[-1.0], [1.0]], [0, 1]).gradient([[0.5]])
        array([[[-1.5],
                [ 0.5]]])
        """
        x = self._check_query(X).detach()
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_), self.n_features_in_), X)
        parts = []
        for rows in chunks(len(x), self.chunk_rows):
            with (
                torch.enable_grad()
            ):  # rows are independent, so that the gradient of a column's sum is that of each row
                part = x[rows].requires_grad_()
                columns = self._log_prob(part).unbind(1)
                parts.append(
                    torch.stack([torch.autograd.grad(c.sum(), part, retain_graph=True)[0] for c in columns], 1)
                )
        return like(torch.cat(parts), X)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c (m, k) of mixed points `X` (m, d) whose parents are the given training rows.

        A cross-fitted density uses models that were fitted without either parent. If `X` is known to be
        lam x + (1 - lam) x' for rows of `points`, a density may compute from these where that is faster. The default is
        `log_prob(X)`.
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
        """Return the densities to fit in the folds of a cross-validation over these rows: by default the density.

        `folds` returns the folds; a density with choices to make calls it and chooses over them first.
        """
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
    def is_calibrated(self) -> bool:
        """True if the posterior is averaged with that of a network by default."""
        return False

    @property
    def min_stack_weight(self) -> float:
        """Weight in a stack below which the density is not worth its cost."""
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
            raise ValueError(
                f"X has shape {tuple(x.shape)}, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_} features; pass an array of shape (m, {self.n_features_in_})"
            )
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


def check_points(X: Tensor) -> None:
    """Raise unless points (n, d) have at least one feature and finite values with finite squares.

    >>> check_points(torch.tensor([[1e200]], dtype=torch.float64))
    Traceback (most recent call last):
    ValueError: X has values of size 1e+200, whose squares overflow; set them to NaN, or rescale the column
    """
    if X.shape[1] == 0:
        raise ValueError(f"X has shape {tuple(X.shape)}; a density needs at least one feature")
    if not bool(torch.isfinite(X).all()):
        raise ValueError("X contains NaN or infinity; impute or drop those rows before fitting a density")
    check_magnitude(float(X.abs().max()) if len(X) else 0.0)
