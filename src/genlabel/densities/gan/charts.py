"""Where generators begin: each chart of a class at a cluster of its rows, along the cluster's principal axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from genlabel._arrays import one_hot

SPREAD = 3**0.5
"""Half of the length of an interval over the standard deviation of a point that is uniform in it."""


class Latents(NamedTuple):
    """Where the generators live: a cube [-1, 1]^dim in each of several charts, w = (z, e_chart).

    NOTE[PAPER]: the paper has w in R^d. A cube gives a manifold that ends where the class ends, and charts let it be in
    several pieces, as the classes of Two-circle are.
    """

    dim: int
    charts: int

    @property
    def size(self) -> int:
        """Numbers that a generator is given."""
        return self.dim + self.charts

    def draw(self, n: int, shares: Tensor, rng: np.random.Generator) -> Tensor:
        """Latents (s, n, size), the same z for all: uniform; charts with the shares (s, charts) of each generator."""
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1).to(shares)
        place = torch.from_numpy((np.arange(n) + rng.random()) / n).to(shares)
        chart = torch.searchsorted(shares.cumsum(1), place.expand(len(shares), n).contiguous())
        return self._join(z.expand(len(shares), -1, -1), chart.clamp_max(self.charts - 1))

    def spread(self, n: int, shares: Tensor, rng: np.random.Generator) -> Tensor:
        """Latents (s, n, size), the charts in turn; the first also for those that a generator does not use."""
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1).to(shares)
        used = torch.arange(self.charts, device=shares.device) * (shares > 0)
        chart = used[:, torch.arange(n, device=shares.device) % self.charts]
        return self._join(z.expand(len(shares), -1, -1), chart)

    def _join(self, z: Tensor, chart: Tensor) -> Tensor:
        return torch.cat([z, one_hot(chart, self.charts, z.dtype)], -1)


class Charts(NamedTuple):
    """Flat pieces of a stack of manifolds, and the share of the rows in each."""

    shares: Tensor
    """(s, charts)"""
    centres: Tensor
    """(s, charts, d)"""
    axes: Tensor
    """(s, charts, dim, d): the half of each piece, along each axis."""

    def __call__(self, w: Tensor) -> Tensor:
        """The points of the pieces at latents (s, n, size)."""
        dim = self.axes.shape[2]
        z, chart = w[..., :dim], w[..., dim:]
        along = torch.einsum("snj,snl,sjld->snd", chart, z, self.axes)
        return chart @ self.centres + along

    @classmethod
    def join(cls, stacks: Sequence[Charts]) -> Charts:
        """One stack of several."""
        return cls(*(torch.cat(same) for same in zip(*stacks, strict=True)))

    def to(self, like: Tensor) -> Charts:
        """On the device of a tensor."""
        return Charts(*(part.to(like.device) for part in self))


def chart_rows(rows: Tensor, weight: Tensor, latents: Latents, used: int, seed: int) -> Charts:
    """Cluster the rows (n, d) of a class into as many pieces as are used, if it has so many distinct rows.

    NOTE[PAPER]: the paper says nothing of where a generator begins.
    """
    used = min(used, len(torch.unique(rows, dim=0)))
    found = KMeans(used, n_init=3, random_state=seed).fit(rows.numpy(), sample_weight=weight.numpy())
    # Of rows that differ by rounding alone, a cluster may be left without any.
    distinct, labels = torch.unique(torch.from_numpy(found.labels_).long(), return_inverse=True)
    (dim, most), d = latents, rows.shape[1]
    charts = Charts(torch.zeros(1, most), torch.zeros(1, most, d), torch.zeros(1, most, dim, d))
    for chart in range(len(distinct)):
        charts.shares[0, chart] = weight[labels == chart].sum() / weight.sum()
        charts.centres[0, chart], charts.axes[0, chart] = _piece(rows[labels == chart], dim)
    return charts


def _piece(rows: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Centre (d,) and principal axes (dim, d) of some rows; an axis that they do not have is nil."""
    centre = rows.mean(0)
    _, sizes, directions = torch.linalg.svd(rows - centre, full_matrices=False)
    found = directions * sizes[:, None] * (SPREAD / len(rows) ** 0.5)
    axes = torch.zeros(dim, rows.shape[1])
    axes[: len(found[:dim])] = found[:dim]
    sign = torch.sign(axes.gather(1, axes.abs().argmax(1, keepdim=True)))
    return centre, axes * torch.where(sign == 0, 1.0, sign)
