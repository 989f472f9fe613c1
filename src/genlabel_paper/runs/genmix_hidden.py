"""The setting of figure 16: GenMix on the features of a LeNet-5 that was trained under attack, inverted to images."""

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
from genlabel.training import SGD, ImageBatches, predict_scores, train_network
from genlabel.training.networks import LeNet5
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.setting import Result, Setting, Variant


class HiddenSet(NamedTuple):
    """How the networks of a set of images are trained."""

    title: str
    images: int
    """Training images, at most."""
    epochs: int
    radius: float
    """Of the attack in training, in the L2 norm, for pixels in [0, 1]."""


HIDDEN_SETS = {
    "digits": HiddenSet("digits, 8 by 8", 1_438, 30, 0.5),
    "mnist": HiddenSet("MNIST", 6_000, 8, 1.5),
    "cifar10": HiddenSet("CIFAR-10", 10_000, 15, 0.5),
}
"""The sets by name. NOTE[PAPER]: it shows CIFAR-10, by a network of others; a LeNet-5 trains in minutes on a CPU."""
RATE, BATCH = 0.05, 64
ATTACK_STEPS = 5
EACH = 3
"""Points between each two classes."""
SHOWN = 12
"""Images that are kept, each of another pair of classes."""
ATTACKED = 300
"""Test images under attack."""
INVERSION = 300
"""Steps of Adam, from an image of one of the two classes."""
ABOUT_HIDDEN = (
    f"LeNet-5 trained on images that PGD ({ATTACK_STEPS} steps, L2) has moved, SGD, momentum 0.9, learning rate "
    f"{RATE}, batches of {BATCH}; Gaussians of its 84 features, {EACH} points at lam = 0.5 between each two classes, "
    f"inverted by {INVERSION} steps of Adam from an image; a second LeNet-5, trained without an attack, judges them"
)


@final
@dataclass(frozen=True)
class HiddenSetting(Setting):
    """One robust network, one judge, and the images between classes."""

    def variants(self, dataset: str) -> Set[Variant]:
        """GenMix in the hidden space."""
        return {("genmix-hidden", 1.0)} if dataset in HIDDEN_SETS else set()

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """All numbers of this module."""
        training = {"rate": RATE, "batch": BATCH, "steps": ATTACK_STEPS, "attacked": ATTACKED, "optimizer": SGD()}
        points = {"each": EACH, "shown": SHOWN, "inversion": INVERSION, "density": GaussianDensity()}
        return {"set": HIDDEN_SETS[dataset], "training": training, "points": points}

    def cost(self, dataset: str) -> float:
        """By the images of all epochs."""
        return 1e3 * HIDDEN_SETS[dataset].images * HIDDEN_SETS[dataset].epochs

    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Train the two networks of the one cell, find points between classes, and measure them."""
        (cell,) = cells
        about, images = HIDDEN_SETS[cell.dataset], _take(cell, data_home)
        shape = images.x_train.shape[1:]
        robust, judge = (_train(images, about, cell.seed, attacked) for attacked in (True, False))
        X = images.x_train.reshape(len(images.x_train), -1) / 255.0
        k = len(images.classes)
        genmix = GenMix(GaussianDensity(), n_aug=EACH * k * (k - 1) // 2)
        hidden = HiddenGenMix(
            robust, None, genmix, shape=shape, bounds=(0.0, 1.0), steps=INVERSION, random_state=cell.seed
        )
        points = hidden.fit_resample(X, images.y_train)[0][len(X) :].reshape(-1, *shape)
        metrics = _measure(robust, images, about) | _judge(judge, points, hidden)
        return [Result(cell, _keep(points, hidden, images, about), metrics)]


def read_images(record: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the images (m, c, h, w) that the parameters of a record keep.

    >>> pixels = np.arange(16, dtype=np.uint8).reshape(2, 1, 2, 4)
    >>> held = {"images": _write(pixels), "shape": [1, 2, 4]}
    >>> bool((read_images(held) == pixels).all())
    True
    """
    flat = np.frombuffer(decompress(b85decode(record["images"])), dtype=np.uint8)
    return flat.reshape(-1, *record["shape"])


def _write(images: NDArray[np.uint8]) -> str:
    return b85encode(compress(images.tobytes(), level=9)).decode()


def _take(cell: Cell, data_home: str | Path | None) -> ImageDataset:
    """The images of a set: a draw of the training part, as many as are asked for."""
    images = load_images(cell.dataset, data_home)
    rng = np.random.default_rng(cell.split)
    chosen = np.sort(rng.permutation(len(images.x_train))[: HIDDEN_SETS[cell.dataset].images])
    return images._replace(x_train=images.x_train[chosen], y_train=images.y_train[chosen])


def _train(images: ImageDataset, about: HiddenSet, seed: int, attacked: bool) -> LeNet5:
    """A LeNet-5, on images as they are, or as an attack has moved them."""
    _, channels, side, _ = images.x_train.shape
    weights, draws = np.random.default_rng([seed, attacked]).spawn(2)
    mean, std = images.x_train.mean() / 255.0, images.x_train.std() / 255.0
    network = LeNet5(len(images.classes), channels, side, float(mean), float(std), seed=weights)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = ImageBatches(images.x_train, images.y_train, batch_size=BATCH, seed=[seed, attacked], device=device)
    settings: dict[str, Any] = {"learning_rate": RATE, "epochs": about.epochs, "optimizer": SGD(), "rng": draws}
    if attacked:
        attack = PGD(about.radius, "l2", ATTACK_STEPS)
        train_robust(network.to(device), batches, attack, shape=(channels, side, side), **settings)
    else:
        train_network(network.to(device), batches, **settings)
    return network.eval()


def _measure(network: LeNet5, images: ImageDataset, about: HiddenSet) -> dict[str, float]:
    """Accuracy of the robust network, and under the attack that it was trained against."""
    found = predict_scores(network, images.x_test).argmax(1).numpy()
    attack = PGD(about.radius, "l2", ATTACK_STEPS)
    held = robust_accuracy(network, images.x_test[:ATTACKED], images.y_test[:ATTACKED], attack)
    return {"accuracy": float(100.0 * (found == images.y_test).mean()), "robust_accuracy": held.accuracy}


def _judge(judge: LeNet5, points: NDArray[np.float64], hidden: HiddenGenMix) -> dict[str, float]:
    """How near the features of the images are, and of how many the two classes are the judge's two most likely."""
    order = predict_scores(judge, points).argsort(1, descending=True).numpy()
    both = np.sort(order[:, :2], axis=1) == np.sort(hidden.pair_, axis=1)
    first = (order[:, :1] == hidden.pair_).any(axis=1)
    return {
        "misfit_median": float(np.median(hidden.misfit_)),
        "judged_pair": float(100.0 * both.all(axis=1).mean()),
        "judged_one": float(100.0 * first.mean()),
    }


def _keep(points: NDArray[np.float64], hidden: HiddenGenMix, images: ImageDataset, about: HiddenSet) -> dict[str, Any]:
    """Some images, each of another pair: of the pair's the one whose features are nearest to what was asked for."""
    pair = np.sort(hidden.pair_, axis=1)
    pairs = np.unique(pair, axis=0)
    pairs = pairs[np.linspace(0, len(pairs) - 1, min(SHOWN, len(pairs))).round().astype(int)]
    places = [np.flatnonzero((pair == one).all(axis=1)) for one in pairs]
    best = [some[hidden.misfit_[some].argmin()] for some in places]
    names = [" / ".join(images.classes[c] for c in one) for one in pairs]
    kept = np.rint(255.0 * points[best]).astype(np.uint8)
    about_training = {"train_rows": len(images.x_train), "epochs": about.epochs, "radius": about.radius}
    return about_training | {"images": _write(kept), "shape": list(kept.shape[1:]), "pairs": names}
