"""Targets that torch cannot differentiate: any function that gives probabilities, or classes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from genlabel._arrays import as_numpy, one_hot
from genlabel._validation import check_count
from genlabel.attacks.models import LOWEST, NO_CLASS, AttackedModel

WIDER = (1e-2, 1e-1)
"""Steps of the differences, in units of `scale`, where a function does not change over the smallest one."""


@final
class FunctionModel(AttackedModel):
    """Any function from points (m, d) to log-probabilities (m, k), numpy arrays; gradients by central differences.

    A point whose values do not change over the smallest step is tried with steps of `WIDER`: a tree is flat, and so is
    a pool of probabilities that are clipped.

    Parameters
    ----------
    function : callable
    scale : float or array (d,)
        Unit of each feature: steps are fractions of it.

    Examples
    --------
    >>> target = FunctionModel(lambda X: np.log(np.hstack([X, 1 - X])))
    >>> target.gradient(torch.tensor([[0.5]]).double(), torch.tensor([0])).round(decimals=6)
    tensor([[-2.]], dtype=torch.float64)
    """

    def __init__(self, function: Callable[[NDArray[np.float64]], NDArray[Any]], scale: ArrayLike = 1.0) -> None:
        self.function = function
        self.scale = np.asarray(scale, dtype=np.float64)

    def log_proba(self, x: Tensor) -> Tensor:
        """What the function says."""
        logs = torch.from_numpy(np.array(self.function(_table(x)), dtype=np.float64))
        return logs.to(x).reshape(*x.shape[:-1], -1)

    def pull(self, x: Tensor, weight: Tensor) -> Tensor:
        """Central differences, 2 d values of the function a point."""
        X = _table(x)
        share = as_numpy(weight).reshape(len(X), -1).astype(np.float64)
        precision = float(np.finfo(self.function(X[:1]).dtype).eps)
        slope, flat = self._differences(X, share, precision ** (1 / 3), precision)
        for step in WIDER:
            if not flat.any():
                break
            slope[flat], still = self._differences(X[flat], share[flat], step, precision)
            flat[flat] = still
        return torch.from_numpy(slope).to(x).reshape(x.shape)

    def _differences(
        self, X: NDArray[np.float64], share: NDArray[np.float64], step: float, precision: float
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Slopes (n, d), and the rows (n,) where the change is no more than rounding."""
        slope, change = np.zeros_like(X), np.zeros(len(X))
        for j, h in enumerate(np.broadcast_to(step * self.scale, X.shape[1:])):
            up, down = X.copy(), X.copy()
            up[:, j] += h
            down[:, j] -= h
            above, below = (np.maximum(self.function(points), LOWEST) for points in (up, down))
            gap = ((above - below) * share).sum(1)
            noise = 64 * precision * (1.0 + np.where(share != 0, np.abs(above), 0.0).max(1))
            change = np.maximum(change, np.abs(gap) / noise)
            slope[:, j] = gap / (up[:, j] - down[:, j])
        return slope, change <= 1.0


@final
class DecisionModel(AttackedModel):
    """A function from points (m, d) to class indices (m,), -1 for none, which no attack by gradients can use.

    Parameters
    ----------
    function : callable
    n_classes : int

    Examples
    --------
    >>> target = DecisionModel(lambda X: (X[:, 0] > 0).astype(int), 2)
    >>> target.log_proba(torch.tensor([[0.3]]))
    tensor([[-inf, 0.]])
    """

    has_gradient = False

    def __init__(self, function: Callable[[NDArray[np.float64]], NDArray[Any]], n_classes: int) -> None:
        self.function = function
        self.n_classes = check_count("n_classes", n_classes, low=2)

    def log_proba(self, x: Tensor) -> Tensor:
        """0 for the class that is chosen, minus infinity for the others; NaN for all where none is."""
        said = np.asarray(self.function(_table(x)), dtype=np.int64).reshape(x.shape[:-1])
        index = torch.from_numpy(said).to(x.device)
        logs = one_hot(index.clamp(min=0), self.n_classes, x.dtype).log()
        return logs.masked_fill((index == NO_CLASS)[..., None], torch.nan)

    def pull(self, x: Tensor, weight: Tensor) -> Tensor:
        """There is none."""
        raise TypeError("this model gives classes and no probabilities: it has no gradient; use the boundary attack")


def _table(x: Tensor) -> NDArray[np.float64]:
    """Points (..., m, d) as the rows of a table."""
    return as_numpy(x).reshape(-1, x.shape[-1]).astype(np.float64)
