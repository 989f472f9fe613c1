"""The plan of a training run: for every step, which points are mixed, how, and with what labels.

Where nothing of it depends on the network, whole stretches of steps are mixed and labelled at once, and all models
that share a task share its points and labels (the fleet); the loop over one network takes the same draws, a batch at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import chunks, one_hot, to_device
from genlabel.labeling import Labeler
from genlabel.mixing import BatchInfo, Mixer, MixParams, blend, identity_params, intrudes
from genlabel.mixing.base import check_within_batch, mix_batch, stack_draws
from genlabel.mixing.intrusion import distance_to_rivals

NUMBERS_AT_ONCE = 1 << 19
"""Points and labels that are planned, or scores that are computed, in one go."""


@dataclass(frozen=True)
class TrainingTask:
    """One training set with its way of mixing and labelling: what a group of models has in common.

    The labelers are fitted; their matrices are the basis in which each model states its own target.

    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> X, y = np.array([[0.0], [4.0], [5.0]]), np.array([0, 1, 1])
    >>> TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0).targets.tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """

    X: NDArray[np.float64]
    """Points (n, ...): features (n, d), images (n, c, h, w)."""
    y: NDArray[Any]
    """Class indices (n,), or soft labels (n, k) with rows on the simplex."""
    num_classes: int
    labelers: tuple[Labeler, ...]
    mixer: Mixer | None = None
    """None is vanilla training."""
    weight: NDArray[np.float64] | None = None
    """Sample weights (n,); a mixed point has the blend of its parents' weights."""
    class_weight: NDArray[np.float64] | None = None
    """Weight of each class (k,) in the cross-entropy, -sum_c w_c y_c log p_c."""
    exclude_intrusion: bool = False
    """Give mixed points that intrude another class's manifold no weight (arXiv Section 3.1)."""
    clean_fraction: float = 0.0
    """Share of each batch that is left as it is, with its own labels: in expectation the loss is
    clean_fraction L(clean) + (1 - clean_fraction) L(mixed), at the cost of one. 0 is arXiv Alg. 1, 1 vanilla
    training."""
    seed: Any = 0
    """Seed of the order, the draws and, in a fleet, the initial weights."""
    valid: tuple[NDArray[np.float64], NDArray[Any]] | None = None
    """Rows that are not trained on, (m, ...), and their class indices (m,): they choose the epoch, if the best is
    kept."""

    @property
    def targets(self) -> NDArray[np.float64]:
        """The labels as a matrix, (n, k)."""
        return np.eye(self.num_classes)[self.y] if self.y.ndim == 1 else self.y

    @cached_property
    def numbers(self) -> int:
        """How many numbers a pass over it takes."""
        return self.X.size + len(self.X) * (self.num_classes * len(self.labelers) + 3)


@dataclass(frozen=True)
class Hyperparameters:
    """What tells one model of a group from another.

    >>> from genlabel.densities import GaussianDensity
    >>> from genlabel.labeling import GenLabel, LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.training import train_fleet
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y)), Mixup())
    >>> candidates = [Hyperparameters(0.1, label=(1.0 - gamma, gamma)) for gamma in (0.0, 0.5, 1.0)]
    >>> train_fleet([task], candidates, epochs=2).losses.shape  # epochs, tasks, candidates
    (2, 1, 3)
    """

    learning_rate: float
    weight_decay: float = 1e-4
    label: tuple[float, ...] = (1.0,)
    """Share of each labeler of the task in the target; for GenLabel with ratio gamma: (1 - gamma, gamma)."""


class Batch(NamedTuple):
    """What the loop over one network needs of a step; a loader may give x and y alone.

    A `BatchPlan` is a sequence of them, and `train_network` takes any.
    """

    x: Tensor
    """Points (n, ...), not mixed."""
    y: Tensor
    """Their class indices (n,), or soft labels (n, k)."""
    weight: Tensor | None = None
    """Weights (n,): with a draw, those in the loss, of sum 1; without, those of the points. None is 1/n for each."""
    draw: MixParams | None = None
    """How they are mixed; None lets the loop draw."""
    info: BatchInfo = BatchInfo()


class StepBlock(NamedTuple):
    """A stretch of T steps for one task; B is the largest batch, shorter ones end in rows of weight 0.

    `BatchPlan.steps` gives one after the other.
    """

    x: Tensor
    """(T, B, ...): mixed points where the depth is 0, else the points themselves."""
    target: Tensor
    """(T, B, k, J): the label matrices of the J labelers, times the class weights."""
    weight: Tensor
    """(T, B): weights in the loss; each step's sum to 1 (or are all 0)."""
    draw: MixParams
    """The stacked draw, as tensors but for the depths."""


def check_task(task: TrainingTask, depth: int, candidates: Sequence[Hyperparameters]) -> None:
    """Raise where a task does not suit a network of `depth` hidden layers, or the candidates' targets."""
    if task.mixer is not None and task.mixer.max_depth > depth:
        raise ValueError(
            f"{task.mixer!r} mixes at depth {task.mixer.max_depth}, but the network has {depth} hidden layers; "
            "name depths within them"
        )
    if not 0.0 <= task.clean_fraction <= 1.0:
        raise ValueError(f"clean_fraction={task.clean_fraction!r} must lie in [0, 1]; 0 mixes every point, 1 none")
    if task.y.shape not in ((len(task.X),), (len(task.X), task.num_classes)):
        raise ValueError(
            f"y has shape {task.y.shape} for {len(task.X)} points and {task.num_classes} classes; give class indices "
            f"({len(task.X)},) or soft labels ({len(task.X)}, {task.num_classes})"
        )
    if task.exclude_intrusion and task.y.ndim != 1:
        raise ValueError(
            "exclude_intrusion=True asks for the class of each point, but y has soft labels; leave it False"
        )
    for labeler in task.labelers:
        if labeler.update_source is not None:
            raise ValueError(
                f"{labeler!r} learns while a network trains, but a task's labels are planned before; use train_network"
            )
    for candidate in candidates:
        if len(candidate.label) != len(task.labelers):
            raise ValueError(
                f"{candidate} shares its label among {len(candidate.label)} of {len(task.labelers)} labelers"
            )


def batches_per_epoch(n: int, batch_size: int) -> int:
    """Number of batches, each of at most `batch_size` points and all of nearly one size.

    NOTE[PAPER]: 148 points make two batches of 74, not one of 128 and one of 20: the remainder would have the
    noise of a tiny batch, and folds that differ by one point would differ in their number of steps.

    >>> batches_per_epoch(148, 128), batches_per_epoch(128, 128)
    (2, 1)
    """
    return -(-n // batch_size)


def batch_edges(n: int, batches: int) -> NDArray[np.int64]:
    """Where the batches of an epoch begin and end, (batches + 1,), all of nearly one size."""
    if n < batches:
        raise ValueError(f"{n} points cannot fill {batches} batches; give tasks of like sizes, or larger batches")
    return np.linspace(0, n, batches + 1).round().astype(np.int64)


class _Stretch(NamedTuple):
    """The draws of T steps, and what is known beside them: rows, which are clean, which are real (all T, B)."""

    draw: MixParams
    rows: NDArray[np.int64]
    clean: NDArray[np.bool_] | None
    real: NDArray[np.bool_]


class BatchPlan:
    """The steps of a task, epoch after epoch: the same draws however much of them is made at once.

    Points are mixed and labelled in the dtype and on the device of `like`; the draws are the same on any.

    Parameters
    ----------
    task : Task
    batches : int
        Of an epoch.
    like : Tensor
    parts : int
        Epochs that make a pass over the rows: of a large table an epoch is a part of one.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> plan = BatchPlan(TrainingTask(X, y, 2, ()), batches=2, like=torch.zeros(()))
    >>> [len(batch.x) for batch in plan]
    [2, 2]
    """

    def __init__(self, task: TrainingTask, batches: int, like: Tensor, parts: int = 1) -> None:
        self.task = task
        self._rng = np.random.default_rng(task.seed)
        self._partners = np.random.default_rng(task.seed).spawn(2)[1]  # the first child draws a fleet's weights
        self._edges = batch_edges(len(task.X), batches * parts)
        self._batches, self._parts = batches, parts
        self._begun = 0
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._like = like.new_empty(0)
        self._exact = torch.from_numpy(task.X)
        self._source = self._exact.to(like) if like.is_cuda else self._exact
        self._labels = torch.from_numpy(task.y).to(like.device)
        excludes = task.exclude_intrusion and task.mixer is not None
        self._reach = distance_to_rivals(task.X.reshape(len(task.X), -1), task.y) if excludes else None

    def steps(self, epochs: int) -> StepBlock:
        """Mix and label the steps of the next epochs as if they were one batch."""
        stretch = self._draw(epochs)
        T, B = stretch.rows.shape
        draw, info = self._over_the_set(stretch, stretch.draw.flatten()), self._origin(stretch)
        rows = torch.from_numpy(stretch.rows.ravel()).to(self._like.device)
        plain, targets = self._points(rows), self._targets(rows)
        mixed = mix_batch(self.task.mixer, plain, draw, info)
        labels = torch.stack([one.label(mixed, targets, draw, info) for one in self.task.labelers], dim=-1)
        if self.task.class_weight is not None:
            labels = labels * torch.from_numpy(self.task.class_weight).to(labels)[:, None]
        depth = stretch.draw.depth
        if depth.any():
            hidden = torch.from_numpy(depth > 0).to(rows.device).repeat_interleave(B)
            points = torch.where(hidden.view(-1, *[1] * (plain.ndim - 1)), plain, mixed)
        else:
            points = mixed
        return StepBlock(
            points.view(T, B, *points.shape[1:]),
            labels.view(T, B, *labels.shape[1:]),
            self._weights(stretch, draw, mixed).to(self._like),
            self._on_device(stretch.draw),
        )

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the next epoch, neither mixed nor labelled."""
        if self.task.mixer is not None:
            check_within_batch(self.task.mixer)
        stretch = self._draw(1)
        draw, info = stretch.draw.flatten(), self._origin(stretch)
        rows = torch.from_numpy(stretch.rows).to(self._like.device)
        excludes = self._reach is not None
        mixed = mix_batch(self.task.mixer, self._points(rows.ravel()), draw, info) if excludes else None
        weight = self._weights(stretch, draw, mixed).to(self._like)
        for t, real in enumerate(stretch.real):
            part = slice(0, int(real.sum()))
            clean = None if stretch.clean is None else stretch.clean[t, part]
            yield Batch(
                self._points(rows[t, part]),
                self._targets(rows[t, part]),
                weight[t, part],
                stretch.draw.batch(t, part.stop),
                BatchInfo(clean, stretch.rows[t, part], info.points),
            )

    def _points(self, rows: Tensor) -> Tensor:
        """The points of some rows, (m, ...)."""
        return self._source[rows].to(self._like)

    def _targets(self, rows: Tensor) -> Tensor:
        """The labels of some rows, (m, k)."""
        labels = self._labels[rows]
        return one_hot(labels, self.task.num_classes, self._like.dtype) if labels.ndim == 1 else labels.to(self._like)

    def _on_device(self, draw: MixParams) -> MixParams:
        """A stacked draw as tensors, but for the depths."""
        boxes = None if draw.box is None else to_device(draw.box, self._like)
        lam = to_device(draw.lam, self._like, self._like.dtype)
        return MixParams(to_device(draw.partner, self._like), lam, draw.depth, boxes)

    def _draw(self, epochs: int) -> _Stretch:
        """Draw order and mixing; an entry that is not real points at itself with weight 1."""
        task, longest = self.task, int(np.diff(self._edges).max())
        rows = np.zeros((epochs * self._batches, longest), dtype=np.int64)
        real = np.zeros(rows.shape, dtype=bool)
        clean = np.zeros(rows.shape, dtype=bool) if task.clean_fraction > 0 else None
        draws: list[MixParams] = []
        for _ in range(epochs):
            for start, stop in pairwise(self._next_edges()):
                t, n = len(draws), stop - start
                rows[t, :n], real[t, :n] = self._order[start:stop], True
                draw = identity_params(n) if task.mixer is None else self._draw_batch(n)
                if clean is not None:
                    count = round(task.clean_fraction * n)
                    clean[t, :count] = True
                    draw = draw.leave_clean(count)
                draws.append(draw)
        return _Stretch(stack_draws(draws), rows, clean, real)

    def _next_edges(self) -> NDArray[np.int64]:
        """Where the batches of the next epoch begin and end in the order of its pass, which is drawn if it is new."""
        part = self._begun % self._parts
        if part == 0:
            self._order = self._rng.permutation(len(self.task.X))
        self._begun += 1
        return self._edges[part * self._batches : (part + 1) * self._batches + 1]

    def _draw_batch(self, n: int) -> MixParams:
        mixer = self.task.mixer
        assert mixer is not None
        drawn = mixer.draw(n, self._rng)
        if drawn.depth > mixer.max_depth:
            raise ValueError(f"{mixer!r} drew depth {drawn.depth} above its max_depth {mixer.max_depth}")
        return drawn

    def _over_the_set(self, stretch: _Stretch, flat: MixParams) -> MixParams:
        """The draw of a stretch as one long batch, with partners from any batch of an epoch where that is asked.

        They have a generator of their own, so that they are the same however many epochs are planned at once.
        """
        if self.task.mixer is None or not self.task.mixer.pairs_across_batches:
            return flat
        partner, real = flat.partner.copy(), stretch.real.reshape(-1, self._batches * stretch.real.shape[1])
        mixed = real if stretch.clean is None else real & ~stretch.clean.reshape(real.shape)
        for epoch, (rows, own) in enumerate(zip(real, mixed, strict=True)):
            at = epoch * real.shape[1]
            partner[at + np.flatnonzero(own)] = at + self._partners.permutation(np.flatnonzero(rows))[: own.sum()]
        return flat._replace(partner=partner)

    def _origin(self, stretch: _Stretch) -> BatchInfo:
        linear = self.task.mixer is None or self.task.mixer.linear
        clean = None if stretch.clean is None else stretch.clean.ravel()
        return BatchInfo(clean, stretch.rows.ravel(), self._exact if linear else None)

    def _weights(self, stretch: _Stretch, draw: MixParams, mixed: Tensor | None) -> Tensor:
        """Weights (T, B) in the loss; the mixed points say which of them intrude, where that is asked."""
        task, rows = self.task, stretch.rows.ravel()
        weight = stretch.real.astype(np.float64)
        if task.weight is not None:
            weight *= blend(task.weight[rows], draw).reshape(weight.shape)
        if self._reach is not None and mixed is not None:
            points = self._exact.reshape(len(self._exact), -1).to(mixed)
            flat = mixed.reshape(len(mixed), -1)
            hit = intrudes(flat, draw, flat, task.y[rows], pool=(points, task.y), rows=rows, rival_distance=self._reach)
            weight[hit.reshape(weight.shape) & (True if stretch.clean is None else ~stretch.clean)] = 0.0
        return torch.from_numpy(weight / np.maximum(weight.sum(1, keepdims=True), 1e-300))


def epochs_at_once(tasks: Sequence[TrainingTask], epochs: int, parts: int = 1) -> int:
    """How many epochs of all tasks are planned at once, so that memory stays bounded; `parts` of them are a pass."""
    return min(max(1, NUMBERS_AT_ONCE * parts // sum(task.numbers for task in tasks)), epochs)


def epoch_chunks(tasks: Sequence[TrainingTask], epochs: int, parts: int = 1) -> list[int]:
    """The epochs in parts that can be planned at once: how many there are in each."""
    return [part.stop - part.start for part in chunks(epochs, epochs_at_once(tasks, epochs, parts))]
