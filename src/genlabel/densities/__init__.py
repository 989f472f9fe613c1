"""Class-conditional densities log p_c(x), learned from labelled points."""

from genlabel.densities.base import ClassDensity, DensityWarning, FoldedDensity
from genlabel.densities.candidates import default_candidates
from genlabel.densities.discriminant import DiscriminantDensity
from genlabel.densities.flow import FlowDensity
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gan import CollapsedGeneratorError, GANDensity
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.known import KnownDensity, known_gaussians
from genlabel.densities.label_model import LabelModel
from genlabel.densities.latent import LatentDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.named import named_densities, named_density
from genlabel.densities.online import CollapseWarning, OnlineGaussianDensity
from genlabel.densities.per_class import ClassSample, LogDensity, PerClassDensity
from genlabel.densities.stack import StackDensity
from genlabel.densities.support import Support
from genlabel.densities.trained import TrainedDensity
from genlabel.densities.vae import VAEDensity
from genlabel.densities.warped import WarpedDensity

__all__ = [
    "ClassDensity",
    "ClassSample",
    "CollapseWarning",
    "CollapsedGeneratorError",
    "DensityWarning",
    "DiscriminantDensity",
    "FlowDensity",
    "FoldedDensity",
    "ForestDensity",
    "GANDensity",
    "GaussianDensity",
    "KernelDensity",
    "KnownDensity",
    "LabelModel",
    "LatentDensity",
    "LogDensity",
    "MixtureDensity",
    "OnlineGaussianDensity",
    "PerClassDensity",
    "StackDensity",
    "Support",
    "TrainedDensity",
    "VAEDensity",
    "WarpedDensity",
    "default_candidates",
    "known_gaussians",
    "named_densities",
    "named_density",
]
