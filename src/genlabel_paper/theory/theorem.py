"""Theorems 1 and 2 on a sample: the order of the mixup, GenLabel and adversarial losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from genlabel._arrays import Values
from genlabel_paper.theory.coefficients import MIXUP, taylor_coefficients
from genlabel_paper.theory.inputs import BinarySample, Model, Scorer, read_binary_sample, read_model
from genlabel_paper.theory.losses import adversarial_loss, genlabel_loss, mixup_loss

C_RANGE = (2.0 - np.sqrt(3.0), 2.0 + np.sqrt(3.0))
"""Range of c with c^2 - 4 c + 1 < 0, where the limits of A and B are below mixup's 1/3 and 1/6."""
ORDER_TOLERANCE = 1e-12
"""Relative tolerance; gen and adv are equal in the limit for some samples."""


@final
@dataclass(frozen=True)
class TheoremCheck:
    """Result of `check_theorem`: the three losses of the theorem, their ingredients and conditions."""

    mix: float
    """Expanded mixup loss L~_mix."""
    gen: float
    """Expanded GenLabel loss L~_gen."""
    adv: float
    """Mean of the expanded adversarial loss l~_adv(delta_gen, (x_i, y_i))."""
    delta: float
    """Radius of the attack, delta_gen = R c_x A."""
    R: float
    """Smallest |cos| between x_i and the gradient of f there."""
    c_x: float
    """Smallest norm of a point."""
    A: float
    B: float
    conditions: dict[str, bool]
    """Conditions of the theorem and, last, two more that its proof needs."""

    @property
    def holds(self) -> bool:
        """True if mix > gen >= adv; False for losses that vanish, as for a theta of norm 1000."""
        return self.mix > self.gen and self.gen >= self.adv - ORDER_TOLERANCE * abs(self.adv)

    def __str__(self) -> str:
        order = "mix > gen >= adv holds" if self.holds else "mix > gen >= adv does not hold"
        lines = [f"mix {self.mix:.6g}, gen {self.gen:.6g}, adv {self.adv:.6g}: {order}"]
        lines += [f"delta {self.delta:.6g} = R {self.R:.4g} * c_x {self.c_x:.4g} * A {self.A:.4g}; B {self.B:.4g}"]
        return "\n".join(lines + [f"{'yes' if met else 'no ':<4}{name}" for name, met in self.conditions.items()])


def check_theorem(
    model: Model,
    X: Values,
    y: Values,
    *,
    sigma_1: float,
    c: float = 1.0,
    tau: float = 0.0,
    taylor: bool = True,
    coefficients: str = "lemma",
    as_printed: bool = False,
) -> TheoremCheck:
    """Return the three losses of arXiv Theorems 1 (theta) and 2 (ReLU networks) on a sample, and their order.

    Parameters
    ----------
    model : array (d,), torch module or function
        Vector theta for f(x) = theta x, or f itself in float64, with one or two scores per point.
    X : array (n, d)
    y : array (n,)
        Labels 0 or 1.
    sigma_1, c, tau
        Parameters of the class densities, :class:`genlabel_paper.theory.GaussianPair`; infinite sigma_1 is the limit.
    taylor : bool
        Use the second-order expansions of the losses, as in the theorems, or the exact losses.
    coefficients : "lemma", "class" or "pair"
        Coefficients of the expanded GenLabel loss, see :func:`genlabel_paper.theory.genlabel_loss`; the theorems
        have "lemma".
    as_printed : bool
        Include the factor d of arXiv Theorem 2 in the adversarial loss, see
        :func:`genlabel_paper.theory.adversarial_loss`.

    Examples
    --------
    >>> from genlabel_paper.theory import GaussianPair
    >>> X, y = GaussianPair(sigma_1=10.0).sample(20, rng=0)
    >>> check_theorem([10.0, 0.0], X, y, sigma_1=10.0).holds
    True
    >>> check_theorem([10.0, 0.0], X, y, sigma_1=10.0, c=5.0).holds  # outside 2 - sqrt(3) < c < 2 + sqrt(3)
    False
    """
    sample = read_binary_sample(X, y)
    scorer = read_model(model, sample.x.shape[1])
    A, B = taylor_coefficients(c, tau, sample.x.shape[1], sigma_1)
    c_x = float(sample.x.norm(dim=1).min())
    R = _smallest_cosine(scorer, sample)
    delta = R * c_x * A
    return TheoremCheck(
        mix=mixup_loss(model, X, y, taylor=taylor),
        gen=genlabel_loss(model, X, y, sigma_1=sigma_1, c=c, tau=tau, taylor=taylor, coefficients=coefficients),
        adv=adversarial_loss(model, X, y, delta, taylor=taylor, as_printed=as_printed),
        delta=delta,
        R=R,
        c_x=c_x,
        A=A,
        B=B,
        conditions=_conditions(scorer, sample, c, A),
    )


def _smallest_cosine(scorer: Scorer, sample: BinarySample) -> float:
    """Return R of the theorems; 0 where a gradient or a point vanishes."""
    gradients = scorer.gradients(sample.x)
    cosines = torch.nn.functional.cosine_similarity(gradients, sample.x, dim=1)
    return float(cosines.abs().min())


def _conditions(scorer: Scorer, sample: BinarySample, c: float, A: float) -> dict[str, bool]:
    """Return the conditions of the theorems (a large sigma_1 is a small A), and those that the proof needs in addition.

    NOTE[PAPER]: the proof's first inequality, (h' - y_i) grad f (mean - x_i) >= 0, and the second of the theorem need
    a sample whose mean is orthogonal to the gradients, as with balanced classes; the theorems do not require it. The
    smaller theta is, the smaller the allowed deviation. mix > gen is strict only if f, linearized at a point, is not
    constant over the others.
    """
    f, gradients = scorer.values(sample.x), scorer.gradients(sample.x)
    tilt = (gradients @ sample.x.mean(0)).abs()
    moves = gradients @ sample.x.T - (gradients * sample.x).sum(1, keepdim=True)
    return {
        "no training error (theta in Theta)": bool(((2 * sample.y - 1) * f >= 0).all()),
        "2 - sqrt(3) < c < 2 + sqrt(3)": bool(C_RANGE[0] < c < C_RANGE[1]),
        "sigma_1 is large: A < 1/3 and B < 1/6": MIXUP[0] > A,
        "f is not the same at all points": bool((moves != 0).any()),
        "the mean of the points is 0, roughly: |grad f mean| <= |f| / 10": bool((tilt <= 0.1 * f.abs()).all()),
    }
