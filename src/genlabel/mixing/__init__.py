"""Mixing of points: mixers (one random draw, then a deterministic mix), samplers, and the intrusion test."""

from genlabel.mixing.base import Mixer, MixParams
from genlabel.mixing.genmix import GenMix, HiddenGenMix
from genlabel.mixing.intrusion import intrudes
from genlabel.mixing.mixup import CutMix, ManifoldMixup, Mixup, RandomChoice
from genlabel.mixing.sampler import Sampler

__all__ = [
    "CutMix",
    "GenMix",
    "HiddenGenMix",
    "ManifoldMixup",
    "MixParams",
    "Mixer",
    "Mixup",
    "RandomChoice",
    "Sampler",
    "intrudes",
]
