"""Points between two Gaussians in closed form: where a line through both meets the quadric of their ratio."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.densities import ClassDensity
from genlabel.densities.covariance import Gaussians
from genlabel.mixing.genmix.surface import Candidates, Finder, intrude


@final
class QuadricFinder(Finder):
    """GenMix+GM: on the line from a draw of class i to a draw of class j, the ratio is a quadratic of the place.

    arXiv Section F.2: the surface is that of quadratic discriminant analysis. A root between the two draws is
    kept, and polished by one step of Newton's method.
    """

    patience: ClassVar[int] = 50

    def __init__(self, density: ClassDensity, gaussians: Gaussians) -> None:
        self.density = density
        self.gaussians = gaussians
        self.spread = torch.linalg.inv(gaussians.matrix)

    def find(self, pair: NDArray[np.int64], height: NDArray[np.float64], rng: np.random.Generator) -> Candidates:
        """Draw a line for each pair, and solve for its root."""
        classes = torch.from_numpy(pair.T.copy())
        start, end = (self._draws(part, rng) for part in classes)
        first, second = (self._quadratic(start, end - start, part) for part in classes)
        square, slope, constant = (b - a for a, b in zip(first, second, strict=True))
        t = roots_on_segment(square, slope, constant - torch.from_numpy(height), rng)
        points = start + t[:, None] * (end - start)
        found = Candidates(points.numpy(), np.full((len(t), len(self.gaussians.mean)), np.nan))
        rows = t.isfinite().nonzero()[:, 0].numpy()
        found.log_prob[rows] = self.density.log_prob(found.points[rows])
        rows = rows[~intrude(found.log_prob[rows], pair[rows])]
        # The coefficients lose some digits far from the middle; the density itself does not.
        left = np.diff(np.take_along_axis(found.log_prob[rows], pair[rows], 1))[:, 0] - height[rows]
        slopes = (2.0 * square * t + slope)[rows].numpy()
        step = np.divide(left, slopes, out=np.zeros_like(left), where=slopes != 0.0)
        found.points[rows] -= step[:, None] * (end - start)[rows].numpy()
        found.log_prob[rows] = self.density.log_prob(found.points[rows])
        return found

    def _draws(self, classes: Tensor, rng: np.random.Generator) -> Tensor:
        """A point of each of the classes, (m, d)."""
        mean = self.gaussians.mean
        normal = torch.from_numpy(rng.standard_normal((len(classes), mean.shape[1])))
        found = torch.empty_like(normal)
        for c in range(len(mean)):
            of_class = classes == c
            found[of_class] = normal[of_class] @ self.spread[c] + mean[c]
        return found

    def _quadratic(self, start: Tensor, direction: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients (m,) of t^2, t and 1 in log p_c(start + t direction), but for d/2 log 2 pi."""
        mean, matrix, log_det = self.gaussians
        a, v = torch.empty_like(start), torch.empty_like(start)
        for c in range(len(mean)):
            of_class = classes == c
            a[of_class] = (start[of_class] - mean[c]) @ matrix[c]
            v[of_class] = direction[of_class] @ matrix[c]
        return -0.5 * (v * v).sum(1), -(a * v).sum(1), -0.5 * ((a * a).sum(1) + log_det[classes])


def roots_on_segment(square: Tensor, slope: Tensor, constant: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a root of square t^2 + slope t + constant in [0, 1], (m,): one of the two at random; NaN if none is there.

    >>> roots_on_segment(*torch.tensor([[0.0, 1.0], [2.0, 0.0], [-1.0, 1.0]]), np.random.default_rng(0))
    tensor([0.5000,    nan])
    """
    # q = -(b + sign(b) sqrt(b^2 - 4ac)) / 2; the roots are q / a and c / q, and neither subtracts like from like.
    q = -0.5 * (slope + torch.copysign((slope * slope - 4.0 * square * constant).sqrt(), slope))
    both = torch.stack([q / square, constant / q], 1)
    inside = (both >= 0.0) & (both <= 1.0)
    second = inside[:, 1] & (~inside[:, 0] | torch.from_numpy(rng.random(len(q)) < 0.5))
    root = torch.where(second, both[:, 1], both[:, 0])
    return torch.where(inside.any(1), root, torch.full_like(root, torch.nan))
