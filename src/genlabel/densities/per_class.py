"""Densities that are fitted to each class separately: base class, samples of the classes, and given densities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, final

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import MultivariateNormal

from genlabel._arrays import Array, as_tensor
from genlabel.densities.base import ClassDensity


class LogDensity(Protocol):
    """Object with `log_prob(x)`: one of ours, a `torch.distributions` object, or a normalizing flow."""

    def log_prob(self, x: Tensor, /) -> Tensor:
        """Return the log-density of each row of `x`, shape (m,)."""
        ...


class WithinClass:
    """Within-class covariance of all classes, computed on first use."""

    def __init__(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.sample = (X, index, weight)

    @cached_property
    def covariance(self) -> Tensor:
        """(d, d)"""
        centered, weight, mass = self._centered
        return (weight[:, None] * centered).T @ centered / mass

    @cached_property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, (d,)."""
        centered, weight, mass = self._centered
        return weight @ centered**2 / mass

    @property
    def _centered(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the points (n, d) less their class means, their weights (n,) and the sum of these."""
        X, index, weight = self.sample
        k, d = int(index.max()) + 1, X.shape[1]
        mass = X.new_zeros(k).index_add_(0, index, weight)
        sums = X.new_zeros(k, d).index_add_(0, index, weight[:, None] * X)
        return X - (sums / mass[:, None])[index], weight, mass.sum()


@dataclass(frozen=True)
class ClassSample:
    """Training points of one class, the argument of `PerClassDensity._fit_class`.

    >>> class Normal(PerClassDensity):
    ...     def _fit_class(self, sample):
    ...         print(sample.name, tuple(sample.X.shape), sample.X.mean(0).tolist())
    ...         return torch.distributions.MultivariateNormal(sample.X.mean(0), sample.pooled)
    >>> Normal().fit([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0], [6.0, 9.0]], ["a", "a", "b", "b"]).classes_.tolist()
    a (2, 2) [1.0, 0.5]
    b (2, 2) [5.5, 7.0]
    ['a', 'b']
    """

    name: object
    """Class label as the user wrote it."""
    X: Tensor
    """Points (n_c, d), float64 on the CPU unless the density sets `fit_dtype` or `fit_device`."""
    weight: Tensor
    """Positive weights (n_c,)."""
    within: WithinClass

    @property
    def pooled(self) -> Tensor:
        """Within-class covariance of all classes, (d, d): a fallback for small classes."""
        return self.within.covariance

    @property
    def has_spread(self) -> bool:
        """True if at least two points differ."""
        return bool((self.X[:1] != self.X).any())


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
                raise TypeError(f"{type(self).__name__}._fit_class returned {model!r}; it needs a method log_prob(x)")

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = X if self.native else X.cpu().double()
        columns = [model.log_prob(x) for model in self.models_]
        for column in columns:
            if column.shape != x.shape[:1]:
                raise ValueError(
                    f"a model of {type(self).__name__} gave log_prob of shape {tuple(column.shape)} for {len(x)} rows; "
                    f"it must be ({len(x)},): torch.distributions.Independent sums over the features"
                )
        return torch.stack(columns).to(X).T

    @abstractmethod
    def _fit_class(self, sample: ClassSample) -> LogDensity:
        """Return the density of one class: any object with `log_prob(x)`, (m, d) -> (m,)."""


def class_samples(classes: NDArray[Any], X: Tensor, index: Tensor, weight: Tensor) -> list[ClassSample]:
    """Return the training points of each class."""
    within = WithinClass(X, index, weight)
    masks = [index == c for c in range(len(classes))]
    return [
        ClassSample(name, X[mask], weight[mask], within) for name, mask in zip(classes.tolist(), masks, strict=True)
    ]


@final
class FixedDensity(PerClassDensity):
    """Given densities, for example the true ones of a synthetic dataset, in the order of the sorted classes.

    Parameters
    ----------
    models : sequence of objects with `log_prob(x)`, (m, d) -> (m,)
        For example `torch.distributions` objects with float64 parameters.

    Examples
    --------
    >>> density = fixed_gaussians([[-1.0], [1.0]]).fit([[-1.0], [1.0]], [0, 1])
    >>> density.log_prob([[0.0]]).round(3)
    array([[-1.419, -1.419]])
    """

    def __init__(self, models: Sequence[LogDensity]) -> None:
        self.models = models

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
            raise ValueError(f"X has {x.shape[-1]} features, the given means have {len(center)}")
        covariance = self.variance * torch.eye(len(center), dtype=x.dtype, device=x.device)
        model: LogDensity = MultivariateNormal(center, covariance)
        return model.log_prob(x)


def fixed_gaussians(means: Array | Sequence[Sequence[float]], variance: float = 1.0) -> FixedDensity:
    """Return spherical Gaussians at the given `means` (k, d), as in the paper for the cubes and the 9 Gaussians.

    >>> density = fixed_gaussians([[0.0, 0.0], [3.0, 4.0]], variance=4.0).fit([[0.0, 0.0], [3.0, 4.0]], [0, 1])
    >>> log_prob = density.log_prob([[0.0, 0.0]])[0]
    >>> float(log_prob[0] - log_prob[1])  # |(3, 4)|^2 / (2 * 4)
    3.125
    """
    return FixedDensity([SphericalGaussian(tuple(mean), variance) for mean in as_tensor(means).tolist()])
