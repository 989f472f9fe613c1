"""Cross-validation of densities: samples with folds, stratified subsamples, and held-out log-densities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_rng, chunks
from genlabel._progress import current_fit
from genlabel.data.folds import Fold, training_rows
from genlabel.densities.base import MAX_CHUNK_VALUES, ClassDensity
from genlabel.densities.power_transform import PowerTransform, split_transform

MIN_CLASS_ROWS = 20  # rows of each class among the first rows of a stratified order, if the class has them


class CrossValSample(NamedTuple):
    """Weighted points with their classes, and the folds of a cross-validation."""

    X: Tensor  # (n, d)
    classes: Tensor  # class indices (n,)
    weight: Tensor  # (n,)
    train: Tensor  # masks (f, n) of the training rows of each fold; each fold has at least one row of each class
    valid: Sequence[Tensor]  # indices of the validation rows of each fold

    @classmethod
    def of_rows(
        cls, X: Tensor, classes: Tensor, weight: Tensor, folds: Sequence[Fold], rows: NDArray[np.intp]
    ) -> CrossValSample:
        """Return some rows with the folds among them; a class without training rows in a fold keeps its rows there."""
        position = np.full(len(X), -1)
        position[rows] = np.arange(len(rows))
        masks, valid = [], []
        for fold in folds:
            train, held_out = position[fold.train], position[fold.valid]
            masks.append(training_rows(train[train >= 0], classes.numpy()[rows]))
            valid.append(torch.from_numpy(held_out[held_out >= 0]))
        return cls(X[rows], classes[rows], weight[rows], torch.from_numpy(np.stack(masks)), valid)

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1

    @property
    def training_weight(self) -> Tensor:
        """Weights of the rows in each fold, (f, n), 0 outside of its training rows."""
        return self.train * self.weight

    @property
    def out_of_fold(self) -> Tensor:
        """Mask (n,) of rows with an out-of-fold prediction; if there is none, of all predicted rows."""
        predicted = torch.zeros_like(self.classes, dtype=torch.bool)
        held_out = torch.zeros_like(predicted)
        for train, rows in zip(self.train, self.valid, strict=True):
            predicted[rows] = True
            held_out[rows] = ~train[rows]
        return held_out if bool(held_out.any()) else predicted

    def of_classes(self, classes: Tensor) -> CrossValSample:
        """Return the training points of some classes with new class indices; the validation rows stay the same."""
        mask = torch.isin(self.classes, classes)
        index = torch.searchsorted(classes, self.classes[mask])
        return CrossValSample(self.X[mask], index, self.weight[mask], self.train[:, mask], self.valid)

    def split_folds(self, values: int) -> Iterator[CrossValSample]:
        """Yield the folds in groups that fit in memory if each needs this number of values."""
        for part in chunks(len(self.valid), max(1, MAX_CHUNK_VALUES // values)):
            yield self._replace(train=self.train[part], valid=self.valid[part])

    def empty_log_prob(self, count: int) -> Tensor:
        """Return an array for the log-densities of candidates, (count, n, k), filled with NaN."""
        return self.X.new_full((count, len(self.X), self.k), torch.nan)


@runtime_checkable
class BatchedCrossValidation(Protocol):
    """A density that is cross-validated together with others of its family, which share computations."""

    @property
    def cv_family(self) -> Hashable | None:
        """Densities of equal families are cross-validated together; None is cross-validated alone."""

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[Any]) -> Tensor:
        """Return log p_c of densities of the family, (M, n, k), each row by models that were fitted without it.

        Rows that are in no validation part are NaN.
        """


def held_out_log_prob(
    candidates: Sequence[ClassDensity], transform: PowerTransform | None, sample: CrossValSample
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of candidates and their log p_c (m, n, k), each row by models that were fitted without it.

    Candidates of one family come together. Past the time limit of the fit the remaining ones do not come. Candidates
    that share `transform` are fitted to its output. Rows that are in no validation part are NaN.
    """
    batches: dict[Hashable, list[tuple[int, ClassDensity]]] = defaultdict(list)
    for index, candidate in enumerate(candidates):
        density, transformed = split_transform(candidate, transform)
        family = density.cv_family if isinstance(density, BatchedCrossValidation) else None
        batches[transformed, index if family is None else family].append((index, density))
    space = None if transform is None else transform(sample.X)
    progress = current_fit()
    for done, ((transformed, _), batch) in enumerate(batches.items(), start=1):  # type: ignore[misc]
        densities = [density for _, density in batch]
        if space is None or not transformed:
            log_prob = _held_out_of_batch(sample, densities)
        else:
            log_prob = _held_out_of_batch(sample._replace(X=space[0]), densities)
            log_prob += space[1][:, None]
        yield [index for index, _ in batch], log_prob
        progress.update(done, len(batches))
        if progress.time_left <= 0.0:
            break


def _held_out_of_batch(sample: CrossValSample, densities: Sequence[ClassDensity]) -> Tensor:
    density = densities[0]
    if isinstance(density, BatchedCrossValidation) and density.cv_family is not None:
        return density.held_out_log_prob(sample, densities)
    log_prob = sample.empty_log_prob(1)
    for train, rows in zip(sample.train, sample.valid, strict=True):
        fitted = clone(density).fit(sample.X[train], sample.classes[train].numpy(), sample.weight[train])
        log_prob[0, rows] = fitted.log_prob(sample.X[rows])
    return log_prob


def stratified_order(classes: NDArray[np.intp], seed: Any = 0) -> NDArray[np.intp]:
    """Return an order of the rows (n,) whose first m rows, for any m, are a stratified sample.

    A class whose proportional number of rows is below `MIN_CLASS_ROWS` has that many, if it has them.

    >>> y = np.repeat([0, 1, 2], [900, 300, 30])
    >>> np.bincount(y[stratified_order(y)[:400]]).tolist()
    [285, 95, 20]
    """
    shuffled = as_rng(seed).permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.bincount(classes)
    rank = np.arange(len(classes)) - np.repeat(np.cumsum(counts) - counts, counts)
    size = np.repeat(counts, counts)
    quantile = np.where(rank < np.minimum(size, MIN_CLASS_ROWS), 0.0, rank / size)
    return order[np.lexsort((rank, quantile))]
