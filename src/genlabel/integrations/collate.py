"""Mixing in a data loader: a `collate_fn`, also in worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor
from torch.utils.data import default_collate

from genlabel.integrations.mixup import GenLabelMixup


@final
class MixCollate:
    """Function for `DataLoader(collate_fn=)` that mixes and labels each batch, differently in every worker and epoch.

    It needs labels that do not learn: those of a fitted density, or of mixup (gamma=0). Anything learned in a worker
    would be lost.

    Parameters
    ----------
    mixup : GenLabelMixup
        Object without a network or a teacher.
    collate : callable
        Function from a list of samples to (x, y).

    Examples
    --------
    >>> import torch
    >>> collate = MixCollate(GenLabelMixup(num_classes=3, gamma=0.0))
    >>> x, target = collate([(torch.zeros(2), 0), (torch.ones(2), 2)])
    >>> x.shape, target.sum(1)
    (torch.Size([2, 2]), tensor([1., 1.]))
    """

    def __init__(self, mixup: GenLabelMixup, collate: Callable[[list[Any]], Any] = default_collate) -> None:
        if not isinstance(mixup, GenLabelMixup):
            raise TypeError(f"mixup is a {type(mixup).__name__}; pass a GenLabelMixup")
        if mixup.labeler.update_source is not None:
            raise ValueError(
                "the density of mixup learns, which is lost with a worker process; pass a fitted density=, or gamma=0, "
                "or mix in the loop"
            )
        self.mixup, self.collate = mixup, collate

    def __call__(self, samples: list[Any]) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k)."""
        x, y = self.collate(samples)
        mixed: tuple[Tensor, Tensor] = self.mixup(x, y)
        return mixed
