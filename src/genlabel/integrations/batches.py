"""Mixed batches: their points, labels, loss and accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import torch
from torch import Tensor

from genlabel._validation import check_choice, check_interval
from genlabel.labeling import OnlineGenLabel
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
    unmixed: Tensor = field(repr=False)
    """Points as given."""
    clean_features: Tensor | None = field(default=None, repr=False)
    """Features of clean rows, if the density learns from these."""
    labels: Tensor | None = field(default=None, repr=False)
    """Labels of the mixed batch, once they are computed."""
    gamma: Tensor | None = field(default=None, repr=False)
    """Weight of the generative label in these; None before, and with a labeler that has none."""

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

        With `multi_label=True`, it is the binary cross-entropy, as a mean over labels and rows.

        The parameters are those of `torch.nn.functional.cross_entropy`. With class weights (k,), the mean is divided by
        the sum of the weights of the labels, as PyTorch does for class indices, but not for soft labels. Rows that the
        mixer weights count in proportion.
        """
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores are a {type(scores).__name__}; pass the tensor (n, k), such as output.logits")
        check_choice("reduction", reduction, ["mean", "sum", "none"])
        check_interval("label_smoothing", label_smoothing, 0.0, 1.0, "0.1 is usual")
        target = self.target(scores)
        if self.mixup.multi_label:
            return self._binary_loss(scores.float(), target, weight, reduction, label_smoothing)
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

    def _binary_loss(
        self, scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
    ) -> Tensor:
        """Return the binary cross-entropy, weighted by labels and rows."""
        target = torch.lerp(target, torch.full_like(target, 0.5), label_smoothing)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, weight, reduction="none")
        if self.draw is not None and self.draw.weight is not None:
            losses = losses * self.draw.weight[:, None]
        return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses

    def join_mask(self, mask: Tensor) -> Tensor:
        """Return the attention mask (n, t) of a batch that is mixed in a hidden layer: that of both parents, joined.

        A mixed row attends to every token that either parent has; rows that are not mixed keep their mask.

        >>> from genlabel import GenLabelMixup, ManifoldMixup
        >>> network = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(8, 2))
        >>> manifold = {"mixer": ManifoldMixup(depths=(1,)), "mix_layers": ("", "0")}
        >>> mixup = GenLabelMixup(network, num_classes=2, **manifold)
        >>> batch = mixup.mix(torch.tensor([[1, 2], [3, 0]]), torch.tensor([0, 1]))
        >>> batch.join_mask(torch.tensor([[1, 1], [1, 0]])).shape
        torch.Size([2, 2])
        """
        if self.draw is None:
            return mask
        is_mixed = (self.draw.lam < 1.0).to(mask.device).view(-1, *[1] * (mask.ndim - 1))
        partner = mask[self.draw.partner.to(mask.device)]
        return torch.where(is_mixed, torch.maximum(mask, partner), mask)

    def metrics(self) -> dict[str, Tensor]:
        """Return scalars of the labels for a logger, once the network has seen the batch.

        "gamma" is the weight of the generative label in this step, "label_entropy" the mean entropy of the labels in
        nats, and "outside_parents" the share of rows whose label has most of its mass outside the classes of both
        parents. A density that learns adds "trust": the share of nearly clean rows whose class it names.
        With `multi_label=True`, whose labels are no distributions, there are none.
        """
        if self.mixup.multi_label:
            return {}
        target = self.target()
        scalars = {"label_entropy": _entropy(target)}
        if self.gamma is not None:
            scalars["gamma"] = self.gamma
        if self.draw is not None:
            partner = self.draw.partner.to(target.device)
            parents = (self.targets > 0) | (self.targets[partner] > 0)
            scalars["outside_parents"] = ((target * parents).sum(1) < 0.5 * target.sum(1)).float().mean()
        if isinstance(self.mixup.labeler, OnlineGenLabel):
            scalars["trust"] = self.mixup.labeler.density.trust.accuracy
        return {f"genlabel/{name}": value.detach() for name, value in scalars.items()}

    def accuracy(self, scores: Tensor) -> MixedAccuracy:
        """Return the accuracies of scores (n, k).

        `weighted` is the mean of lam 1[prediction = y_i] + (1 - lam) 1[prediction = y_j], `dominant` the fraction of
        predictions equal to the class with the larger weight. Both are for one class per row, not for multi_label=True.
        """
        if self.mixup.multi_label:
            raise ValueError("with multi_label=True a row has several labels; use a metric for these, such as F1")
        return mixed_accuracy(scores, self.y, self.draw)


def _entropy(labels: Tensor) -> Tensor:
    """Return the mean entropy of the rows, in nats."""
    return -torch.special.xlogy(labels, labels).sum(1).mean()


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
