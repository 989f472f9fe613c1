"""Settings of images (arXiv Tables 13 and 14): one network per trial, also measured under AutoAttack."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel.attacks import robust_accuracy
from genlabel.attacks.external import import_attack_package
from genlabel.data.datasets import ImageDataset, load_images
from genlabel.densities.online import CollapseWarning
from genlabel.evaluation.images import TrainedImages, train_images
from genlabel.training import SGD
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.schedules import (
    IMAGE_DATASETS,
    SCHEDULES,
    PaperImageMethod,
    Schedule,
    image_methods,
    image_run,
)
from genlabel_paper.runs.setting import Result, Setting, Variant

COMMON_TRAINING: dict[str, Any] = {"optimizer": SGD(), "weight_decay": 1e-4, "batch_size": 128, "precision": "auto"}
"""arXiv Tables 13 and 14: SGD, momentum 0.9, multi-step decay, weight decay 1e-4, batches of 128.

NOTE[PAPER]: the milestones of the decay are not printed; the rate is divided by 10 after 1/2 and 3/4 of the epochs.
"""
ATTACK = "autoattack"
"""Standard version of AutoAttack (arXiv Table 7)."""
SNAPSHOT_EVERY = 5
"""Epochs between the networks of which the best under attack is selected (arXiv Section E.2)."""
CHECKPOINTS = 10
"""Number of times that a training saves its state."""
HELD_OUT_OF_SUBSET = 0.1
"""Fraction of the training images that select the best epoch, if a schedule uses a subset."""
RECORDED_PARAMETERS = ("network", "epochs", "learning_rate", "gamma", "beta", "statistics", "held_out")
SUBSET_SEED = 0
"""Seed of the subset of images of a schedule, and of the attack."""
COST_PER_IMAGE = {"lenet5": 1e4, "resnet18": 5e5, "preact-resnet18": 5e5}
"""Approximate cost of one image in one epoch, see `Setting.cost`."""


def describe_schedule(schedule: Schedule) -> str:
    """Return a sentence on how the networks of a schedule are trained.

    >>> describe_schedule(Schedule("robust", 50)).split("; ")[1]
    "SGD, momentum 0.9, 50 epochs (the paper's schedule), a tenth of the rate after 1/2 and 3/4 of them"
    """
    source = "arXiv Table 13" if schedule.kind == "clean" else "arXiv Table 14"
    paper = " (the paper's schedule)" if schedule.paper else ", fewer than in the paper"
    part = f", on {schedule.images:,} training images at most" if schedule.images else ""
    attack = f"; AutoAttack on {schedule.attacked:,} test images at most" if schedule.kind == "robust" else ""
    return (
        f"LeNet-5, ResNet-18 or PreAct ResNet-18; SGD, momentum 0.9, {schedule.epochs} epochs{paper}{part}, a tenth of "
        f"the rate after 1/2 and 3/4 of them; learning rate, gamma and beta of {source}; one lam a batch, "
        f"but for the library's default{attack}"
    )


@final
@dataclass(frozen=True)
class ImageSetting(Setting):
    """Setting of the networks of one schedule."""

    schedule: Schedule

    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods of an image dataset, none for an unknown one."""
        return {method.variant for method in image_methods(dataset).values()} if dataset in IMAGE_DATASETS else set()

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return the training, the subsets of images, and the attack."""
        subsets = {"images": self.schedule.images, "tests": self.schedule.tests, "draw": SUBSET_SEED}
        training = self._training(dataset, image_methods(dataset)[variant[0]])
        return {"training": training, "parts": subsets, "attack": self._attack(dataset)}

    def cost(self, dataset: str) -> float:
        """Return the time by the images of all epochs and the network."""
        images = min(IMAGE_DATASETS[dataset].images, self.schedule.images or IMAGE_DATASETS[dataset].images)
        return images * self.schedule.epochs * COST_PER_IMAGE[image_run(self.schedule.kind, dataset).network]

    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Train the network of the one cell of a trial; an interrupted training continues from its checkpoint."""
        (cell,) = cells
        images = _take_subset(_load(cell.dataset, data_home), self.schedule)
        training = self._training(cell.dataset, image_methods(cell.dataset)[cell.method])
        attack = self._attack(cell.dataset)
        if attack is not None:
            import_attack_package("pyautoattack")  # raises before the training if the package of the attack is missing
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with _checkpoint(checkpoints, cell) as checkpoint:
                trained = train_images(
                    images,
                    seed=cell.seed,
                    checkpoint=checkpoint,
                    checkpoint_every=max(1, self.schedule.epochs // CHECKPOINTS),
                    snapshot_every=None if attack is None else SNAPSHOT_EVERY,
                    **training,
                )
                metrics, parameters = _measure(trained), _recorded_parameters(trained, images, training, attack)
                if attack is not None:
                    size = {"count": attack["images"], "radius": attack["radius"]}
                    metrics["robust_accuracy"] = _robust_accuracy(trained, images, **size)
                    if trained.snapshots:
                        parameters["best_robust_epoch"] = _load_best_under_attack(trained, images, **size)
                        metrics["best_robust_accuracy"] = _robust_accuracy(trained, images, **size)
        if any(issubclass(one.category, CollapseWarning) for one in caught):
            parameters["collapsed"] = True
        return [Result(cell, parameters, metrics)]

    def _training(self, dataset: str, method: PaperImageMethod) -> dict[str, Any]:
        """Return the arguments of `train_images` except the seed."""
        run, about = image_run(self.schedule.kind, dataset), IMAGE_DATASETS[dataset]
        training = COMMON_TRAINING | {
            "method": method.trained_as,
            "network": run.network,
            "learning_rate": run.learning_rate,
        }
        training |= {"epochs": self.schedule.epochs, "augment": about.augmented, "held_out": about.held_out}
        if self.schedule.images is not None:
            training["held_out"] = HELD_OUT_OF_SUBSET
        if method.alpha is not None:
            training |= {"alpha": method.alpha, "lam_per": method.lam_per}
        if method.statistics is not None:
            gamma, beta = run.ratios(method)
            training |= {"gamma": method.gamma or gamma, "beta": beta, "statistics": method.statistics}
        return training

    def _attack(self, dataset: str) -> dict[str, Any] | None:
        """Return the attack, its radius and the number of images, or None for a clean schedule."""
        if self.schedule.kind == "clean":
            return None
        radius = image_run("robust", dataset).radius
        return {"attack": ATTACK, "radius": radius, "images": self.schedule.attacked, "draw": SUBSET_SEED}


@lru_cache(maxsize=4)
def _load(dataset: str, data_home: str | Path | None) -> ImageDataset:
    return load_images(dataset, data_home)


def _take_subset(images: ImageDataset, schedule: Schedule) -> ImageDataset:
    """Return the images of a schedule: all, or a fixed random subset."""
    train, test = _subset(len(images.x_train), schedule.images), _subset(len(images.x_test), schedule.tests)
    return images._replace(
        x_train=images.x_train[train],
        y_train=images.y_train[train],
        x_test=images.x_test[test],
        y_test=images.y_test[test],
    )


def _subset(n: int, size: int | None) -> NDArray[np.int64]:
    """Return the sorted indices of a fixed random subset."""
    if size is None or n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(SUBSET_SEED).permutation(n)[:size])


def _measure(trained: TrainedImages) -> dict[str, float]:
    """Return accuracy and log-loss of the last epoch, and the accuracy of the epoch that is best on held-out images."""
    metrics = {"accuracy": trained.test.accuracy, "log_loss": trained.test.log_loss}
    if trained.best_test is not None:
        metrics["best_accuracy"] = trained.best_test.accuracy
    return metrics


def _robust_accuracy(trained: TrainedImages, images: ImageDataset, count: int, radius: float) -> float:
    """Return the accuracy of the last epoch under attack."""
    chosen = _subset(len(images.x_test), count)
    x, y = images.x_test[chosen], images.y_test[chosen]
    return robust_accuracy(trained.network, x, y, ATTACK, eps=radius, seed=SUBSET_SEED).accuracy


def _load_best_under_attack(trained: TrainedImages, images: ImageDataset, count: int, radius: float) -> int:
    """Load the snapshot of the highest accuracy under attack on held-out images, the last of equals; return its epoch.

    NOTE[PAPER]: arXiv Section E.2 keeps the best of every fifth epoch on validation images, without their number.
    """
    chosen = np.random.default_rng(SUBSET_SEED).permutation(trained.held_out)[: count // 5]
    x, y = images.x_train[chosen], images.y_train[chosen]
    scores = {}
    for epoch, state in trained.snapshots.items():
        trained.network.load_state_dict(state)
        scores[epoch] = robust_accuracy(trained.network, x, y, ATTACK, eps=radius, seed=SUBSET_SEED).accuracy
    best = max(scores, key=lambda epoch: (scores[epoch], epoch))
    trained.network.load_state_dict(trained.snapshots[best])
    return best


@contextmanager
def _checkpoint(folder: Path | None, cell: Cell) -> Iterator[Path | None]:
    """Return the file of the state of a training, and delete it when the training and its measurements succeed."""
    if folder is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{cell.id.replace('/', '_')}.pt"
    yield path
    for file in (path, Path(f"{path}.history")):
        file.unlink(missing_ok=True)


def _recorded_parameters(
    trained: TrainedImages, images: ImageDataset, training: dict[str, Any], attack: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the parameters of a record."""
    parameters: dict[str, Any] = {name: training[name] for name in RECORDED_PARAMETERS if name in training}
    speed = np.median([epoch["images_per_second"] for epoch in trained.history])
    parameters |= {"train_rows": len(images.x_train), "best_epoch": trained.best_epoch}
    parameters |= {"images_per_second": round(speed)}
    if attack is not None:
        parameters |= {"attacked": min(attack["images"], len(images.x_test)), "radius": round(attack["radius"], 6)}
    return parameters | {"device": next(trained.network.parameters()).device.type}


SETTINGS = {name: ImageSetting(describe_schedule(schedule), schedule) for name, schedule in SCHEDULES.items()}
