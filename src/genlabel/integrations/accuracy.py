"""Accuracy of scores for a mixed batch, from the labels that it had before mixing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MixedAccuracy(NamedTuple):
    """Two readings of how well scores fit a mixed batch; tensors, so that nobody waits for a GPU.

    `mixed_accuracy` returns it.
    """

    weighted: Tensor
    """Mean of lam 1[prediction = y_i] + (1 - lam) 1[prediction = y_j]; 1 is out of reach where y_i is not y_j."""
    dominant: Tensor
    """Share of predictions that are the class with the larger weight."""


def mixed_accuracy(
    scores: Tensor, y: Tensor, partner: Tensor | None = None, lam: Tensor | None = None
) -> MixedAccuracy:
    """Return the accuracy of scores for a mixed batch; that of a clean one without partner and lam.

    Metrics that compare predictions with soft labels give 0 for every mixed point, without a word.

    Parameters
    ----------
    scores : Tensor (n, k)
    y : Tensor (n,) or (n, k)
        Class indices before mixing; of soft labels, the likeliest class counts.
    partner, lam : Tensor (n,), optional
        Those of the draw.

    Examples
    --------
    >>> scores, y = torch.eye(3)[[0, 2]], torch.tensor([0, 1])
    >>> mixed_accuracy(scores, y, torch.tensor([1, 0]), torch.tensor([0.75, 0.75]))
    MixedAccuracy(weighted=tensor(0.3750), dominant=tensor(0.5000))
    """
    if (partner is None) != (lam is None):
        raise ValueError("partner and lam go together; give those of the draw, or neither for a clean batch")
    found, own = scores.detach().argmax(1), (y if y.ndim == 1 else y.argmax(1)).to(scores.device)
    hit = (found == own).float()
    if partner is None or lam is None:
        return MixedAccuracy(hit.mean(), hit.mean())
    other = own[partner.to(own.device)]
    share = lam.to(hit)
    dominant = torch.where(share >= 0.5, own, other)
    return MixedAccuracy((share * hit + (1.0 - share) * (found == other)).mean(), (found == dominant).float().mean())
