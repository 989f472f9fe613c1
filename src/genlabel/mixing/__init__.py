"""Mixing of points: mixers (one random draw, then a deterministic mix), samplers, and the intrusion test."""

from genlabel.mixing.base import Mixer, MixParams
from genlabel.mixing.data_dependent import FeatMix, KMixup, LocalMixup, SameClassMixup, SimilarityMixup
from genlabel.mixing.genmix import GenMix, HiddenGenMix
from genlabel.mixing.intrusion import intrudes
from genlabel.mixing.mixup import CutMix, ManifoldMixup, Mixup, RandomChoice, RegMixup
from genlabel.mixing.sampler import Sampler

__all__ = [
    "CutMix",
    "FeatMix",
    "GenMix",
    "HiddenGenMix",
    "KMixup",
    "LocalMixup",
    "ManifoldMixup",
    "MixParams",
    "Mixer",
    "Mixup",
    "RandomChoice",
    "RegMixup",
    "SameClassMixup",
    "Sampler",
    "SimilarityMixup",
    "intrudes",
]
