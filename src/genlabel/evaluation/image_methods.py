"""Methods and networks for images by name: a mixer and a labeler, and how they train; a network and its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_choice, check_interval
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import Labeler, LinearLabel, OnlineGenLabel
from genlabel.mixing import CutMix, ManifoldMixup, Mixer, Mixup
from genlabel.training import ImageBatches, train_network
from genlabel.training.adamixup import train_adamixup_network
from genlabel.training.networks import StagedNetwork
from genlabel.training.networks.convolutional import IMAGE_NETWORKS, SmallConvNet

IMAGE_METHODS = (
    "vanilla", "mixup", "genlabel", "manifold", "manifold-genlabel", "cutmix", "cutmix-genlabel", "adamixup",
)  # fmt: skip
"""Names of methods; those with "genlabel" have the labels of arXiv Alg. 3 instead of linear ones."""
MANIFOLD_DEPTHS = (0, 1, 2)
"""NOTE[PAPER]: the depths of manifold mixup are not given: here the input, or the first or second stage."""
LABEL_DEFAULTS: dict[str, Any] = {"gamma": 0.1, "beta": 0.95, "statistics": "near"}
"""Options of the methods with GenLabel; those of the paper, but for the statistics."""
LENET_SIZES = range(8, 33)
"""Sides of the images for which "auto" chooses LeNet-5."""


class ImageMethod(NamedTuple):
    """Mixer and labeler of a method; `make_image_method` returns it."""

    mixer: Mixer | None
    labeler: Labeler
    learns_to_mix: bool = False
    """True if a policy and a critic learn how to mix together with the network: AdaMixup."""

    def train(
        self, network: StagedNetwork, batches: ImageBatches, channels: int, seed: int, device: Any, **options: Any
    ) -> None:
        """Train a network in place; `options` are those of `train_network`."""
        if not self.learns_to_mix:
            train_network(network, batches, mixer=self.mixer, labeler=self.labeler, **options)
            return
        policy = SmallConvNet(2 * channels, 3, seed=[seed, 3]).to(device)
        critic = SmallConvNet(channels, 2, seed=[seed, 2]).to(device)
        train_adamixup_network(network, batches, policy=policy, critic=critic, **options)


def label_options(method: str, **options: Any) -> dict[str, Any]:
    """Return gamma, beta and statistics of a method, the defaults for None; raise if it has no generative labels."""
    given = {name: value for name, value in options.items() if value is not None}
    if given and "genlabel" not in method:
        settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"{settings} has no effect with method={method!r}, which has no generative labels")
    if isinstance(gamma := given.get("gamma", 0.0), str):
        check_choice("gamma", gamma, ["auto"], also="a number from 0 to 1")
    else:
        check_interval("gamma", gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
    return LABEL_DEFAULTS | given


def make_image_method(
    method: str,
    num_classes: int,
    *,
    alpha: float | None = None,
    lam_per: str = "sample",
    gamma: float | str = 0.1,
    beta: float = 0.95,
    statistics: str = "near",
) -> ImageMethod:
    """Return a method of `IMAGE_METHODS`, with options as in :func:`genlabel.evaluation.images.train_images`."""
    check_choice("method", method, IMAGE_METHODS)
    if method == "adamixup":
        return ImageMethod(Mixup(), LinearLabel(), learns_to_mix=True)
    mixers: dict[str, Mixer | None] = {
        "vanilla": None,
        "mixup": Mixup(1.0 if alpha is None else alpha, lam_per),
        "manifold": ManifoldMixup(2.0 if alpha is None else alpha, MANIFOLD_DEPTHS, lam_per),
        "cutmix": CutMix(1.0 if alpha is None else alpha, lam_per),
    }
    if method in mixers:
        return ImageMethod(mixers[method], LinearLabel())
    density = OnlineGaussianDensity(num_classes, beta=beta, statistics=statistics)
    linear = "mixup" if method == "genlabel" else method.removesuffix("-genlabel")
    return ImageMethod(mixers[linear], OnlineGenLabel(density, gamma))


def choose_network(network: str, x: NDArray[np.uint8], num_classes: int) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a network for images (N, C, H, W), with their pixel means and deviations.

    "auto" is LeNet-5 for small square images of one channel, and ResNet-18 for others.
    """
    check_choice("network", network, ["auto", *IMAGE_NETWORKS])
    channels, height, width = x.shape[1:]
    if network == "auto":
        network = "lenet5" if channels == 1 and height == width and height in LENET_SIZES else "resnet18"
    mean, std = pixel_moments(x)
    arguments: dict[str, Any] = {"num_classes": num_classes, "in_channels": channels, "mean": mean, "std": std}
    if network == "lenet5":
        if height != width or height < LENET_SIZES.start:
            raise ValueError(
                f"network='lenet5' takes square images with sides of at least {LENET_SIZES.start} pixels, but these "
                f"are {width} x {height}; use 'resnet18'"
            )
        arguments["size"] = height
    return network, arguments


def pixel_moments(x: NDArray[np.uint8]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the pixels of each channel, in [0, 1]; the latter is 1 if it were 0."""
    values = np.arange(256) / 255.0
    means, deviations = [], []
    for c in range(x.shape[1]):
        shares = np.bincount(x[:, c].ravel(), minlength=256) / x[:, c].size
        means.append(float(shares @ values))
        deviations.append(float(np.sqrt(shares @ (values - means[-1]) ** 2)) or 1.0)
    return means, deviations
