"""Compare the sources of features of the online Gaussians: do cheap statistics give the labels of the clean pass?

    python benchmarks/online_labels.py cifar10 --data-home FOLDER [--epochs 10] [--seeds 3] [--json FILE]

One network is trained with GenLabel by the clean pass (arXiv Alg. 3). Two more densities learn from the same steps, one
from nearly clean mixed images ("near"), one from a quarter of the clean batch ("part"), and every mixed image is
labeled by all three. Printed for each epoch: how often they name the same most likely class, the mean total variation
between their labels, and the mean largest probability. Then, for mixup and for each of the statistics, the test
accuracy of networks that are trained with it, over the seeds.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from genlabel import LambdaCallback, Mixup
from genlabel.data.datasets import load_images
from genlabel.densities import OnlineGaussianDensity
from genlabel.evaluation.image_methods import choose_network
from genlabel.evaluation.images import train_images
from genlabel.labeling import Labeler
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo, blend
from genlabel.training import SGD, ImageBatches, train_network
from genlabel.training.networks.convolutional import IMAGE_NETWORKS

KINDS = ("clean", "near", "part")


class DensityComparison(nn.Module):
    """Three densities, and sums over an epoch: batches, equal classes, total variation, confidence."""

    sums: Tensor

    def __init__(self, num_classes: int, beta: float) -> None:
        super().__init__()
        self.densities = nn.ModuleDict(
            {kind: OnlineGaussianDensity(num_classes, beta=beta, statistics=kind) for kind in KINDS}
        )
        self.register_buffer("sums", torch.zeros(4, len(KINDS)))


class ComparedLabel(Labeler):
    """GenLabel by the clean pass, with which the other statistics are compared."""

    update_source = "clean"

    def __init__(self, comparison: DensityComparison, gamma: float = 0.1) -> None:
        self.comparison = comparison
        self.gamma = gamma

    @property
    def state(self) -> DensityComparison:
        """Return the module that learns."""
        return self.comparison

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Update the densities that learn from clean features."""
        quarter = len(features) // 4
        self.comparison.densities["clean"].update(features, targets)
        self.comparison.densities["part"].update(features[:quarter], targets[:quarter])

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        y_mix, densities = blend(targets, draw), [self.comparison.densities[kind] for kind in KINDS]
        self.comparison.densities["near"].observe(x_mix, targets, draw)
        labels = [density.soft_labels(density.log_prob(x_mix), y_mix, 2) for density in densities]
        rows = [
            torch.stack(
                [
                    torch.ones_like(y[0, 0]),
                    (y.argmax(1) == labels[0].argmax(1)).to(y).mean(),
                    0.5 * (y - labels[0]).abs().sum(1).mean(),
                    y.amax(1).mean(),
                ]
            )
            for y in labels
        ]
        self.comparison.sums.add_(torch.stack(rows, 1))
        return torch.lerp(y_mix, labels[0], self.gamma)


def compare_labels(images: Any, epochs: int, device: str, seed: int) -> list[dict[str, list[float]]]:
    """Return the agreement of the labels in each epoch, for "clean" (with itself), "near" and "part"."""
    name, arguments = choose_network("auto", images.x_train, len(images.classes))
    network = IMAGE_NETWORKS[name](**arguments, seed=seed).to(device)
    batches = ImageBatches(
        images.x_train,
        images.y_train,
        mixer=Mixup(),
        augment=images.x_train.shape[1] == 3,
        seed=seed,
        device=device,
    )
    labeler, result = ComparedLabel(DensityComparison(len(images.classes), 0.95)), []

    def report_epoch(epoch: int, logs: object) -> None:
        sums = labeler.comparison.sums
        same, distance, confidence = (sums[1:] / sums[0]).tolist()
        result.append({"same_class": same, "total_variation": distance, "confidence": confidence})
        print(f"epoch {epoch + 1}: " + "; ".join(
            f"{kind}: same class {100 * s:.2f} %, total variation {a:.4f}, confidence {c:.3f}"
            for kind, s, a, c in zip(KINDS, same, distance, confidence, strict=True)
        ), flush=True)  # fmt: skip
        sums.zero_()

    train_network(
        network,
        batches,
        mixer=batches.mixer,
        labeler=labeler,
        optimizer=SGD(),
        learning_rate=0.1,
        epochs=epochs,
        compile_config="auto",
        callback=LambdaCallback(on_epoch_end=report_epoch),
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--data-home")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3, help="0 leaves out the accuracies")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = load_images(args.data, args.data_home)
    saved: dict[str, Any] = {"data": args.data, "device": device, "kinds": KINDS, "epochs": args.epochs}
    saved["agreement"] = compare_labels(images, args.epochs, device, seed=0)
    saved["accuracy"] = {}
    for kind in ("mixup", *KINDS) if args.seeds else ():
        method = {"method": "mixup"} if kind == "mixup" else {"method": "genlabel", "statistics": kind}
        scores = [
            train_images(images, epochs=args.epochs, seed=seed, held_out=0, **method).test.accuracy
            for seed in range(args.seeds)
        ]
        saved["accuracy"][kind] = scores
        print(f"{kind}: test accuracy {', '.join(f'{100 * score:.2f}' for score in scores)}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(saved, indent=1) + "\n")


if __name__ == "__main__":
    main()
