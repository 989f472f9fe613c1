"""Several labels in one: the blend of what several labelers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import to_device
from genlabel.labeling.base import Labeler
from genlabel.mixing import BatchInfo, MixParams


@final
class WeightedLabel(Labeler):
    """The blend of several labelers' labels, with a fixed share of each: gamma y_gen + (1 - gamma) y_mix, say.

    Parameters
    ----------
    labelers : sequence of Labeler
        Fitted; none that learns while a network trains.
    shares : sequence of float

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> halves = WeightedLabel([LinearLabel(), LinearLabel()], [0.5, 0.5])
    >>> halves.label([[0.0], [0.0]], [0, 1], MixParams(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def __init__(self, labelers: Sequence[Labeler], shares: Sequence[float]) -> None:
        self.labelers = labelers
        self.shares = shares

    @property
    def needs_inputs(self) -> bool:
        """Whether any of them does."""
        return any(labeler.needs_inputs for labeler in self.labelers)

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        for labeler in self.labelers:
            if labeler.update_source is not None:
                raise ValueError(f"{labeler!r} learns while a network trains, and cannot share a label; use it alone")
        labels = torch.stack([labeler.label(x_mix, targets, draw, origin) for labeler in self.labelers], -1)
        shares: Tensor = labels @ to_device(np.asarray(self.shares), labels, labels.dtype)
        return shares
