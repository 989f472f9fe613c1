"""What the losses read: a model f, its values and derivatives at points, and a sample of two classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel.arrays import as_numpy, as_tensor, chunks

__all__ = ["Sample", "Scorer", "read_model", "read_sample"]

AT_ONCE = 1 << 20
"""Points that a model sees at once."""


@final
class Scorer:
    """f(x), one number a point; class 1 where it is positive.

    Parameters
    ----------
    function : callable (m, d) -> (m,), (m, 1) or (m, 2)
        Of two scores, as of a network with softmax, f is the second minus the first.
    theta : tensor (d,) or None
        Where f(x) = theta x.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], theta: Tensor | None = None) -> None:
        self.function = function
        self.theta = theta

    def values(self, x: Tensor) -> Tensor:
        """f at points (..., d), (...)."""
        flat = x.reshape(-1, x.shape[-1])
        with torch.no_grad():
            return torch.cat([self.scores(flat[rows]) for rows in chunks(len(flat), AT_ONCE)]).reshape(x.shape[:-1])

    def gradients(self, x: Tensor) -> Tensor:
        """Gradients of f at points (n, d), (n, d)."""
        if self.theta is not None:
            return self.theta.expand_as(x)
        with torch.enable_grad():
            points = x.detach().requires_grad_()
            return self._slope(self.scores(points).sum(), points).detach()

    def hessians(self, x: Tensor) -> Tensor:
        """Second derivatives of f at points (n, d), (n, d, d): the gradient of each component of the gradient."""
        if self.theta is not None:
            return x.new_zeros(*x.shape, x.shape[-1])
        with torch.enable_grad():
            points = x.detach().requires_grad_()
            slope = self._slope(self.scores(points).sum(), points)
            rows = [self._slope(slope[:, k].sum(), points) for k in range(x.shape[1])]
        return torch.stack(rows, 1).detach()

    @staticmethod
    def _slope(total: Tensor, points: Tensor) -> Tensor:
        """Gradient of a sum over points, 0 where it does not depend on them."""
        if not total.requires_grad:
            return torch.zeros_like(points)
        (found,) = torch.autograd.grad(total, points, create_graph=True, materialize_grads=True)
        return found

    def scores(self, x: Tensor) -> Tensor:
        """f at points (m, d), (m,), for autograd."""
        found = self.function(x)
        if found.shape == (len(x), 2):
            found = found[:, 1] - found[:, 0]
        if found.numel() != len(x):
            raise ValueError(f"the model gave {tuple(found.shape)} at {len(x)} points; f must give one number a point")
        return found.reshape(len(x)).to(x)


def read_model(model: Any, d: int) -> Scorer:
    """Return the scorer of a vector theta (d,), f(x) = theta x, or of a torch module or function that gives f.

    A module must compute in float64 (`module.double()`), so that nothing is lost in rounding.

    >>> read_model([1.0, 2.0], 2).values(torch.ones(3, 2, dtype=torch.float64)).tolist()
    [3.0, 3.0, 3.0]
    """
    if callable(model):
        kinds = {own.dtype for own in model.parameters()} if isinstance(model, nn.Module) else set()
        if kinds - {torch.float64}:
            raise ValueError(f"the module has parameters of {kinds}; call module.double() first")
        return Scorer(model)
    theta = as_tensor(model).detach().double()
    if theta.shape != (d,):
        raise ValueError(f"theta has shape {tuple(theta.shape)}, but the points have {d} features; give ({d},)")
    return Scorer(lambda x: x @ theta, theta)


class Sample(NamedTuple):
    """Points and labels of a binary problem."""

    x: Tensor
    """(n, d)"""
    y: Tensor
    """0.0 or 1.0, (n,)"""


def read_sample(X: Any, y: Any) -> Sample:
    """Return points (n, d) and labels (n,) of 0 and 1 as float64 tensors; raise if they are not.

    >>> read_sample([[1.0], [2.0]], [0, 1]).y
    tensor([0., 1.], dtype=torch.float64)
    """
    x, labels = as_tensor(X).detach().double(), as_numpy(y)
    if x.ndim != 2 or not len(x) or labels.shape != (len(x),):
        raise ValueError(f"X has shape {tuple(x.shape)} and y has shape {labels.shape}; give (n, d) and (n,)")
    if not bool(x.isfinite().all()):
        raise ValueError("X contains NaN or infinity")
    if not np.isin(labels, (0, 1)).all():
        raise ValueError(f"y has the labels {np.unique(labels)[:5].tolist()}; give 0 and 1 (the paper's -1 is 0)")
    return Sample(x, torch.from_numpy(labels.astype(np.float64)))
