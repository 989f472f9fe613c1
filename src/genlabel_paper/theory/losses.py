"""Mixup, GenLabel and adversarial losses of a binary model, exact or by second-order expansion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn.functional import softplus

from genlabel._arrays import Values, chunks
from genlabel._validation import check_choice, check_count, check_interval
from genlabel.attacks import PGD, AttackedNetwork
from genlabel_paper.theory.coefficients import MIXUP, is_limit
from genlabel_paper.theory.expansions import COEFFICIENTS, expand, expand_adversarial, genlabel_moments, point_loss
from genlabel_paper.theory.gaussian import GaussianPair
from genlabel_paper.theory.inputs import Model, Scorer, read_binary_sample, read_model
from genlabel_paper.theory.quadrature import graded_nodes, nodes_between

NODES = 4 * len(graded_nodes().lam)
"""Number of nodes of a pair whose label may jump twice and whose f may change sign."""
CHUNK_ELEMENTS = 1 << 24
"""Elements of the mixed points in memory at a time."""


def standard_loss(model: Model, X: Values, y: Values) -> float:
    """Return the mean of h(f(x)) - y f(x) over the points, h(w) = log(1 + exp(w)).

    >>> round(standard_loss([0.0], [[1.0], [2.0]], [0, 1]), 6)  # log 2
    0.693147
    """
    x, labels = read_binary_sample(X, y)
    return float(point_loss(read_model(model, x.shape[1]).values(x), labels).mean())


def mixup_loss(model: Model, X: Values, y: Values, *, taylor: bool = False) -> float:
    """Return the mixup loss, the mean over all pairs and lam ~ Unif[0, 1], or its second-order expansion.

    arXiv Section 5.3, L_n^mix, and Lemma 8, "mixup loss". The loss is by quadrature: to rounding for theta, and to
    about 1e-5 for a network that bends sharply between two points.

    Parameters
    ----------
    model : array (d,), torch module or function
        Vector theta for f(x) = theta x, or f itself in float64, with one or two scores per point.
    X : array (n, d)
    y : array (n,)
        Labels 0 or 1.
    taylor : bool
        Return the second-order expansion.

    Examples
    --------
    >>> X, y = [[-1.0], [1.0]], [0, 1]
    >>> round(mixup_loss([0.1], X, y), 6), round(mixup_loss([0.1], X, y, taylor=True), 6)
    (0.660647, 0.660646)
    """
    if taylor:
        return expand(model, X, y, *MIXUP).total
    x, labels = read_binary_sample(X, y)
    scorer = read_model(model, x.shape[1])

    def pair_losses(i: Tensor, j: Tensor) -> Tensor:
        lam, weight = map(torch.from_numpy, nodes_between(scorer.crossings(x[i], x[j])))
        target = lam * labels[i, None] + (1 - lam) * labels[j, None]
        return (weight * point_loss(scorer.along(x[i], x[j], lam), target)).sum(-1)

    return _mean_over_pairs(pair_losses, point_loss(scorer.values(x), labels), x.shape[1])


def genlabel_loss(
    model: Model,
    X: Values,
    y: Values,
    *,
    sigma_1: float,
    c: float = 1.0,
    tau: float = 0.0,
    taylor: bool = False,
    coefficients: str = "lemma",
) -> float:
    """Return the GenLabel loss with labels by the true densities, or its second-order expansion.

    arXiv Section 5.3, L_n^gen: pairs of one class keep their label; Lemma 1, "GenLabel loss for 2 class".

    Parameters
    ----------
    model, X, y, taylor
        See :func:`mixup_loss`.
    sigma_1, c, tau
        Parameters of :class:`genlabel_paper.theory.GaussianPair`; infinite sigma_1 has the expansion only.
    coefficients : "lemma", "class" or "pair"
        Coefficients of the expansion. "lemma": A and B of the paper, scalars. "class": mass, A and B by the class of
        x_i, see :func:`genlabel_paper.theory.class_coefficients`, with the lemma's for pairs of the same class. "pair":
        those of each pair of the sample, with which the expansion differs from the loss only by third powers of the
        distances.

    Examples
    --------
    >>> X, y = [[-1.0], [1.0]], [0, 1]
    >>> [round(genlabel_loss([0.1], X, y, sigma_1=5.0, taylor=taylor), 6) for taylor in (False, True)]
    [0.656497, 0.656764]
    """
    check_choice("coefficients", coefficients, COEFFICIENTS)
    x, labels = read_binary_sample(X, y)
    if taylor:
        return expand(model, X, y, *genlabel_moments(x, labels, coefficients, sigma_1, c, tau)).total
    scorer = read_model(model, x.shape[1])
    if is_limit(sigma_1):
        raise ValueError("sigma_1=inf has an expansion only; pass taylor=True, or a large value such as 1e6")
    pair = GaussianPair(sigma_1, c, tau, x.shape[1])

    def pair_losses(i: Tensor, j: Tensor) -> Tensor:
        odds = pair.along(x[i].numpy(), x[j].numpy())
        lam, weight = nodes_between(np.sort(np.concatenate([odds.jumps, scorer.crossings(x[i], x[j])], -1)))
        target = torch.from_numpy(expit(odds.at(lam)))
        target = torch.where((labels[i] == labels[j])[:, None], labels[i, None], target)
        f = scorer.along(x[i], x[j], torch.from_numpy(lam))
        return (torch.from_numpy(weight) * point_loss(f, target)).sum(-1)

    return _mean_over_pairs(pair_losses, point_loss(scorer.values(x), labels), x.shape[1])


def adversarial_loss(
    model: Model,
    X: Values,
    y: Values,
    radius: float,
    *,
    taylor: bool = False,
    as_printed: bool = False,
    steps: int = 50,
) -> float:
    """Return the mean of the highest loss in an L2 ball around each point, or its second-order expansion.

    arXiv Section 5.3, L_n^adv, and Lemma 9, "adv_loss_approx". Exact for theta, whose worst point is straight across
    the boundary. For a network the worst point is searched by projected gradients, which gives a lower bound.

    Parameters
    ----------
    model, X, y, taylor
        See :func:`mixup_loss`.
    radius : float
        Radius of the ball; the paper's eps sqrt(d).
    as_printed : bool
        Include the factor d of arXiv Theorem 2 in the second-order term.
        NOTE[PAPER]: the lemma for theta has no such factor, nor has the expansion of the loss.
    steps : int
        Number of steps of the search.

    Examples
    --------
    >>> X, y = [[-1.0], [1.0]], [0, 1]
    >>> round(adversarial_loss([1.0], X, y, 0.1), 6), round(adversarial_loss([1.0], X, y, 0.1, taylor=True), 6)
    (0.341154, 0.341139)
    """
    x, labels = read_binary_sample(X, y)
    scorer = read_model(model, x.shape[1])
    check_interval("radius", radius, 0.0, 1e100, "it is the radius of an L2 ball")
    if as_printed and not taylor:
        raise ValueError("as_printed=True is about the expansion; pass taylor=True")
    if taylor:
        return expand_adversarial(scorer, x, labels, radius, float(x.shape[1]) if as_printed else 1.0)
    if scorer.theta is not None:
        return float(softplus((1 - 2 * labels) * scorer.values(x) + radius * scorer.theta.norm()).mean())
    worst = _find_worst(scorer, x, labels, radius, check_count("steps", steps)) if radius else x
    return float(point_loss(scorer.values(worst), labels).mean())


def _mean_over_pairs(pair_losses: Callable[[Tensor, Tensor], Tensor], diagonal: Tensor, d: int) -> float:
    """Return the mean over all n^2 pairs, with losses `diagonal` (n,) of a point with itself; pairs are symmetric."""
    n = len(diagonal)
    i, j = torch.triu_indices(n, n, 1)
    blocks = chunks(len(i), CHUNK_ELEMENTS // (NODES * d)) if len(i) else []
    return (float(diagonal.sum()) + 2 * sum(float(pair_losses(i[b], j[b]).sum()) for b in blocks)) / n**2


def _find_worst(scorer: Scorer, x: Tensor, y: Tensor, radius: float, steps: int) -> Tensor:
    """Return the points of the highest loss in the balls, by projected gradients."""

    class TwoScores(nn.Module):
        def forward(self, points: Tensor) -> Tensor:
            f = scorer.scores(points)
            return torch.stack([torch.zeros_like(f), f], 1)

    worst: Tensor = PGD(radius, "l2", steps=steps)(AttackedNetwork(TwoScores()), x, y.long(), seed=0)
    return worst
