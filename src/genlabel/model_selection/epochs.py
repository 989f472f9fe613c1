"""How long networks are trained, where nothing is said: by the size of the sample."""

from __future__ import annotations

from genlabel.model_selection.search_space import TrainerConfig
from genlabel.training import batches_per_epoch

__all__ = ["MOST_BATCHES", "MOST_EPOCHS", "STEPS", "default_epochs", "epochs_per_pass"]

EPOCHS = 100
"""Of a full search (arXiv Table 11)."""
MOST_EPOCHS, MOST_BATCHES = 50, 256
"""Of a search that halves: its epochs, and the steps of one; of more steps, an epoch is a part of a pass."""
STEPS = 320.0
"""Steps of a training over the root of an epoch's."""


def epochs_per_pass(rows: int, settings: TrainerConfig) -> int:
    """Return the epochs that make a pass over the rows: one, but where their number is not said, more of many rows."""
    if settings.epochs is not None or not settings.halving:
        return 1
    return -(-batches_per_epoch(rows, settings.batch_size) // MOST_BATCHES)


def default_epochs(rows: int, settings: TrainerConfig) -> int:
    """Return how long a network is trained, at most: as said, or by the number of steps that make an epoch.

    Small samples take few steps an epoch; of large ones the number of steps grows with the root of theirs.
    """
    if settings.epochs is not None:
        return settings.epochs
    if not settings.halving:
        return EPOCHS
    batches = batches_per_epoch(rows, settings.batch_size * epochs_per_pass(rows, settings))
    return int(min(MOST_EPOCHS, round(STEPS / batches**0.5)))
