"""The search for the nearest point of another class: ways to the boundary, bisected and turned."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, chunks
from genlabel.attacks.adapters import ModelView
from genlabel.attacks.base import direction, lengths
from genlabel.attacks.gradient import others
from genlabel.attacks.models import LOWEST, NO_CLASS, AttackedModel, chosen

DRAWS = 500
"""Random points in the range of the given ones, and as many at all distances, to which ways may lead."""
SCALES = (-2.0, 2.0)
"""Powers of ten, from the shortest to the longest of these distances, in sizes of the range, or of a single point."""
PROJECTIONS, OVERSHOOT, REACH = 10, 1.02, 1e6
"""On the boundary to each class: how many, how far beyond it, and at most how far, in distances of known points."""
STARTS = 3
"""Ways to the boundary that are turned, of each point: the shortest ones."""
TILTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Turns of a way towards the normal of the boundary; 1 is all of it."""
SPREADS = (10.0, 1.0, 0.3, 0.1, 0.03, 0.01)
"""Turns of a way at random; 10 is nearly any direction."""
PROBES = 30
"""Points around an end by whose classes a model shows its slope where it has no gradient."""
COARSE, HALVINGS = 0.005, 60
"""Tolerance of the bisections before the last one; of each, the halvings at most."""
NUMBERS_AT_ONCE = 1 << 22
"""In the points that one step of the search asks for."""


def closest_misclassified(
    shown: ModelView,
    y: NDArray[np.int64],
    right: NDArray[np.bool_],
    steps: int,
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distance to the nearest point where the model is wrong that is found, (m,), and that point, (m, d).

    A point that is not `right` has the distance 0; one for which none is found has infinity, and NaN.

    From here on, points x (m, d) are right. A way leads from one to its end (..., m, d), which is wrong; an
    end at the point itself stands for none.
    """
    target, everything, able = shown.target, as_tensor(shown.points), torch.from_numpy(right)
    known = torch.cat([everything, _draw(everything, rng)])
    logs = target.log_proba(known)
    numbers = len(known) + known.shape[1] * (2 * logs.shape[1] + STARTS * (PROBES + len(TILTS + SPREADS)))
    ends, places = everything.clone(), able.nonzero()[:, 0]
    for block in chunks(len(places), NUMBERS_AT_ONCE // numbers) if len(places) else []:
        rows = places[block]
        x, index = everything[rows], torch.from_numpy(y)[rows]
        ways = _first_ways(target, x, index, known, chosen(logs))
        for _ in range(steps):
            ways = _bisect(target, x, index, _turn(target, x, index, ways, rng), COARSE)
        ends[rows] = _settle(target, x, index, ways, tolerance)
    far = _length(ends, everything).masked_fill(~able, 0.0)
    return as_numpy(far), as_numpy(ends.masked_fill(far.isinf()[:, None], torch.nan))


def _draw(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Random points: uniform in the range of the points, tripled; and around single ones, from near to far."""
    low, high, size = x.amin(0), x.amax(0), x.abs().amax(0)
    side = torch.where(high > low, high - low, torch.where(size > 0, size, 1.0))
    inside = (low + high) / 2 + 3 * side * torch.from_numpy(rng.random((DRAWS, x.shape[1])) - 0.5)
    far = torch.from_numpy(10.0 ** rng.uniform(*SCALES, (DRAWS, 1))) * side
    return torch.cat([inside, x[torch.from_numpy(rng.integers(len(x), size=DRAWS))] + far * _noise(DRAWS, x[0], rng)])


def _first_ways(target: AttackedModel, x: Tensor, y: Tensor, known: Tensor, said: Tensor) -> Tensor:
    """The shortest ways to the nearest known points of every other class, or of none, and by projections."""
    apart, ends = torch.cdist(x, known), []
    for c in others(target, x, y):
        rival = (said == c[:, None]) | (said == NO_CLASS)
        far, place = apart.masked_fill(~rival, torch.inf).min(-1)
        ends.append(torch.where(far.isfinite()[:, None], known[place], x))
        if target.has_gradient:
            ends.append(_project(target, x, y, c, REACH * float(apart.max())))
    ways = _bisect(target, x, y, torch.stack(ends), COARSE)
    return torch.take_along_dim(ways, _length(ways, x).argsort(0)[:STARTS, :, None], 0)


def _project(target: AttackedModel, x: Tensor, y: Tensor, c: Tensor, farthest: float) -> Tensor:
    """The nearest wrong one of projections on the boundary to class c, each linearised at the one before."""
    point = ends = x
    for _ in range(PROJECTIONS):
        slope = target.slope(point, y, c)
        logs = target.log_proba(point).clamp(min=LOWEST)
        gap = (logs.gather(-1, c[:, None]) - logs.gather(-1, y[:, None]))[:, 0]
        step = -(gap + (slope * (x - point)).sum(-1)) / slope.square().sum(-1)
        moved = x + OVERSHOOT * step[:, None] * slope
        point = torch.where((lengths(moved - x, "l2") < farthest)[:, None], moved, point)
        nearer = target.wrong(point, y) & (_length(point, x) < _length(ends, x))
        ends = torch.where(nearer[:, None], point, ends)
    return ends


def _turn(target: AttackedModel, x: Tensor, y: Tensor, ends: Tensor, rng: np.random.Generator) -> Tensor:
    """Ends at the same distances, where the model is more wrong if there are any."""
    far, way = lengths(ends - x, "l2")[..., None], direction(ends - x, "l2")
    normal = direction(_slope(target, ends, far, y, rng), "l2")
    turned = [(1 - a) * way + a * normal for a in TILTS]
    turned += [way + spread * noise for spread, noise in zip(SPREADS, _noise(len(SPREADS), ends, rng), strict=True)]
    tried = torch.stack([*(x + far * direction(turn, "l2") for turn in turned), ends])
    return torch.take_along_dim(tried, _harm(target, tried, y).argmax(0)[None, ..., None], 0)[0]


def _slope(target: AttackedModel, ends: Tensor, far: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
    """The slope towards the class of each end; where it has none, or the model only predicts, by probes."""
    if not target.has_gradient:
        return _probe(target, ends, far, y, rng)
    said = chosen(target.log_proba(ends))
    slope, lost = target.slope(ends, y.expand(ends.shape[:-1]), said.clamp(min=0)), said == NO_CLASS
    return torch.where(lost[..., None], _probe(target, ends, far, y, rng), slope) if bool(lost.any()) else slope


def _probe(target: AttackedModel, ends: Tensor, far: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
    """The direction in which more points around each end are wrong."""
    noise = _noise(PROBES, ends, rng)
    wrong = target.wrong(ends + COARSE * far * noise, y)[..., None].to(noise)
    return ((wrong - wrong.mean(0)) * noise).mean(0)


def _noise(count: int, ends: Tensor, rng: np.random.Generator) -> Tensor:
    """Normal numbers, (count, *ends.shape), in vectors of length 1 or so."""
    return torch.from_numpy(rng.normal(size=(count, *ends.shape)) / ends.shape[-1] ** 0.5)


def _bisect(target: AttackedModel, x: Tensor, y: Tensor, ends: Tensor, tolerance: float) -> Tensor:
    """Cut each way where a point nearer by `tolerance`, as a share of what is left, is right."""
    low, high = torch.zeros_like(ends[..., :1]), torch.ones_like(ends[..., :1])
    for _ in range(HALVINGS):
        if bool((high - low <= tolerance * high).all()):
            break
        middle = (low + high) / 2
        wrong = target.wrong(x + middle * (ends - x), y)[..., None]
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
    return x + high * (ends - x)


def _settle(target: AttackedModel, x: Tensor, y: Tensor, ends: Tensor, tolerance: float) -> Tensor:
    """The end of the shortest way, cut finely; a little beyond, so that another rounding does not change its class."""
    cut = _bisect(target, x, y, ends, tolerance)
    clear = x + (1 + tolerance) * (cut - x)
    ways = torch.where(target.wrong(clear, y)[..., None], clear, cut)
    return torch.take_along_dim(ways, _length(ways, x).argmin(0)[None, :, None], 0)[0]


def _harm(target: AttackedModel, points: Tensor, y: Tensor) -> Tensor:
    """How much more likely another class is, in logarithms; 0 where none is chosen, minus infinity where y is."""
    logs, true = target.log_proba(points), y.expand(points.shape[:-1])
    said = chosen(logs)
    gap = logs.amax(-1) - logs.gather(-1, true[..., None])[..., 0].clamp(min=LOWEST)
    return gap.masked_fill(said == NO_CLASS, 0.0).masked_fill(said == true, -torch.inf)


def _length(ends: Tensor, x: Tensor) -> Tensor:
    """Of each way; infinity where there is none."""
    far = lengths(ends - x, "l2")
    return far.masked_fill(far == 0, torch.inf)
