"""Class-conditional densities log p_c(x), fitted to labeled points."""

from genlabel._registry import DENSITIES
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.candidates import default_candidates
from genlabel.densities.discriminant import DiscriminantDensity
from genlabel.densities.flow import FlowDensity
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gan.density import CollapsedGeneratorError, GANDensity
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.latent import LatentDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.neural import NeuralDensity
from genlabel.densities.online import CollapseWarning, OnlineGaussianDensity
from genlabel.densities.per_class import ClassSample, FixedDensity, PerClassDensity, fixed_gaussians
from genlabel.densities.power_transform import PowerTransformedDensity
from genlabel.densities.registry import named_densities, named_density
from genlabel.densities.stacked import StackedDensity, WeightedDensities
from genlabel.densities.vae import VAEDensity

__all__ = [
    "DENSITIES",
    "ClassDensity",
    "ClassSample",
    "CollapseWarning",
    "CollapsedGeneratorError",
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
    "WeightedDensities",
    "default_candidates",
    "fixed_gaussians",
    "named_densities",
    "named_density",
]
