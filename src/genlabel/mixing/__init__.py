"""Mixing points: one draw of all randomness, a deterministic mix, and the test for manifold intrusion."""

from genlabel.mixing.base import (
    LinearMixer,
    Mix,
    Mixer,
    Origin,
    blend,
    check_within_batch,
    draw_on,
    mix_batch,
    no_mix,
    stack_draws,
)
from genlabel.mixing.cutmix import CutMix
from genlabel.mixing.genmix import GenMix, GenMixWarning
from genlabel.mixing.hidden import HiddenGenMix, invert_features
from genlabel.mixing.intrusion import distance_to_rivals, intrudes
from genlabel.mixing.mixup import ManifoldMixup, Mixup
from genlabel.mixing.sampler import Sampler, Synthetic

__all__ = [
    "CutMix",
    "GenMix",
    "GenMixWarning",
    "HiddenGenMix",
    "LinearMixer",
    "ManifoldMixup",
    "Mix",
    "Mixer",
    "Mixup",
    "Origin",
    "Sampler",
    "Synthetic",
    "blend",
    "check_within_batch",
    "distance_to_rivals",
    "draw_on",
    "intrudes",
    "invert_features",
    "mix_batch",
    "no_mix",
    "stack_draws",
]
