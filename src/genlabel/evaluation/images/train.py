"""Train a network on images with a method of the paper, and score it on the test images."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from genlabel._progress import Callback
from genlabel._validation import check_choice, check_count, check_interval, check_positive
from genlabel.data.datasets import ImageDataset
from genlabel.data.datasets.images import hold_out
from genlabel.evaluation.images.history import EpochMetrics, ImageScores, TrainingHistory, score_images, state_on_cpu
from genlabel.evaluation.images.methods import ImageMethod, choose_network, make_image_method
from genlabel.training import Checkpoint, ImageBatches, train_network
from genlabel.training.adamixup import train_adamixup_network
from genlabel.training.checkpoint import save_atomically
from genlabel.training.compile import CompileConfig, resolve_compile_config
from genlabel.training.networks import StagedNetwork
from genlabel.training.networks.convolutional import IMAGE_NETWORKS, SmallConvNet
from genlabel.training.optimizers import Optimizer, resolve_optimizer

NETWORK_FILES = "pass model.pt or best.pt of train-images, or a file of TrainedImages.save"


@final
@dataclass(frozen=True)
class TrainedImages:
    """Network that was trained on images, with its history and scores; `train_images` returns it."""

    network: StagedNetwork
    """Network after the last epoch, in evaluation mode, on the device of the training."""
    architecture: tuple[str, dict[str, Any]]
    """Name and arguments of the network."""
    classes: list[str]
    history: list[EpochMetrics]
    """Metrics of each epoch: epoch (from 1), loss, held_out_accuracy and held_out_log_loss (NaN without held-out
    images), images_per_second."""
    test: ImageScores
    """Scores of the last epoch on the test images."""
    best_epoch: int | None
    """Epoch of the highest held-out accuracy, then of the lowest held-out log-loss; None without held-out images."""
    best_state: dict[str, Tensor] | None
    """State dict of the best epoch, on the CPU."""
    best_test: ImageScores | None
    """Scores of the best epoch on the test images."""
    seconds: float

    def save(self, path: str | Path, best: bool = False) -> None:
        """Write the network of the last epoch, or of the best one, to a file that :func:`load_network` reads."""
        if best and self.best_state is None:
            raise ValueError("best=True needs held-out images; train with held_out=0.1")
        state = self.best_state if best else state_on_cpu(self.network)
        name, arguments = self.architecture
        save_atomically({"network": name, "arguments": arguments, "classes": self.classes, "state": state}, path)


def load_network(path: str | Path) -> tuple[StagedNetwork, list[str]]:
    """Load a network that :meth:`TrainedImages.save` wrote, in evaluation mode, and the names of its classes.

    It takes pixels in [0, 1], (n, c, h, w). Only tensors and plain values are read from the file.

    Examples
    --------
    >>> import tempfile
    >>> from genlabel.data.datasets import load_images
    >>> trained = train_images(load_images("digits"), epochs=1, held_out=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained.save(f"{folder}/digits.pt")
    ...     network, classes = load_network(f"{folder}/digits.pt")
    >>> network(torch.rand(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    try:
        saved = torch.load(path, weights_only=True, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # torch may raise anything
        raise ValueError(f"{str(path)!r} is no file of a network; {NETWORK_FILES}") from error
    if not isinstance(saved, dict) or saved.keys() != {"network", "arguments", "classes", "state"}:
        raise ValueError(f"{str(path)!r} is not such a file, perhaps a checkpoint or a state dict; {NETWORK_FILES}")
    network = IMAGE_NETWORKS[saved["network"]](**saved["arguments"])
    network.load_state_dict(saved["state"])
    return network.eval(), saved["classes"]


def train_images(
    images: ImageDataset,
    *,
    method: str = "genlabel",
    network: str = "auto",
    epochs: int = 30,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    alpha: float | None = None,
    lam_per: str = "sample",
    gamma: float = 0.1,
    beta: float = 0.95,
    statistics: str = "near",
    augment: bool | None = None,
    optimizer: str | Optimizer = "sgd",
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    held_out: float = 0.1,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
) -> TrainedImages:
    """Train a network on images with a method of the paper, and score it on the test images (arXiv Alg. 3).

    The defaults are those of arXiv Table 13 (CIFAR-10, mixup with GenLabel), except for the 200 epochs.

    Parameters
    ----------
    images : ImageDataset
    method : str
        One of `IMAGE_METHODS`.
    network : "auto", "lenet5", "resnet18" or "preact-resnet18"
        "auto" is LeNet-5 for small square images of one channel, and ResNet-18 for others.
    epochs : int
    learning_rate, weight_decay : float
    batch_size : int
    alpha : float, optional
        Parameter of the Beta distribution of lam; if not given, 2 for manifold mixup and 1 for mixup and CutMix.
        AdaMixup learns its own weights.
    lam_per : "sample" or "batch"
        Whether each image has a lam of its own, or a batch has one (the paper's).
    gamma, beta, statistics
        Options of the methods with GenLabel: share of the generated label, decay, and the rows for the moments; see
        :class:`genlabel.densities.OnlineGaussianDensity`.
    augment : bool, optional
        Whether to crop and flip at random; by default, for images of three channels.
    optimizer : "sgd", "adam" or Optimizer
    seed : int
        Seed of weights, order, mixing and held-out images; the same for all methods.
    device : str
        "auto" is a GPU if there is one.
    precision : "auto", "float32" or "bf16"
        "auto" is bf16 on a GPU that has it, if the network is faster with it.
    held_out : float or int
        Share (a float, at most 0.5) or number (an int) of the training images that are held out and choose the best
        epoch; 0 is none.
    callback : Callback, optional
        Its `on_epoch_end` receives the metrics of each epoch.
    checkpoint : path, optional
        File of the state after each epoch; a run with the same settings continues from it.

    Returns
    -------
    TrainedImages

    Examples
    --------
    >>> from genlabel.data.datasets import load_images
    >>> trained = train_images(load_images("digits"), epochs=2)
    >>> len(trained.history), trained.best_epoch in (1, 2)
    (2, True)
    """
    arguments = dict(locals())
    if not isinstance(images, ImageDataset):
        raise TypeError(f"images is a {type(images).__name__}; give an ImageDataset, as load_images makes it")
    if images.x_train.dtype != np.uint8 or images.x_test.dtype != np.uint8:
        raise TypeError(f"images has pixels of {images.x_train.dtype} and {images.x_test.dtype}; give uint8, 0 to 255")
    check_count("seed", seed, low=0)
    check_positive("learning_rate", learning_rate, "0.1 is the default")
    image_method = make_image_method(
        method, len(images.classes), alpha=alpha, lam_per=lam_per, gamma=gamma, beta=beta, statistics=statistics
    )
    rule, torch_device = resolve_optimizer(optimizer), _resolve_device(device)
    if isinstance(held_out, float):
        share = check_interval("held_out", held_out, 0.0, 0.5, "0.1 holds out one image in ten")
        count = int(share * len(images.y_train))
    else:
        count = check_count("held_out", held_out, low=0)
    training, validation = hold_out(images.y_train, count, seed)
    x, y = images.x_train[training], images.y_train[training]
    architecture = choose_network(network, x, len(images.classes))
    weights = np.random.default_rng(seed).spawn(1)[0]
    net = IMAGE_NETWORKS[architecture[0]](**architecture[1], seed=weights).to(torch_device)
    batches = ImageBatches(
        x,
        y,
        batch_size=check_count("batch_size", batch_size),
        mixer=image_method.mixer,
        augment=x.shape[1] == 3 if augment is None else augment,
        seed=seed,
        device=torch_device,
    )
    settings = {name: arguments[name] for name in SETTINGS}
    settings |= {"network": architecture[0], "optimizer": repr(rule), "data": _checksum(images)}
    n = len(batches) * min(batch_size, len(x))
    x_val, y_val = images.x_train[validation], images.y_train[validation]
    history = TrainingHistory(net, x_val, y_val, n, settings, checkpoint, callback)
    start = perf_counter()
    _train(
        image_method,
        net,
        batches,
        x.shape[1],
        seed,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        optimizer=rule,
        epochs=check_count("epochs", epochs),
        compile_config=_resolve_precision(precision, net),
        callback=history,
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, {"batches": batches}),
    )
    seconds = perf_counter() - start
    best_test = None
    if history.best_state is not None:
        last_state = state_on_cpu(net)
        net.load_state_dict(history.best_state)
        best_test = score_images(net, images.x_test, images.y_test)
        net.load_state_dict(last_state)
    return TrainedImages(
        network=net.eval(),
        architecture=architecture,
        classes=images.classes,
        history=history.history,
        test=score_images(net, images.x_test, images.y_test),
        best_epoch=history.best_epoch,
        best_state=history.best_state,
        best_test=best_test,
        seconds=seconds,
    )


SETTINGS = (
    "method", "network", "epochs", "learning_rate", "weight_decay", "batch_size", "alpha", "lam_per", "gamma", "beta",
    "statistics", "augment", "seed", "held_out",
)  # fmt: skip
"""Arguments that identify a run: a checkpoint of a run with others is not continued."""


def _train(
    method: ImageMethod, network: StagedNetwork, batches: ImageBatches, channels: int, seed: int, **options: Any
) -> None:
    """Train a network in place, for AdaMixup together with its policy and critic."""
    if not method.learns_to_mix:
        train_network(network, batches, mixer=method.mixer, labeler=method.labeler, **options)
        return
    like = next(network.parameters())
    policy, critic = (
        SmallConvNet(inputs, outputs, seed=[seed, outputs]).to(like.device)
        for inputs, outputs in ((2 * channels, 3), (channels, 2))
    )
    train_adamixup_network(network, batches, policy=policy, critic=critic, **options)


def _resolve_device(device: str) -> torch.device:
    """Return the device of a name; each of several processes on a machine has a GPU of its own."""
    if device == "auto":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(1, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used ({reason}); use 'auto' or 'cpu'") from error


def _resolve_precision(precision: str, network: StagedNetwork) -> CompileConfig:
    """Return all accelerations that the device offers, in this precision."""
    check_choice("precision", precision, ["auto", "float32", "bf16"])
    fast = resolve_compile_config("auto", network)
    if precision == "auto":
        return fast
    return replace(fast, precision=precision, channels_last=fast.graphs and precision == "bf16")


def _checksum(images: ImageDataset) -> int:
    """Return a checksum of images and labels."""
    value = 0
    for part in (images.x_train, images.y_train, images.x_test, images.y_test):
        value = zlib.crc32(np.ascontiguousarray(part).data, value)
    return value
