"""Settings of images: one network a trial, trained as arXiv Tables 13 and 14 say, also measured under AutoAttack."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel.attacks import robust_accuracy
from genlabel.attacks.autoattack import find_package
from genlabel.data.datasets import ImageDataset, load_images
from genlabel.densities import CollapseWarning
from genlabel.evaluation.images import TrainedImages, train_images
from genlabel.training import SGD
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.schedules import STUDY_IMAGES, ImageMethod, Schedule, image_methods, image_run
from genlabel_paper.runs.setting import Result, Setting, Variant

COMMON: dict[str, Any] = {"optimizer": SGD(), "weight_decay": 1e-4, "batch_size": 128, "precision": "auto"}
"""arXiv Tables 13 and 14: SGD, momentum 0.9, multi-step decay, weight decay 1e-4, batches of 128.

NOTE[PAPER]: the steps of the decay are not printed: a tenth of the rate after 1/2 and 3/4 of the epochs.
"""
ATTACK = "autoattack"
"""The standard version (arXiv Table 7)."""
SHARE = 0.1
"""Of the training images that choose the best epoch, where few are taken."""
TOLD = ("network", "epochs", "learning_rate", "gamma", "beta", "statistics", "held_out")
"""Arguments of the training that are kept beside a record."""
DRAW = 0
"""Seed of the draw of images, where not all are taken, and of the attack."""
SECONDS = {"lenet5": 1e4, "resnet18": 5e5, "preact-resnet18": 5e5}
"""Of an epoch of one image, about, in the units of `Setting.cost`."""


def about_schedule(schedule: Schedule) -> str:
    """Say how the networks of a schedule are trained.

    >>> about_schedule(Schedule("robust", 50)).split("; ")[1]
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
    """The networks of one schedule."""

    schedule: Schedule

    def variants(self, dataset: str) -> Set[Variant]:
        """The methods of a set of images; none of another dataset."""
        return {method.variant for method in image_methods(dataset).values()} if dataset in STUDY_IMAGES else set()

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """How the network is trained, on which images, and how it is attacked."""
        parts = {"images": self.schedule.images, "tests": self.schedule.tests, "draw": DRAW}
        training = self._training(dataset, image_methods(dataset)[variant[0]])
        return {"training": training, "parts": parts, "attack": self._attack(dataset)}

    def cost(self, dataset: str) -> float:
        """By the images of all epochs, and the network."""
        images = min(STUDY_IMAGES[dataset].images, self.schedule.images or STUDY_IMAGES[dataset].images)
        return images * self.schedule.epochs * SECONDS[image_run(self.schedule.kind, dataset).network]

    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Train the network of the one cell of a trial."""
        (cell,) = cells
        images = _take(_load(cell.dataset, data_home), self.schedule)
        training = self._training(cell.dataset, image_methods(cell.dataset)[cell.method])
        attacked = self._attack(cell.dataset)
        if attacked is not None:
            find_package()  # where it is missing, the attack after the training could not run
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trained = train_images(images, seed=cell.seed, **training)
        metrics = _measure(trained)
        if attacked is not None:
            metrics["robust_accuracy"] = _attack(trained, images, attacked["images"], attacked["radius"])
        told = _tell(trained, images, training, attacked)
        if any(issubclass(one.category, CollapseWarning) for one in said):
            told["collapsed"] = True
        return [Result(cell, told, metrics)]

    def _training(self, dataset: str, method: ImageMethod) -> dict[str, Any]:
        """The arguments of `train_images`, but for the seed."""
        run, about = image_run(self.schedule.kind, dataset), STUDY_IMAGES[dataset]
        found = COMMON | {"method": method.trained_as, "network": run.network, "learning_rate": run.learning_rate}
        found |= {"epochs": self.schedule.epochs, "augment": about.augmented, "held_out": about.held_out}
        if self.schedule.images is not None:
            found["held_out"] = SHARE
        if method.alpha is not None:
            found |= {"alpha": method.alpha, "lam_per": method.lam_per}
        if method.statistics is not None:
            gamma, beta = run.ratios(method)
            found |= {"gamma": gamma, "beta": beta, "statistics": method.statistics}
        return found

    def _attack(self, dataset: str) -> dict[str, Any] | None:
        """The attack, its radius and the number of images, if there is one."""
        if self.schedule.kind == "clean":
            return None
        radius = image_run("robust", dataset).radius
        return {"attack": ATTACK, "radius": radius, "images": self.schedule.attacked, "draw": DRAW}


@lru_cache(maxsize=4)
def _load(dataset: str, data_home: str | Path | None) -> ImageDataset:
    return load_images(dataset, data_home)


def _take(images: ImageDataset, schedule: Schedule) -> ImageDataset:
    """The images of a schedule: all, or a fixed draw."""
    train, test = _draw(len(images.x_train), schedule.images), _draw(len(images.x_test), schedule.tests)
    return images._replace(
        x_train=images.x_train[train],
        y_train=images.y_train[train],
        x_test=images.x_test[test],
        y_test=images.y_test[test],
    )


def _draw(n: int, most: int | None) -> NDArray[np.int64]:
    """The places of a fixed draw, in their order."""
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(DRAW).permutation(n)[:most])


def _measure(trained: TrainedImages) -> dict[str, float]:
    """Accuracy in percent and log-loss of the last epoch, and the accuracy of the best one on held-out images."""
    found = {"accuracy": 100.0 * trained.test.accuracy, "log_loss": trained.test.log_loss}
    if trained.best_test is not None:
        found["best_accuracy"] = 100.0 * trained.best_test.accuracy
    return found


def _attack(trained: TrainedImages, images: ImageDataset, most: int, radius: float) -> float:
    """The accuracy of the last epoch under attack, in percent."""
    chosen = _draw(len(images.x_test), most)
    x, y = images.x_test[chosen], images.y_test[chosen]
    return robust_accuracy(trained.network, x, y, ATTACK, radius=radius, rng=DRAW).accuracy


def _tell(
    trained: TrainedImages, images: ImageDataset, training: dict[str, Any], attacked: dict[str, Any] | None
) -> dict[str, Any]:
    """What is kept beside the metrics."""
    told: dict[str, Any] = {name: training[name] for name in TOLD if name in training}
    speed = np.median([epoch["images_per_second"] for epoch in trained.history])
    told |= {"train_rows": len(images.x_train), "best_epoch": trained.best_epoch, "images_per_second": round(speed)}
    if attacked is not None:
        told |= {"attacked": min(attacked["images"], len(images.x_test)), "radius": round(attacked["radius"], 6)}
    return told | {"device": next(trained.network.parameters()).device.type}
