"""The plan of a training run: for every step, which points are mixed, how, and with what labels.

Nothing in it depends on the network, so whole stretches of steps are mixed and labelled at once, and all
models that share a task share its points and labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import chunks, one_hot
from genlabel.labeling import Labeler
from genlabel.mixing import Mix, Mixer, blend, distance_to_rivals, intrudes

__all__ = ["Candidate", "Steps", "Task", "batch_edges", "batches_per_epoch", "check_task", "epochs_at_once", "plan"]

NUMBERS_AT_ONCE = 1 << 22
"""Points and labels that are planned, or scores that are computed, in one go."""


@dataclass(frozen=True)
class Task:
    """One training set with its way of mixing and labelling: what a group of models has in common.

    The labelers are fitted; their matrices are the basis in which each model states its own target.
    """

    X: NDArray[np.float64]
    """Points (n, d)."""
    y: NDArray[np.int64]
    """Class indices (n,)."""
    n_classes: int
    labelers: tuple[Labeler, ...]
    mixer: Mixer | None = None
    """None is vanilla training."""
    weight: NDArray[np.float64] | None = None
    """Sample weights (n,); a mixed point has the blend of its parents' weights."""
    class_weight: NDArray[np.float64] | None = None
    """Weight of each class (k,) in the cross-entropy, -sum_c w_c y_c log p_c."""
    exclude_intrusion: bool = False
    """Give mixed points that intrude another class's manifold no weight (arXiv section 3.1)."""
    clean_weight: float = 0.0
    """Share of each batch that is left as it is, with its own labels: in expectation the loss is
    clean_weight L(clean) + (1 - clean_weight) L(mixed), at the cost of one. 0 is arXiv Alg. 1, 1 vanilla training."""
    seed: Any = 0
    """Seed of the order, the draws and, in a fleet, the initial weights."""


@dataclass(frozen=True)
class Candidate:
    """What tells one model of a group from another."""

    learning_rate: float
    weight_decay: float = 1e-4
    label: tuple[float, ...] = (1.0,)
    """Share of each labeler of the task in the target; for GenLabel with ratio gamma: (1 - gamma, gamma)."""


class Steps(NamedTuple):
    """A stretch of T steps for one task; B is the largest batch, shorter ones end in rows of weight 0."""

    x: Tensor
    """(T, B, d): mixed points where the depth is 0, else the points themselves."""
    target: Tensor
    """(T, B, k, J): the label matrices of the J labelers, times the class weights."""
    weight: Tensor
    """(T, B): weights in the loss; each step's sum to 1 (or are all 0)."""
    partner: Tensor
    """(T, B): row that each row is mixed with."""
    lam: Tensor
    """(T, B): mixing weights."""
    depth: NDArray[np.int64]
    """(T,)"""


def check_task(task: Task, depth: int, candidates: Sequence[Candidate]) -> None:
    """Raise where a task does not suit a network of `depth` hidden layers, or the candidates' targets."""
    if task.mixer is not None and task.mixer.max_depth > depth:
        raise ValueError(
            f"{task.mixer!r} mixes at depth {task.mixer.max_depth}, but the network has {depth} hidden layers; "
            "name depths within them"
        )
    if task.mixer is not None and task.mixer.max_depth and type(task.mixer).mix is not Mixer.mix:
        raise ValueError(
            f"{task.mixer!r} mixes hidden layers in a way of its own; only the linear blend can be trained"
        )
    if not 0.0 <= task.clean_weight <= 1.0:
        raise ValueError(f"clean_weight={task.clean_weight!r} must lie in [0, 1]; 0 mixes every point, 1 none")
    for candidate in candidates:
        if len(candidate.label) != len(task.labelers):
            raise ValueError(
                f"{candidate} shares its label among {len(candidate.label)} of {len(task.labelers)} labelers"
            )


def batches_per_epoch(n: int, batch_size: int) -> int:
    """Number of batches, each of at most `batch_size` points and all of nearly one size.

    NOTE[PAPER]: 148 points make two batches of 74, not one of 128 and one of 20: the remainder would have the
    noise of a tiny batch, and folds that differ by one point would differ in their number of steps.
    """
    return -(-n // batch_size)


def batch_edges(n: int, batches: int) -> NDArray[np.int64]:
    """Where the batches of an epoch begin and end, (batches + 1,), all of nearly one size."""
    if n < batches:
        raise ValueError(f"{n} points cannot fill {batches} batches; give tasks of like sizes, or larger batches")
    return np.linspace(0, n, batches + 1).round().astype(np.int64)


def epochs_at_once(tasks: Sequence[Task], epochs: int) -> int:
    """How many epochs of all tasks are planned at once, so that memory stays bounded."""
    numbers = sum(task.X.size + len(task.X) * (task.n_classes * len(task.labelers) + 3) for task in tasks)
    return min(max(1, NUMBERS_AT_ONCE // numbers), epochs)


def plan(task: Task, epochs: int, batches: int, stretch: int, like: Tensor) -> Iterator[Steps]:
    """Yield the steps of `epochs` epochs of `batches` batches each, `stretch` epochs at a time.

    Points are mixed and labelled in the dtype and on the device of `like`; the draws are the same on any.
    """
    rng = np.random.default_rng(task.seed)
    edges = batch_edges(len(task.X), batches)
    exact = torch.from_numpy(task.X)
    points = exact.to(like)
    reach = distance_to_rivals(task.X, task.y) if task.exclude_intrusion and task.mixer is not None else None
    for part in chunks(epochs, stretch):
        yield _steps(task, exact, points, reach, _draw(task, part.stop - part.start, edges, rng))


class _Draws(NamedTuple):
    """Rows, position of the partner, lam, which are clean, which are real (all T, B), and depth (T,)."""

    rows: NDArray[np.int64]
    partner: NDArray[np.int64]
    lam: NDArray[np.float64]
    clean: NDArray[np.bool_] | None
    depth: NDArray[np.int64]
    real: NDArray[np.bool_]


def _draw(task: Task, epochs: int, edges: NDArray[Any], rng: np.random.Generator) -> _Draws:
    """Draw order and mixing; an entry that is not real points at itself with weight 1."""
    steps, size = epochs * (len(edges) - 1), int(np.diff(edges).max())
    rows, depth = np.zeros((steps, size), dtype=np.int64), np.zeros(steps, dtype=np.int64)
    partner = np.tile(np.arange(size), (steps, 1))
    lam, real = np.ones((steps, size)), np.zeros((steps, size), dtype=bool)
    clean = np.zeros((steps, size), dtype=bool) if task.clean_weight > 0 else None
    t = 0
    for _ in range(epochs):
        order = rng.permutation(len(task.X))
        for start, stop in pairwise(edges):
            n = stop - start
            rows[t, :n], real[t, :n] = order[start:stop], True
            count = round(task.clean_weight * n)
            if clean is not None:
                clean[t, :count] = True
            if task.mixer is not None:
                drawn = task.mixer.draw(n, rng)
                partner[t, :n], lam[t, :n], depth[t] = (drawn.keep(count) if count else drawn)[:3]
                if depth[t] > task.mixer.max_depth:
                    raise ValueError(f"{task.mixer!r} drew depth {depth[t]} above its max_depth {task.mixer.max_depth}")
            t += 1
    return _Draws(rows, partner, lam, clean, depth, real)


def _steps(task: Task, exact: Tensor, points: Tensor, reach: NDArray[np.float64] | None, draws: _Draws) -> Steps:
    """Mix and label a whole stretch as if it were one batch."""
    steps, size = draws.rows.shape
    rows = torch.from_numpy(draws.rows.ravel()).to(points.device)
    flat = Mix(
        (np.arange(steps)[:, None] * size + draws.partner).ravel(),
        draws.lam.ravel(),
        clean=None if draws.clean is None else draws.clean.ravel(),
        rows=draws.rows.ravel(),
        points=exact if task.mixer is None or type(task.mixer).mix is Mixer.mix else None,
    )
    own = points[rows]
    mixed = own if task.mixer is None else task.mixer.mix(own, flat)
    if flat.clean is not None:
        mixed = torch.where(torch.from_numpy(flat.clean).to(own.device)[:, None], own, mixed)
    y = torch.from_numpy(task.y).to(rows)[rows]
    targets = one_hot(y, task.n_classes, points.dtype)
    labels = torch.stack([labeler.label(mixed, targets, flat) for labeler in task.labelers], dim=-1)
    if task.class_weight is not None:
        labels = labels * torch.from_numpy(task.class_weight).to(labels)[:, None]
    hidden = torch.from_numpy(draws.depth > 0).to(points.device)[:, None, None]
    x = mixed.view(steps, size, -1)
    return Steps(
        torch.where(hidden, own.view_as(x), x) if draws.depth.any() else x,
        labels.view(steps, size, *labels.shape[1:]),
        _weights(task, reach, draws, flat, mixed, y).to(points),
        torch.from_numpy(draws.partner).to(points.device),
        torch.from_numpy(draws.lam).to(points),
        draws.depth,
    )


def _weights(
    task: Task, reach: NDArray[np.float64] | None, draws: _Draws, flat: Mix, mixed: Tensor, y: Tensor
) -> Tensor:
    weight = draws.real.astype(np.float64)
    if task.weight is not None:
        weight *= blend(task.weight[draws.rows.ravel()], flat).reshape(weight.shape)
    if task.exclude_intrusion and task.mixer is not None:
        pool = torch.from_numpy(task.X).to(mixed), task.y
        hit = intrudes(mixed, flat, mixed, y, pool=pool, reach=reach)
        weight[hit.reshape(weight.shape) & (True if draws.clean is None else ~draws.clean)] = 0.0
    return torch.from_numpy(weight / np.maximum(weight.sum(1, keepdims=True), 1e-300))
