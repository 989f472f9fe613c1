"""Mixing points: one draw of all randomness, a deterministic mix, and the test for manifold intrusion."""

from genlabel.mixing.base import (
    BatchInfo,
    LinearMixer,
    Mixer,
    MixParams,
    blend,
    check_within_batch,
    draw_on,
    identity_params,
    mix_batch,
    stack_draws,
)
from genlabel.mixing.cutmix import CutMix
from genlabel.mixing.genmix.hidden import HiddenGenMix, invert_features
from genlabel.mixing.genmix.sampler import GenMix, GenMixWarning
from genlabel.mixing.intrusion import distance_to_rivals, intrudes
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
    "check_within_batch",
    "distance_to_rivals",
    "draw_on",
    "identity_params",
    "intrudes",
    "invert_features",
    "mix_batch",
    "stack_draws",
]
