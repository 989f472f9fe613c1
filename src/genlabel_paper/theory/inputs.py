"""Inputs of the theory: a model f with its derivatives, a binary sample, and names of schemes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import Values, as_numpy, as_tensor, chunks
from genlabel._validation import check_choice
from genlabel.attacks import AttackedNetwork

SCHEMES = ("vanilla", "mixup", "mixup-without-mi", "logistic", "genlabel", "svm")
"""Schemes of arXiv Examples 1 to 3; no example has all of them."""
CHUNK_SIZE = 1 << 20
"""Points that a model evaluates in one call."""
Model = Values | Callable[[Tensor], Tensor]
"""theta (d,), or f itself: a torch module or a function."""
MODEL_HINT = "pass theta (d,), such as coef_[0] of a scikit-learn model, a torch module, or a function of torch tensors"


@final
class Scorer:
    """Score f(x) of a point; class 1 where it is positive.

    Parameters
    ----------
    function : callable (m, d) -> (m,), (m, 1) or (m, 2)
        Of two scores, as from a network with softmax, f is the second minus the first.
    theta : tensor (d,) or None
        Vector of a linear model f(x) = theta x.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], theta: Tensor | None = None) -> None:
        self.function = function
        self.theta = theta

    def values(self, x: Tensor) -> Tensor:
        """Return f (...) at points (..., d)."""
        flat = x.reshape(-1, x.shape[-1])
        with torch.no_grad():
            return torch.cat([self.scores(flat[block]) for block in chunks(len(flat), CHUNK_SIZE)]).reshape(
                x.shape[:-1]
            )

    def along(self, first: Tensor, second: Tensor, lam: Tensor) -> Tensor:
        """Return f (p, q) at lam x_i + (1 - lam) x_j for points (p, d) and lam (p, q) or (q,)."""
        if self.theta is not None:
            f_i, f_j = (points @ self.theta for points in (first, second))
            return lam * f_i[:, None] + (1 - lam) * f_j[:, None]
        weight = lam[..., None]
        return self.values(weight * first[:, None] + (1 - weight) * second[:, None])

    def crossings(self, first: Tensor, second: Tensor) -> NDArray[np.float64]:
        """Return the lam (p, 1) at which theta x changes sign between points (p, d); 1/2 if none, or for a network."""
        middle = np.full((len(first), 1), 0.5)
        if self.theta is None:
            return middle
        f_i, f_j = ((points @ self.theta).numpy()[:, None] for points in (first, second))
        return np.where(f_i * f_j < 0, np.divide(f_j, f_j - f_i, out=middle.copy(), where=f_i != f_j), middle)

    def gradients(self, x: Tensor) -> Tensor:
        """Return the gradients (n, d) of f at points (n, d)."""
        if self.theta is not None:
            return self.theta.expand_as(x)
        with torch.enable_grad():
            points = x.detach().requires_grad_()
            return self._gradient(self.scores(points).sum(), points).detach()

    def hessians(self, x: Tensor) -> Tensor:
        """Return the second derivatives (n, d, d) of f at points (n, d)."""
        with torch.enable_grad():
            points = x.detach().requires_grad_()
            gradient = self._gradient(self.scores(points).sum(), points)
            rows = [self._gradient(gradient[:, k].sum(), points) for k in range(x.shape[1])]
        return torch.stack(rows, 1).detach()

    @staticmethod
    def _gradient(total: Tensor, points: Tensor) -> Tensor:
        """Return the gradient of a sum over points, 0 where it does not depend on them."""
        if not total.requires_grad:
            return torch.zeros_like(points)
        (gradient,) = torch.autograd.grad(total, points, create_graph=True, materialize_grads=True)
        return gradient

    def scores(self, x: Tensor) -> Tensor:
        """Return f (m,) at points (m, d), for autograd."""
        scores = self.function(x)
        if scores.shape == (len(x), 2):
            scores = scores[:, 1] - scores[:, 0]
        return scores.reshape(len(x)).to(x)


def read_model(model: Model, d: int) -> Scorer:
    """Return the scorer of a vector theta (d,), f(x) = theta x, or of a torch module or function that gives f.

    A module must compute in float64 (`module.double()`), to avoid rounding errors. theta may be one row,
    (1, d), such as the `coef_` of a scikit-learn model.

    >>> read_model([1.0, 2.0], 2).values(torch.ones(3, 2, dtype=torch.float64)).tolist()
    [3.0, 3.0, 3.0]
    """
    if callable(model):
        return _read_function(model, d)
    try:
        theta = as_tensor(model).detach().double()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{type(model).__name__} is not a model; {MODEL_HINT}") from error
    theta = theta[0] if theta.shape == (1, d) else theta
    if theta.shape != (d,):
        raise ValueError(f"theta has shape {tuple(theta.shape)}, but the points have {d} features; pass ({d},)")
    if not bool(theta.isfinite().all()):
        raise ValueError("theta contains NaN or infinity")
    return Scorer(lambda x: x @ theta, theta)


def _read_function(model: Callable[[Tensor], Tensor], d: int) -> Scorer:
    """Return the scorer of a module or function, after a check at two points."""
    if isinstance(model, nn.Module):
        kinds = {weight.dtype for weight in model.parameters()}
        if kinds - {torch.float64}:
            raise ValueError(f"the module has parameters of {kinds}; call module.double() first")
        AttackedNetwork(model)  # raises for a module in training mode
    try:
        with torch.no_grad():
            scores = model(torch.zeros(2, d, dtype=torch.float64))
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"the model fails at points (2, {d}) of float64: {error}") from error
    if not isinstance(scores, Tensor):
        raise TypeError(f"the model returned {type(scores).__name__}, not a torch tensor; {MODEL_HINT}")
    if scores.shape not in ((2,), (2, 1), (2, 2)):
        raise ValueError(
            f"the model returned shape {tuple(scores.shape)} at 2 points; f must return 1 or 2 scores a point"
        )
    if not bool(scores.isfinite().all()):
        raise ValueError("the model returns NaN or infinity at 0")
    return Scorer(model)


class BinarySample(NamedTuple):
    """Points and labels of a binary problem."""

    x: Tensor
    """(n, d)"""
    y: Tensor
    """0.0 or 1.0, (n,)"""


def read_binary_sample(X: Values, y: Values) -> BinarySample:
    """Return points (n, d) and labels (n,) of 0 and 1 as float64 tensors; raise if they are invalid.

    >>> read_binary_sample([[1.0], [2.0]], [0, 1]).y
    tensor([0., 1.], dtype=torch.float64)
    """
    try:
        x, labels = as_tensor(X).detach().double(), as_numpy(y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must be numeric, (n, d): {error}") from error
    if x.ndim != 2 or not len(x) or labels.shape != (len(x),):
        raise ValueError(f"X has shape {tuple(x.shape)} and y has shape {labels.shape}; pass (n, d) and (n,)")
    if not bool(x.isfinite().all()):
        raise ValueError("X contains NaN or infinity")
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        values = list(dict.fromkeys(labels.tolist()))[:5]
        raise ValueError(f"y has the labels {values}; pass 0 and 1 (the paper's -1 is 0)")
    return BinarySample(x, torch.from_numpy(labels.astype(np.float64)))


def check_scheme(scheme: str, known: Iterable[str], example: str, undefined: Mapping[str, str]) -> None:
    """Raise unless the example has the scheme, with the reason for a scheme of another example.

    Parameters
    ----------
    scheme : str
    known : iterable of str
        Schemes of the example.
    example : str
    undefined : dict of str -> str
        Reason why a scheme of other examples is undefined here.

    Examples
    --------
    >>> check_scheme("svm", ["mixup"], "Example 1", {"svm": "its classifier is not linear"})
    Traceback (most recent call last):
    ValueError: scheme='svm' is undefined in Example 1: its classifier is not linear; choose one of 'mixup'
    """
    known = list(known)
    if isinstance(scheme, str) and scheme in undefined:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"scheme={scheme!r} is undefined in {example}: {undefined[scheme]}; choose one of {names}")
    check_choice("scheme", scheme, known)
