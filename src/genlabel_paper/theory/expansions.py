"""Second-order expansions of the losses around the data, which depend on the labels through two coefficients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from genlabel._arrays import Values
from genlabel_paper.theory.coefficients import class_coefficients, pair_coefficients, taylor_coefficients
from genlabel_paper.theory.gaussian import GaussianPair
from genlabel_paper.theory.inputs import Model, Scorer, read_binary_sample, read_model

COEFFICIENTS = ("lemma", "class", "pair")
"""Coefficients of GenLabel's expansion: the same for all pairs as in the lemma, per class, or per pair."""


class Expansion(NamedTuple):
    """Terms of a second-order expansion, which `expand` returns.

    arXiv Lemma 8, "mixup loss", and Lemma 1, "GenLabel loss for 2 class".
    """

    std: float
    """Loss at the points themselves."""
    R1: float
    R2: float
    R3: float

    @property
    def total(self) -> float:
        """Sum of the terms, L~."""
        return self.std + self.R1 + self.R2 + self.R3


def point_loss(f: Tensor, y: Tensor) -> Tensor:
    """Return h(f) - y f with h(w) = log(1 + exp(w)), without cancellation.

    >>> point_loss(torch.tensor([0.0, 800.0]), torch.tensor([1.0, 1.0]))
    tensor([0.6931, 0.0000])
    """
    return y * softplus(-f) + (1 - y) * softplus(f)


def expand(model: Model, X: Values, y: Values, A: Values, B: Values, mass: Values = 1.0) -> Expansion:
    """Return the second-order expansion of a loss over all pairs around x_i, (1 - lam) (x_j - x_i) being small.

    (1 / n^2) sum_ij  mass l_i + A (h'_i - y_i) g_i v + (B / 2) (h''_i (g_i v)^2 + (h'_i - y_i) v H_i v), v = x_j - x_i,
    with f's gradient g_i and second derivatives H_i at x_i: arXiv Lemma 8, "mixup loss" (A = 1/3, B = 1/6), and
    Lemma 1, "GenLabel loss for 2 class".

    Parameters
    ----------
    model, X, y
        See :func:`genlabel_paper.theory.mixup_loss`.
    A, B, mass : floats or arrays (n, n)

    Examples
    --------
    >>> terms = expand([1.0], [[-1.0], [1.0]], [0, 1], 1 / 3, 1 / 6)
    >>> [round(value, 4) for value in (*terms, terms.total)]
    [0.3133, 0.0896, 0.0328, 0.0, 0.4357]
    """
    x, labels = read_binary_sample(X, y)
    scorer = read_model(model, x.shape[1])
    f, g = scorer.values(x), scorer.gradients(x)
    first, second = _residual(f, labels)[:, None], (f.sigmoid() * (-f).sigmoid())[:, None]
    v = x - x[:, None]
    along = (v * g[:, None]).sum(-1)
    bend = torch.zeros_like(along) if scorer.theta is not None else _quadratic_form(scorer, x, v)
    weights = [torch.as_tensor(moment, dtype=x.dtype) for moment in (mass, A, B)]
    terms = (point_loss(f, labels)[:, None].expand_as(along), first * along, second * along**2 / 2, first * bend / 2)
    return Expansion(*(float((weights[min(k, 2)] * term).mean()) for k, term in enumerate(terms)))


def genlabel_moments(x: Tensor, y: Tensor, kind: str, sigma_1: float, c: float, tau: float) -> tuple[Any, Any, Any]:
    """Return A, B and mass of the GenLabel loss, scalars or (n, n); see :func:`genlabel_paper.theory.genlabel_loss`."""
    d = x.shape[1]
    if kind == "pair":
        mass, A, B = pair_coefficients(x.numpy(), y.numpy(), GaussianPair(sigma_1, c, tau, d))
        return A, B, mass
    A, B = taylor_coefficients(c, tau, d, sigma_1)
    if kind == "lemma":
        return A, B, 1.0
    zero, one = (y.new_tensor(moments) for moments in class_coefficients(c, tau, d, sigma_1))
    of_classes = torch.where(y[:, None, None] == 0, zero, one)
    mass, A, B = torch.where((y[:, None] == y)[..., None], y.new_tensor([1.0, A, B]), of_classes).unbind(-1)
    return A, B, mass


def _residual(f: Tensor, y: Tensor) -> Tensor:
    """Return h'(f) - y without cancellation."""
    return (1 - y) * f.sigmoid() - y * (-f).sigmoid()


def _quadratic_form(scorer: Scorer, x: Tensor, v: Tensor) -> Tensor:
    """Return v H_i v (n, n) for steps v (n, n, d)."""
    return torch.einsum("ija,iab,ijb->ij", v, scorer.hessians(x), v)


def expand_adversarial(scorer: Scorer, x: Tensor, y: Tensor, radius: float, factor: float) -> float:
    """Return the mean of l~_adv: arXiv Lemma 9, "adv_loss_approx", for theta, Theorem 2 (factor d) for networks."""
    f, length = scorer.values(x), scorer.gradients(x).norm(dim=1)
    first = radius * _residual(f, y).abs() * length
    second = factor * radius**2 / 2 * f.sigmoid() * (-f).sigmoid() * length**2
    return float((point_loss(f, y) + first + second).mean())
