"""Mixed batches: their points, labels, loss and accuracy; checks of what is mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import torch
from torch import Tensor

from genlabel._validation import check_choice
from genlabel.mixing import MixParams

if TYPE_CHECKING:
    from genlabel.integrations.mixup import GenLabelMixup


@final
@dataclass(eq=False)
class MixedBatch:
    """A batch that :meth:`GenLabelMixup.mix` returns: points for the network, and the labels and loss of its scores.

    It is used for one pass of the network: `batch.loss(network(batch.x))`. A loss for the scores of another pass is an
    error. A transform after mixing assigns `batch.x` before the pass.

    >>> from genlabel import GenLabelMixup
    >>> network = torch.nn.Linear(4, 3)
    >>> mixup = GenLabelMixup(network, num_classes=3)
    >>> batch = mixup.mix(torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    >>> loss = batch.loss(network(batch.x))
    >>> batch.target().sum(1)
    tensor([1., 1., 1., 1., 1.])
    """

    x: Tensor
    """Points for the network: the mixed ones, or those given if a hidden layer mixes them."""
    y: Tensor
    """Labels as given: class indices (n,), or soft labels (n, k)."""
    draw: MixParams | None
    """The pairs and weights of the mix; None in evaluation, where nothing is mixed."""
    mixup: GenLabelMixup = field(repr=False)
    targets: Tensor = field(repr=False)
    """Labels before mixing, (n, k)."""
    clean_features: Tensor | None = field(default=None, repr=False)
    """Features of clean rows, if the density learns from these."""
    labels: Tensor | None = field(default=None, repr=False)
    """Labels of the mixed batch, once they are computed."""

    def target(self, scores: Tensor | None = None) -> Tensor:
        """Return the labels (n, k), float32.

        Labels that come from features of the network need its pass over `x` first. With `scores` (n, k), these must be
        the scores of that pass.
        """
        labels = self.mixup.labels_of(self, must_be_last=scores is not None)
        if scores is not None and scores.shape != labels.shape:
            raise ValueError(
                f"scores have shape {tuple(scores.shape)}, but the labels of the batch {tuple(labels.shape)}; pass "
                "network(batch.x), and set num_classes to the outputs of the network"
            )
        return labels

    def loss(
        self,
        scores: Tensor,
        weight: Tensor | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Return the cross-entropy of scores (n, k) and :meth:`target`, computed in float32.

        The parameters are those of `torch.nn.functional.cross_entropy`. With class weights (k,), the mean is divided by
        the sum of the weights of the labels, as PyTorch does for class indices, but not for soft labels. Rows that the
        mixer weights count in proportion.
        """
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores are a {type(scores).__name__}; pass the tensor (n, k), such as output.logits")
        check_choice("reduction", reduction, ["mean", "sum", "none"])
        target = self.target(scores)
        cross_entropy = partial(torch.nn.functional.cross_entropy, weight=weight, label_smoothing=label_smoothing)
        row_weight = None if self.draw is None else self.draw.weight
        if row_weight is None and (weight is None or reduction != "mean"):
            return cross_entropy(scores.float(), target, reduction=reduction)
        losses = cross_entropy(scores.float(), target, reduction="none")
        mass = torch.ones_like(losses) if weight is None else (target * weight).sum(1)
        if row_weight is not None:
            losses, mass = losses * row_weight, mass * row_weight
        if reduction == "mean":
            return losses.sum() / mass.sum()
        return losses if reduction == "none" else losses.sum()

    def accuracy(self, scores: Tensor) -> MixedAccuracy:
        """Return the accuracies of scores (n, k).

        `weighted` is the mean of lam 1[prediction = y_i] + (1 - lam) 1[prediction = y_j], `dominant` the fraction of
        predictions equal to the class with the larger weight.
        """
        return mixed_accuracy(scores, self.y, self.draw)


class MixedAccuracy(NamedTuple):
    """Two accuracies of scores for a mixed batch, as tensors; `MixedBatch.accuracy` returns it."""

    weighted: Tensor
    """Mean of lam 1[prediction = y_i] + (1 - lam) 1[prediction = y_j]; below 1 whenever some y_i differs from y_j."""
    dominant: Tensor
    """Fraction of predictions equal to the class with the larger weight."""


def mixed_accuracy(scores: Tensor, y: Tensor, draw: MixParams | None = None) -> MixedAccuracy:
    """Return the accuracy of scores (n, k) for a mixed batch, or for a clean one without a draw.

    y are class indices (n,) before mixing, or soft labels (n, k), of which the most likely class counts. Metrics that
    compare predictions with soft labels silently give 0 for every mixed point.

    >>> scores, y = torch.eye(3)[[0, 2]], torch.tensor([0, 1])
    >>> mixed_accuracy(scores, y, MixParams(torch.tensor([1, 0]), torch.tensor([0.75, 0.75])))
    MixedAccuracy(weighted=tensor(0.3750), dominant=tensor(0.5000))
    """
    prediction, own = scores.detach().argmax(1), (y if y.ndim == 1 else y.argmax(1)).to(scores.device)
    hit = (prediction == own).float()
    if draw is None:
        return MixedAccuracy(hit.mean(), hit.mean())
    other, weight = own[draw.partner.to(own.device)], draw.lam.to(hit)
    weighted = weight * hit + (1.0 - weight) * (prediction == other)
    return MixedAccuracy(weighted.mean(), (prediction == torch.where(weight >= 0.5, own, other)).float().mean())


def check_batch(x: Tensor, y: Tensor, k: int) -> None:
    """Raise unless x can be mixed and y are labels of its rows; labels on a GPU are not read.

    >>> check_batch(torch.zeros(2, 3), torch.tensor([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: y must hold class indices, 0 to 4; it has 0 to 7: set num_classes to the number of all classes
    """
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise TypeError(f"x is a {type(x).__name__} and y a {type(y).__name__}; pass tensors")
    if not x.is_floating_point():
        raise TypeError(f"x is {x.dtype}, and mixing would round it; pass floats, such as x.float() / 255 for pixels")
    if len(x) != len(y) or not len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}; pass one batch, of at least one row")
    if y.ndim == 2:
        if y.shape[1] != k:
            raise ValueError(f"y has {y.shape[1]} columns, but num_classes={k}; pass soft labels (n, {k})")
    elif y.ndim != 1 or y.is_floating_point() or y.is_complex():
        raise ValueError(f"y is {y.dtype} {tuple(y.shape)}; pass integer class indices (n,), or soft labels (n, {k})")
    elif not y.is_cuda and not (int(y.min()) >= 0 and int(y.max()) < k):
        raise ValueError(
            f"y must hold class indices, 0 to {k - 1}; it has {int(y.min())} to {int(y.max())}: set num_classes to the "
            "number of all classes"
        )
