"""Setting of figure 16: GenMix on the features of an adversarially trained LeNet-5, inverted to images."""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final
from zlib import compress, decompress

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.attacks import PGD, robust_accuracy, train_robust
from genlabel.data.datasets import ImageDataset, load_images
from genlabel.densities import GaussianDensity
from genlabel.mixing import GenMix, HiddenGenMix
from genlabel.training import SGD, ImageBatches, train_network
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import LeNet5
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.setting import Result, Setting, Variant


class HiddenDataset(NamedTuple):
    """Training of the networks on an image dataset."""

    title: str
    images: int
    """Largest number of training images."""
    epochs: int
    radius: float
    """Radius of the attack in training, in the L2 norm, for pixels in [0, 1]."""


HIDDEN_DATASETS = {
    "digits": HiddenDataset("digits, 8 by 8", 1_438, 30, 0.5),
    "mnist": HiddenDataset("MNIST", 6_000, 8, 1.5),
    "cifar10": HiddenDataset("CIFAR-10", 10_000, 15, 0.5),
}
"""Datasets by name. NOTE[PAPER]: the paper has CIFAR-10 and a published network; LeNet-5 trains in minutes on a CPU."""
LEARNING_RATE, BATCH_SIZE = 0.05, 64
ATTACK_STEPS = 5
POINTS_PER_PAIR = 3
MAX_RECORDED_IMAGES = 12
"""Largest number of images in a record, each of another pair of classes."""
ATTACKED_IMAGES = 300
INVERSION_STEPS = 300
"""Steps of Adam, from an image of one of the two classes."""
_ABOUT = (
    f"LeNet-5 trained on adversarial images (PGD, {ATTACK_STEPS} steps, L2), SGD, momentum 0.9, learning rate "
    f"{LEARNING_RATE}, batches of {BATCH_SIZE}; Gaussians of its 84 features, {POINTS_PER_PAIR} points at lam = 0.5 "
    f"between each two classes, inverted by {INVERSION_STEPS} steps of Adam from an image; a second LeNet-5, trained "
    f"without an attack, classifies them"
)


@final
@dataclass(frozen=True)
class HiddenSetting(Setting):
    """Setting of a robust network, a second network that classifies, and generated images between classes."""

    def variants(self, dataset: str) -> Set[Variant]:
        """Return GenMix in the hidden space."""
        return {("genmix-hidden", 1.0)} if dataset in HIDDEN_DATASETS else set()

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return all constants of this module."""
        training = {
            "rate": LEARNING_RATE,
            "batch": BATCH_SIZE,
            "steps": ATTACK_STEPS,
            "attacked": ATTACKED_IMAGES,
            "optimizer": SGD(),
        }
        points = {
            "each": POINTS_PER_PAIR,
            "shown": MAX_RECORDED_IMAGES,
            "inversion": INVERSION_STEPS,
            "density": GaussianDensity(),
        }
        return {"set": HIDDEN_DATASETS[dataset], "training": training, "points": points}

    def cost(self, dataset: str) -> float:
        """Return the time by the images of all epochs."""
        return 1e3 * HIDDEN_DATASETS[dataset].images * HIDDEN_DATASETS[dataset].epochs

    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Train the two networks of the one cell, find images between classes, and measure them."""
        (cell,) = cells
        about, images = HIDDEN_DATASETS[cell.dataset], _load_subset(cell, data_home)
        shape = images.x_train.shape[1:]
        robust, classifier = (_train(images, about, cell.seed, attacked) for attacked in (True, False))
        X = images.x_train.reshape(len(images.x_train), -1) / 255.0
        k = len(images.classes)
        genmix = GenMix(GaussianDensity(), n_aug=POINTS_PER_PAIR * k * (k - 1) // 2)
        hidden = HiddenGenMix(
            robust, None, genmix, shape=shape, bounds=(0.0, 1.0), steps=INVERSION_STEPS, random_state=cell.seed
        )
        points = hidden.fit_resample(X, images.y_train)[0][len(X) :].reshape(-1, *shape)
        metrics = _measure(robust, images, about) | _classify(classifier, points, hidden)
        return [Result(cell, _encode_examples(points, hidden, images, about), metrics)]


def decode_images(record: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the images (m, c, h, w) in the parameters of a record.

    >>> pixels = np.arange(16, dtype=np.uint8).reshape(2, 1, 2, 4)
    >>> parameters = {"images": _encode_images(pixels), "shape": [1, 2, 4]}
    >>> bool((decode_images(parameters) == pixels).all())
    True
    """
    flat = np.frombuffer(decompress(b85decode(record["images"])), dtype=np.uint8)
    return flat.reshape(-1, *record["shape"])


def _encode_images(images: NDArray[np.uint8]) -> str:
    return b85encode(compress(images.tobytes(), level=9)).decode()


def _load_subset(cell: Cell, data_home: str | Path | None) -> ImageDataset:
    """Return the images of a dataset, with a random subset of the training images."""
    images = load_images(cell.dataset, data_home)
    rng = np.random.default_rng(cell.split)
    chosen = np.sort(rng.permutation(len(images.x_train))[: HIDDEN_DATASETS[cell.dataset].images])
    return images._replace(x_train=images.x_train[chosen], y_train=images.y_train[chosen])


def _train(images: ImageDataset, about: HiddenDataset, seed: int, attacked: bool) -> LeNet5:
    """Return a LeNet-5 trained on the images, or on adversarial images."""
    _, channels, side, _ = images.x_train.shape
    weights, draws = np.random.default_rng([seed, attacked]).spawn(2)
    mean, std = images.x_train.mean() / 255.0, images.x_train.std() / 255.0
    network = LeNet5(len(images.classes), channels, side, float(mean), float(std), seed=weights)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = ImageBatches(images.x_train, images.y_train, batch_size=BATCH_SIZE, seed=[seed, attacked], device=device)
    settings: dict[str, Any] = {"learning_rate": LEARNING_RATE, "epochs": about.epochs, "optimizer": SGD()}
    if attacked:
        attack = PGD(about.radius, "l2", ATTACK_STEPS)
        train_robust(network.to(device), batches, attack, shape=(channels, side, side), seed=draws, **settings)
    else:
        train_network(network.to(device), batches, seed=draws, **settings)
    return network.eval()


def _measure(network: LeNet5, images: ImageDataset, about: HiddenDataset) -> dict[str, float]:
    """Return the accuracy of the robust network, and under the attack of its training."""
    predicted = predict_scores(network, images.x_test).argmax(1).numpy()
    attack = PGD(about.radius, "l2", ATTACK_STEPS)
    robust = robust_accuracy(network, images.x_test[:ATTACKED_IMAGES], images.y_test[:ATTACKED_IMAGES], attack)
    return {"accuracy": float((predicted == images.y_test).mean()), "robust_accuracy": robust.accuracy}


def _classify(classifier: LeNet5, points: NDArray[np.float64], hidden: HiddenGenMix) -> dict[str, float]:
    """Return the misfit of the features, and the share of images whose pair is classified as most likely."""
    order = predict_scores(classifier, points).argsort(1, descending=True).numpy()
    both = np.sort(order[:, :2], axis=1) == np.sort(hidden.pair_, axis=1)
    first = (order[:, :1] == hidden.pair_).any(axis=1)
    return {
        "misfit_median": float(np.median(hidden.misfit_)),
        "judged_pair": float(both.all(axis=1).mean()),
        "judged_one": float(first.mean()),
    }


def _encode_examples(
    points: NDArray[np.float64], hidden: HiddenGenMix, images: ImageDataset, about: HiddenDataset
) -> dict[str, Any]:
    """Return some encoded images of different pairs, each with the smallest misfit of its pair."""
    pair = np.sort(hidden.pair_, axis=1)
    pairs = np.unique(pair, axis=0)
    pairs = pairs[np.linspace(0, len(pairs) - 1, min(MAX_RECORDED_IMAGES, len(pairs))).round().astype(int)]
    members = [np.flatnonzero((pair == one).all(axis=1)) for one in pairs]
    best = [rows[hidden.misfit_[rows].argmin()] for rows in members]
    names = [" / ".join(str(images.classes[c]) for c in one) for one in pairs]
    pixels = np.rint(255.0 * points[best]).astype(np.uint8)
    training = {"train_rows": len(images.x_train), "epochs": about.epochs, "radius": about.radius}
    return training | {"images": _encode_images(pixels), "shape": list(pixels.shape[1:]), "pairs": names}


SETTINGS = {"genmix-hidden": HiddenSetting(_ABOUT)}
