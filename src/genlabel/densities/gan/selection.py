"""Selection of a generator for each class by held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel.densities.gan.generators import Generators, log_likelihood
from genlabel.densities.gan.training import MAX_STANDARD_ERRORS, GANSettings

MIN_ROWS_TO_SPLIT = 20
"""Rows of a class below which none are held out."""
HELD_OUT_FRACTION = 0.1
TEST_POINTS = 1024
"""Generated points by which a generator is scored."""
REACH = 2.0
"""Radius within which a generated point covers a row, relative to the 90 % quantile of nearest-neighbor distances."""


class ClassRows(NamedTuple):
    """Standardized rows of a class, split into training rows with weights and held-out rows."""

    train: Tensor
    weight: Tensor
    held_out: Tensor

    @classmethod
    def split(cls, rows: Tensor, weight: Tensor, seed: int) -> ClassRows:
        """Hold out a fraction of the rows (n, d) of a class; all rows of a small class are in both parts."""
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
        cut = 0 if len(rows) < MIN_ROWS_TO_SPLIT else max(4, round(HELD_OUT_FRACTION * len(rows)))
        train = order[cut:]
        return cls(rows[train], weight[train], rows[order[:cut]] if cut else rows[train])

    @property
    def is_small(self) -> bool:
        """True if the class is too small to hold rows out."""
        return len(self.train) < MIN_ROWS_TO_SPLIT and len(self.train) == len(self.held_out)

    @property
    def reach(self) -> float:
        """Distance within which a generated point covers a held-out row."""
        distance = torch.cdist(self.held_out, self.train)
        if self.is_small and len(self.train) > 1:
            distance = distance + torch.diag(torch.full((len(self.train),), torch.inf, dtype=distance.dtype))
        typical = REACH * float(distance.min(1).values.quantile(0.9))
        return max(typical, 0.1 * self.train.shape[1] ** 0.5)


class ScoredGenerator(NamedTuple):
    """A generator of a class with its scores on held-out rows."""

    generators: Generators
    settings: GANSettings
    coverage: float
    """Fraction of the held-out rows near a generated point."""
    precision: float
    """Fraction of the generated points near a training row."""
    log_prob: Tensor
    """Log-densities (n,) of the held-out rows under the noise around points of the manifold."""


@torch.no_grad()
def score_generator(generators: Generators, settings: GANSettings, rows: ClassRows, seed: int) -> ScoredGenerator:
    """Compare the points of one generator with the held-out rows of its class."""
    points = generators.draw(TEST_POINTS, np.random.default_rng(seed))[0][0].cpu()
    coverage, precision = (
        float((torch.cdist(queries, others).min(1).values <= rows.reach).double().mean())
        for queries, others in ((rows.held_out, points), (points, rows.train))
    )
    # An underestimate where the draws of w are sparse.
    w = generators.latents.draw(TEST_POINTS, generators.shares, np.random.default_rng(seed))
    manifold, log_noise = generators(w).cpu().double(), generators.log_noise.cpu().double()
    log_prob = log_likelihood(rows.held_out.double()[None], manifold, log_noise)[0]
    return ScoredGenerator(generators, settings, coverage, precision, log_prob)


def select_generator(scored: Sequence[ScoredGenerator], min_coverage: float) -> ScoredGenerator:
    """Return the most likely generator of sufficient coverage, or one of fewer charts that is not clearly worse.

    Clearly worse is by more than two standard errors of the difference over the held-out rows.
    """
    threshold = min(max(one.coverage for one in scored), min_coverage)
    able = sorted((one for one in scored if one.coverage >= threshold), key=lambda one: one.settings.charts)
    best = max(able, key=lambda one: float(one.log_prob.mean()))
    for one in able:
        loss = best.log_prob - one.log_prob
        error = float(loss.std(unbiased=len(loss) > 1)) / len(loss) ** 0.5
        if one is best or float(loss.mean()) <= MAX_STANDARD_ERRORS * error:
            return one
    return best
