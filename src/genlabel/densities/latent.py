"""A density over the features of a trained network (arXiv Alg. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_tensor, like
from genlabel.densities.base import ClassDensity


class Encoder(Protocol):
    """A staged network, seen from its features; it encodes in its own dtype and on its own device."""

    def parameters(self) -> Iterator[Tensor]:
        """Its weights."""
        ...

    def encode(self, x: Tensor, depth: int) -> Tensor:
        """Representation of `x` after `depth` stages."""
        ...

    def to(self, device: str, /) -> object:
        """Move its weights to a device."""
        ...


@final
class LatentDensity(ClassDensity):
    """p_c(z) of the features z = f_phi(x) of a twin network; queried with points x of the input space.

    `fit` encodes the training points with the (already trained) twin and fits `density` to the features
    (arXiv Alg. 2, line 3); `log_prob` encodes the mixed points and evaluates it there (lines 6 and 7).

    Parameters
    ----------
    encoder : Encoder
        The vanilla-trained twin, for example a :class:`genlabel.training.networks.MLP` in float64.
    depth : int
        How many of its stages make the features; the number of hidden layers is the penultimate layer.
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

    def __init__(self, encoder: Encoder, depth: int, density: ClassDensity) -> None:
        self.encoder = encoder
        self.depth = depth
        self.density = density

    def __sklearn_clone__(self) -> LatentDensity:
        """A copy with the same twin (its weights are shared, not reset) and an unfitted density."""
        return LatentDensity(self.encoder, self.depth, clone(self.density))

    @property
    def default_priors(self) -> str:
        """Those of the density."""
        return self.density.default_priors

    def to_cpu(self) -> Self:
        """The density with the twin on the CPU."""
        self.encoder.to("cpu")
        return self

    @property
    def cross_fitted(self) -> bool:
        """Whether the fitted density is."""
        return self.density_.cross_fitted

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """As `log_prob`, by models of the density that saw neither parent, where it has them.

        The features of a blend are no blend of features: `lam` and `points` are of no use.
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


def encode_rows(encoder: Encoder, X: Tensor, depth: int) -> Tensor:
    """Return the features of rows; one error for all that a network may say of rows that it cannot take."""
    try:
        return encoder.encode(X, depth)
    except (RuntimeError, IndexError) as error:
        said = " ".join(str(error).split())
        raise ValueError(
            f"the network cannot encode X of shape {tuple(X.shape)} to depth {depth} ({said}); give rows such as it "
            "was trained on, and a depth that it has"
        ) from error
