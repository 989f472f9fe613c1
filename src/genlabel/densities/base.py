"""What every class-conditional density shares: `fit(X, y)` and `log_prob(X)`, in log space only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel.arrays import as_numpy, as_tensor, chunks, like
from genlabel.checks import check_weights, each_warning_once, keep_if_it_fails

__all__ = ["ClassDensity", "ClassSample", "DensityWarning", "LogDensity", "PerClassDensity", "class_samples"]


class DensityWarning(UserWarning):
    """A class could not be described as asked; the message names it and says what was done instead."""


class LogDensity(Protocol):
    """Anything with `log_prob(x)`: ours, a `torch.distributions` object, or a normalising flow."""

    def log_prob(self, x: Tensor, /) -> Tensor:
        """Log-density of each row of `x`, shape (m,)."""
        ...


@dataclass(frozen=True)
class ClassSample:
    """The points of one class, as a density sees them."""

    name: object
    """The class as the user wrote it."""
    X: Tensor
    """Its points, shape (n_c, d), float64."""
    weight: Tensor
    """Their weights, shape (n_c,), all positive."""
    pooled: Tensor
    """Covariance within the classes, over all classes, shape (d, d): what to fall back on."""

    @property
    def has_spread(self) -> bool:
        """Whether any two of its points differ."""
        return bool((self.X[:1] != self.X).any())


class ClassDensity(BaseEstimator, ABC):
    """Class-conditional densities p_c(x), one for each class.

    A subclass gives `_fit` and `_log_prob` on torch tensors; one that treats each class by itself derives
    from :class:`PerClassDensity` and gives a single method. The public calls are final: they check, convert
    and cut into chunks.

    Attributes
    ----------
    classes_ : ndarray (k,)
        The classes, sorted; the order of the columns of :meth:`log_prob`.
    class_prior_ : ndarray (k,)
        Their share of the (weighted) training points.
    n_features_in_ : int
    """

    chunk_rows: int = 65536

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn p_c from the rows of `X` (n, d) with labels `y` (n,); weights count as repetitions."""
        data, labels, weight = _check_sample(X, y, sample_weight)
        classes, index = np.unique(labels, return_inverse=True)
        mass = np.bincount(index, weights=weight.numpy(), minlength=len(classes))
        with keep_if_it_fails(self), each_warning_once():
            self.classes_ = classes
            self.n_features_in_ = int(data.shape[1])
            self.class_prior_ = mass / mass.sum()
            self._fit(data, torch.from_numpy(index), weight)
        return self

    @final
    def log_prob(self, X: Any) -> Any:
        """Return log p_c(x), shape (m, k), columns in the order of `classes_`.

        numpy in, numpy out (float64); torch in, torch out (same dtype and device).
        """
        check_is_fitted(self, "classes_")
        x = as_tensor(X)
        if x.ndim != 2 or x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {tuple(x.shape)}, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_} features; pass an array of shape (m, {self.n_features_in_})"
            )
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_)), X)
        with torch.no_grad():
            parts = [self._log_prob(x[rows]) for rows in chunks(len(x), self.chunk_rows)]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        # Only a point so far away that its distance overflows has no number: its density is nil.
        return like(values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), X)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c of mixed points whose parents are the given training rows.

        A density that is fitted by cross-fitting answers with models that saw neither parent. Where `X` are known to be
        blends of weight `lam` of rows of `points`, one may work from these, if that is faster; here, `log_prob(X)`.
        """
        return self.log_prob(X)

    @property
    def default_priors(self) -> str:
        """The priors that suit it in a label: uniform, as in the paper; "empirical" if it is calibrated with them."""
        return "uniform"

    @abstractmethod
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        """Learn from points (n, d), class indices (n,) and positive weights (n,)."""

    @abstractmethod
    def _log_prob(self, X: Tensor) -> Tensor:
        """Return log p_c for the rows of one chunk, shape (m, k), in the dtype of `X`."""


class PerClassDensity(ClassDensity):
    """A density that describes each class by itself: a new one is the single method `_fit_class`.

    >>> from torch.distributions import Independent, Laplace
    >>> class LaplaceDensity(PerClassDensity):
    ...     def _fit_class(self, sample):
    ...         centre = sample.X.mean(0)
    ...         spread = (sample.X - centre).abs().mean(0).clamp_min(1e-3)  # a feature may be constant in a class
    ...         return Independent(Laplace(centre, spread), 1)
    >>> density = LaplaceDensity().fit([[0.0], [1.0], [4.0], [6.0]], ["a", "a", "b", "b"])
    >>> density.log_prob([[0.5]]).round(2)
    array([[ 0.  , -5.19]])
    """

    native: ClassVar[bool] = False
    """True if the models take queries of any dtype on any device; else they get float64 on the CPU."""

    @final
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.models_ = [self._fit_class(sample) for sample in class_samples(self.classes_, X, index, weight)]
        for model in self.models_:
            if not callable(getattr(model, "log_prob", None)):
                raise TypeError(f"{type(self).__name__}._fit_class returned {model!r}; it needs a method log_prob(x)")

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = X if self.native else X.cpu().double()
        values = [model.log_prob(x) for model in self.models_]
        for value in values:
            if value.shape != x.shape[:1]:
                raise ValueError(
                    f"a model of {type(self).__name__} gave log_prob of shape {tuple(value.shape)} for {len(x)} rows; "
                    f"it must be ({len(x)},): torch.distributions.Independent sums over the features"
                )
        return torch.stack(values).to(X).T

    @abstractmethod
    def _fit_class(self, sample: ClassSample) -> LogDensity:
        """Return the density of one class: any object with `log_prob(x)`, (m, d) -> (m,)."""


def _check_sample(X: Any, y: Any, sample_weight: Any) -> tuple[Tensor, Any, Tensor]:
    data = as_tensor(X).detach().cpu().double()
    labels = as_numpy(y)
    if data.ndim != 2 or labels.shape != (len(data),):
        raise ValueError(f"X {tuple(data.shape)} and y {labels.shape} must have shapes (n, d) and (n,)")
    if len(data) == 0:
        raise ValueError("X has 0 samples; a density needs at least one point of each class")
    if not bool(torch.isfinite(data).all()):
        raise ValueError("X contains NaN or infinity; impute or drop those rows before fitting a density")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("y contains NaN, which is no class; drop those rows")
    if sample_weight is None:
        return data, labels, torch.ones(len(data), dtype=torch.float64)
    weight = torch.from_numpy(check_weights(as_numpy(sample_weight), len(data)))
    keep = weight > 0
    return data[keep], labels[keep.numpy()], weight[keep]


def class_samples(classes: NDArray[Any], X: Tensor, index: Tensor, weight: Tensor) -> list[ClassSample]:
    """Cut the training points into the samples of the classes."""
    pooled = _pooled_covariance(X, index, weight)
    rows = [index == c for c in range(len(classes))]
    return [ClassSample(name, X[own], weight[own], pooled) for name, own in zip(classes.tolist(), rows, strict=True)]


def _pooled_covariance(X: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    k, d = int(index.max()) + 1, X.shape[1]
    mass = torch.zeros(k, dtype=X.dtype).index_add_(0, index, weight)
    sums = torch.zeros(k, d, dtype=X.dtype).index_add_(0, index, weight[:, None] * X)
    centred = X - (sums / mass[:, None])[index]
    return (weight[:, None] * centred).T @ centred / mass.sum()
