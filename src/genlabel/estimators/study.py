"""A study: folds of one sample, the search for the best candidate over them, and the final fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from genlabel.checks import check_count, warn
from genlabel.densities.latent import Encoder
from genlabel.estimators.sample import Sample, Scaler
from genlabel.labeling import Labeler
from genlabel.metrics import accuracy, log_loss
from genlabel.mixing import Mixer
from genlabel.networks import MLP
from genlabel.progress import Listener
from genlabel.training import Candidate, Fleet, Optimizer, Task, train_fleet

__all__ = ["Choice", "Recipe", "Settings", "Study"]


NETWORK, TWIN = 0, 1
"""Stages of a study, each with random streams of its own."""


class Settings(NamedTuple):
    """How networks are built and trained, the same for every candidate."""

    hidden: tuple[int, ...]
    optimizer: Optimizer
    epochs: int
    batch_size: int
    device: torch.device


@dataclass(frozen=True)
class Recipe:
    """A method: how points are mixed and labelled, and the candidates to choose among."""

    mixer: Mixer | None
    labelers: Callable[[Encoder | None], Sequence[Labeler]]
    """The labelers, not yet fitted; those in latent space look through the given twin network."""
    params: list[dict[str, Any]]
    """What tells the candidates apart, in the words of the estimator's parameters."""
    candidates: list[Candidate]
    exclude_intrusion: bool = False


class Choice(NamedTuple):
    """The best candidate, and how all of them did on the folds."""

    best: int
    results: dict[str, Any]
    fleet: Fleet | None
    """The models of the folds; None if there was nothing to choose."""


class _Part(NamedTuple):
    """A training set and the points held out from it, both standardised by the training set."""

    train: Sample
    valid: Sample


class Study:
    """Everything that a sample and a seed fix: folds, scalers, random streams."""

    def __init__(
        self,
        sample: Sample,
        settings: Settings,
        *,
        cv: Any,
        standardize: bool,
        seed: int,
        progress: Listener | None = None,
    ) -> None:
        self.sample, self.settings, self.standardize = sample, settings, standardize
        self.cv, self.seed, self.progress = cv, seed, progress
        self.scaler = Scaler.fit(sample, standardize)

    @cached_property
    def folds(self) -> list[_Part]:
        """The folds, cut when they are first needed."""
        return [self._part(train, valid) for train, valid in split(self.sample, self.cv, self.seed)]

    def choose(self, recipe: Recipe, twins: Sequence[Encoder] | None = None, stage: int = NETWORK) -> Choice:
        """Train every candidate on every fold and choose by held-out accuracy, ties by log-loss."""
        if len(recipe.candidates) == 1:
            return Choice(0, {"params": recipe.params}, None)
        fleet = self._train(self._tasks(recipe, twins, stage), recipe.candidates)
        results = _results(recipe.params, fleet, self.folds)
        return Choice(int(results["rank_test_score"].argmin()), results, fleet)

    def train(self, recipe: Recipe, index: int, twin: Encoder | None = None, stage: int = NETWORK) -> Fleet:
        """Train one candidate on the whole sample."""
        task = _task(self.scaler.sample(self.sample), recipe, twin, [self.seed, stage, 0])
        return self._train([task], [recipe.candidates[index]])

    def twins(self, vanilla: Recipe, of_folds: bool) -> tuple[list[MLP], MLP]:
        """Networks trained without mixing, one for each fold if asked for, and one on the whole sample.

        arXiv Alg. 2, line 2; at the learning rate that suits vanilla training.
        """
        device = self.settings.device
        found = self.choose(vanilla, stage=TWIN)
        whole = self.train(vanilla, found.best, stage=TWIN).network().to(device)
        if not of_folds:
            return [], whole
        fleet = found.fleet or self._train(self._tasks(vanilla, None, stage=TWIN), vanilla.candidates)
        return [fleet.network(fold, found.best).to(device) for fold in range(len(self.folds))], whole

    def _tasks(self, recipe: Recipe, twins: Sequence[Encoder] | None, stage: int) -> list[Task]:
        encoders: Sequence[Encoder | None] = twins or [None] * len(self.folds)
        pairs = zip(self.folds, encoders, strict=True)
        return [_task(part.train, recipe, twin, [self.seed, stage, fold]) for fold, (part, twin) in enumerate(pairs, 1)]

    def _part(self, train: NDArray[Any], valid: NDArray[Any]) -> _Part:
        inside = self.sample.take(train)
        scaler = Scaler.fit(inside, self.standardize, self.scaler)
        return _Part(scaler.sample(inside), scaler.sample(self.sample.take(valid)))

    def _train(self, tasks: list[Task], candidates: list[Candidate]) -> Fleet:
        return train_fleet(tasks, candidates, progress=self.progress, **self.settings._asdict())


def split(sample: Sample, cv: Any, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows of the training and the held-out part of each fold; stratified, with fewer folds for a small class."""
    if isinstance(cv, Integral):
        folds = _possible_folds(sample, check_count("cv", cv, low=2))
        pairs = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(sample.X, sample.y))
    else:
        pairs = _given_folds(sample, cv)
    for train, valid in pairs:
        missing = np.setdiff1d(np.arange(len(sample.classes)), sample.y[train])
        if len(missing):
            name = sample.classes[missing].tolist()[0]
            raise ValueError(f"a fold of cv={cv!r} has no training point of class {name!r}; use stratified folds")
        weight = sample.take(valid).score_weight
        if len(valid) == 0 or (weight is not None and weight.sum() <= 0):
            raise ValueError(f"a fold of cv={cv!r} holds out no point of positive weight; use fewer folds")
    return pairs


def _given_folds(sample: Sample, cv: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ValueError(f"cv={cv!r} must be a number of folds, a splitter, or pairs of row indices")
    if hasattr(cv, "split"):
        try:
            return [(np.asarray(train), np.asarray(valid)) for train, valid in cv.split(sample.X, sample.labels)]
        except ValueError as error:
            raise ValueError(f"cv={cv!r} could not split the rows: {error}; or give pairs of row indices") from error
    return [(_places(sample, train), _places(sample, valid)) for train, valid in cv]


def _places(sample: Sample, rows: Any) -> NDArray[np.int64]:
    """Where rows of the user's table stand in the sample; those of weight zero are gone, and are left out."""
    rows = np.asarray(rows)
    if len(rows) and not (rows.min() >= 0 and rows.max() < sample.n_rows):
        raise ValueError(f"cv names row {rows.max()}, but X has rows 0 to {sample.n_rows - 1}")
    place = np.full(sample.n_rows, -1)
    place[sample.rows] = np.arange(len(sample.rows))
    found = place[rows]
    return found[found >= 0]


def _possible_folds(sample: Sample, cv: int) -> int:
    counts = np.bincount(sample.y)
    smallest = int(counts.min())
    if smallest < cv:
        name = sample.classes.tolist()[int(counts.argmin())]
        message = f"cv={cv} folds, but class {name!r} has only {smallest} samples; using {smallest} folds"
        warn("cv", message, UserWarning)
    return min(cv, smallest)


def _task(sample: Sample, recipe: Recipe, encoder: Encoder | None, seed: list[int]) -> Task:
    """The sample with the recipe's labelers fitted to it."""
    return Task(
        X=sample.X,
        y=sample.y,
        n_classes=len(sample.classes),
        labelers=tuple(
            clone(labeler).fit(sample.X, sample.labels, sample.weight) for labeler in recipe.labelers(encoder)
        ),
        mixer=recipe.mixer,
        weight=sample.weight,
        class_weight=sample.class_weight,
        exclude_intrusion=recipe.exclude_intrusion,
        seed=seed,
    )


def _results(params: list[dict[str, Any]], fleet: Fleet, folds: list[_Part]) -> dict[str, Any]:
    """Held-out accuracy and log-loss of every candidate, in the form of `GridSearchCV.cv_results_`."""
    scores = [fleet.log_proba(fold, part.valid.X) for fold, part in enumerate(folds)]
    pairs = [(s, part.valid.y, part.valid.score_weight) for s, part in zip(scores, folds, strict=True)]
    hits, losses = np.stack([accuracy(*p) for p in pairs]), np.stack([log_loss(*p) for p in pairs])
    order = np.lexsort((losses.mean(0), -hits.mean(0).round(12)))
    ranks = np.empty(len(params), dtype=np.int64)
    ranks[order] = np.arange(1, len(params) + 1)
    return {
        "params": params,
        **{f"param_{name}": np.array([p.get(name) for p in params], dtype=object) for name in params[0]},
        **{f"split{fold}_test_score": row for fold, row in enumerate(hits)},
        **{f"split{fold}_test_log_loss": row for fold, row in enumerate(losses)},
        "mean_test_score": hits.mean(0),
        "std_test_score": hits.std(0),
        "mean_test_log_loss": losses.mean(0),
        "std_test_log_loss": losses.std(0),
        "rank_test_score": ranks,
    }
