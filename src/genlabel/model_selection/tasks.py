"""Training tasks of the folds and of all rows, and the trainers of their candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from genlabel._progress import FitProgress
from genlabel.labeling import Labeler
from genlabel.model_selection.options import TrainerConfig
from genlabel.model_selection.search_space import SearchSpace, Trainer
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch

NETWORK_STREAM, FEATURE_STREAM = 0, 1
"""Random streams of the networks that predict, and of those in whose features densities live."""
FitLabelers = Callable[[LabeledData, int | None], tuple[Labeler, ...]]
"""Fits the labelers of a search to the training rows of a fold; None is all rows."""


def fold_tasks(space: SearchSpace, data: CVData, fit_labelers: FitLabelers, stream: int) -> list[list[TrainingTask]]:
    """Return the training tasks of all folds, for each mixing configuration."""
    tasks = [make_task(space, data, fit_labelers, fold, stream) for fold in range(len(data.folds))]
    return [[mixing.apply(task) for task in tasks] for mixing in space.mixing]


def make_task(
    space: SearchSpace, data: CVData, fit_labelers: FitLabelers, fold: int | None, stream: int
) -> TrainingTask:
    """Return the training task of a fold, without mixing; None is all rows.

    Its seed is made of the seed of the fit, the random stream and the fold (from 1; 0 is all rows).
    """
    rows = data.whole if fold is None else data.train[fold]
    return TrainingTask(
        X=rows.X,
        y=rows.y,
        num_classes=len(rows.classes),
        labelers=fit_labelers(rows, fold),
        weight=rows.weight,
        class_weight=rows.class_weight,
        exclude_intrusion=space.exclude_intrusion,
        seed=[data.seed, stream, 0 if fold is None else fold + 1],
    )


def make_trainer(
    space: SearchSpace,
    config: TrainerConfig,
    tasks: Sequence[TrainingTask],
    mixing: int,
    epochs: int,
    candidates: Sequence[Hyperparameters],
    *,
    epochs_per_pass: int = 1,
    restore_best: bool | BestEpoch = False,
    progress: FitProgress | None = None,
) -> Trainer:
    """Return the training of candidates on tasks, before its first epoch."""
    hidden = space.mixing[mixing].hidden
    options: dict[str, Any] = {"averaged": True, "epochs_per_pass": epochs_per_pass} if config.search.is_halving else {}
    if restore_best:
        options["restore_best"] = restore_best
    return space.trainer(
        tasks,
        candidates,
        hidden=config.hidden if hidden is None else hidden,
        optimizer=config.optimizer,
        epochs=epochs,
        batch_size=config.batch_size,
        device=config.device,
        callback=progress,
        **options,
    )


def ensemble_tasks(task: TrainingTask, count: int) -> list[TrainingTask]:
    """Return the same task several times, each with random streams of its own."""
    return [task, *(replace(task, seed=[*task.seed, member]) for member in range(1, count))]
