"""Training history on images: metrics of each epoch, the best epoch so far, and their file beside a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor

from genlabel import metrics
from genlabel._arrays import as_numpy
from genlabel._progress import Callback
from genlabel._runtime import rank_and_world_size
from genlabel.training.checkpoint import save_atomically
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import StagedNetwork

EpochMetrics = dict[str, float]
"""epoch (from 1), loss, held_out_accuracy, held_out_log_loss and images_per_second of an epoch."""


class ImageScores(NamedTuple):
    """Metrics of a network on images; the `test` of what `train_images` returns."""

    accuracy: float
    """Share of correct predictions, 0 to 1."""
    log_loss: float
    """Log-loss in nats."""


def score_images(network: StagedNetwork, x: NDArray[np.uint8], y: NDArray[np.int64]) -> ImageScores:
    """Measure a network on images (N, C, H, W) with class indices (N,)."""
    log_proba = log_softmax(as_numpy(predict_scores(network, x)).astype(np.float64), axis=1)
    return ImageScores(float(metrics.accuracy(log_proba, y)), float(metrics.log_loss(log_proba, y)))


def state_on_cpu(network: StagedNetwork) -> dict[str, Tensor]:
    """Return a copy of the state dict on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


@final
class TrainingHistory(Callback):
    """Callback that records the metrics of each epoch, and the state dict of the best one.

    Parameters
    ----------
    network : StagedNetwork
    x, y : arrays (m, C, H, W), (m,)
        Held-out images; they may be empty.
    n : int
        Number of training images in an epoch.
    settings : dict
        Settings of the run: a checkpoint of other settings is not continued.
    checkpoint : path, optional
        Checkpoint of the training; the history is saved beside it.
    callback : Callback, optional
        Its `on_epoch_end` receives the metrics of each epoch.

    Attributes
    ----------
    history : list of EpochMetrics
    best_epoch : int or None
    best_state : dict or None
    """

    def __init__(
        self,
        network: StagedNetwork,
        x: NDArray[np.uint8],
        y: NDArray[np.int64],
        n: int,
        settings: dict[str, Any],
        checkpoint: str | Path | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.network, self.n, self.settings, self._callback = network, n, settings, callback
        self._x, self._y = x, y
        self.history: list[EpochMetrics] = []
        self.best_epoch: int | None = None
        self.best_state: dict[str, Tensor] | None = None
        self._path = None if checkpoint is None else Path(f"{checkpoint}.history")
        if self._path is not None and Path(str(checkpoint)).exists():
            self._load(self._path)
        self._save()
        self._start = perf_counter()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Record an epoch that ended with the mean loss `logs["loss"]`."""
        index, epoch, mean = epoch, epoch + 1, float(logs["loss"])
        seconds = max(perf_counter() - self._start, 1e-9)
        if not np.isfinite(mean):
            raise ValueError(f"the loss of epoch {epoch} is {mean}; lower learning_rate")
        scores = score_images(self.network, self._x, self._y) if len(self._x) else ImageScores(np.nan, np.nan)
        current = {
            "epoch": epoch,
            "loss": mean,
            "held_out_accuracy": scores.accuracy,
            "held_out_log_loss": scores.log_loss,
            "images_per_second": self.n / seconds,
        }
        earlier = [known for known in self.history if known["epoch"] < epoch]
        self.history = [*earlier, current]
        ranks = [(known["held_out_accuracy"], -known["held_out_log_loss"]) for known in self.history]
        if len(self._x) and all(rank < ranks[-1] for rank in ranks[:-1]):  # accuracy first, then log-loss
            self.best_epoch, self.best_state = epoch, state_on_cpu(self.network)
        self._save()
        if self._callback is not None:
            self._callback.on_epoch_end(index, current)
        self._start = perf_counter()

    def _load(self, path: Path) -> None:
        """Continue the history of an interrupted run."""
        if not path.exists():
            raise ValueError(f"the checkpoint has no {path.name!r} beside it; start over with another checkpoint path")
        saved = torch.load(path, weights_only=True, map_location="cpu")
        for name, value in self.settings.items():
            if saved["settings"].get(name) != value:
                raise ValueError(
                    f"the checkpoint beside {str(path)!r} was made with {name}={saved['settings'].get(name)!r}, not "
                    f"{value!r}; use the same settings, or start over with another checkpoint path, on "
                    "the command line with --restart or another --output"
                )
        self.history, self.best_epoch, self.best_state = saved["history"], saved["best_epoch"], saved["best_state"]

    def _save(self) -> None:
        """Save the history, completely or not at all; of several processes only the first does."""
        if self._path is None or rank_and_world_size()[0] > 0:
            return
        names = ("settings", "history", "best_epoch", "best_state")
        save_atomically({name: getattr(self, name) for name in names}, self._path)
