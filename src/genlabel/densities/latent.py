"""Density over the features of a trained network (arXiv Alg. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_tensor, like
from genlabel.densities.base import ClassDensity


class FeatureExtractor(Protocol):
    """A staged network as the source of features; it encodes in its own dtype and on its own device."""

    def parameters(self) -> Iterator[Tensor]:
        """Return its weights."""
        ...

    def encode(self, x: Tensor, depth: int) -> Tensor:
        """Return the representation of `x` after `depth` stages."""
        ...

    def to(self, device: str, /) -> object:
        """Move its weights to a device."""
        ...


@final
class LatentDensity(ClassDensity):
    """p_c(z) of the features z = f_phi(x) of a twin network, evaluated at points x of the input space.

    `fit` encodes the training points with the trained twin and fits `density` to the features (arXiv Alg. 2, line 3);
    `log_prob` encodes the mixed points and evaluates the density there (lines 6 and 7).

    Parameters
    ----------
    encoder : FeatureExtractor
        Twin network after plain training, for example a :class:`genlabel.training.networks.MLP` in float64.
    depth : int
        Number of stages that make the features; the number of hidden layers is the penultimate layer.
    density : ClassDensity

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity
    >>> from genlabel.training.networks import MLP
    >>> twin = MLP(2, 2, hidden=(4,), seed=0, dtype=torch.float64)
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [2.0, 3.0], [3.0, 2.0]], [0, 0, 0, 1, 1, 1]
    >>> LatentDensity(twin, 1, GaussianDensity(shrinkage=0.1)).fit(X, y).log_prob(X).shape
    (6, 2)
    """

    def __init__(self, encoder: FeatureExtractor, depth: int, density: ClassDensity) -> None:
        self.encoder = encoder
        self.depth = depth
        self.density = density

    def __sklearn_clone__(self) -> LatentDensity:
        """Return a copy with the same twin (its weights are shared, not reset) and an unfitted density."""
        return LatentDensity(self.encoder, self.depth, clone(self.density))

    @property
    def default_priors(self) -> str:
        """Priors of the density of features."""
        return self.density.default_priors

    @property
    def cross_fitted(self) -> bool:
        """True if the density of features is cross-fitted."""
        return self.density_.cross_fitted

    def to_cpu(self) -> Self:
        """Move the twin to the CPU."""
        self.encoder.to("cpu")
        return self

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return `log_prob` by models of the density that exclude both parents, if it is cross-fitted.

        `lam` and `points` are ignored: the features of a mixed point are not mixed features.
        """
        return like(self.density_.log_prob_of_pairs(self._features(as_tensor(X)), rows, partner_rows), X)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.density_ = clone(self.density).fit(self._features(X), self.classes_[index.numpy()], weight)

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.density_.log_prob(self._features(X))

    def _features(self, X: Tensor) -> Tensor:
        weight = next(iter(self.encoder.parameters()))
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            return encode_rows(self.encoder, X.to(weight), self.depth).to(X)


def encode_rows(encoder: FeatureExtractor, X: Tensor, depth: int) -> Tensor:
    """Return the features of rows; raise ValueError if the network cannot encode them."""
    try:
        return encoder.encode(X, depth)
    except (RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"the network cannot encode X of shape {tuple(X.shape)} to depth {depth} ({reason}); pass rows like its "
            "training rows, and a depth that it has"
        ) from error
