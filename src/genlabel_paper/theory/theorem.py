"""Theorems 1 and 2 on a sample: whether the mixup loss is above the GenLabel loss, and that above the adversarial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from genlabel._arrays import Values
from genlabel_paper.theory.coefficients import MIXUP, taylor_coefficients
from genlabel_paper.theory.losses import adversarial_loss, genlabel_loss, mixup_loss
from genlabel_paper.theory.reading import BinarySample, Model, Scorer, read_binary_sample, read_model

C_RANGE = (2.0 - np.sqrt(3.0), 2.0 + np.sqrt(3.0))
"""Where c^2 - 4 c + 1 < 0: the limits of A and B are below mixup's 1/3 and 1/6."""
ROUNDING = 1e-12
"""Relative; gen and adv are equal in the limit for some samples."""


@final
@dataclass(frozen=True)
class TheoremCheck:
    """The three losses of the theorem, and what they rest on; prints as a table.

    `check_theorem` returns it.
    """

    mix: float
    """L~_mix"""
    gen: float
    """L~_gen"""
    adv: float
    """The mean of l~_adv(delta_gen, (x_i, y_i))."""
    delta: float
    """delta_gen = R c_x A, the radius of the attack."""
    R: float
    """The smallest |cos| between x_i and the gradient of f there."""
    c_x: float
    """The smallest norm of a point."""
    A: float
    B: float
    conditions: dict[str, bool]
    """What the theorem asks for and, last, the two things that its proof needs besides."""

    @property
    def holds(self) -> bool:
        """Whether mix > gen >= adv; losses that vanish, as for a theta of norm 1000, have no order."""
        return self.mix > self.gen and self.gen >= self.adv - ROUNDING * abs(self.adv)

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
        theta for f(x) = theta x, or f itself in float64: one number a point, or two scores.
    X : array (n, d)
    y : array (n,)
        0 or 1.
    sigma_1, c, tau
        Of the class densities, :class:`genlabel_paper.theory.GaussianPair`; an infinite sigma_1 is the limit.
    taylor : bool
        Whether the losses are the second-order expansions, which the theorems are about, or exact.
    coefficients : "lemma", "class" or "pair"
        Of the expanded GenLabel loss, see :func:`genlabel_paper.theory.genlabel_loss`; "lemma" is the theorems'.
    as_printed : bool
        Whether the adversarial loss has the factor d of arXiv Theorem 2, see
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
    """R of the theorems; 0 where a gradient or a point vanishes."""
    gradients = scorer.gradients(sample.x)
    cosines = torch.nn.functional.cosine_similarity(gradients, sample.x, dim=1)
    return float(cosines.abs().min())


def _conditions(scorer: Scorer, sample: BinarySample, c: float, A: float) -> dict[str, bool]:
    """Those of the theorems (that sigma_1 is large shows in A), and what the proof needs besides.

    NOTE[PAPER]: the proof's first inequality, (h' - y_i) grad f (mean - x_i) >= 0, and the second of the theorem need
    a sample whose mean is orthogonal to the gradients, as when the classes are balanced; the theorems do not ask for
    it. The smaller theta is, the less it may be off. And mix > gen is strict only if f, linearised at a point, is not
    the same at all others.
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
