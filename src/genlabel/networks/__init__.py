"""Staged networks: `encode(x, depth)` and `decode(h, depth)`."""

from genlabel.networks.staged import MLP, StagedNetwork, draw_weights

__all__ = ["MLP", "StagedNetwork", "draw_weights"]
