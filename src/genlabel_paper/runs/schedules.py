"""Runs on images (arXiv Tables 13 and 14) as data: datasets, networks, rates, gamma, beta and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, final

Kind: TypeAlias = Literal["clean", "robust"]
"""Accuracy without an attack (arXiv Table 13), or also under AutoAttack (arXiv Table 14)."""


class PaperImageMethod(NamedTuple):
    """Method of Table 7."""

    key: str
    """Name in cells and records."""
    trained_as: str
    """Name in `genlabel.evaluation.image_methods.IMAGE_METHODS`."""
    alpha: float | None = None
    """Parameter of lam ~ Beta(alpha, alpha), if lam is random.

    NOTE[PAPER]: not printed; 1 for mixup and 2 for manifold mixup, as in their papers.
    """
    statistics: str | None = None
    """Source of the moments of GenLabel; "clean" is arXiv Alg. 3, None for other methods."""
    lam_per: str = "batch"
    """One lam per "batch", as in the paper, or per "sample"."""
    gamma: str | None = None
    """"auto" to set gamma by the trust in the densities; None for the loss ratio of arXiv Table 13 or 14."""

    @property
    def variant(self) -> tuple[str, float]:
        """Key and alpha, as in cells."""
        return self.key, 1.0 if self.alpha is None else self.alpha


_METHODS = (
    PaperImageMethod("vanilla", "vanilla"),
    PaperImageMethod("adamixup", "adamixup"),
    PaperImageMethod("mixup", "mixup", 1.0),
    PaperImageMethod("mixup-genlabel", "genlabel", 1.0, "clean"),
    PaperImageMethod("manifold", "manifold", 2.0),
    PaperImageMethod("manifold-genlabel", "manifold-genlabel", 2.0, "clean"),
    PaperImageMethod("mixup-sample", "mixup", 1.0, lam_per="sample"),
    PaperImageMethod("mixup-genlabel-default", "genlabel", 1.0, "near", "sample"),
    PaperImageMethod("mixup-genlabel-auto", "genlabel", 1.0, "near", "sample", "auto"),
)
"""The six methods of the paper, mixup with a lam per image, and GenLabel with the library's defaults: a lam per image,
and moments from nearly clean mixed images, without a further pass over the clean ones; the last also has gamma="auto".
"""


class ImageRun(NamedTuple):
    """Training of the networks on one dataset, as printed in arXiv Table 13 or 14."""

    network: str
    """Key of `genlabel.training.networks.IMAGE_NETWORKS`."""
    learning_rate: float
    radius: float
    """Radius of the attack, for pixels in [0, 1]; the one of Table 13 is not used, since nothing is attacked there."""
    mixup: tuple[float, float]
    """Loss ratio gamma and memory ratio beta of mixup+GenLabel."""
    manifold: tuple[float, float]
    """Loss ratio gamma and memory ratio beta of manifold mixup+GenLabel."""

    def ratios(self, method: PaperImageMethod) -> tuple[float, float]:
        """Return gamma and beta of a GenLabel method."""
        return self.manifold if method.trained_as.startswith("manifold") else self.mixup


RUNS: dict[Kind, dict[str, ImageRun]] = {
    "clean": {
        "mnist": ImageRun("lenet5", 0.1, 0.05, (0.15, 0.95), (0.15, 0.99)),
        "cifar10": ImageRun("resnet18", 0.1, 2 / 255, (0.1, 0.95), (0.1, 0.95)),
        "cifar100": ImageRun("preact-resnet18", 0.1, 1 / 255, (0.1, 0.97), (0.1, 0.97)),
        "tinyimagenet": ImageRun("preact-resnet18", 0.1, 1 / 255, (0.05, 0.995), (0.05, 0.995)),
        "digits": ImageRun("lenet5", 0.1, 0.05, (0.15, 0.95), (0.15, 0.99)),
    },
    "robust": {
        "mnist": ImageRun("lenet5", 0.001, 0.1, (0.15, 0.97), (0.15, 0.97)),
        "cifar10": ImageRun("resnet18", 0.001, 2 / 255, (0.15, 0.9), (0.15, 0.9)),
        "cifar100": ImageRun("preact-resnet18", 0.001, 1 / 255, (0.15, 0.97), (0.15, 0.97)),
        "tinyimagenet": ImageRun("preact-resnet18", 0.002, 1 / 255, (0.15, 0.995), (0.15, 0.995)),
        "digits": ImageRun("lenet5", 0.1, 0.05, (0.15, 0.97), (0.15, 0.97)),
    },
}
"""Runs by dataset: arXiv Table 13 (clean) and Table 14 (robust).

digits, which are not in the paper, have the ratios of MNIST, a learning rate for 1,438 images, and a radius at which
methods differ (at 0.2, no method is right on any image).
"""


class ImageDatasetInfo(NamedTuple):
    """Facts about an image dataset that are known before it is loaded."""

    title: str
    """Name in the paper."""
    images: int
    """Number of training images."""
    held_out: int | float = 5000
    """Number or fraction of the training images that select the best epoch."""
    augmented: bool = True
    """True if images are cropped (4 pixels) and flipped at random. NOTE[PAPER]: not printed; digits change by flips."""
    adamixup: bool = False
    """True if the paper has results of AdaMixup."""
    printed: bool = True
    """True if the dataset is in the paper; others run only on request."""


IMAGE_DATASETS = {
    "mnist": ImageDatasetInfo("MNIST", 60_000, augmented=False, adamixup=True),
    "cifar10": ImageDatasetInfo("CIFAR-10", 50_000, adamixup=True),
    "cifar100": ImageDatasetInfo("CIFAR-100", 50_000),
    "tinyimagenet": ImageDatasetInfo("TinyImageNet-200", 100_000, held_out=0.1),
    "digits": ImageDatasetInfo("digits, 8 by 8", 1_438, 0.1, augmented=False, adamixup=True, printed=False),
}
"""Datasets by their names in `genlabel.data.datasets.load_images`; digits come with scikit-learn."""


@final
@dataclass(frozen=True)
class Schedule:
    """Epochs and numbers of images of a training; each schedule is a setting."""

    kind: Kind
    epochs: int
    images: int | None = None
    """Largest number of training images, a fixed random subset; None is all."""
    tests: int | None = None
    """Largest number of test images."""
    attacked: int = 1000
    """Largest number of attacked test images, a fixed random subset. NOTE[PAPER]: not printed."""

    @property
    def name(self) -> str:
        """Name of the setting."""
        return f"images-{self.kind}-{'smoke-' if self.images else ''}{self.epochs}"

    @property
    def paper(self) -> bool:
        """True if the schedule is the paper's: 200 epochs (arXiv Table 13), 50 under attack (arXiv Table 14)."""
        return self.images is None and self.epochs == PAPER_EPOCHS[self.kind]


PAPER_EPOCHS: dict[Kind, int] = {"clean": 200, "robust": 50}
EPOCHS: dict[str, dict[Kind, dict[str, int]]] = {
    "smoke": {kind: dict.fromkeys(IMAGE_DATASETS, 2) | {"digits": 15} for kind in PAPER_EPOCHS},
    "quick": {
        "clean": {"mnist": 40, "cifar10": 30, "cifar100": 30, "tinyimagenet": 30, "digits": 40},
        "robust": {"mnist": 50, "cifar10": 10, "cifar100": 10, "tinyimagenet": 10, "digits": 50},
    },
    "full": {kind: dict.fromkeys(IMAGE_DATASETS, epochs) for kind, epochs in PAPER_EPOCHS.items()},
}
"""Epochs of each budget and dataset.

NOTE[PAPER]: "full" is the paper's; "quick" is shorter, alike for all methods, and "smoke" tests that everything runs.
"""
SEEDS = {"smoke": 1, "quick": 3, "full": 5}
"""Number of seeds of each budget."""


def schedule_of(budget: str, kind: Kind, dataset: str) -> Schedule:
    """Return the schedule of a dataset in a budget.

    >>> schedule_of("full", "robust", "cifar10").name, schedule_of("smoke", "clean", "mnist").name
    ('images-robust-50', 'images-clean-smoke-2')
    """
    epochs = EPOCHS[budget][kind][dataset]
    return Schedule(kind, epochs, 2000, 500, 50) if budget == "smoke" else Schedule(kind, epochs)


SCHEDULES = {
    schedule.name: schedule
    for kind in PAPER_EPOCHS
    for schedule in sorted(
        {schedule_of(budget, kind, name) for budget in SEEDS for name in IMAGE_DATASETS},
        key=lambda one: (one.images is not None, -one.epochs),
    )
}
"""Schedules by name, the paper's first."""


def image_methods(dataset: str) -> dict[str, PaperImageMethod]:
    """Return the methods of Table 7 for a dataset, by key; AdaMixup where the paper has settings for it.

    >>> [key for key in image_methods("mnist") if key not in image_methods("cifar100")]
    ['adamixup']
    """
    return {one.key: one for one in _METHODS if one.key != "adamixup" or IMAGE_DATASETS[dataset].adamixup}


def image_run(kind: Kind, dataset: str) -> ImageRun:
    """Return the training of the networks on a dataset.

    >>> image_run("robust", "mnist").radius, image_run("clean", "digits").network
    (0.1, 'lenet5')
    """
    return RUNS[kind][dataset]
