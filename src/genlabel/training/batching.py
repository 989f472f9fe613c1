"""Batches of a training run: for every step, which points are mixed, how, and with what labels.

If none of this depends on the network, many steps are mixed and labeled at once, and all models of a task share its
points and labels (the fleet). The loop over one network uses the same draws, one batch at a time.
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

from genlabel._arrays import chunks, one_hot
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer, MixParams, intrudes
from genlabel.mixing.base import (
    BatchInfo,
    blend,
    check_within_batch,
    draw_to_device,
    identity_params,
    mix_batch,
    stack_draws,
)
from genlabel.mixing.intrusion import distance_to_rivals

MAX_CHUNK_VALUES = 1 << 19
"""Values of points and labels prepared, or of scores computed, at once."""


@dataclass(frozen=True)
class TrainingTask:
    """Training set with its mixer and fitted labelers, whose label matrices are the basis of each model's target."""

    X: NDArray[np.float64]  # points (n, ...): features (n, d), images (n, c, h, w)
    y: NDArray[Any]  # class indices (n,), or soft labels (n, k) with rows on the simplex
    num_classes: int
    labelers: tuple[Labeler, ...]
    mixer: Mixer | None = None  # None is plain training
    weight: NDArray[np.float64] | None = None
    """Sample weights (n,); a mixed point has the blend of its parents' weights."""
    class_weight: NDArray[np.float64] | None = None
    """Weight of each class (k,) in the cross-entropy, -sum_c w_c y_c log p_c."""
    exclude_intrusion: bool = False
    """If True, mixed points that intrude another class's manifold have weight 0 (arXiv Section 3.1)."""
    clean_fraction: float = 0.0
    """Fraction of each batch that is not mixed and keeps its labels. The expected loss is
    clean_fraction L(clean) + (1 - clean_fraction) L(mixed), at the cost of one of them. 0 is arXiv Alg. 1, 1 plain
    training."""
    seed: Any = 0  # seed of the order, the draws and, in a fleet, the initial weights
    valid: tuple[NDArray[np.float64], NDArray[Any]] | None = None
    """Validation rows (m, ...) and their class indices (m,), which choose the best epoch."""

    @property
    def targets(self) -> NDArray[np.float64]:
        """Labels as a matrix, (n, k)."""
        return np.eye(self.num_classes)[self.y] if self.y.ndim == 1 else self.y

    @property
    def relative_weight(self) -> NDArray[np.float64]:
        """Sample weights (n,) over the mean weight of the loss of a row, its class weight included.

        The mean is that of all rows: weights that sum to 1 in each batch would make the gradients biased.
        """
        weight = np.ones(len(self.X)) if self.weight is None else self.weight
        of_loss = weight if self.class_weight is None else weight * (self.targets @ self.class_weight)
        return weight / of_loss.mean()


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters in which the models of a group differ."""

    learning_rate: float
    weight_decay: float = 1e-4
    label: tuple[float, ...] = (1.0,)
    """Weight of each of the task's labelers in the target; (1 - gamma, gamma) for mixup's label and GenLabel's."""


class Batch(NamedTuple):
    """One step of the loop over one network; a loader may give x and y alone."""

    x: Tensor  # points (n, ...), not mixed
    y: Tensor  # class indices (n,), or soft labels (n, k)
    weight: Tensor | None = None
    """With a draw: weights in the loss (n,), of mean sum 1. Without: weights of the points. None is 1/n each."""
    draw: MixParams | None = None  # draw that mixes the batch; None lets the loop draw
    info: BatchInfo = BatchInfo()


class StepBlock(NamedTuple):
    """T consecutive steps of one task, or one step of G tasks; batches below the largest, B, have rows of weight 0."""

    x: Tensor  # (T, B, ...): mixed points at depth 0, else the points themselves
    target: Tensor  # (T, B, k, J): label matrices of the J labelers, times the class weights
    weight: Tensor  # (T, B): weights in the loss; without sample and class weights, each step's sum to 1 (or are 0)
    draw: MixParams  # stacked draw, as tensors except the depths (T,)


def check_depths(mixer: Mixer | None, depth: int) -> None:
    """Raise if a mixer mixes deeper than the `depth` hidden layers or stages of a network."""
    if mixer is not None and (deepest := mixer.max_depth) > depth:
        raise ValueError(f"{mixer!r} mixes at depth {deepest} of a network of {depth} stages; use smaller depths")


def batches_per_epoch(n: int, batch_size: int) -> int:
    """Return the number of batches, each of at most `batch_size` points and all of nearly equal size.

    NOTE[PAPER]: 148 points make two batches of 74, not one of 128 and one of 20: the remainder would have the
    noise of a tiny batch, and folds that differ by one point would differ in their number of steps.
    """
    return -(-n // batch_size)


class Draws(NamedTuple):
    """Draws of T steps, and the rows of their batches; (T, B) each."""

    draw: MixParams
    rows: NDArray[np.int64]
    """Rows of the training set."""
    clean: NDArray[np.bool_] | None
    """Mask of rows that are not mixed."""
    real: NDArray[np.bool_]
    """Mask of the rows that are not padding."""


class BatchPlan:
    """Steps of a task, epoch after epoch; the draws do not depend on how many epochs are prepared at once.

    Points are mixed and labeled in the dtype and on the device of `like`; the draws are the same on any. Iterating
    gives the batches of the next epoch, neither mixed nor labeled.

    Parameters
    ----------
    task : TrainingTask
    batches : int
        Batches per epoch.
    like : Tensor
        Tensor with the dtype and device of the network.
    epochs_per_pass : int
        Number of epochs in one pass over the rows; above 1 for large tables.
    """

    def __init__(self, task: TrainingTask, batches: int, like: Tensor, epochs_per_pass: int = 1) -> None:
        self.task = task
        self._rng = np.random.default_rng(task.seed)
        self._partner_rng = np.random.default_rng(task.seed).spawn(2)[1]  # the first child draws a fleet's weights
        n, count = len(task.X), batches * epochs_per_pass
        if n < count:
            raise ValueError(f"{n} points cannot fill {count} batches; use tasks of similar sizes or larger batches")
        self._edges = np.linspace(0, n, count + 1).round().astype(np.int64)  # where batches begin and end
        self._batches, self._epochs_per_pass = batches, epochs_per_pass
        self._epoch = 0
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._like = like.new_empty(0)
        self._exact = torch.from_numpy(task.X)
        self._source = self._exact.to(like) if like.is_cuda else self._exact
        self._labels = torch.from_numpy(task.y).to(like.device)
        is_weighted = task.weight is not None or task.class_weight is not None
        self._relative_weight = task.relative_weight if is_weighted else None
        excludes = task.exclude_intrusion and task.mixer is not None
        self._rival_distance = distance_to_rivals(task.X.reshape(len(task.X), -1), task.y) if excludes else None

    def steps(self, epochs: int) -> StepBlock:
        """Mix and label the steps of the next epochs as one batch."""
        draws = self.draw(epochs)
        T, B = draws.rows.shape
        flat, info = self._pair_across_batches(draws), self._info(draws)
        rows = torch.from_numpy(draws.rows.ravel()).to(self._like.device)
        plain, targets = self._points(rows), self._targets(rows)
        mixed = mix_batch(self.task.mixer, plain, flat, info)
        labels = torch.stack([labeler.label(mixed, targets, flat, info) for labeler in self.task.labelers], dim=-1)
        if self.task.class_weight is not None:
            labels = labels * torch.from_numpy(self.task.class_weight).to(labels)[:, None]
        weight, points = self._weights(draws, flat, mixed).to(self._like), mixed
        if draws.draw.depth.any():
            hidden = torch.from_numpy(draws.draw.depth > 0).to(rows.device).repeat_interleave(B)
            points = torch.where(hidden.view(-1, *[1] * (plain.ndim - 1)), plain, mixed)
        draw = draw_to_device(draws.draw, self._like)
        points, labels = (values.view(T, B, *values.shape[1:]) for values in (points, labels))
        return StepBlock(points, labels, weight, draw)

    def __iter__(self) -> Iterator[Batch]:
        if self.task.mixer is not None:
            check_within_batch(self.task.mixer)
        draws = self.draw(1)
        draw, info = draws.draw.flatten(), self._info(draws)
        rows = torch.from_numpy(draws.rows).to(self._like.device)
        excludes = self._rival_distance is not None
        mixed = mix_batch(self.task.mixer, self._points(rows.ravel()), draw, info) if excludes else None
        weight = self._weights(draws, draw, mixed).to(self._like)
        for t, size in enumerate(draws.real.sum(1).tolist()):
            clean = None if draws.clean is None else draws.clean[t, :size]
            batch, of_batch = rows[t, :size], BatchInfo(clean, draws.rows[t, :size], info.points)
            params = draws.draw.batch(t, size)
            yield Batch(self._points(batch), self._targets(batch), weight[t, :size], params, of_batch)

    def _points(self, rows: Tensor) -> Tensor:
        return self._source[rows].to(self._like)

    def _targets(self, rows: Tensor) -> Tensor:
        """Return the labels of some rows, (m, k)."""
        labels = self._labels[rows]
        return one_hot(labels, self.task.num_classes, self._like.dtype) if labels.ndim == 1 else labels.to(self._like)

    def draw(self, epochs: int) -> Draws:
        """Draw order and mixing of some epochs; padding is paired with itself at weight 1."""
        task, largest = self.task, int(np.diff(self._edges).max())
        rows = np.zeros((epochs * self._batches, largest), dtype=np.int64)
        real = np.zeros(rows.shape, dtype=bool)
        clean = np.zeros(rows.shape, dtype=bool) if task.clean_fraction > 0 else None
        draws: list[MixParams] = []
        for _ in range(epochs):
            part = self._epoch % self._epochs_per_pass
            if part == 0:
                self._order = self._rng.permutation(len(task.X))
            self._epoch += 1
            for start, stop in pairwise(self._edges[part * self._batches : (part + 1) * self._batches + 1]):
                t, n = len(draws), stop - start
                rows[t, :n], real[t, :n] = self._order[start:stop], True
                draw = identity_params(n)
                if task.mixer is not None:
                    needs_batch = task.mixer.data_dependent
                    batch = (task.X[rows[t, :n]], task.y[rows[t, :n]]) if needs_batch else ()
                    draw = task.mixer.draw(n, self._rng, *batch)
                    if draw.depth > task.mixer.max_depth:
                        raise ValueError(f"{task.mixer!r} drew depth {draw.depth} above its max_depth")
                if clean is not None:
                    count = round(task.clean_fraction * n)
                    clean[t, :count] = True
                    draw = draw.leave_clean(count)
                draws.append(draw)
        return Draws(stack_draws(draws), rows, clean, real)

    def _pair_across_batches(self, draws: Draws) -> MixParams:
        """Return the draws as one long batch, with partners from any batch of an epoch if the mixer wants them.

        These partners have their own generator, so that they do not depend on how many epochs are prepared at once.
        """
        flat = draws.draw.flatten()
        if self.task.mixer is None or not self.task.mixer.pairs_across_batches:
            return flat
        partner = flat.partner.copy()
        real = draws.real.reshape(-1, self._batches * draws.real.shape[1])  # a row for each epoch
        mixed = real if draws.clean is None else real & ~draws.clean.reshape(real.shape)
        for epoch, (is_real, is_mixed) in enumerate(zip(real, mixed, strict=True)):
            start = epoch * real.shape[1]
            partners = self._partner_rng.permutation(np.flatnonzero(is_real))
            partner[start + np.flatnonzero(is_mixed)] = start + partners[: is_mixed.sum()]
        return flat._replace(partner=partner)

    def _info(self, draws: Draws) -> BatchInfo:
        linear = self.task.mixer is None or self.task.mixer.linear
        clean = None if draws.clean is None else draws.clean.ravel()
        return BatchInfo(clean, draws.rows.ravel(), self._exact if linear else None)

    def _weights(self, draws: Draws, draw: MixParams, mixed: Tensor | None) -> Tensor:
        """Return the weights (T, B) in the loss, 0 for intruding mixed points if they are excluded."""
        task, rows = self.task, draws.rows.ravel()
        weight = draws.real.astype(np.float64)
        if draw.weight is not None:
            weight *= draw.weight.reshape(weight.shape)
        if self._rival_distance is not None and mixed is not None:
            pool = self._exact.reshape(len(self._exact), -1).to(mixed), task.y
            flat = mixed.reshape(len(mixed), -1)
            mask = intrudes(flat, draw, flat, task.y[rows], pool=pool, rows=rows, rival_distance=self._rival_distance)
            mask = mask.reshape(weight.shape)
            weight[mask if draws.clean is None else mask & ~draws.clean] = 0.0
        weight = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
        if self._relative_weight is not None:
            weight *= blend(self._relative_weight[rows], draw).reshape(weight.shape)
        return torch.from_numpy(weight)


def epoch_chunks(tasks: Sequence[TrainingTask], epochs: int, epochs_per_pass: int = 1) -> list[int]:
    """Split epochs into parts small enough to be prepared at once, and return the number of epochs of each part."""
    values = sum(task.X.size + len(task.X) * (task.num_classes * len(task.labelers) + 3) for task in tasks)
    max_epochs = MAX_CHUNK_VALUES * epochs_per_pass // values
    return [part.stop - part.start for part in chunks(epochs, min(max(1, max_epochs), epochs))]
