"""Training data of a fit and its cross-validation folds, standardized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel._arrays import Standardization
from genlabel._progress import FitProgress
from genlabel.data.folds import Fold, check_folds, folds_by_size, make_folds
from genlabel.densities.samples import stratified_order
from genlabel.training.networks import MLP

MIN_LOG_PROBA = -14.0
"""Log-probabilities are clipped here before they are pooled, so that one confident mistake does not set the weights."""
VALUES_PER_SECOND = 100_000
"""Rows times (features + classes) of a fit for each second of its time limit; half of the limit is left for epochs."""
MIN_ROWS = 500
"""Rows that a time limit never cuts."""


@dataclass(frozen=True)
class LabeledData:
    """A checked training set."""

    X: NDArray[np.float64]  # (n, d)
    y: NDArray[np.int64]  # class indices (n,)
    classes: NDArray[Any]  # the labels of the user, sorted, (k,)
    weight: NDArray[np.float64] | None  # sample weights (n,), all positive; None if all are 1
    rows: NDArray[np.int64]  # the row of the user's table that each sample was; rows of weight zero are dropped
    n_rows: int  # number of rows of the user's table
    class_weight: NDArray[np.float64] | None  # class weights (k,), of mean 1 over the samples; None if none were given
    groups: NDArray[np.intp] | None = None
    """The number of each row's group, (n,); None if each row is a group of its own."""

    def take(self, rows: NDArray[Any]) -> LabeledData:
        """Return the data of the given rows."""
        weight = None if self.weight is None else self.weight[rows]
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight, rows=self.rows[rows], groups=groups)

    @property
    def labels(self) -> NDArray[Any]:
        """The class of each row, as the user wrote it."""
        return self.classes[self.y]

    @property
    def score_weight(self) -> NDArray[np.float64] | None:
        """The weight of each row in a score: its sample weight times its class weight."""
        if self.class_weight is None:
            return self.weight
        weight = self.class_weight[self.y]
        return weight if self.weight is None else weight * self.weight

    def fit_scaler(self, standardize: bool, whole: Standardization | None = None) -> Standardization:
        """Return the standardization of the features, or the identity; that of a fold depends on the `whole` data."""
        if not standardize:
            return Standardization.identity(self.X)
        return Standardization.fit(self.X, self.score_weight, whole=whole)

    def scaled(self, scaler: Standardization) -> LabeledData:
        """Return the data with standardized features."""
        return replace(self, X=scaler(self.X))


@final
class CVData:
    """Training data, not standardized (`raw`), with folds, each standardized by its training rows.

    Folds are made when they are first needed. With `keep_rare`, a class of few rows is held out in as few folds; else
    it makes all folds fewer, as in scikit-learn.
    """

    def __init__(self, raw: LabeledData, *, cv: Any, standardize: bool, seed: int, keep_rare: bool) -> None:
        self.raw, self.cv, self.standardize, self.seed, self.keep_rare = raw, cv, standardize, seed, keep_rare
        self.scaler = raw.fit_scaler(standardize)

    @cached_property
    def whole(self) -> LabeledData:
        """All rows, standardized."""
        return self.raw.scaled(self.scaler)

    @cached_property
    def folds(self) -> list[Fold]:
        """Indices of the rows to train on and to hold out."""
        raw, cv, used = self.raw, self.cv, None
        if isinstance(cv, str) and cv == "auto":
            cv, used = folds_by_size(len(raw.X))
        folds = make_folds(
            cv,
            raw.y,
            self.seed,
            "rare" if self.keep_rare else "stratified",
            classes=raw.classes,
            X=raw.X,
            rows=raw.rows,
            n_rows=raw.n_rows,
            groups=raw.groups,
        )[:used]
        check_folds(folds, self.cv, raw.y, raw.classes, raw.score_weight)
        return folds

    @cached_property
    def scalers(self) -> list[Standardization]:
        """The standardization of each fold."""
        return [self.raw.take(fold.train).fit_scaler(self.standardize, self.scaler) for fold in self.folds]

    @cached_property
    def train(self) -> list[LabeledData]:
        """The training rows of each fold, standardized."""
        return [self.raw.take(f.train).scaled(scaler) for f, scaler in zip(self.folds, self.scalers, strict=True)]

    @cached_property
    def valid(self) -> list[LabeledData]:
        """The held-out rows of each fold, standardized."""
        return [self.raw.take(f.valid).scaled(scaler) for f, scaler in zip(self.folds, self.scalers, strict=True)]

    @cached_property
    def held_out(self) -> LabeledData:
        """The held-out rows of all folds, fold after fold, not standardized."""
        return self.raw.take(np.concatenate([fold.valid for fold in self.folds]))

    @property
    def held_out_fold(self) -> NDArray[np.intp]:
        """The fold of each held-out row, (n,)."""
        return np.repeat(np.arange(len(self.folds)), [len(fold.valid) for fold in self.folds])

    @cached_property
    def log_prior(self) -> NDArray[np.float64]:
        """Logarithms of the class priors, (k,), with the weights of the rows in a score."""
        mass = np.bincount(self.raw.y, weights=self.raw.score_weight, minlength=len(self.raw.classes))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass / mass.sum()), MIN_LOG_PROBA)

    def to_whole(self, network: MLP, fold: int) -> MLP:
        """Return the network of a fold as one that takes features standardized by `scaler`, that of all rows."""
        fold_scaler, mask = self.scalers[fold], self.scaler.mask
        scale = self.scaler.scale / fold_scaler.scale
        shift = (self.scaler.mean - fold_scaler.mean) / fold_scaler.scale
        return network.with_input_affine(scale[mask], shift[mask])


def subsample_for_time_limit(data: LabeledData, progress: FitProgress) -> LabeledData:
    """Return the data, or as many rows as the time limit allows for: a stratified sample."""
    if not progress.has_time_limit:
        return data
    n, values_per_row = len(data.X), data.X.shape[1] + len(data.classes)
    count = max(MIN_ROWS, int(VALUES_PER_SECOND * progress.time_left / values_per_row))
    if n <= count:
        return data
    sample = data.take(np.sort(stratified_order(data.y)[:count]))
    if not sample.fit_scaler(True).mask.any():  # all features are constant in the sample
        return data
    progress.truncations.append(f"it is fitted to {count:,} of {n:,} rows")
    return sample
