"""What the words for methods and networks mean on images: a mixer and a labeler, a network and its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_choice
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import Labeler, LinearLabel, OnlineGenLabel
from genlabel.mixing import CutMix, ManifoldMixup, Mixer, Mixup
from genlabel.training.networks import IMAGE_NETWORKS

METHODS = ("vanilla", "mixup", "genlabel", "manifold", "manifold-genlabel", "cutmix", "cutmix-genlabel", "adamixup")
"""The methods by name: a mixer, and where the name says genlabel, labels by arXiv Alg. 3 in place of linear ones."""
MANIFOLD_DEPTHS = (0, 1, 2)
"""NOTE[PAPER]: where manifold mixup mixes is not said: here at the input, or after one of the first two stages."""
SMALL = range(8, 33)
"""Sides of the images for which LeNet-5 is the network if none is named."""


class ImageMethod(NamedTuple):
    """How a method mixes and labels.

    `make_image_method` returns it.
    """

    mixer: Mixer | None
    labeler: Labeler
    learns_to_mix: bool = False
    """Whether a policy and a critic learn how to mix beside the network: AdaMixup."""


def make_image_method(
    method: str,
    num_classes: int,
    *,
    alpha: float | None = None,
    lam_per: str = "sample",
    gamma: float = 0.1,
    beta: float = 0.95,
    statistics: str = "near",
) -> ImageMethod:
    """Return the mixer and the labeler of a method.

    Parameters
    ----------
    method : one of METHODS
    num_classes : int
    alpha : float, optional
        If not given, 2 for manifold mixup and 1 for mixup and CutMix; AdaMixup learns its own weights.
    lam_per, gamma, beta, statistics
        As in :func:`genlabel.evaluation.images.train_images`.

    Examples
    --------
    >>> make_image_method("mixup", 10).mixer
    Mixup()
    >>> make_image_method("mixupp", 10)
    Traceback (most recent call last):
    ValueError: method='mixupp' is not known; choose one of 'vanilla', 'mixup', ...
    """
    check_choice("method", method, METHODS)
    if method == "adamixup":
        return ImageMethod(Mixup(), LinearLabel(), learns_to_mix=True)
    kind = "mixup" if method == "genlabel" else method.removesuffix("-genlabel")
    mixers: dict[str, Mixer | None] = {
        "vanilla": None,
        "mixup": Mixup(1.0 if alpha is None else alpha, lam_per),
        "manifold": ManifoldMixup(2.0 if alpha is None else alpha, MANIFOLD_DEPTHS, lam_per),
        "cutmix": CutMix(1.0 if alpha is None else alpha, lam_per),
    }
    if not method.endswith("genlabel"):
        return ImageMethod(mixers[kind], LinearLabel())
    density = OnlineGaussianDensity(num_classes, beta=beta, statistics=statistics)
    return ImageMethod(mixers[kind], OnlineGenLabel(density, gamma))


def choose_network(network: str, x: NDArray[np.uint8], num_classes: int) -> tuple[str, dict[str, Any]]:
    """Return the name of a network for images (N, C, H, W), and its arguments; mean and std are those of the pixels.

    "auto" is LeNet-5 for small square images of one channel, and ResNet-18 for others.

    >>> name, arguments = choose_network("auto", np.zeros((5, 1, 28, 28), np.uint8), 10)
    >>> name, arguments["size"]
    ('lenet5', 28)
    """
    check_choice("network", network, ["auto", *IMAGE_NETWORKS])
    channels, height, width = x.shape[1:]
    if network == "auto":
        network = "lenet5" if channels == 1 and height == width and height in SMALL else "resnet18"
    mean, std = pixel_moments(x)
    arguments: dict[str, Any] = {"num_classes": num_classes, "in_channels": channels, "mean": mean, "std": std}
    if network == "lenet5":
        if height != width or height < SMALL.start:
            raise ValueError(
                f"network='lenet5' takes square images of at least {SMALL.start} pixels a side, these are {width} x "
                f"{height}; use 'resnet18'"
            )
        arguments["size"] = height
    return network, arguments


def pixel_moments(x: NDArray[np.uint8]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the pixels of each channel, in [0, 1]; a constant channel has 1.

    >>> pixel_moments(np.array([0, 255, 255, 0], np.uint8).reshape(2, 1, 1, 2))
    ([0.5], [0.5])
    """
    values = np.arange(256) / 255.0
    shares = [np.bincount(x[:, c].ravel(), minlength=256) / x[:, c].size for c in range(x.shape[1])]
    mean = [float(share @ values) for share in shares]
    spread = [float(np.sqrt(share @ (values - m) ** 2)) for share, m in zip(shares, mean, strict=True)]
    return mean, [s if s > 0 else 1.0 for s in spread]
