"""Mixing in the worker processes of a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from torch.utils.data import default_collate

from genlabel.integrations.mixup import GenLabelMixup


@final
class MixCollate:
    """Function for `DataLoader(collate_fn=)` that mixes and labels each batch, differently in every worker and epoch.

    `mixup` has labels that do not learn, those of a fitted density or of mixup (gamma=0): anything learned in a worker
    would be lost.

    Parameters
    ----------
    mixup : GenLabelMixup
    collate : callable
        Function from a list of samples to a batch: a tuple, a list or a dict.
    x, y : int or str
        Index or key of the points and of the labels in the batch; other entries are left as they are.

    Examples
    --------
    >>> import torch
    >>> collate = MixCollate(GenLabelMixup(num_classes=3, gamma=0.0))
    >>> x, target = collate([(torch.zeros(2), 0), (torch.ones(2), 2)])
    >>> x.shape, target.sum(1)
    (torch.Size([2, 2]), tensor([1., 1.]))
    """

    def __init__(
        self,
        mixup: GenLabelMixup,
        collate: Callable[[list[Any]], Any] = default_collate,
        x: int | str = 0,
        y: int | str = 1,
    ) -> None:
        if not isinstance(mixup, GenLabelMixup):
            raise TypeError(f"mixup is a {type(mixup).__name__}; pass a GenLabelMixup")
        if mixup.labeler.update_source is not None:
            raise ValueError(
                "the density of mixup learns, which is lost with a worker process; pass a fitted density=, or gamma=0, "
                "or mix in the loop"
            )
        self.mixup, self.collate, self._x, self._y = mixup, collate, x, y

    def __call__(self, samples: list[Any]) -> Any:
        """Return the batch with mixed points and labels (n, k)."""
        collated = self.collate(samples)
        batch: Any = dict(collated) if isinstance(collated, Mapping) else list(collated)
        try:
            x, y = batch[self._x], batch[self._y]
        except (KeyError, IndexError, TypeError) as error:
            entries = list(batch) if isinstance(batch, dict) else f"{len(batch)} entries"
            message = (
                f"the batch has {entries}; MixCollate(mixup, x={self._x!r}, y={self._y!r}) names points and labels"
            )
            raise type(error)(message) from None
        batch[self._x], batch[self._y] = self.mixup(x, y)
        return batch if isinstance(batch, dict) else tuple(batch)
