"""The setting of the GenMix experiments: a network on the given rows, mixed or with points of GenMix behind them."""

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
from genlabel.data.datasets.curves import equidistance_error
from genlabel.labeling import LinearLabel
from genlabel.metrics import LEAST_PROBABILITY, accuracy, log_loss
from genlabel.mixing import GenMix, Mixer
from genlabel.training import SGD, Hyperparameters, TrainingTask, batches_per_epoch, predict_scores, train_task
from genlabel.training.networks import MLP, LeNet5, StagedNetwork
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.data import Parts
from genlabel_paper.runs.genmix_methods import GENMIX_METHODS, GenMixMethod, make_density
from genlabel_paper.runs.genmix_sets import GENMIX_SETS, GenMixSet
from genlabel_paper.runs.plane import keep_points, keep_regions
from genlabel_paper.runs.setting import Result, Setting, Variant

HIDDEN = (64, 128, 128)
"""arXiv Table 10: the network of the circles and the moons; LeNet-5 for images (arXiv Table 13)."""
STEPS = 800
"""Of SGD, whichever method: 100 epochs of 1,000 rows (arXiv Table 10)."""
BATCH = 128
DECAY = 1e-4
ADDED = 1.0
"""Points of GenMix for each given row. NOTE[PAPER]: not printed."""
LAM = 0.5
"""arXiv Section F.5, "GenMix enjoys large margins": points that are equally likely under both classes."""
NEAR = 0.05
"""Difference of the distances to the true curves, as a share of the larger, up to which a point is half way."""
MEASURED = 300
"""Training points whose margins are measured, at most."""
KEPT = 400
"""Points of GenMix that a record keeps, at most: they are drawn."""
SECONDS = {"points": 1e6, "images": 1e9}
"""Of a trial, about, in the units of `Setting.cost`."""

ABOUT = (
    f"ReLU network {HIDDEN}, LeNet-5 for images; SGD, momentum 0.9, {STEPS} steps of {BATCH} rows at most, whichever "
    f"method, a tenth of the rate after 1/2 and 3/4 of them; GenMix adds {ADDED:g} point for each row, at lam = "
    f"{LAM:g}, with its soft label; mixup alpha 1, manifold mixup alpha 2, one lam a batch"
)
"""How the networks are trained, in a sentence."""

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """What a network is trained on: the given rows, and what GenMix added."""

    X: Floats
    labels: Floats
    """(n, k), rows on the simplex."""
    pair: NDArray[np.int64]
    """Of the added rows, which are the last ones, (s, 2)."""
    seconds: float
    """Of fitting the density and finding the points."""

    @property
    def added(self) -> Floats:
        """The added points (s, d)."""
        return self.X[len(self.X) - len(self.pair) :]


@final
@dataclass(frozen=True)
class GenMixSetting(Setting):
    """How the cells of GenMix are trained; all methods take the same number of steps."""

    def variants(self, dataset: str) -> Set[Variant]:
        """The methods of a set; none of another dataset."""
        if dataset not in GENMIX_SETS:
            return set()
        return {one.variant for one in GENMIX_METHODS.values() if one.suits(GENMIX_SETS[dataset])}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """The network and its training, the rows, the mixing, and the density with all its parameters."""
        method, about = GENMIX_METHODS[variant[0]], GENMIX_SETS[dataset]
        training = {"hidden": HIDDEN, "steps": STEPS, "batch": BATCH, "decay": DECAY, "optimizer": SGD()}
        points: dict[str, Any] = {"limits": about.limits, "margins": MEASURED, "kept": KEPT, "near": NEAR}
        points |= {} if about.limits is None else {"class_margin": "least median"}
        return {
            "training": training,
            "data": about.describe(),
            "mixer": method.mixer,
            "genmix": _sampler(method, about, 0),
            "measured": points | {"least_probability": LEAST_PROBABILITY},
        }

    def cost(self, dataset: str) -> float:
        """Images take longer."""
        return SECONDS["points" if GENMIX_SETS[dataset].image is None else "images"]

    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Train the network of the one cell of a trial."""
        (cell,) = cells
        method, about = GENMIX_METHODS[cell.method], GENMIX_SETS[cell.dataset]
        parts = about.load(cell.split, data_home)
        rows = _augment(parts, _sampler(method, about, cell.seed))
        network = _train(rows, method.mixer, about, cell.seed)
        told: dict[str, Any] = {"train_rows": len(parts.X), "added": len(rows.pair), "steps": STEPS}
        metrics = _measure(network, parts, about) | _measure_added(rows, about.curves, method.norm)
        if len(rows.pair):
            told["augment_seconds"] = round(rows.seconds, 2)
        if about.limits is not None and cell.split == cell.seed == 0:
            told |= _keep(network, rows, about.limits)
        return [Result(cell, told, metrics)]


def _augment(parts: Parts, sampler: GenMix | None) -> Rows:
    """The rows of a split, with the points of GenMix behind them."""
    k = int(parts.y.max()) + 1
    if sampler is None:
        return Rows(parts.X, np.eye(k)[parts.y], np.empty((0, 2), dtype=np.int64), 0.0)
    begin = perf_counter()
    X, labels = sampler.fit_resample(parts.X, parts.y)  # arXiv Alg. 4
    return Rows(X, labels, sampler.pair_, perf_counter() - begin)


def _sampler(method: GenMixMethod, about: GenMixSet, seed: int) -> GenMix | None:
    """GenMix with the density of the method, if it has one."""
    if method.density is None:
        return None
    density = make_density(method.density, seed, about.image, method.norm)
    return GenMix(density, n_aug=ADDED, lam=LAM, output="soft", random_state=seed)


def _train(rows: Rows, mixer: Mixer | None, about: GenMixSet, seed: int) -> StagedNetwork:
    """Train on all rows, in as many epochs as make the same number of steps."""
    X = rows.X if about.image is None else rows.X.reshape(-1, *about.image)
    n, k = rows.labels.shape
    network = _network(X, k, about, seed)
    labeler = LinearLabel().fit(rows.X, rows.labels.argmax(1))
    task = TrainingTask(X, rows.labels, k, (labeler,), mixer, seed=seed)
    epochs = max(1, round(STEPS / batches_per_epoch(n, BATCH)))
    candidate = Hyperparameters(about.learning_rate, DECAY)
    train_task(network, task, candidate, optimizer=SGD(), epochs=epochs, batch_size=BATCH)
    return network


def _network(X: Floats, k: int, about: GenMixSet, seed: int) -> StagedNetwork:
    """The network before training; the seed of the task draws the mixing, its child the weights."""
    weights = np.random.default_rng(seed).spawn(1)[0]
    if about.image is None:
        return MLP(X.shape[1], k, HIDDEN, seed=weights)
    channels, side, _ = about.image
    network = LeNet5(k, channels, side, float(X.mean()), float(X.std()), seed=weights)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")


def _log_proba(network: StagedNetwork, X: Floats, image: tuple[int, int, int] | None) -> Floats:
    shaped = X if image is None else X.reshape(-1, *image)
    return torch.log_softmax(predict_scores(network, shaped).double(), 1).numpy()


def _measure(network: StagedNetwork, parts: Parts, about: GenMixSet) -> dict[str, float]:
    """Accuracy and log-loss on the test rows; margins of training points of sets that have a picture."""
    logs = np.maximum(_log_proba(network, parts.X_test, about.image), np.log(LEAST_PROBABILITY))
    found = {"accuracy": 100.0 * float(accuracy(logs, parts.y_test)), "log_loss": float(log_loss(logs, parts.y_test))}
    if about.limits is not None:
        chosen = np.random.default_rng(2).permutation(len(parts.X))[:MEASURED]
        far = margins(network, parts.X[chosen], parts.y[chosen])
        found |= {"smallest_margin": far.smallest, "median_margin": far.median, "right_points": float(far.right.sum())}
        found["class_margin"] = min(float(np.median(far.distances[far.labels == c])) for c in np.unique(far.labels))
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _measure_added(rows: Rows, curves: str | None, norm: str) -> dict[str, float]:
    """Where the true curves are known, how far the added points are from half way between those of their pair."""
    if not len(rows.pair) or curves is None:
        return {}
    error = equidistance_error(rows.added, curves, rows.pair, norm)
    return {
        "equidistance_median": float(np.median(error)),
        "equidistance_share": float(100.0 * (error <= NEAR).mean()),
    }


def _keep(network: StagedNetwork, rows: Rows, limits: tuple[float, float]) -> dict[str, str]:
    """What is drawn of the plane: the regions of the network, and the added points."""
    regions = keep_regions(lambda X: _log_proba(network, X, None).argmax(1), limits, steps=300)
    kept = {"regions": regions.text}
    if len(rows.pair):
        some = np.linspace(0, len(rows.pair) - 1, min(KEPT, len(rows.pair))).round().astype(np.int64)  # of every pair
        kept["points"] = keep_points(rows.added[some], rows.pair[some], limits)
    return kept
