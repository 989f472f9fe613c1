"""Class-conditional densities log p_c(x), learned from labelled points."""

from genlabel.densities.base import ClassDensity, ClassSample, DensityWarning, LogDensity, PerClassDensity
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.known import KnownDensity, known_gaussians
from genlabel.densities.latent import LatentDensity
from genlabel.densities.named import named_densities

__all__ = [
    "ClassDensity",
    "ClassSample",
    "DensityWarning",
    "GaussianDensity",
    "KernelDensity",
    "KnownDensity",
    "LatentDensity",
    "LogDensity",
    "PerClassDensity",
    "known_gaussians",
    "named_densities",
]
