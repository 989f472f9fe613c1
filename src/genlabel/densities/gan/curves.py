"""The last phase of generators of curves: the likelihood of the rows, and even bends where the rows allow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import one_hot
from genlabel.densities.gan.selection import CLEARLY
from genlabel.densities.gan.training import (
    Generators,
    Schedule,
    TrainingRows,
    draw_evenly,
    log_likelihood,
    take_step,
)

EVENNESS = 3.0
"""The weight of the penalty on an uneven pace."""
SMOOTHNESS = 0.1
"""The weight of the penalty on a change of the bend."""
LATENTS = 256
"""Points of a manifold that stand for the whole of it in a step."""
ROWS, JUDGES = 512, 4096
"""Rows of a class in a step, and rows that judge whether a curve may be smooth, at most."""
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

    def roughness(self, points: Tensor) -> Tensor:
        """The mean square (s,) of the second derivative by z of the direction: 0 on lines and circles.

        At an even pace along a circle, in any plane, a step is the last but one mirrored at the last.
        """
        step = points.diff(dim=1)
        step = step / (step.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        first, second, third = step[:, :-2], step[:, 1:-1], step[:, 2:]
        off = third + first - 2 * (first * second).sum(-1, keepdim=True) * second
        inside = self.chart[:, 3:] == self.chart[:, :-3]
        return ((0.5 * LATENTS * self.share[:, 1:-2]) ** 4 * off.square().sum(-1) * inside).mean(1)

    def take(self, members: slice) -> _Evenly:
        """Those of some members of the stack."""
        return _Evenly(*(part[members] for part in self))


def refine_curves(
    generators: Generators, rows: Sequence[TrainingRows], schedule: Schedule, rng: np.random.Generator
) -> Generators:
    """Return generators of classes, k t as of `train_gans`, that make the training rows of their classes more likely.

    The mean over latents of exp(-d(x, G(w)) / b), the paper's p_c (arXiv Section 7.1), is maximised over
    the weights and b. NOTE[PAPER]: the paper only evaluates it. Adversarial training leaves the ends of a curve where
    they happen to be: the likelihood moves them. It would also bend them to the last outliers, against which two
    penalties hold: on an uneven pace, and on a change of the bend. The latter would round a corner, so each curve is
    refined with it and without, and the smooth one is kept where the training rows are not clearly less likely.
    """
    s = len(generators.log_noise)
    both = _refine(Generators.join([generators, generators]), [*rows, *rows], s, schedule, rng)
    free, smooth = torch.arange(s), torch.arange(s, 2 * s)
    return both.take(torch.where(_hardly_worse(both, rows), smooth, free))


def _refine(
    generators: Generators, rows: Sequence[TrainingRows], free: int, schedule: Schedule, rng: np.random.Generator
) -> Generators:
    """The generators after the last phase; the first of them are not held to be smooth."""
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
        seen = points * log_unit.exp()
        rough = latents.take(slice(free, None)).roughness(seen[free:])
        take_step(optimizer, (EVENNESS * latents.unevenness(seen) - likely).sum() + SMOOTHNESS * rough.sum())
    return stack._replace(log_noise=log_level - log_unit).map(Tensor.detach)


@torch.no_grad()
def _hardly_worse(both: Generators, rows: Sequence[TrainingRows]) -> Tensor:
    """Whether training rows are hardly less likely under each smooth curve, of the second half, than without, (s,)."""
    points = both(_Evenly.draw(both, np.random.default_rng(0)).w)
    s = len(points) // 2
    kept = [_hardly(rows[at * len(rows) // s], points[[at, at + s]], both.log_noise[[at, at + s]]) for at in range(s)]
    return torch.tensor(kept)


def _hardly(rows: TrainingRows, points: Tensor, log_noise: Tensor) -> bool:
    """Whether the second of two curves is not clearly worse, by the standard error over the weighted rows."""
    x, weight = rows.train[:JUDGES].to(points), rows.weight[:JUDGES].to(points)
    worse = -log_likelihood(x.expand(2, -1, -1), points, log_noise).diff(dim=0)[0]
    share = weight / weight.sum()
    mean = (share * worse).sum()
    return bool(mean <= CLEARLY * (share * (worse - mean)).norm())
