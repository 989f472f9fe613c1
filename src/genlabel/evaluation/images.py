"""Train a network on images with a method of the paper, and score it on the test images."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor, nn

from genlabel import metrics
from genlabel._arrays import as_numpy
from genlabel._progress import Callback
from genlabel._runtime import rank_and_world_size
from genlabel._validation import check_choice, check_count, check_interval, check_positive
from genlabel.data.datasets import ImageDataset
from genlabel.data.datasets.images import hold_out
from genlabel.evaluation.image_methods import IMAGE_METHODS, choose_network, label_options, make_image_method
from genlabel.training import Checkpoint, ImageBatches
from genlabel.training.checkpoint import save_atomically
from genlabel.training.compile import resolve_compile_config
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import StagedNetwork
from genlabel.training.networks.convolutional import IMAGE_NETWORKS
from genlabel.training.networks.wrapped import WrappedNetwork
from genlabel.training.optimizers import Optimizer, resolve_optimizer

SETTINGS = (
    "method", "network", "epochs", "learning_rate", "weight_decay", "batch_size", "alpha", "lam_per", "gamma", "beta",
    "statistics", "augment", "seed", "held_out",
)  # fmt: skip
"""Arguments that identify a run: a checkpoint of a run with others is not continued."""


class ImageScores(NamedTuple):
    """Metrics of a network on images; the `test` of what `train_images` returns."""

    accuracy: float
    """Share of correct predictions, 0 to 1."""
    log_loss: float
    """Log-loss in nats."""


@final
@dataclass(frozen=True)
class TrainedImages:
    """Network that was trained on images, with its history and scores; `train_images` returns it."""

    network: StagedNetwork
    """Network after the last epoch, in evaluation mode, on the device of the training."""
    architecture: tuple[str | None, dict[str, Any]]
    """Name and arguments of the network; None and no arguments for a network of one's own."""
    classes: list[Any]
    history: list[dict[str, float]]
    """Metrics of each epoch: epoch (from 1), loss, images_per_second, held_out_accuracy and held_out_log_loss (both NaN
    without held-out images)."""
    test: ImageScores
    """Scores of the last epoch on the test images."""
    best_epoch: int | None
    """Epoch of the highest held-out accuracy, then of the lowest held-out log-loss; None without held-out images."""
    best_state: dict[str, Tensor] | None
    """State dict of the best epoch, on the CPU."""
    best_test: ImageScores | None
    """Scores of the best epoch on the test images."""
    seconds: float
    held_out: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    """Indices of the training images that were held out."""
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    """State dicts by epoch, on the CPU, see `snapshot_every`."""

    def save(self, path: str | Path, best: bool = False) -> None:
        """Write the network of the last epoch, or of the best one, to a file that :func:`load_network` reads."""
        state = self.best_state if best else _state_on_cpu(self.network)
        if state is None:
            raise ValueError("best=True needs held-out images; train with held_out=0.1")
        name, arguments = self.architecture
        if isinstance(self.network, WrappedNetwork):
            state = {key.removeprefix("module."): value for key, value in state.items()}
        save_atomically({"network": name, "arguments": arguments, "classes": self.classes, "state": state}, path)


def load_network(path: str | Path, network: nn.Module | None = None) -> tuple[nn.Module, list[Any]]:
    """Load a network that :meth:`TrainedImages.save` wrote, in evaluation mode, and its classes.

    It takes pixels in [0, 1], (n, c, h, w). Only tensors and plain values are read from the file: the weights of a
    network of one's own are loaded into `network`, a new object of the same class.

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
    hint = "pass model.pt or best.pt of train-images, or a file of TrainedImages.save"
    try:
        saved = torch.load(path, weights_only=True, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # torch may raise anything
        raise ValueError(f"{str(path)!r} is not a saved network; {hint}") from error
    if not isinstance(saved, dict) or saved.keys() != {"network", "arguments", "classes", "state"}:
        raise ValueError(f"{str(path)!r} is not a saved network, perhaps a checkpoint or a state dict; {hint}")
    if (saved["network"] is None) != (network is not None):
        reason = "is a custom network" if network is None else f"is {saved['network']!r}"
        raise ValueError(f"the network of {str(path)!r} {reason}; pass network=... for custom networks only")
    if network is None:
        network = IMAGE_NETWORKS[saved["network"]](**saved["arguments"])
    network.load_state_dict(saved["state"])
    return network.eval(), saved["classes"]


def train_images(
    images: ImageDataset,
    *,
    method: str = "genlabel",
    network: str | nn.Module = "auto",
    epochs: int = 30,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    alpha: float | None = None,
    lam_per: str = "sample",
    gamma: float | str | None = None,
    beta: float | None = None,
    statistics: str | None = None,
    augment: bool | None = None,
    optimizer: str | Optimizer = "sgd",
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    held_out: float = 0.1,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
    snapshot_every: int | None = None,
) -> TrainedImages:
    """Train a network on images with a method of the paper, and score it on the test images (arXiv Alg. 3).

    The defaults are those of arXiv Table 13 (CIFAR-10, mixup with GenLabel), except for the 200 epochs.

    Parameters
    ----------
    images : ImageDataset
    method : str
        One of `IMAGE_METHODS`.
    network : "auto", "lenet5", "resnet18", "preact-resnet18" or Module
        "auto" is LeNet-5 for small square images of one channel, and ResNet-18 for others. A module of one's own is
        trained in place; it takes pixels in [0, 1], (n, c, h, w), and its last layer is an `nn.Linear` with an output
        for each class. Manifold mixup needs a :class:`genlabel.training.networks.StagedNetwork`.
    epochs : int
    learning_rate, weight_decay : float
    batch_size : int
    alpha : float, optional
        Parameter of the Beta distribution of lam; if not given, 2 for manifold mixup and 1 for mixup and CutMix.
        AdaMixup learns its own weights.
    lam_per : "sample" or "batch"
        Draw a lam for each image, or one for each batch as in the paper.
    gamma : float or "auto", optional
    beta : float, optional
    statistics : str, optional
        Options of the methods with GenLabel: weight of the generative label (0.1; "auto" follows how well it predicts,
        see :class:`genlabel.OnlineGenLabel`), decay (0.95), and the rows of the moments ("near"), see
        :class:`genlabel.densities.OnlineGaussianDensity`.
    augment : bool, optional
        Crop and flip at random; by default for images of three channels.
    optimizer : "sgd", "adam" or Optimizer
    seed : int
        Seed of weights, order, mixing and held-out images; the same for all methods.
    device : str
        "auto" is a GPU if there is one.
    precision : "auto", "float32" or "bf16"
        "auto" is bf16 on a GPU that has it, if the network is faster with it.
    held_out : float or int
        Share (a float, at most 0.5) or number (an int) of the training images that are held out to choose the best
        epoch; 0 holds out none.
    callback : Callback, optional
        Its `on_epoch_end` receives the metrics of each epoch.
    checkpoint : path, optional
        File of the state after an epoch; a run with the same settings continues from it.
    checkpoint_every : int
        Epochs from one checkpoint to the next.
    snapshot_every : int, optional
        Keep the state dict after every so many epochs in `snapshots` of the result.

    Examples
    --------
    >>> from genlabel.data.datasets import load_images
    >>> trained = train_images(load_images("digits"), epochs=2)
    >>> len(trained.history), trained.best_epoch in (1, 2)
    (2, True)
    """
    arguments = dict(locals())
    if not isinstance(images, ImageDataset):
        raise TypeError(f"images is a {type(images).__name__}; give an ImageDataset, such as that of load_images")
    if images.x_train.dtype != np.uint8 or images.x_test.dtype != np.uint8:
        raise TypeError(f"images has pixels of {images.x_train.dtype} and {images.x_test.dtype}; give uint8, 0 to 255")
    check_count("seed", seed, low=0)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate, "0.1 is the default")
    check_choice("method", method, IMAGE_METHODS)
    reasons = {"vanilla": "which mixes nothing", "adamixup": "which learns how to mix"}
    if method in reasons and alpha is not None:
        raise ValueError(f"alpha={alpha!r} has no effect with method={method!r}, {reasons[method]}")
    if method in reasons and lam_per != "sample":
        raise ValueError(f"lam_per={lam_per!r} has no effect with method={method!r}, {reasons[method]}")
    labels = label_options(method, gamma=gamma, beta=beta, statistics=statistics)
    arguments |= labels
    image_method = make_image_method(method, len(images.classes), alpha=alpha, lam_per=lam_per, **labels)
    resolved_optimizer = resolve_optimizer(optimizer)
    torch_device = _resolve_device(device)
    if isinstance(held_out, float):
        check_interval("held_out", held_out, 0.0, 0.5, "0.1 holds out one image in ten")
        held_out = int(held_out * len(images.y_train))
    training, validation = hold_out(images.y_train, check_count("held_out", held_out, low=0), seed)
    x, y = images.x_train[training], images.y_train[training]
    net, architecture = _make_network(network, x, len(images.classes), np.random.default_rng(seed).spawn(1)[0])
    net = net.to(torch_device)
    crops = x.shape[1] == 3 if augment is None else augment
    batches = ImageBatches(
        x, y, batch_size=batch_size, mixer=image_method.mixer, augment=crops, seed=seed, device=torch_device
    )
    check_choice("precision", precision, ["auto", "float32", "bf16"])
    compile_config = resolve_compile_config("auto", net)  # all accelerations that the device offers
    if precision != "auto":
        channels_last = compile_config.graphs and precision == "bf16"
        compile_config = replace(compile_config, precision=precision, channels_last=channels_last)
    checksum = 0
    for array in (images.x_train, images.y_train, images.x_test, images.y_test):
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    settings = {name: arguments[name] for name in SETTINGS}
    settings |= {
        "network": architecture[0] or type(network).__qualname__,
        "optimizer": repr(resolved_optimizer),
        "data": checksum,
    }
    n = len(batches) * min(batch_size, len(x))
    x_val, y_val = images.x_train[validation], images.y_train[validation]
    if snapshot_every is not None:
        check_count("snapshot_every", snapshot_every)
    saver = None if checkpoint is None else Checkpoint(checkpoint, {"batches": batches}, checkpoint_every)
    history = _TrainingHistory(net, x_val, y_val, n, settings, saver, snapshot_every, callback)
    start = perf_counter()
    image_method.train(
        net,
        batches,
        x.shape[1],
        seed,
        torch_device,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        optimizer=resolved_optimizer,
        epochs=check_count("epochs", epochs),
        compile_config=compile_config,
        callback=history,
        checkpoint=saver,
    )
    seconds = perf_counter() - start
    test, best_test = _score_images(net, images.x_test, images.y_test), None
    if history.best_state is not None:
        last_state = _state_on_cpu(net)
        net.load_state_dict(history.best_state)
        best_test = _score_images(net, images.x_test, images.y_test)
        net.load_state_dict(last_state)
    best = (history.best_epoch, history.best_state, best_test)
    return TrainedImages(
        net.eval(), architecture, images.classes, history.history, test, *best, seconds, validation, history.snapshots
    )


def _make_network(
    network: str | nn.Module, x: NDArray[np.uint8], num_classes: int, rng: np.random.Generator
) -> tuple[StagedNetwork, tuple[str | None, dict[str, Any]]]:
    """Return a network by name, with its name and arguments, or a module of one's own as a staged network."""
    if isinstance(network, str):
        name, arguments = choose_network(network, x, num_classes)
        return IMAGE_NETWORKS[name](**arguments, seed=rng), (name, arguments)
    if not isinstance(network, nn.Module):
        raise TypeError(f"network={network!r} must be a name, such as 'resnet18', or a torch.nn.Module")
    if isinstance(network, StagedNetwork):
        return network, (None, {})
    wrapped = WrappedNetwork(network, num_classes)
    device = next(network.parameters()).device
    wrapped.check(torch.from_numpy(x[:2]).to(device, torch.float32) / 255.0)
    return wrapped, (None, {})


def _resolve_device(device: str) -> torch.device:
    """Return the device of a name; "auto" gives each of several processes on a machine a GPU of its own."""
    if device == "auto":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(1, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used ({reason}); use 'auto' or 'cpu'") from error


def _score_images(network: StagedNetwork, x: NDArray[np.uint8], y: NDArray[np.int64]) -> ImageScores:
    """Measure a network on images (N, C, H, W) with class indices (N,)."""
    log_proba = log_softmax(as_numpy(predict_scores(network, x)).astype(np.float64), axis=1)
    return ImageScores(float(metrics.accuracy(log_proba, y)), float(metrics.log_loss(log_proba, y)))


def _state_on_cpu(network: StagedNetwork) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


@final
class _TrainingHistory(Callback):
    """Callback that records the metrics of each epoch, and the state dict of the best one.

    Scores are measured on held-out images `x`, `y`, which may be empty; an epoch has `n` training images. With a
    `checkpoint` of the training, the history is saved next to it, as often, and continued if the settings are the same.
    """

    def __init__(
        self,
        network: StagedNetwork,
        x: NDArray[np.uint8],
        y: NDArray[np.int64],
        n: int,
        settings: dict[str, Any],
        checkpoint: Checkpoint | None,
        snapshot_every: int | None,
        callback: Callback | None,
    ) -> None:
        self.network, self.n, self.settings, self._callback = network, n, settings, callback
        self._checkpoint, self._snapshot_every = checkpoint, snapshot_every
        self._x, self._y = x, y
        self.history: list[dict[str, float]] = []
        self.best_epoch: int | None = None
        self.best_state: dict[str, Tensor] | None = None
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        if checkpoint is not None and checkpoint.path.exists():
            self._resume(_history_path(checkpoint))
        self._save()
        self._start = perf_counter()

    def _resume(self, path: Path) -> None:
        """Load the history of a run with the same settings."""
        if not path.exists():
            raise ValueError(f"{str(path)!r}, the history of the checkpoint, is missing; use another checkpoint path")
        saved = torch.load(path, weights_only=True, map_location="cpu")
        for name, value in self.settings.items():
            saved_value = saved["settings"].get(name)
            if saved_value != value:
                raise ValueError(
                    f"the checkpoint of {str(path)!r} was made with {name}={saved_value!r}, not {value!r}; use the "
                    "same settings or another checkpoint path, or delete the checkpoint (--restart)"
                )
        self.history, self.best_epoch, self.best_state = saved["history"], saved["best_epoch"], saved["best_state"]
        self.snapshots = saved["snapshots"]

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Record an epoch that ended with the mean loss `logs["loss"]`."""
        number, loss = epoch + 1, float(logs["loss"])
        seconds = max(perf_counter() - self._start, 1e-9)
        if not np.isfinite(loss):
            raise ValueError(f"the loss of epoch {number} is {loss}; lower learning_rate")
        scores = _score_images(self.network, self._x, self._y) if len(self._x) else ImageScores(np.nan, np.nan)
        current = {"epoch": number, "loss": loss, "held_out_accuracy": scores.accuracy}
        current |= {"held_out_log_loss": scores.log_loss, "images_per_second": self.n / seconds}
        self.history = [*(entry for entry in self.history if entry["epoch"] < number), current]
        ranks = [(entry["held_out_accuracy"], -entry["held_out_log_loss"]) for entry in self.history]
        if len(self._x) and all(rank < ranks[-1] for rank in ranks[:-1]):
            self.best_epoch, self.best_state = number, _state_on_cpu(self.network)
        if self._snapshot_every is not None and number % self._snapshot_every == 0:
            self.snapshots[number] = _state_on_cpu(self.network)
        if self._checkpoint is not None and (number % self._checkpoint.every == 0 or number == self.settings["epochs"]):
            self._save()
        if self._callback is not None:
            self._callback.on_epoch_end(epoch, current)
        self._start = perf_counter()

    def _save(self) -> None:
        """Save the history atomically; if there are several processes, only the first one does."""
        if self._checkpoint is None or rank_and_world_size()[0] > 0:
            return
        names = ("settings", "history", "best_epoch", "best_state", "snapshots")
        save_atomically({name: getattr(self, name) for name in names}, _history_path(self._checkpoint))


def _history_path(checkpoint: Checkpoint) -> Path:
    return Path(f"{checkpoint.path}.history")
