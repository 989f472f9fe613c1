"""A sample that is dealt into folds: what its rows, the settings and a seed fix before anything is trained."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from genlabel._splits import Fold, check_folds, folds_by_size, make_folds, stratified_folds, stratified_folds_rare
from genlabel._standardization import Standardization
from genlabel.estimators.validation import LabeledData
from genlabel.model_selection.pooling import POOLED_FLOOR
from genlabel.model_selection.selection import ValidationPredictions
from genlabel.training.networks import MLP


class FoldData(NamedTuple):
    """A training set and the points held out from it, both standardised by the training set."""

    train: LabeledData
    valid: LabeledData
    scaler: Standardization


@final
class CVData:
    """A sample, its folds and their scalers.

    Parameters
    ----------
    sample : Sample
    cv : "auto", int, splitter or pairs of rows
    standardize : bool
    seed : int
        Of the folds.
    rare : bool
        Whether a class of few rows is in as few folds; else it makes all of them fewer, as scikit-learn deals.
    """

    def __init__(self, sample: LabeledData, *, cv: Any, standardize: bool, seed: int, rare: bool) -> None:
        self.sample, self.cv, self.standardize, self.seed, self.rare = sample, cv, standardize, seed, rare
        self.scaler = sample.standardisation(standardize)

    @cached_property
    def whole(self) -> LabeledData:
        """The whole sample, standardised."""
        return self.sample.scaled(self.scaler)

    @cached_property
    def folds(self) -> list[Fold]:
        """Rows of the sample to train on and to hold out; drawn when they are first needed."""
        sample = self.sample
        by_size = isinstance(self.cv, str) and self.cv == "auto"
        count, used = folds_by_size(len(sample.X)) if by_size else (self.cv, None)
        folds = make_folds(
            count,
            sample.y,
            self.seed,
            stratified_folds_rare if self.rare else stratified_folds,
            fewer=not self.rare,
            classes=sample.classes,
            X=sample.X,
            rows=sample.rows,
            n_rows=sample.n_rows,
            groups=sample.groups,
        )[:used]
        check_folds(folds, self.cv, sample.y, sample.classes, sample.score_weight)
        return folds

    @cached_property
    def parts(self) -> list[FoldData]:
        """The samples of the folds."""
        return [self._part(fold) for fold in self.folds]

    def _part(self, fold: Fold) -> FoldData:
        inside = self.sample.take(fold.train)
        scaler = inside.standardisation(self.standardize, self.scaler)
        return FoldData(inside.scaled(scaler), self.sample.take(fold.valid).scaled(scaler), scaler)

    @cached_property
    def log_prior(self) -> NDArray[np.float64]:
        """Log-frequencies of the classes, (k,), each row counting as it does when a model is judged."""
        mass = np.bincount(self.sample.y, weights=self.sample.score_weight, minlength=len(self.sample.classes))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(mass / mass.sum()), POOLED_FLOOR)

    def held_out_rows(self) -> ValidationPredictions:
        """The rows of all folds, fold after fold, without log-probabilities."""
        valid = [part.valid for part in self.parts]
        weighted = valid[0].score_weight is not None
        return ValidationPredictions(
            np.empty(0),
            np.concatenate([sample.y for sample in valid]),
            np.concatenate([cast(NDArray[Any], sample.score_weight) for sample in valid]) if weighted else None,
            np.repeat(np.arange(len(valid)), [len(sample.y) for sample in valid]),
        )

    def unscaled(self, network: MLP, fold: int) -> MLP:
        """A network of points that a fold has standardised, as one of points that the whole sample has."""
        own, whole, keep = self.parts[fold].scaler, self.scaler, self.scaler.keep
        scale, shift = whole.scale / own.scale, (whole.mean - own.mean) / own.scale
        return network.behind(scale[keep], shift[keep])
