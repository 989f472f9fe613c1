"""Mixing points: one draw of all randomness, a deterministic mix, and the test for manifold intrusion."""

from genlabel.mixing.base import Mix, Mixer, blend
from genlabel.mixing.intrusion import distance_to_rivals, intrudes
from genlabel.mixing.mixup import ManifoldMixup, Mixup

__all__ = ["ManifoldMixup", "Mix", "Mixer", "Mixup", "blend", "distance_to_rivals", "intrudes"]
