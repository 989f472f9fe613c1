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
from genlabel.attacks.base import Attack, lengths
from genlabel.attacks.models import AttackedModel, chosen

STEPS = {"spherical_step": 0.3, "source_step": 0.03, "update_stats_every_k": 1}
"""Of the walk, at first; they adapt. foolbox's own are for images, which have far more features."""
HALVINGS = 20
"""Of the way from a start to the point, before the walk."""
POINTS_AT_ONCE = 256
"""Points that look for their starts in one go."""


@final
@dataclass(frozen=True, repr=False)
class Boundary(Attack):
    """The decision-based attack of Brendel et al. (arXiv Section 6), by `foolbox`; in L2.

    Each point starts at the nearest one where the model is wrong, among the given points and random
    ones, moves straight to the boundary, and walks along it towards the point. What was found counts within the radius
    only; a point that has no start stays as it is. foolbox wants values in [0, 1]: the range of the points, enlarged by
    the radius, or the bounds, are mapped there, all features by the same factor so that distances keep.

    Needs `pip install 'genlabel[robustness]'`.

    Parameters
    ----------
    radius, bounds
        As in :class:`Attack`.
    steps : int
        Of the walk; one query of the model each, at all points.
    draws : int
        Random points among which starts are sought.

    Examples
    --------
    >>> Boundary(0.5, steps=100)
    Boundary(radius=0.5, steps=100)
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

    def run(self, target: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Walk with the points that are right and have a start; keep what is in the ball."""
        foolbox = _foolbox()
        cube = _Cube.around(x, self)
        starts, able = _starts(target, x, y, cube.draw(x, self.draws, rng))
        starts = cube.enter(_approach(target, x, y, starts))
        able = able & target.wrong(cube.leave(starts), y)
        if not bool(able.any()):
            return x
        model = foolbox.PyTorchModel(_Wrapped(target, x, able, cube), bounds=(0, 1), device=x.device)
        walk = foolbox.attacks.BoundaryAttack(steps=self.steps, **STEPS)
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
            torch.manual_seed(int(rng.integers(2**31)))
            found = walk.run(model, cube.enter(x[able]), y[able], starting_points=starts[able])
        points = x.clone()
        points[able] = self.clip(cube.leave(found))
        near = lengths(points - x, "l2") <= self.radius
        return torch.where(near[..., None], points, x)


class _Cube(NamedTuple):
    """The map between a cube of the features' space and [0, 1]^d."""

    low: Tensor
    side: Tensor
    clip: Any

    @classmethod
    def around(cls, x: Tensor, attack: Boundary) -> _Cube:
        flat = x.flatten(0, -2)
        low, high = flat.amin(0) - attack.radius, flat.amax(0) + attack.radius
        if attack.bounds is not None:
            low, high = (flat.new_tensor(bound).expand_as(low) for bound in attack.bounds)
        return cls(low, (high - low).amax(), attack.clip)

    def enter(self, x: Tensor) -> Tensor:
        return ((x - self.low) / self.side).clamp(0.0, 1.0)

    def leave(self, u: Tensor) -> Tensor:
        return self.clip(self.low + self.side * u)

    def draw(self, x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
        """Random points (..., count, d) of the cube, within the bounds; the same for every model."""
        drawn = self.leave(torch.from_numpy(rng.random((count, x.shape[-1]))).to(x))
        return drawn.expand(*x.shape[:-2], *drawn.shape)


class _Wrapped(nn.Module):
    """What the target chooses for the points that walk, (n, d) in [0, 1], which it sees in their place among all.

    foolbox takes the largest score of a row: 1 is that of the class that is chosen, of the last column for none.
    """

    def __init__(self, target: AttackedModel, x: Tensor, able: Tensor, cube: _Cube) -> None:
        super().__init__()
        self.target, self.x, self.able, self.cube = target, x, able, cube
        self.eval()

    def forward(self, u: Tensor) -> Tensor:
        points = self.x.clone()
        points[self.able] = self.cube.leave(u)
        logs = self.target.log_proba(points)[self.able]
        return one_hot(chosen(logs), logs.shape[-1] + 1, logs.dtype)


def _starts(target: AttackedModel, x: Tensor, y: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest given or drawn point that is wrong for the class of each, and which points are right and have one."""
    known = torch.cat([x, drawn], -2)
    said = chosen(target.log_proba(known))
    starts, far = [], []
    for block in chunks(x.shape[-2], POINTS_AT_ONCE):
        distance = torch.cdist(x[..., block, :], known)
        distance = distance.masked_fill(said[..., None, :] == y[..., block, None], torch.inf)
        found, place = distance.min(-1)
        starts.append(torch.take_along_dim(known, place[..., None], -2))
        far.append(found)
    right = said[..., : x.shape[-2]] == y
    return torch.cat(starts, -2), right & torch.cat(far, -1).isfinite()


def _approach(target: AttackedModel, x: Tensor, y: Tensor, starts: Tensor) -> Tensor:
    """Points between the starts and x that are still wrong, close to the boundary."""
    inside, outside = x, starts
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        wrong = target.wrong(middle, y)[..., None]
        inside, outside = torch.where(wrong, inside, middle), torch.where(wrong, middle, outside)
    return outside


def _foolbox() -> Any:
    """The library, imported when it is first needed; it warns of its own age."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("foolbox")
    except ImportError as error:
        raise ImportError("the boundary attack needs foolbox: pip install 'genlabel[robustness]'") from error
