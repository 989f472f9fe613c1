"""What every class-conditional density shares: `fit(X, y)` and `log_prob(X)`, in log space only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, chunks, like
from genlabel._validation import check_magnitude, check_weights, deduplicate_warnings, read_classes, restore_on_error
from genlabel.densities._crossval import CrossValSample

if TYPE_CHECKING:
    from genlabel._splits import Fold
    from genlabel.densities.covariance import Gaussians
    from genlabel.densities.power_transform import PowerTransform, Warped
    from genlabel.densities.stacked import StackedDensity


LEAST_WEIGHT = 0.02
"""A member of a stack that would have less weight is left out."""


class DensityWarning(UserWarning):
    """A class could not be described as asked; the message names it and says what was done instead."""


class Excess(NamedTuple):
    """Why a density takes too long among many candidates, and what such densities are called."""

    reason: str
    kind: str


class Manifolds(Protocol):
    """Manifolds of the classes, with log p_c minus the distance to each."""

    def project(self, X: Tensor) -> Tensor:
        """The nearest point of each manifold to points (m, d), (m, k, d)."""
        ...

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Log p_c (m, k) of points (m, d), with their projections (m, k, d) taken as known."""
        ...


class ClassDensity(BaseEstimator, ABC):
    """Class-conditional densities p_c(x), one for each class.

    A subclass gives `_fit` and `_log_prob` on torch tensors; one that treats each class by itself derives
    from :class:`PerClassDensity` and gives a single method. The public calls are final: they check, convert
    and cut into chunks. The methods and properties with a default say what is special about a density, so that
    nobody needs to know its class.

    Attributes
    ----------
    classes_ : ndarray (k,)
        The classes, sorted; the order of the columns of :meth:`log_prob`.
    class_prior_ : ndarray (k,)
        Their share of the (weighted) training points.
    n_features_in_ : int
    """

    chunk_rows: int = 65536
    fit_dtype: ClassVar[torch.dtype] = torch.float64
    """The precision of the points and weights that `_fit` is given."""
    fit_device: ClassVar[str | None] = "cpu"
    """The device on which `_fit` is given them; None is where `X` is."""
    normalised: ClassVar[bool] = True
    """Whether exp(log_prob) integrates to 1: not where a distance or a bound stands in for a log-density."""

    @final
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn p_c from the rows of `X` (n, d) with labels `y` (n,); weights count as repetitions."""
        data, labels, weight = self._check_sample(X, y, sample_weight)
        classes, index = read_classes(labels)
        mass = np.bincount(index, weights=weight, minlength=len(classes))
        with restore_on_error(self), deduplicate_warnings():
            self.classes_ = classes
            self.n_features_in_ = int(data.shape[1])
            self.class_prior_ = mass / mass.sum()
            self._fit(data, torch.from_numpy(index).to(data.device), torch.from_numpy(weight).to(data))
        return self

    @final
    def log_prob(self, X: Any) -> Any:
        """Return log p_c(x), shape (m, k), columns in the order of `classes_`.

        numpy in, numpy out (float64); torch in, torch out (same dtype and device). It is differentiable where a tensor
        asks for a gradient.
        """
        x = self._check_query(X)
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_)), X)
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            parts = [self._log_prob(x[some]) for some in chunks(len(x), self.chunk_rows)]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        # Only a point so far away that its distance overflows has no number: its density is nil.
        return like(values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), X)

    @final
    def gradient(self, X: Any) -> Any:
        """Return the gradients of log p_c(x) in x, shape (m, k, d), as the kind of array that `X` is.

        >>> from genlabel.densities import fixed_gaussians
        >>> fixed_gaussians([[-1.0], [1.0]]).fit([[-1.0], [1.0]], [0, 1]).gradient([[0.5]])
        array([[[-1.5],
                [ 0.5]]])
        """
        x = self._check_query(X).detach()
        if len(x) == 0:
            return like(x.new_empty(0, len(self.classes_), self.n_features_in_), X)
        return like(torch.cat([self._gradient(x[some]) for some in chunks(len(x), self.chunk_rows)]), X)

    def gaussians(self) -> Gaussians | None:
        """Return the Gaussians of the classes, if the fitted density is one Gaussian a class; else None."""
        return None

    def manifolds(self) -> Manifolds | None:
        """Return what projects points onto the manifolds of the classes, if log p_c is minus a distance to one."""
        return None

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c of mixed points whose parents are the given training rows.

        A density that is fitted by cross-fitting answers with models that saw neither parent. Where `X` are known to be
        blends of weight `lam` of rows of `points`, one may work from these, if that is faster; here, `log_prob(X)`.
        """
        return self.log_prob(X)

    def log_prob_from_transformed(self, X: Tensor, warped: Warped | None) -> Tensor:
        """Return `log_prob(X)`, from what a map makes of the points if the density works behind it."""
        values: Tensor = self.log_prob(X)
        return values

    @property
    def default_priors(self) -> str:
        """The priors that suit it in a label: uniform, as in the paper; "empirical" if it is calibrated with them."""
        return "uniform"

    @property
    def cross_fitted(self) -> bool:
        """Whether :meth:`log_prob_of_pairs` has models for the rows of the parents, which it must be told then."""
        return False

    def to_cpu(self) -> Self:
        """The density with all that it has learned on the CPU."""
        return self

    @property
    def supports_latent_space(self) -> bool:
        """Whether it may live in a latent space, whose features have seen the labels of all rows."""
        return True

    @property
    def is_calibrated(self) -> bool:
        """Whether its posterior is good enough to be averaged with a network's, unless told otherwise."""
        return False

    def prepare_for_cv(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> CrossFittedDensity:
        """Return what is to be fitted in the folds of a cross-validation over these rows: here, the density itself.

        `folds` is called by a density that must choose something over them first.
        """
        return CrossFittedDensity(self)

    @property
    def family(self) -> Hashable | None:
        """What it shares in a search: densities of equal family are held out together; None shares nothing."""
        return None

    def held_out_log_prob(self, folds: CrossValSample, densities: Sequence[Self]) -> Tensor:
        """Return log p_c of densities of its family, (M, n, k), each row by models that were fitted without it.

        A row that no fold asks of is NaN. Here, each is cloned and fitted for each fold.
        """
        found = folds.empty_log_prob(len(densities))
        for train, rows in zip(folds.train, folds.valid, strict=True):
            for m, density in enumerate(densities):
                fitted = clone(density).fit(folds.X[train], folds.classes[train].numpy(), folds.weight[train])
                found[m, rows] = fitted.log_prob(folds.X[rows])
        return found

    def excess(self, n: int, d: int) -> Excess | None:
        """Say if it would take too long as one of many candidates for `n` rows of `d` features."""
        return None

    @property
    def min_stack_weight(self) -> float:
        """The weight below which it is not worth its price in a stack."""
        return LEAST_WEIGHT

    @property
    def uses_power_transform(self) -> bool:
        """Whether it maps the features first, and would take a map that others use too."""
        return False

    def with_transform(self, warp: PowerTransform) -> ClassDensity:
        """Return the density with that map, where it wants one."""
        return self

    def behind(self, warp: PowerTransform) -> ClassDensity | None:
        """Return the density of the mapped features, if it works with that map."""
        return None

    @abstractmethod
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        """Learn from points (n, d), class indices (n,) and positive weights (n,)."""

    @abstractmethod
    def _log_prob(self, X: Tensor) -> Tensor:
        """Return log p_c for the rows of one chunk, shape (m, k), in the dtype of `X`."""

    def _gradient(self, X: Tensor) -> Tensor:
        """Gradients for the rows of one chunk, (m, k, d), by differentiating `_log_prob`: no row knows of another."""
        with torch.enable_grad():
            x = X.requires_grad_()
            values = self._log_prob(x)
            each = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0] for column in values.unbind(1)]
        return torch.stack(each, 1)

    def _check_query(self, X: Any) -> Tensor:
        """The points that a fitted density is asked of, as a floating tensor (m, d)."""
        check_is_fitted(self, "classes_")
        x = as_tensor(X)
        if x.ndim != 2 or x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {tuple(x.shape)}, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_} features; pass an array of shape (m, {self.n_features_in_})"
            )
        return x.contiguous()

    def _check_sample(self, X: Any, y: Any, sample_weight: Any) -> tuple[Tensor, NDArray[Any], NDArray[np.float64]]:
        given = as_tensor(X).detach()
        data = given.to(self.fit_device or given.device, self.fit_dtype).contiguous()
        labels = as_numpy(y)
        if data.ndim != 2 or labels.shape != (len(data),):
            raise ValueError(
                f"X {tuple(data.shape)} and y {labels.shape} must have shapes (n, d) and (n,); flatten images, or give "
                "features of them"
            )
        if len(data) == 0:
            raise ValueError("X has 0 samples; a density needs at least one point of each class")
        check_points(data)
        if sample_weight is None:
            return data, labels, np.ones(len(data))
        weight = check_weights(as_numpy(sample_weight), len(data))
        keep = weight > 0
        return data[torch.from_numpy(keep).to(data.device)], labels[keep], weight[keep]


def check_points(X: Tensor) -> None:
    """Raise unless points (n, d) are finite numbers of which squares can be taken, in one feature at least.

    >>> check_points(torch.tensor([[1e200]], dtype=torch.float64))
    Traceback (most recent call last):
    ValueError: X has values of size 1e+200, whose squares are beyond all numbers; make them missing, or divide them
    """
    if X.shape[1] == 0:
        raise ValueError(f"X has shape {tuple(X.shape)}; a density needs at least one feature")
    if not bool(torch.isfinite(X).all()):
        raise ValueError("X contains NaN or infinity; impute or drop those rows before fitting a density")
    check_magnitude(float(X.abs().max()) if len(X) else 0.0)


class CrossFittedDensity(NamedTuple):
    """A density over the folds of a cross-validation: what is fitted in each, and to all rows.

    `ClassDensity.prepare_for_cv` returns it.
    """

    whole: ClassDensity
    """That of all rows; fitted to them already if it was chosen over the folds."""
    folds: Sequence[ClassDensity] = ()
    """Those to be fitted to the training rows of each fold; none if they are as that of all rows."""
    label_model: StackedDensity | None = None
    """The stacked density that chose them."""

    def fit(self, fold: int | None, X: Any, y: Any, sample_weight: Any = None) -> ClassDensity:
        """Return the density of a fold, fitted to its training rows; None is all rows, of which it may be known."""
        if fold is None and self.label_model is not None:
            return self.whole
        unfitted = self.folds[fold] if self.folds and fold is not None else self.whole
        return clone(unfitted).fit(X, y, sample_weight)
