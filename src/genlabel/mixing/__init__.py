"""Mixing of points: mixers (one random draw, then a deterministic mix), samplers, and the intrusion test."""

from genlabel.mixing.base import BatchInfo, LinearMixer, Mixer, MixParams, blend, identity_params
from genlabel.mixing.cutmix import CutMix
from genlabel.mixing.genmix.hidden import HiddenGenMix
from genlabel.mixing.genmix.sampler import GenMix, GenMixWarning
from genlabel.mixing.intrusion import intrudes
from genlabel.mixing.mixup import ManifoldMixup, Mixup
from genlabel.mixing.sampler import Sampler, Synthetic

__all__ = [
    "BatchInfo",
    "CutMix",
    "GenMix",
    "GenMixWarning",
    "HiddenGenMix",
    "LinearMixer",
    "ManifoldMixup",
    "MixParams",
    "Mixer",
    "Mixup",
    "Sampler",
    "Synthetic",
    "blend",
    "identity_params",
    "intrudes",
]
