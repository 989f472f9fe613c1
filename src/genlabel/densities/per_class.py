"""Densities that describe each class by itself: a new one is a single method."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.densities.base import ClassDensity


class LogDensity(Protocol):
    """Anything with `log_prob(x)`: ours, a `torch.distributions` object, or a normalising flow."""

    def log_prob(self, x: Tensor, /) -> Tensor:
        """Log-density of each row of `x`, shape (m,)."""
        ...


class Within:
    """Covariance within the classes, over all classes; found when it is asked for."""

    def __init__(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.points = (X, index, weight)

    @cached_property
    def covariance(self) -> Tensor:
        """(d, d)"""
        centred, weight, mass = self._centred
        return (weight[:, None] * centred).T @ centred / mass

    @cached_property
    def variance(self) -> Tensor:
        """(d,): its diagonal."""
        centred, weight, mass = self._centred
        return weight @ centred**2 / mass

    @property
    def _centred(self) -> tuple[Tensor, Tensor, Tensor]:
        """The points (n, d) less the means of their classes, their weights (n,), and the sum of these."""
        X, index, weight = self.points
        k, d = int(index.max()) + 1, X.shape[1]
        mass = X.new_zeros(k).index_add_(0, index, weight)
        sums = X.new_zeros(k, d).index_add_(0, index, weight[:, None] * X)
        return X - (sums / mass[:, None])[index], weight, mass.sum()


@dataclass(frozen=True)
class ClassSample:
    """The points of one class, as a density sees them.

    >>> class Normal(PerClassDensity):  # what it is given in its one method
    ...     def _fit_class(self, sample):
    ...         print(sample.name, tuple(sample.X.shape), sample.X.mean(0).tolist())
    ...         return torch.distributions.MultivariateNormal(sample.X.mean(0), sample.pooled)
    >>> Normal().fit([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0], [6.0, 9.0]], ["a", "a", "b", "b"]).classes_.tolist()
    a (2, 2) [1.0, 0.5]
    b (2, 2) [5.5, 7.0]
    ['a', 'b']
    """

    name: object
    """The class as the user wrote it."""
    X: Tensor
    """Its points, shape (n_c, d), float64 on the CPU unless the density asks for something else."""
    weight: Tensor
    """Their weights, shape (n_c,), all positive."""
    within: Within
    """What the classes have in common."""

    @property
    def pooled(self) -> Tensor:
        """Covariance within the classes, over all classes, shape (d, d): what to fall back on."""
        return self.within.covariance

    @property
    def has_spread(self) -> bool:
        """Whether any two of its points differ."""
        return bool((self.X[:1] != self.X).any())


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


def class_samples(classes: NDArray[Any], X: Tensor, index: Tensor, weight: Tensor) -> list[ClassSample]:
    """Cut the training points into the samples of the classes."""
    within = Within(X, index, weight)
    masks = [index == c for c in range(len(classes))]
    return [
        ClassSample(name, X[inside], weight[inside], within)
        for name, inside in zip(classes.tolist(), masks, strict=True)
    ]
