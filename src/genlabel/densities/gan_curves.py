"""The last phase of generators of curves: the likelihood of the rows, which puts ends and bends in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel.arrays import one_hot
from genlabel.densities.gan_training import (
    Generators,
    Schedule,
    TrainingRows,
    draw_evenly,
    log_likelihood,
    take_step,
)

__all__ = ["refine_curves"]

EVENNESS = 3.0
"""The weight of the penalty on an uneven pace."""
LATENTS = 256
"""Points of a manifold that stand for the whole of it in a step."""
ROWS = 512
"""Rows of a class in a step, at most."""
SHARE, SLOWER = 1 / 6, 0.2
"""Steps and learning rate, in those of the training before."""


class _Evenly(NamedTuple):
    """Latents of curves at even distances, along one chart after the other."""

    w: Tensor
    """(s, n, size)"""
    chart: Tensor
    """(s, n)"""
    share: Tensor
    """(s, n): that of the chart."""

    @classmethod
    def draw(cls, generators: Generators, rng: np.random.Generator) -> _Evenly:
        """As many of each chart as its share says; where the first one lies is random."""
        shares, charts = generators.shares, generators.latents.charts
        ends = shares.cumsum(1)
        place = torch.from_numpy((np.arange(LATENTS) + rng.random()) / LATENTS).to(shares).repeat(len(shares), 1)
        chart = torch.searchsorted(ends, place).clamp_max(charts - 1)
        share = shares.gather(1, chart)
        z = 1 - 2 * ((ends.gather(1, chart) - place) / share).clamp(0, 1)
        return cls(torch.cat([z[..., None], one_hot(chart, charts, z.dtype)], -1), chart, share)

    def unevenness(self, points: Tensor) -> Tensor:
        """The mean square (s,) of d log |dG / dz| / dz at points (s, n, d): 0 at an even pace, however bent it is."""
        pace = 0.5 * points.diff(dim=1).square().sum(-1).clamp_min(1e-12).log()
        inside = self.chart[:, 2:] == self.chart[:, :-2]
        return (0.5 * LATENTS * self.share[:, 1:-1] * pace.diff(dim=1) * inside).square().mean(1)


def refine_curves(
    generators: Generators, rows: Sequence[TrainingRows], schedule: Schedule, rng: np.random.Generator
) -> Generators:
    """Return generators of classes, k t as of `train_gans`, that make the training rows of their classes more likely.

    The mean over latents of exp(-d(x, G(w)) / b), the paper's p_c (arXiv Section 7.1), is maximised over
    the weights and b. NOTE[PAPER]: the paper only evaluates it. Adversarial training leaves the ends of a curve where
    they happen to be: the likelihood moves them. It would also bend them to the last outliers, against which a
    penalty on an uneven pace holds.
    """
    stack = generators.map(lambda part: part.detach().clone())
    tried = len(stack.log_noise) // len(rows)
    weights = [part.requires_grad_() for part in stack.weights]
    log_unit = schedule.unit.log().to(stack.log_noise)
    log_level = (stack.log_noise + log_unit).mean(-1, keepdim=True).requires_grad_()
    n = min(ROWS, max(len(one.train) for one in rows))
    rate, steps = SLOWER * schedule.learning_rate, int(SHARE * schedule.steps)
    optimizer = torch.optim.Adam([{"params": weights}, {"params": [log_level]}], rate, betas=(0.9, 0.99), fused=True)
    for step in range(steps):
        for group, faster in zip(optimizer.param_groups, (1, 4), strict=True):
            group["lr"] = faster * rate * (1 - step / steps)
        x = draw_evenly(rows, n, rng).to(log_level).repeat_interleave(tried, 0)
        latents = _Evenly.draw(stack, rng)
        stack = stack._replace(weights=weights, log_noise=log_level - log_unit)
        points = stack(latents.w)
        likely = log_likelihood(x, points, stack.log_noise).mean(1)
        take_step(optimizer, (EVENNESS * latents.unevenness(points * log_unit.exp()) - likely).sum())
    return stack._replace(log_noise=log_level - log_unit).map(Tensor.detach)
