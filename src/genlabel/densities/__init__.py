"""Class-conditional densities log p_c(x), fitted to labeled points."""

from genlabel.densities.base import ClassDensity, DensityWarning, PerClassDensity, fixed_gaussians
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gan.density import GANDensity
from genlabel.densities.gaussian import DiscriminantDensity, GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.neural import FlowDensity
from genlabel.densities.online import OnlineGaussianDensity
from genlabel.densities.stacked import StackedDensity
from genlabel.densities.transformed import PowerTransformedDensity
from genlabel.densities.vae import VAEDensity

__all__ = [
    "ClassDensity",
    "DensityWarning",
    "DiscriminantDensity",
    "FlowDensity",
    "ForestDensity",
    "GANDensity",
    "GaussianDensity",
    "KernelDensity",
    "MixtureDensity",
    "OnlineGaussianDensity",
    "PerClassDensity",
    "PowerTransformedDensity",
    "StackedDensity",
    "VAEDensity",
    "fixed_gaussians",
]
