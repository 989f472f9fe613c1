"""Compare fixed weights of the generative label with gamma="auto" on image files: accuracy, log-loss, calibration.

    python benchmarks/label_trust.py fashion.npz [--rows 5000] [--epochs 30] [--seeds 3] [--json FILE]
        [--methods "no mixup,mixup,0.1,0.5,auto"] [--mixers mixup,k-mixup]

LeNet-5 is trained by Adam on the first rows of the training part, and tested on the whole test part. "mixup" has one
lam for each image, as all methods have. Printed for each method, as mean and range over the seeds: test accuracy (%),
log-loss, expected calibration error (%), the mean weight of the generative label, and the share of the training labels
with most of their mass outside of the parents' classes (%), of the last epoch. With several mixers, each as it is
registered, there is a row for each of them with each kind of labels; "mixup" then stands for linear labels.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from genlabel import GenLabelMixup
from genlabel.data.datasets import load_images
from genlabel.metrics import calibration_error, log_loss
from genlabel.registry import MIXERS
from genlabel.training import ImageBatches
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import LeNet5

BATCH_SIZE = 64


def train(x: np.ndarray, y: np.ndarray, method: str, mixer: str, epochs: int, seed: int) -> tuple[LeNet5, dict]:
    """Return a network trained by a method, and the weight of its generative labels in the last epoch."""
    network = LeNet5(seed=seed)
    optimizer = torch.optim.Adam(network.parameters(), 0.001)
    gamma = {"no mixup": 0.0, "mixup": 0.0, "auto": "auto"}.get(method)
    mixup = GenLabelMixup(
        network,
        num_classes=10,
        mixer=MIXERS.create(mixer),
        mix_layers=("", "stages.0", "stages.1"),
        prob=0.0 if method == "no mixup" else 1.0,
        gamma=float(method) if gamma is None else gamma,
        seed=seed,
    )
    batches = ImageBatches(x, y, batch_size=BATCH_SIZE, seed=seed)
    for _ in range(epochs):
        weights, outside = [], []
        network.train()
        for batch in batches:
            mixed = mixup.mix(batch.x, batch.y)
            loss = mixed.loss(network(mixed.x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target, own = mixed.target(), mixed.targets
            parents = own + own[mixed.draw.partner]
            outside.append(
                float((target.gather(1, parents.argsort(1, descending=True)[:, :2]).sum(1) < 0.5).float().mean())
            )
            weights.append(float(mixup.effective_gamma))
    return network, {"gamma": float(np.mean(weights)), "outside": 100.0 * float(np.mean(outside))}


def evaluate(network: LeNet5, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return accuracy, log-loss and calibration error of a network."""
    log_proba = torch.log_softmax(predict_scores(network, x).double(), 1).numpy()
    accuracy = float((log_proba.argmax(1) == y).mean())
    loss, error = float(log_loss(log_proba, y)), float(calibration_error(log_proba, y))
    return {"accuracy": 100.0 * accuracy, "log_loss": loss, "ece": 100.0 * error}


def summary(values: Iterable[float]) -> str:
    """Return the mean and half of the range of some values."""
    numbers = np.array(list(values))
    return f"{numbers.mean():.3f} ± {np.ptp(numbers) / 2:.3f}"


def main() -> None:
    """Train each method with each seed, and print a row for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="no mixup,mixup,0.1,0.5,auto")
    parser.add_argument("--mixers", default="mixup")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = load_images(arguments.source)
    x, y = images.x_train[: arguments.rows], images.y_train[: arguments.rows]
    results = {}
    for mixer in arguments.mixers.split(","):
        for method in arguments.methods.split(","):
            runs = []
            for seed in range(arguments.seeds):
                network, labels = train(x, y, method, mixer, arguments.epochs, seed)
                runs.append({**evaluate(network, images.x_test, images.y_test), **labels})
            results[f"{mixer}, {method}"] = runs
            columns = " | ".join(f"{name} {summary(run[name] for run in runs)}" for name in runs[0])
            print(f"{mixer}, {method}: {columns}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
