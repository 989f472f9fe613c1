"""The stages of a fit: about how much of the whole each of them is, and when it should be over."""

from __future__ import annotations

from genlabel.model_selection.search_space import FOLDS, SearchSpace, TrainerConfig

__all__ = ["FINAL", "LABELS", "MOST_TIME", "SEARCH", "SUPPORT", "TWINS", "search_time", "shares_of"]

LABELS, TWINS, SEARCH, FINAL, SUPPORT = "stacked density", "twins", "search", "final fit", "support"
"""In the order in which a fit goes through them."""
MOST_TIME = {LABELS: 0.35, TWINS: 0.6, SEARCH: 0.9, FINAL: 0.95}
"""Of a time limit, how much is spent when a stage should be over."""
EACH = 20
"""A search takes about as long as so many final networks."""


def shares_of(method: SearchSpace, settings: TrainerConfig, searches: bool, supported: bool) -> dict[str, float]:
    """Return the stages that a fit has, with about how much of it each of them is.

    Parameters
    ----------
    method : Method
    settings : Settings
    searches : bool
        Whether there is a search at all.
    supported : bool
        Whether it also learns how typical rows are.
    """
    shares = {
        LABELS: 1.0 if any(density.is_calibrated for density in method.densities) else 0.0,
        TWINS: 0.0 if method.twin is None else 5.0,
        SEARCH: (10.0 if settings.hidden else 1.0) if searches else 0.0,
        FINAL: 0.0 if settings.members == FOLDS else 3.0,
        SUPPORT: 0.5 if supported else 0.0,
    }
    return {name: share for name, share in shares.items() if share}


def search_time(settings: TrainerConfig) -> float:
    """Return how much of a time limit is spent when a search should be over: the final networks take some of it."""
    members = 0 if isinstance(settings.members, str) else settings.members
    return MOST_TIME[SEARCH] * EACH / (EACH + members)
