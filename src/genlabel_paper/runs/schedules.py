"""The runs on images (arXiv Tables 13 and 14) as plain numbers: sets, networks, rates, gamma, beta and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, final

Kind: TypeAlias = Literal["clean", "robust"]
"""Whether accuracy is measured without an attack (arXiv Table 13) or under AutoAttack as well (arXiv Table 14)."""


class ImageMethod(NamedTuple):
    """A method of Table 7."""

    key: str
    """Its name in cells and records."""
    trained_as: str
    """Its name in `genlabel.evaluation.images.METHODS`."""
    alpha: float | None = None
    """Of lam ~ Beta(alpha, alpha), where it is drawn.

    NOTE[PAPER]: not printed; 1 for mixup and 2 for manifold mixup, as in their papers.
    """
    statistics: str | None = None
    """Of the moments of GenLabel, where it is one; "clean" is arXiv Alg. 3."""
    lam_per: str = "batch"
    """Whether a batch has one lam, as in the paper, or each image its own."""

    @property
    def variant(self) -> tuple[str, float]:
        """Its key and alpha, as cells have them."""
        return self.key, 1.0 if self.alpha is None else self.alpha


_METHODS = (
    ImageMethod("vanilla", "vanilla"),
    ImageMethod("adamixup", "adamixup"),
    ImageMethod("mixup", "mixup", 1.0),
    ImageMethod("mixup-genlabel", "genlabel", 1.0, "clean"),
    ImageMethod("manifold", "manifold", 2.0),
    ImageMethod("manifold-genlabel", "manifold-genlabel", 2.0, "clean"),
    ImageMethod("mixup-sample", "mixup", 1.0, lam_per="sample"),
    ImageMethod("mixup-genlabel-default", "genlabel", 1.0, "near", "sample"),
)
"""The six of the paper; then GenLabel as the library has it if nothing is said, at almost no cost: moments from mixed
images that are nearly clean, in place of a further pass over the clean ones, and a lam for each image; and before it
mixup with a lam for each image, beside which it belongs."""


class ImageRun(NamedTuple):
    """How the networks of one set are trained, as printed in a block of lines of arXiv Table 13 or 14."""

    network: str
    """A key of `genlabel.training.networks.IMAGE_NETWORKS`."""
    learning_rate: float
    radius: float
    """Of the attack, for pixels in [0, 1]; what Table 13 prints is not used, since nothing is attacked there."""
    mixup: tuple[float, float]
    """The loss ratio gamma and the memory ratio beta of mixup+GenLabel."""
    manifold: tuple[float, float]
    """Those of manifold mixup+GenLabel."""

    def ratios(self, method: ImageMethod) -> tuple[float, float]:
        """Return gamma and beta of a GenLabel method."""
        return self.manifold if method.trained_as.startswith("manifold") else self.mixup


RUNS: dict[Kind, dict[str, ImageRun]] = {
    "clean": {
        "mnist": ImageRun("lenet5", 0.1, 0.05, (0.15, 0.95), (0.15, 0.99)),
        "cifar10": ImageRun("resnet18", 0.1, 2 / 255, (0.1, 0.95), (0.1, 0.95)),
        "cifar100": ImageRun("preact-resnet18", 0.1, 1 / 255, (0.1, 0.97), (0.1, 0.97)),
        "tinyimagenet": ImageRun("preact-resnet18", 0.1, 1 / 255, (0.05, 0.995), (0.05, 0.995)),
        "digits": ImageRun("lenet5", 0.1, 0.2, (0.15, 0.95), (0.15, 0.99)),
    },
    "robust": {
        "mnist": ImageRun("lenet5", 0.001, 0.1, (0.15, 0.97), (0.15, 0.97)),
        "cifar10": ImageRun("resnet18", 0.001, 2 / 255, (0.15, 0.9), (0.15, 0.9)),
        "cifar100": ImageRun("preact-resnet18", 0.001, 1 / 255, (0.15, 0.97), (0.15, 0.97)),
        "tinyimagenet": ImageRun("preact-resnet18", 0.002, 1 / 255, (0.15, 0.995), (0.15, 0.995)),
        "digits": ImageRun("lenet5", 0.1, 0.2, (0.15, 0.97), (0.15, 0.97)),
    },
}
"""By set: arXiv Table 13 (clean) and Table 14 (robust).

digits, which the paper does not have, have the ratios of MNIST, and a rate at which a network learns 1,438 images.
"""


class ImageSetAbout(NamedTuple):
    """What is known of a set of images before it is loaded."""

    title: str
    """As the paper calls it."""
    images: int
    """Of the training part."""
    held_out: int | float = 5000
    """Images, or the share, of the training part that choose the best epoch."""
    augmented: bool = True
    """Whether crops (4 pixels) and flips are drawn. NOTE[PAPER]: not printed; none for digits, which a flip changes."""
    adamixup: bool = False
    """Whether the paper has a line of AdaMixup for it."""
    printed: bool = True
    """Whether it is in the paper; a set that is not is run only where it is named."""


STUDY_IMAGES = {
    "mnist": ImageSetAbout("MNIST", 60_000, augmented=False, adamixup=True),
    "cifar10": ImageSetAbout("CIFAR-10", 50_000, adamixup=True),
    "cifar100": ImageSetAbout("CIFAR-100", 50_000),
    "tinyimagenet": ImageSetAbout("TinyImageNet-200", 100_000, held_out=0.1),
    "digits": ImageSetAbout("digits, 8 by 8", 1_438, 0.1, augmented=False, adamixup=True, printed=False),
}
"""The sets by their names in `genlabel.data.datasets.load_images`; digits, scikit-learn's, are always at hand."""


@final
@dataclass(frozen=True)
class Schedule:
    """How long networks are trained, and on how much; a setting of the study for each."""

    kind: Kind
    epochs: int
    images: int | None = None
    """At most so many training images, a fixed draw; None is all."""
    tests: int | None = None
    """At most so many test images."""
    attacked: int = 1000
    """At most so many test images under attack, a fixed draw. NOTE[PAPER]: the paper's number is not printed."""

    @property
    def name(self) -> str:
        """The name of the setting."""
        return f"images-{self.kind}-{'smoke-' if self.images else ''}{self.epochs}"

    @property
    def paper(self) -> bool:
        """Whether it is the paper's: 200 epochs (arXiv Table 13), 50 under attack (arXiv Table 14)."""
        return self.images is None and self.epochs == PAPER_EPOCHS[self.kind]


PAPER_EPOCHS: dict[Kind, int] = {"clean": 200, "robust": 50}
EPOCHS: dict[str, dict[Kind, dict[str, int]]] = {
    "smoke": {kind: dict.fromkeys(STUDY_IMAGES, 2) | {"digits": 15} for kind in PAPER_EPOCHS},
    "quick": {
        "clean": {"mnist": 40, "cifar10": 30, "cifar100": 30, "tinyimagenet": 30, "digits": 40},
        "robust": {"mnist": 50, "cifar10": 10, "cifar100": 10, "tinyimagenet": 10, "digits": 50},
    },
    "full": {kind: dict.fromkeys(STUDY_IMAGES, epochs) for kind, epochs in PAPER_EPOCHS.items()},
}
"""The epochs of each budget and set.

NOTE[PAPER]: "full" is the paper's; "quick" is shorter, for all rows alike, and "smoke" only shows that everything runs.
"""
SEEDS = {"smoke": 1, "quick": 3, "full": 5}
"""Of each budget."""


def schedule_of(budget: str, kind: Kind, dataset: str) -> Schedule:
    """Return the schedule of a set in a budget.

    >>> schedule_of("full", "robust", "cifar10").name, schedule_of("smoke", "clean", "mnist").name
    ('images-robust-50', 'images-clean-smoke-2')
    """
    epochs = EPOCHS[budget][kind][dataset]
    return Schedule(kind, epochs, 2000, 500, 50) if budget == "smoke" else Schedule(kind, epochs)


SCHEDULES = {
    schedule.name: schedule
    for kind in PAPER_EPOCHS
    for schedule in sorted(
        {schedule_of(budget, kind, name) for budget in SEEDS for name in STUDY_IMAGES},
        key=lambda one: (one.images is not None, -one.epochs),
    )
}
"""All of them by name, the paper's first."""


def image_methods(dataset: str) -> dict[str, ImageMethod]:
    """Return the methods of Table 7 for a set, by key; AdaMixup where the paper has settings for it.

    >>> [key for key in image_methods("mnist") if key not in image_methods("cifar100")]
    ['adamixup']
    """
    return {one.key: one for one in _METHODS if one.key != "adamixup" or STUDY_IMAGES[dataset].adamixup}


def image_run(kind: Kind, dataset: str) -> ImageRun:
    """Return how the networks of a set are trained.

    >>> image_run("robust", "mnist").radius, image_run("clean", "digits").network
    (0.1, 'lenet5')
    """
    return RUNS[kind][dataset]
