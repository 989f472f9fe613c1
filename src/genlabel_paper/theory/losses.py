"""The mixup, GenLabel and adversarial losses of a binary model, exact or by their second-order expansions."""

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
from genlabel_paper.theory.quadrature import graded_nodes, nodes_between
from genlabel_paper.theory.reading import Model, Scorer, read_binary_sample, read_model

NODES = 4 * len(graded_nodes().lam)
"""Values of lam of a pair whose label may jump twice, and whose f may change sides."""
NUMBERS_AT_ONCE = 1 << 24
"""In the mixed points that are in memory at once."""


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
        theta for f(x) = theta x, or f itself in float64: one number a point, or two scores.
    X : array (n, d)
    y : array (n,)
        0 or 1.
    taylor : bool

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

    def of_pairs(i: Tensor, j: Tensor) -> Tensor:
        lam, weight = map(torch.from_numpy, nodes_between(scorer.crossings(x[i], x[j])))
        target = lam * labels[i, None] + (1 - lam) * labels[j, None]
        return (weight * point_loss(scorer.along(x[i], x[j], lam), target)).sum(-1)

    return _mean_over_pairs(of_pairs, point_loss(scorer.values(x), labels), x.shape[1])


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
    """Return the GenLabel loss, labels by the true densities, or its second-order expansion.

    arXiv Section 5.3, L_n^gen: pairs of one class keep their label; Lemma 1, "GenLabel loss for 2 class".

    Parameters
    ----------
    model, X, y, taylor
        As :func:`mixup_loss`.
    sigma_1, c, tau
        Of the densities, :class:`genlabel_paper.theory.GaussianPair`; with an infinite sigma_1 only the expansion.
    coefficients : "lemma", "class" or "pair"
        Of the expansion. "lemma": A and B of the paper, one number each. "class": mass, A and B for x_i of each class,
        see :func:`genlabel_paper.theory.class_coefficients`, with the lemma's for pairs of one class. "pair": those
        of each
        pair of the sample; with them the expansion differs from the loss by third powers of the distances only.

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
        raise ValueError("sigma_1=inf has an expansion only: pass taylor=True, or a large number such as 1e6")
    pair = GaussianPair(sigma_1, c, tau, x.shape[1])

    def of_pairs(i: Tensor, j: Tensor) -> Tensor:
        odds = pair.along(x[i].numpy(), x[j].numpy())
        lam, weight = nodes_between(np.sort(np.concatenate([odds.jumps, scorer.crossings(x[i], x[j])], -1)))
        target = torch.from_numpy(expit(odds.at(lam)))
        target = torch.where((labels[i] == labels[j])[:, None], labels[i, None], target)
        f = scorer.along(x[i], x[j], torch.from_numpy(lam))
        return (torch.from_numpy(weight) * point_loss(f, target)).sum(-1)

    return _mean_over_pairs(of_pairs, point_loss(scorer.values(x), labels), x.shape[1])


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
    """Return the mean loss at the worst point of an L2 ball around each point, or its second-order expansion.

    arXiv Section 5.3, L_n^adv, and Lemma 9, "adv_loss_approx". Exact for theta: the worst point is straight across the
    boundary. For a network the worst point is searched by projected gradients, which gives a lower bound.

    Parameters
    ----------
    model, X, y, taylor
        As :func:`mixup_loss`.
    radius : float
        Of the ball; the paper's eps sqrt(d).
    as_printed : bool
        Whether the second-order term carries the factor d of arXiv Theorem 2.
        NOTE[PAPER]: the lemma for theta has no such factor, nor has the expansion of the loss.
    steps : int
        Of the search.

    Examples
    --------
    >>> X, y = [[-1.0], [1.0]], [0, 1]
    >>> round(adversarial_loss([1.0], X, y, 0.1), 6), round(adversarial_loss([1.0], X, y, 0.1, taylor=True), 6)
    (0.341154, 0.341139)
    """
    x, labels = read_binary_sample(X, y)
    scorer = read_model(model, x.shape[1])
    check_interval("radius", radius, 0.0, 1e100, "it is that of an L2 ball")
    if as_printed and not taylor:
        raise ValueError("as_printed=True is about the expansion; pass taylor=True")
    if taylor:
        return expand_adversarial(scorer, x, labels, radius, float(x.shape[1]) if as_printed else 1.0)
    if scorer.theta is not None:
        return float(softplus((1 - 2 * labels) * scorer.values(x) + radius * scorer.theta.norm()).mean())
    worst = _find_worst(scorer, x, labels, radius, check_count("steps", steps)) if radius else x
    return float(point_loss(scorer.values(worst), labels).mean())


def _mean_over_pairs(of_pairs: Callable[[Tensor, Tensor], Tensor], alone: Tensor, d: int) -> float:
    """Mean over all n^2 pairs: those of a point with itself have `alone` (n,), (i, j) and (j, i) the same."""
    n = len(alone)
    i, j = torch.triu_indices(n, n, 1)
    parts = chunks(len(i), NUMBERS_AT_ONCE // (NODES * d)) if len(i) else []
    return (float(alone.sum()) + 2 * sum(float(of_pairs(i[some], j[some]).sum()) for some in parts)) / n**2


def _find_worst(scorer: Scorer, x: Tensor, y: Tensor, radius: float, steps: int) -> Tensor:
    """The points of the highest loss that projected gradients find in the balls."""

    class TwoScores(nn.Module):
        def forward(self, points: Tensor) -> Tensor:
            f = scorer.scores(points)
            return torch.stack([torch.zeros_like(f), f], 1)

    found: Tensor = PGD(radius, "l2", steps=steps)(AttackedNetwork(TwoScores()), x, y.long(), seed=0)
    return found
