"""Setting of the GenMix experiments: a network trained with a mixer, or with added points of GenMix."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.attacks import margins
from genlabel.labeling import LinearLabel
from genlabel.labeling.base import WeightedLabel
from genlabel.metrics import MIN_PROBABILITY, accuracy, log_loss
from genlabel.mixing import GenMix, Mixer
from genlabel.training import SGD, train_network
from genlabel.training.batching import BatchPlan, Hyperparameters, TrainingTask, batches_per_epoch
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import MLP, LeNet5, StagedNetwork
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.curves import equidistance_error
from genlabel_paper.runs.data import SplitData
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS, GenMixDataset
from genlabel_paper.runs.genmix_methods import GENMIX_METHODS, GenMixMethod, make_density
from genlabel_paper.runs.plane import encode_points, predict_regions
from genlabel_paper.runs.setting import Result, Setting, Variant

HIDDEN = (64, 128, 128)
"""arXiv Table 10: network of the circles and the moons. Images have LeNet-5 (arXiv Table 13)."""
STEPS = 800
"""SGD steps of all methods: 100 epochs of 1,000 rows (arXiv Table 10)."""
BATCH_SIZE = 128
WEIGHT_DECAY = 1e-4
ADDED_PER_ROW = 1.0
"""Points of GenMix for each training row. NOTE[PAPER]: not printed."""
LAM = 0.5
"""arXiv Section F.5, "GenMix enjoys large margins": points that are equally likely under both classes."""
HALFWAY_TOLERANCE = 0.05
"""Largest relative difference of the distances to the true curves of a point that is halfway."""
MAX_MARGINS = 300
"""Largest number of training points whose margins are measured."""
MAX_RECORDED_POINTS = 400
"""Largest number of added points in a record, for the figures."""

_ABOUT = (
    f"ReLU network {HIDDEN}, LeNet-5 for images; SGD, momentum 0.9, at most {STEPS} steps of {BATCH_SIZE} rows for all "
    f"methods, a tenth of the rate after 1/2 and 3/4 of them; GenMix adds {ADDED_PER_ROW:g} point for each row, at "
    f"lam = {LAM:g}, with its soft label; mixup alpha 1, manifold mixup alpha 2, one lam a batch"
)

Floats = NDArray[np.float64]


class AugmentedRows(NamedTuple):
    """Rows of the training: the given ones, then the points that GenMix added."""

    X: Floats
    labels: Floats
    """Soft labels (n, k)."""
    pair: NDArray[np.int64]
    """Pairs of classes of the added rows, which are the last ones, (s, 2)."""
    seconds: float
    """Time to fit the density and find the points."""

    @property
    def added(self) -> Floats:
        """Added points (s, d)."""
        return self.X[len(self.X) - len(self.pair) :]


@final
@dataclass(frozen=True)
class GenMixSetting(Setting):
    """Setting of the GenMix experiments; all methods take the same number of steps."""

    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods of a dataset, none for an unknown one."""
        if dataset not in GENMIX_DATASETS:
            return set()
        return {one.variant for one in GENMIX_METHODS.values() if one.supports(GENMIX_DATASETS[dataset])}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return the network and its training, the data, the mixer, and the density with all parameters."""
        method, about = GENMIX_METHODS[variant[0]], GENMIX_DATASETS[dataset]
        training = {"hidden": HIDDEN, "steps": STEPS, "batch": BATCH_SIZE, "decay": WEIGHT_DECAY, "optimizer": SGD()}
        points: dict[str, Any] = {"limits": about.limits, "margins": MAX_MARGINS}
        points |= {"kept": MAX_RECORDED_POINTS, "near": HALFWAY_TOLERANCE}
        points |= {} if about.limits is None else {"class_margin": "least median"}
        return {
            "training": training,
            "data": about.describe(),
            "mixer": method.mixer,
            "genmix": _sampler(method, about, 0),
            "measured": points | {"least_probability": MIN_PROBABILITY},
        }

    def cost(self, dataset: str) -> float:
        """Return more for images."""
        return 1e6 if GENMIX_DATASETS[dataset].image is None else 1e9

    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Train the network of the one cell of a trial."""
        (cell,) = cells
        method, about = GENMIX_METHODS[cell.method], GENMIX_DATASETS[cell.dataset]
        data = about.load(cell.split, data_home)
        rows = _augment(data, _sampler(method, about, cell.seed))
        network = _train(rows, method.mixer, about, cell.seed)
        parameters: dict[str, Any] = {"train_rows": len(data.X), "added": len(rows.pair), "steps": STEPS}
        metrics = _measure(network, data, about) | _measure_added(rows, about.curves, method.norm)
        if len(rows.pair):
            parameters["augment_seconds"] = round(rows.seconds, 2)
        if about.limits is not None and cell.split == cell.seed == 0:
            parameters |= _plot_data(network, rows, about.limits)
        return [Result(cell, parameters, metrics)]


def _augment(data: SplitData, sampler: GenMix | None) -> AugmentedRows:
    """Return the training rows of a split, followed by the points of GenMix."""
    k = int(data.y.max()) + 1
    if sampler is None:
        return AugmentedRows(data.X, np.eye(k)[data.y], np.empty((0, 2), dtype=np.int64), 0.0)
    start = perf_counter()
    X, labels = sampler.fit_resample(data.X, data.y)  # arXiv Alg. 4
    return AugmentedRows(X, labels, sampler.pair_, perf_counter() - start)


def _sampler(method: GenMixMethod, about: GenMixDataset, seed: int) -> GenMix | None:
    """Return GenMix with the density of the method, or None if it has none."""
    if method.density is None:
        return None
    density = make_density(method.density, seed, about.image, method.norm)
    return GenMix(density, n_aug=ADDED_PER_ROW, lam=LAM, output="soft", random_state=seed)


def _train(rows: AugmentedRows, mixer: Mixer | None, about: GenMixDataset, seed: int) -> StagedNetwork:
    """Return a network trained on all rows, for the number of epochs that gives the same number of steps."""
    X = rows.X if about.image is None else rows.X.reshape(-1, *about.image)
    n, k = rows.labels.shape
    network = _network(X, k, about, seed)
    labeler = LinearLabel().fit(rows.X, rows.labels.argmax(1))
    task = TrainingTask(X, rows.labels, k, (labeler,), mixer, seed=seed)
    epochs = max(1, round(STEPS / batches_per_epoch(n, BATCH_SIZE)))
    candidate = Hyperparameters(about.learning_rate, WEIGHT_DECAY)
    train_task(network, task, candidate, optimizer=SGD(), epochs=epochs, batch_size=BATCH_SIZE)
    return network


def train_task(
    network: StagedNetwork, task: TrainingTask, candidate: Hyperparameters, *, batch_size: int = 128, **options: Any
) -> Floats:
    """Train a network in place on a task, with the draws that a fleet would use; return the mean loss of each epoch.

    From the same weights and seed it ends equal to a fleet of one. `options` are those of `train_network`.
    """
    return train_network(
        network,
        BatchPlan(task, batches_per_epoch(len(task.X), batch_size), next(network.parameters())),
        mixer=task.mixer,
        labeler=WeightedLabel(task.labelers, candidate.label),
        learning_rate=candidate.learning_rate,
        weight_decay=candidate.weight_decay,
        class_weight=task.class_weight,
        **options,
    )


def _network(X: Floats, k: int, about: GenMixDataset, seed: int) -> StagedNetwork:
    """Return a new network; the seed itself is that of the mixing, its child that of the weights."""
    weights = np.random.default_rng(seed).spawn(1)[0]
    if about.image is None:
        return MLP(X.shape[1], k, HIDDEN, seed=weights)
    channels, side, _ = about.image
    network = LeNet5(k, channels, side, float(X.mean()), float(X.std()), seed=weights)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")


def _log_proba(network: StagedNetwork, X: Floats, image: tuple[int, int, int] | None) -> Floats:
    shaped = X if image is None else X.reshape(-1, *image)
    return torch.log_softmax(predict_scores(network, shaped).double(), 1).numpy()


def _measure(network: StagedNetwork, data: SplitData, about: GenMixDataset) -> dict[str, float]:
    """Return accuracy and log-loss on the test rows, and margins of training points of plotted datasets."""
    logs = np.maximum(_log_proba(network, data.X_test, about.image), np.log(MIN_PROBABILITY))
    metrics = {"accuracy": float(accuracy(logs, data.y_test)), "log_loss": float(log_loss(logs, data.y_test))}
    if about.limits is not None:
        chosen = np.random.default_rng(2).permutation(len(data.X))[:MAX_MARGINS]
        result = margins(network, data.X[chosen], data.y[chosen])
        metrics |= {"smallest_margin": result.smallest, "median_margin": result.median}
        metrics["right_points"] = float(result.correct.sum())
        metrics["class_margin"] = min(
            float(np.median(result.distances[result.labels == c])) for c in np.unique(result.labels)
        )
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def _measure_added(rows: AugmentedRows, curves: str | None, norm: str) -> dict[str, float]:
    """Return how far added points are from halfway between the true curves of their pair, if these are known."""
    if not len(rows.pair) or curves is None:
        return {}
    error = equidistance_error(rows.added, curves, rows.pair, norm)
    return {
        "equidistance_median": float(np.median(error)),
        "equidistance_share": float((error <= HALFWAY_TOLERANCE).mean()),
    }


def _plot_data(network: StagedNetwork, rows: AugmentedRows, limits: tuple[float, float]) -> dict[str, str]:
    """Return the encoded decision regions of the network and some added points, for the figures."""
    regions = predict_regions(lambda X: _log_proba(network, X, None).argmax(1), limits, steps=300)
    encoded = {"regions": regions.encode()}
    if len(rows.pair):
        count = min(MAX_RECORDED_POINTS, len(rows.pair))
        chosen = np.linspace(0, len(rows.pair) - 1, count).round().astype(np.int64)  # some of every pair
        encoded["points"] = encode_points(rows.added[chosen], rows.pair[chosen], limits)
    return encoded


SETTINGS = {"genmix": GenMixSetting(_ABOUT)}
