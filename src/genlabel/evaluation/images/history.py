"""The diary of a run on images: what each epoch measured, the best epoch so far, and its place beside a checkpoint."""

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
from genlabel._distributed import rank_and_world_size
from genlabel._progress import Callback
from genlabel.training import predict_scores
from genlabel.training.checkpoint import save_whole
from genlabel.training.networks import StagedNetwork

Entry = dict[str, float]


class ImageScores(NamedTuple):
    """What is measured of a network on images.

    It is the `test` of what `train_images` returns.
    """

    accuracy: float
    """Share, 0 to 1."""
    log_loss: float
    """Nats."""


def measure(network: StagedNetwork, x: NDArray[np.uint8], y: NDArray[np.int64]) -> ImageScores:
    """Measure a network on images (N, C, H, W) with class indices (N,)."""
    log_proba = log_softmax(as_numpy(predict_scores(network, x)).astype(np.float64), axis=1)
    return ImageScores(float(metrics.accuracy(log_proba, y)), float(metrics.log_loss(log_proba, y)))


def state_on_cpu(network: StagedNetwork) -> dict[str, Tensor]:
    """Return a copy of the state dict on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


@final
class TrainingHistory(Callback):
    """Writes down each epoch, and keeps the state of the best.

    Parameters
    ----------
    network : StagedNetwork
    x, y : arrays (m, C, H, W), (m,)
        Held-out images; none of them is fine.
    n : int
        Images of an epoch.
    settings : dict
        Those of the run: a checkpoint of others is not gone on from.
    checkpoint : path, optional
        Of the training; the diary lies beside it.
    callback : Callback, optional
        Its `on_epoch_end` receives each entry.

    Attributes
    ----------
    history : list of dict
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
        self.history: list[Entry] = []
        self.best_epoch: int | None = None
        self.best_state: dict[str, Tensor] | None = None
        self._path = None if checkpoint is None else Path(f"{checkpoint}.diary")
        if self._path is not None and Path(str(checkpoint)).exists():
            self._read(self._path)
        self._keep()
        self._begin = perf_counter()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Add the entry of an epoch that has ended with the mean loss `logs["loss"]`."""
        before, epoch, mean = epoch, epoch + 1, float(logs["loss"])
        seconds = max(perf_counter() - self._begin, 1e-9)
        if not np.isfinite(mean):
            raise ValueError(f"the loss of epoch {epoch} is {mean}; lower learning_rate")
        scores = measure(self.network, self._x, self._y) if len(self._x) else ImageScores(np.nan, np.nan)
        entry = {
            "epoch": epoch,
            "loss": mean,
            "held_out_accuracy": scores.accuracy,
            "held_out_log_loss": scores.log_loss,
            "images_per_second": self.n / seconds,
        }
        self.history = [*(known for known in self.history if known["epoch"] < epoch), entry]
        if len(self._x) and self._is_best(entry):
            self.best_epoch, self.best_state = epoch, state_on_cpu(self.network)
        self._keep()
        if self._callback is not None:
            self._callback.on_epoch_end(before, entry)
        self._begin = perf_counter()

    def _is_best(self, entry: Entry) -> bool:
        """Whether no earlier epoch is as good: accuracy first, then log-loss."""
        rank = [(known["held_out_accuracy"], -known["held_out_log_loss"]) for known in self.history]
        return all(earlier < rank[-1] for earlier in rank[:-1])

    def _read(self, path: Path) -> None:
        """Go on with the diary of a run that was broken off."""
        if not path.exists():
            raise ValueError(f"the checkpoint has no {path.name!r} beside it; begin anew with another checkpoint path")
        saved = torch.load(path, weights_only=True, map_location="cpu")
        for name, value in self.settings.items():
            if saved["settings"].get(name) != value:
                raise ValueError(
                    f"the checkpoint beside {str(path)!r} was made with {name}={saved['settings'].get(name)!r}, not "
                    f"{value!r}; use the same settings, or begin anew with another checkpoint path, on "
                    "the command line with --restart or another --output"
                )
        self.history, self.best_epoch, self.best_state = saved["history"], saved["best_epoch"], saved["best_state"]

    def _keep(self) -> None:
        """Write the diary to its file, whole or not at all; of several processes the first does."""
        if self._path is None or rank_and_world_size()[0] > 0:
            return
        names = ("settings", "history", "best_epoch", "best_state")
        save_whole({name: getattr(self, name) for name in names}, self._path)
