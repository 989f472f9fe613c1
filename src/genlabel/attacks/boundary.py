"""The boundary attack: a walk along the decision boundary that needs classes only (Brendel et al., 2018)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._arrays import chunks, one_hot
from genlabel._validation import check_count
from genlabel.attacks.base import Attack, row_norm
from genlabel.attacks.models import AttackedModel, predict
from genlabel.registry import ATTACKS

WALK = {"spherical_step": 0.3, "source_step": 0.03, "update_stats_every_k": 1}
"""Initial steps of the walk, which adapt. The defaults of foolbox are for images, which have far more features."""


@ATTACKS.register("boundary")
@final
@dataclass(frozen=True, repr=False)
class Boundary(Attack):
    """Decision-based attack of Brendel et al. (arXiv Section 6), by `foolbox`; in L2.

    Each point starts at the nearest misclassified one among the given points and random ones, moves straight to the
    boundary, and walks along it towards the point. The result counts within the radius only; a point without a start
    stays as it is. foolbox takes values in [0, 1]: the range of the points, enlarged by the radius, or the bounds, are
    mapped there, all features by the same factor so that distances keep their ratios.

    Needs `pip install 'genlabel[robustness]'`.

    Parameters
    ----------
    eps, bounds
        As in :class:`Attack`.
    steps : int
        Number of steps of the walk; each queries the model once for all points.
    draws : int
        Number of random points among which a start is sought.

    Examples
    --------
    >>> Boundary(0.5, steps=100)
    Boundary(eps=0.5, steps=100)
    """

    norm: str = field(default="l2", init=False)
    steps: int = 1000
    draws: int = 500

    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the counts."""
        super().__post_init__()
        check_count("steps", self.steps)
        check_count("draws", self.draws, low=0)

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Walk with the points that are correct and have a start; return those that end in the ball."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns of its own dependencies
                foolbox = import_module("foolbox")
        except ImportError as error:
            raise ImportError("the boundary attack needs foolbox: pip install 'genlabel[robustness]'") from error
        cube = _Cube.containing(x, self)
        random = cube.decode(torch.from_numpy(rng.random((self.draws, x.shape[-1]))).to(x))  # the same for every model
        starts, walks = _nearest_starts(model, x, y, random.expand(*x.shape[:-2], *random.shape))
        inside = x
        for _ in range(20):  # bisections between a start and the point
            middle = (inside + starts) / 2
            missed = model.misclassifies(middle, y)[..., None]
            inside, starts = torch.where(missed, inside, middle), torch.where(missed, middle, starts)
        starts = cube.encode(starts)
        walks = walks & model.misclassifies(cube.decode(starts), y)
        if not bool(walks.any()):
            return x
        network = foolbox.PyTorchModel(_WalkingPoints(model, x, walks, cube), bounds=(0, 1), device=x.device)
        walk = foolbox.attacks.BoundaryAttack(steps=self.steps, **WALK)
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
            torch.manual_seed(int(rng.integers(2**31)))
            ends = walk.run(network, cube.encode(x[walks]), y[walks], starting_points=starts[walks])
        points = x.clone()
        points[walks] = self.clip(cube.decode(ends))
        within = row_norm(points - x, "l2") <= self.eps
        return torch.where(within[..., None], points, x)


class _Cube(NamedTuple):
    """Map between a cube of the feature space and [0, 1]^d."""

    low: Tensor
    side: Tensor
    clip: Any

    @classmethod
    def containing(cls, x: Tensor, attack: Boundary) -> _Cube:
        flat = x.flatten(0, -2)
        low, high = flat.amin(0) - attack.eps, flat.amax(0) + attack.eps
        if attack.bounds is not None:
            low, high = (flat.new_tensor(bound).expand_as(low) for bound in attack.bounds)
        return cls(low, (high - low).amax(), attack.clip)

    def encode(self, x: Tensor) -> Tensor:
        return ((x - self.low) / self.side).clamp(0.0, 1.0)

    def decode(self, u: Tensor) -> Tensor:
        return self.clip(self.low + self.side * u)


class _WalkingPoints(nn.Module):
    """Predictions for the points that walk, (n, d) in [0, 1], at their positions among all points.

    foolbox takes the largest score of a row: the predicted class has 1, and the last column where there is none.
    """

    def __init__(self, model: AttackedModel, x: Tensor, walks: Tensor, cube: _Cube) -> None:
        super().__init__()
        self.model, self.x, self.walks, self.cube = model, x, walks, cube
        self.eval()

    def forward(self, u: Tensor) -> Tensor:
        points = self.x.clone()
        points[self.walks] = self.cube.decode(u)
        logs = self.model.log_proba(points)[self.walks]
        return one_hot(predict(logs), logs.shape[-1] + 1, logs.dtype)


def _nearest_starts(model: AttackedModel, x: Tensor, y: Tensor, random: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest given or random point of another class, and whether a point is correct and has one."""
    known = torch.cat([x, random], -2)
    predicted = predict(model.log_proba(known))
    starts, distances = [], []
    for block in chunks(x.shape[-2], 256):
        distance = torch.cdist(x[..., block, :], known)
        distance = distance.masked_fill(predicted[..., None, :] == y[..., block, None], torch.inf)
        nearest, index = distance.min(-1)
        starts.append(torch.take_along_dim(known, index[..., None], -2))
        distances.append(nearest)
    correct = predicted[..., : x.shape[-2]] == y
    return torch.cat(starts, -2), correct & torch.cat(distances, -1).isfinite()
