"""GenMix: points between the classes, found by gradient steps on the densities (arXiv Alg. 4)."""

from genlabel.mixing.genmix.hidden import HiddenGenMix, invert_features
from genlabel.mixing.genmix.sampler import GenMix, GenMixWarning

__all__ = ["GenMix", "GenMixWarning", "HiddenGenMix", "invert_features"]
