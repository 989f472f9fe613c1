"""Methods of the GenMix experiments: a mixer of the training batches, or a density that adds points before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from genlabel.densities import (
    ClassDensity,
    FlowDensity,
    GANDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    VAEDensity,
)
from genlabel.mixing import ManifoldMixup, Mixer, Mixup
from genlabel_paper.runs.genmix_datasets import GenMixDataset

ImageShape: TypeAlias = tuple[int, int, int] | None


@final
@dataclass(frozen=True)
class GenMixMethod:
    """Method of Table 15, or GenMix with another density."""

    key: str
    """Name in cells and records."""
    mixer: Mixer | None = None
    alpha: float = 1.0
    """Parameter of lam ~ Beta(alpha, alpha), if lam is random."""
    density: str | None = None
    """Name of the density of GenMix, see `make_density`."""
    norm: str = "l2"
    """Norm of the distances at which added points are halfway between two classes."""
    points_only: bool = False
    """True if the method is unsuitable for images with hundreds of features."""

    @property
    def variant(self) -> tuple[str, float]:
        """Key and alpha, as in cells."""
        return self.key, self.alpha

    def supports(self, dataset: GenMixDataset) -> bool:
        """Return whether the method is suitable for a dataset."""
        return dataset.image is None or not self.points_only


def make_density(name: str, seed: int = 0, image: ImageShape = None, norm: str = "l2") -> ClassDensity:
    """Return a new density: "gaussian", "kernel", "mixture", "flow", "vae" or "gan".

    NOTE[PAPER]: only GM is specified, by sample mean and covariance. The kernel bandwidth maximizes the leave-one-out
    likelihood: with Scott's rule, the two circles merge.

    >>> make_density("kernel")
    KernelDensity(bandwidth='likelihood')
    """
    makers: dict[str, Callable[[], ClassDensity]] = {
        "gaussian": lambda: GaussianDensity() if image is None else GaussianDensity(shrinkage="ledoit-wolf"),
        "kernel": lambda: KernelDensity("likelihood"),
        "mixture": lambda: MixtureDensity(8, "diagonal", reg=1e-4, random_state=seed),
        "flow": lambda: FlowDensity(random_state=seed),
        "vae": lambda: VAEDensity(random_state=seed),
        "gan": lambda: GANDensity(norm, shape=_divisible(image), random_state=seed),
    }
    return makers[name]()


def _divisible(image: ImageShape) -> ImageShape:
    """Return the shape if convolutions can halve it twice, else None: the images are rows of pixels."""
    return image if image is not None and image[1] % 4 == 0 and image[1] >= 16 else None


def _genmix(name: str, norm: str = "l2", points_only: bool = False) -> GenMixMethod:
    key = f"genmix-{name}" + ("" if norm == "l2" else f"-{norm}")
    return GenMixMethod(key, density=name, norm=norm, points_only=points_only)


_DEFINED = (
    GenMixMethod("vanilla"),
    GenMixMethod("mixup", Mixup(lam_per="batch")),
    GenMixMethod("manifold", ManifoldMixup(alpha=2.0), alpha=2.0),
    _genmix("gan"),
    _genmix("gaussian"),
    _genmix("kernel"),
    _genmix("mixture"),
    _genmix("flow", points_only=True),
    _genmix("vae"),
    _genmix("gan", "l1", points_only=True),
    _genmix("gan", "linf", points_only=True),
)
GENMIX_METHODS = {method.key: method for method in _DEFINED}
"""Methods by key: the four of Table 15, GenMix with other densities, and with two other norms."""
