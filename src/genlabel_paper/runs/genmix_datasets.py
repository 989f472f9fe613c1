"""Datasets of the GenMix experiments (arXiv Table 15, Figures 13 to 15): numbers of points and noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from genlabel.data.datasets import ImageDataset, load_images
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel_paper.runs.data import TEST_SEED_OFFSET, SplitData


@final
@dataclass(frozen=True)
class PointDataset:
    """Synthetic dataset of points, whose splits are new draws."""

    title: str
    make: str
    """Key of `genlabel.data.datasets.SYNTHETIC`."""
    train: Mapping[str, float] = field(default_factory=dict)
    """Arguments of the training points other than the defaults."""
    test: Mapping[str, float] = field(default_factory=dict)
    """Arguments of the test points other than those of the training points."""
    limits: tuple[float, float] | None = None
    """Half the width and half the height of the plotted part of the plane; None for no figure."""
    learning_rate: float = 0.1
    """arXiv Table 10."""

    @property
    def image(self) -> None:
        """None: the rows are points, not images."""
        return

    @property
    def curves(self) -> str | None:
        """Name of the true curves of the classes, if they are curves."""
        return None if self.make == "four-gaussians" else self.make

    def load(self, split: int, data_home: str | Path | None = None) -> SplitData:
        """Draw the training and the test points of a split."""
        make = SYNTHETIC[self.make]
        test = {**self.train, **self.test}
        return SplitData(*make(random_state=split, **self.train), *make(random_state=TEST_SEED_OFFSET + split, **test))

    def describe(self) -> dict[str, Any]:
        """Return how the points are drawn, for fingerprints."""
        return {
            "make": self.make,
            "train": self.train,
            "test": self.test,
            "fresh": TEST_SEED_OFFSET,
            "rate": self.learning_rate,
        }


@final
@dataclass(frozen=True)
class ImagePair:
    """Two classes of an image dataset with random training images; rows are flat pixels in [0, 1]."""

    title: str
    source: str
    """Name for `genlabel.data.datasets.load_images`."""
    classes: tuple[int, int]
    per_class: int
    image: tuple[int, int, int]
    """Shape (c, h, w) of an image."""
    learning_rate: float = 0.02

    @property
    def limits(self) -> None:
        """None: there is no figure of the plane."""
        return

    @property
    def curves(self) -> None:
        """None: the true curves are unknown."""
        return

    def load(self, split: int, data_home: str | Path | None = None) -> SplitData:
        """Draw training images of both classes, and return them with all test images of these classes."""
        images, rng = _load(self.source, data_home), np.random.default_rng(split)
        rows = [rng.permutation(np.flatnonzero(images.y_train == c))[: self.per_class] for c in self.classes]
        train = rng.permutation(np.concatenate(rows))
        test = np.flatnonzero(np.isin(images.y_test, self.classes))
        second = self.classes[1]
        return SplitData(
            _flat(images.x_train[train]),
            (images.y_train[train] == second).astype(np.int64),
            _flat(images.x_test[test]),
            (images.y_test[test] == second).astype(np.int64),
        )

    def describe(self) -> dict[str, Any]:
        """Return which images are drawn, for fingerprints."""
        return {
            "source": self.source,
            "classes": self.classes,
            "per_class": self.per_class,
            "rate": self.learning_rate,
        }


GenMixDataset: TypeAlias = PointDataset | ImagePair

_TEST_POINTS = {"n_samples": 10_000}
GENMIX_DATASETS: dict[str, GenMixDataset] = {
    "circle-2d": PointDataset("Circle (2D)", "circle", {"n_samples": 100, "noise": 0.04}, _TEST_POINTS),
    "circle-3d": PointDataset("Circle (3D)", "circle-3d", {"n_samples": 200, "noise": 0.02}, _TEST_POINTS),
    "mnist-79": ImagePair("MNIST 7/9", "mnist", (7, 9), 500, (1, 28, 28)),
    "digits-79": ImagePair("digits 7/9, 8 by 8", "digits", (7, 9), 100, (1, 8, 8)),
    "v": PointDataset("V", "v", limits=(1.4, 1.4)),
    "ket": PointDataset("Ket", "ket", limits=(1.4, 1.4)),
    "y": PointDataset("Y", "y", limits=(1.6, 1.6)),
    "four-gaussians": PointDataset("2D Gaussian", "four-gaussians", limits=(5.5, 6.0), learning_rate=0.02),
    "circle": PointDataset("Circle", "circle", limits=(1.4, 1.4)),
    "moon": PointDataset("Moon", "moon", {"noise": 0.03}, limits=(2.4, 1.6)),
}
"""Datasets by name.

NOTE[PAPER]: size and noise of the circles of Table 15 are not printed, and the circle of Table 1 is too easy: vanilla
training has an error of 0.3 % there. With noise 0.04 no classifier has an error below 4.2 % on Circle 2D, with 0.02
below 0.2 % on Circle 3D (the paper prints 4.90 and 0.22 for GenMix+GAN); with 100 and 200 training points the error of
vanilla training is slightly higher (printed: 8.60 and 1.40). Moon has less noise than in Table 1, so that the curves
are visible; the others are our design, see `genlabel.data.datasets`. digits are not in the paper.
"""


@lru_cache(maxsize=2)
def _load(source: str, data_home: str | Path | None) -> ImageDataset:
    return load_images(source, data_home)


def _flat(images: Any) -> Any:
    return images.reshape(len(images), -1).astype(np.float64) / 255.0
