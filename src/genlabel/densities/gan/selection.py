"""Which generator of several is kept for a class: judged on held-out rows, refused if it leaves some out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel.densities.gan.training import Generators, Trial, log_likelihood

FEW = 20
"""Rows of a class under which none are held out."""
HELD_OUT = 0.1
"""The share of the rows that is held out."""
SEEN = 1024
"""Generated points by which a generator is judged."""
NEAR = 2.0
"""How far the nearest generated point may be, in distances (their 90 % quantile) to the nearest training row."""

CLEARLY = 2.0
"""Standard errors by which a generator must be better on held-out rows than one that is preferred."""


class ClassRows(NamedTuple):
    """Standardised rows of a class: those that train, with their weights, and those that judge."""

    train: Tensor
    weight: Tensor
    held_out: Tensor

    @property
    def few(self) -> bool:
        """Whether there are too few to hold some out: all of them judge."""
        return len(self.train) < FEW and len(self.train) == len(self.held_out)

    @property
    def reach(self) -> float:
        """How near a generated point must come to a held-out row to cover it."""
        distance = torch.cdist(self.held_out, self.train)
        if self.few and len(self.train) > 1:
            distance = distance + torch.diag(torch.full((len(self.train),), torch.inf, dtype=distance.dtype))
        typical = NEAR * float(distance.min(1).values.quantile(0.9))
        return max(typical, 0.1 * self.train.shape[1] ** 0.5)


class Judged(NamedTuple):
    """A generator of a class, and how it did on the rows that were held out."""

    generators: Generators
    trial: Trial
    coverage: float
    """The share of the held-out rows that have a generated point near by."""
    precision: float
    """The share of the generated points that have a training row near by."""
    log_prob: Tensor
    """(n,): their log-densities under the noise around points of the manifold."""


def split_rows(rows: Tensor, weight: Tensor, seed: int) -> ClassRows:
    """Hold out a part of the rows (n, d) of a class; of few rows none, and all of them judge."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
    cut = 0 if len(rows) < FEW else max(4, round(HELD_OUT * len(rows)))
    train = order[cut:]
    return ClassRows(rows[train], weight[train], rows[order[:cut]] if cut else rows[train])


@torch.no_grad()
def judge(generators: Generators, trial: Trial, rows: ClassRows, seed: int) -> Judged:
    """Compare the points of one generator with the rows of its class that were held out."""
    points = generators.draw(SEEN, np.random.default_rng(seed))[0][0].cpu()
    covered, near = (
        float((torch.cdist(some, others).min(1).values <= rows.reach).double().mean())
        for some, others in ((rows.held_out, points), (points, rows.train))
    )
    return Judged(generators, trial, covered, near, _log_prob(generators, rows.held_out, seed))


def _log_prob(generators: Generators, X: Tensor, seed: int) -> Tensor:
    """Their log-densities (n,), up to the draws of w: an underestimate where these are sparse."""
    w = generators.latents.draw(SEEN, generators.shares, np.random.default_rng(seed))
    points, log_noise = generators(w).cpu().double(), generators.log_noise.cpu().double()
    return log_likelihood(X.double()[None], points, log_noise)[0]


def choose(judged: Sequence[Judged], min_coverage: float) -> Judged:
    """The one that covers enough, or the most; of several, the best, or one of fewer charts that is hardly worse.

    Hardly worse is by no more than two standard errors of the difference over the held-out rows.
    """
    enough = min(max(one.coverage for one in judged), min_coverage)
    able = sorted((one for one in judged if one.coverage >= enough), key=lambda one: one.trial.charts)
    best = max(able, key=lambda one: float(one.log_prob.mean()))
    for one in able:
        worse = best.log_prob - one.log_prob
        if (
            one is best
            or float(worse.mean()) <= CLEARLY * float(worse.std(unbiased=len(worse) > 1)) / len(worse) ** 0.5
        ):
            return one
    return best
