"""The methods of the GenMix experiments: what is mixed while a network trains, or which density finds added points."""

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
from genlabel_paper.runs.genmix_sets import GenMixSet

Shape: TypeAlias = tuple[int, int, int] | None


@final
@dataclass(frozen=True)
class GenMixMethod:
    """A method of Table 15, or GenMix with another density."""

    key: str
    """Its name in cells and records."""
    mixer: Mixer | None = None
    alpha: float = 1.0
    """Of lam ~ Beta(alpha, alpha), where it is drawn."""
    density: str | None = None
    """Of GenMix, by its name, see `make_density`."""
    norm: str = "l2"
    """In which the added points are half way between two classes."""
    points_only: bool = False
    """Whether it is not for images, of hundreds of features."""

    @property
    def variant(self) -> tuple[str, float]:
        """Its key and alpha, as cells have them."""
        return self.key, self.alpha

    def suits(self, about: GenMixSet) -> bool:
        """Whether it is for a set."""
        return about.image is None or not self.points_only


def make_density(name: str, seed: int = 0, image: Shape = None, norm: str = "l2") -> ClassDensity:
    """Return a density by name, for points of a seed: "gaussian", "kernel", "mixture", "flow", "vae" or "gan".

    NOTE[PAPER]: nothing of the densities is printed but that of GM, which is the sample mean and covariance. Kernels
    have the bandwidth of the best leave-one-out likelihood: with Scott's, the two circles run together.

    >>> make_density("kernel")
    KernelDensity(bandwidth='likelihood')
    """
    found: dict[str, Callable[[], ClassDensity]] = {
        "gaussian": lambda: GaussianDensity() if image is None else GaussianDensity(shrinkage="ledoit-wolf"),
        "kernel": lambda: KernelDensity("likelihood"),
        "mixture": lambda: MixtureDensity(8, "diagonal", reg=1e-4, random_state=seed),
        "flow": lambda: FlowDensity(random_state=seed),
        "vae": lambda: VAEDensity(random_state=seed),
        "gan": lambda: GANDensity(norm, shape=_divisible(image), random_state=seed),
    }
    return found[name]()


def _divisible(image: Shape) -> Shape:
    """The shape of images that convolutions can halve twice; others are trained as rows of pixels."""
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
"""The methods by key: the four of Table 15, GenMix with our other densities, and with two other norms."""
