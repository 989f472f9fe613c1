"""Training on images by name of the method: a set of images in, a trained network and its scores out (arXiv Alg. 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from genlabel.datasets.images import ImageSet
from genlabel.networks import StagedNetwork
from genlabel.training import Optimizer

__all__ = ["METHODS", "ImageScores", "TrainedImages", "train_images"]

METHODS = (
    "vanilla", "mixup", "genlabel", "manifold", "manifold-genlabel", "cutmix", "cutmix-genlabel", "adamixup",
)  # fmt: skip


class ImageScores(NamedTuple):
    """What is measured of a network on the test part."""

    accuracy: float
    """Share, 0 to 1."""
    log_loss: float
    """Nats."""


@final
@dataclass(frozen=True)
class TrainedImages:
    """A network that was trained on images, and how that went."""

    network: StagedNetwork
    """After the last epoch, in evaluation mode, on the device it was trained on."""
    history: list[dict[str, float]]
    """For each epoch: epoch (from 1), loss, held_out_accuracy and held_out_log_loss (NaN without held-out rows),
    images_per_second."""
    test: ImageScores
    """Of the last epoch."""
    best_epoch: int | None
    """The one with the highest held-out accuracy, of those the least held-out log-loss; None without held-out rows."""
    best_state: dict[str, Tensor] | None
    """The state dict of the best epoch, on the CPU."""
    best_test: ImageScores | None
    """Of the best epoch."""
    seconds: float


def train_images(
    images: ImageSet,
    *,
    method: str = "genlabel",
    network: str = "auto",
    epochs: int = 30,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    alpha: float | None = None,
    per: str = "sample",
    gamma: float = 0.1,
    beta: float = 0.95,
    statistics: str = "near",
    augment: bool | None = None,
    optimizer: str | Optimizer = "sgd",
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    held_out: float | int = 0.1,
    after_epoch: Callable[[dict[str, float]], None] | None = None,
    checkpoint: str | Path | None = None,
) -> TrainedImages:
    """Train a network on images with a method of the paper, and score it on the test part.

    Parameters
    ----------
    images : ImageSet
    method : one of METHODS
    network : "auto", "lenet5", "resnet18" or "preact-resnet18"
        "auto" is LeNet-5 for small images of one channel, and ResNet-18 for others.
    epochs, learning_rate, weight_decay, batch_size
    alpha : float, optional
        Of the Beta distribution of lam; 1 for mixup and CutMix and 2 for manifold mixup if not given.
    per : "sample" or "batch"
        Whether each image has a lam of its own.
    gamma, beta, statistics
        Of the GenLabel methods: share of the generated label, memory, rows that the moments are taken from.
    augment : bool, optional
        Random crops and flips; for images of three channels if not given.
    optimizer : "sgd", "adam" or Optimizer
    seed : int
        Of weights, order, mixing and the held-out part.
    device : str
        "auto" is a GPU if there is one.
    precision : "auto", "float32" or "bf16"
    held_out : float or int
        Share or number of the training images that choose the best epoch; 0 is none.
    after_epoch : callable, optional
        Given each epoch's entry of the history as it ends.
    checkpoint : path, optional
        Where the state is kept after each epoch; training goes on from a state that lies there.
    """
    raise NotImplementedError


_ = Any
