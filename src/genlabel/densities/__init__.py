"""Class-conditional densities log p_c(x), fitted to labeled points."""

from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.discriminant import DiscriminantDensity
from genlabel.densities.flow import FlowDensity
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gan.density import GANDensity
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.latent import LatentDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.neural import NeuralDensity
from genlabel.densities.online import CollapseWarning, OnlineGaussianDensity
from genlabel.densities.per_class import FixedDensity, PerClassDensity, fixed_gaussians
from genlabel.densities.power_transform import PowerTransformedDensity
from genlabel.densities.stacked import StackedDensity
from genlabel.densities.vae import VAEDensity

__all__ = [
    "ClassDensity",
    "CollapseWarning",
    "DensityWarning",
    "DiscriminantDensity",
    "FixedDensity",
    "FlowDensity",
    "ForestDensity",
    "GANDensity",
    "GaussianDensity",
    "KernelDensity",
    "LatentDensity",
    "MixtureDensity",
    "NeuralDensity",
    "OnlineGaussianDensity",
    "PerClassDensity",
    "PowerTransformedDensity",
    "StackedDensity",
    "VAEDensity",
    "fixed_gaussians",
]
