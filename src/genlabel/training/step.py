"""Training step without the update: draw, mix, observe, label, loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import one_hot, to_device
from genlabel._validation import check_choice
from genlabel.labeling import Labeler
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams
from genlabel.mixing.base import BatchInfo, blend, draw_to_device, identity_params, mix_batch
from genlabel.training.batching import Batch
from genlabel.training.checkpoint import Stateful
from genlabel.training.compile import CompileConfig, StepInputs, frozen_batchnorm_stats
from genlabel.training.networks import StagedNetwork


class Step(ABC):
    """Base class of training steps without the update: it prepares a batch, and a subclass defines the loss.

    Parameters
    ----------
    networks : dict of name -> StagedNetwork
        Networks whose weights are updated; "network" is the classifier.
    mixer : Mixer or None
        Mixer that draws for batches that bring no draw.
    rng : numpy generator
    config : CompileConfig
    capturable : bool
        True if the loss is a function of tensors alone, which may be captured in a CUDA graph. False leaves the draw
        in arrays, which a density that is evaluated outside of torch needs.

    Attributes
    ----------
    modules : dict of name -> Stateful
        Everything that a run learns, for checkpoints.
    """

    def __init__(
        self,
        networks: Mapping[str, StagedNetwork],
        mixer: Mixer | None,
        rng: np.random.Generator,
        config: CompileConfig,
        capturable: bool = True,
    ) -> None:
        self.networks = list(networks.values())
        self.modules = dict[str, Stateful](networks)
        self.mixer, self.rng, self.config, self.capturable = mixer, rng, config, capturable
        self.num_classes = networks["network"].num_classes
        self.like = next(networks["network"].parameters())  # a tensor with the dtype and device of the network
        self._even_weights = self.like.new_empty(0)

    @abstractmethod
    def loss(self, batch: StepInputs) -> Tensor:
        """Return the loss."""

    def check(self) -> None:  # noqa: B027
        """Warn about faults; called after each epoch."""

    def prepare(self, batch: Batch) -> StepInputs:
        """Return the batch as tensors on the device, with its draw and its weights, of sum 1."""
        x = to_device(batch.x, self.like, self.like.dtype)
        if x.ndim == 4:
            channels_last = self.config.channels_last
            x = x.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        draw = batch.draw
        if draw is None:
            n = len(x)
            draw = identity_params(n) if self.mixer is None else self.mixer.draw(n, self.rng, x, batch.y)
        if batch.weight is None and draw.weight is not None:
            weight = to_device(draw.weight, x, x.dtype)
            weight = weight / weight.sum()
        elif batch.weight is None:
            if len(self._even_weights) != len(x):
                self._even_weights = x.new_full((len(x),), 1.0 / len(x))
            weight = self._even_weights
        else:
            weight = to_device(batch.weight, x, x.dtype)
            if batch.draw is None:  # weights that come with a draw are final
                weight = blend(weight, draw)
                if draw.weight is not None:
                    weight = weight * to_device(draw.weight, x, x.dtype)
                weight = weight / weight.sum()
        # Labels on a GPU are not checked: reading them would wait for it.
        labels = torch.as_tensor(batch.y)
        if self.num_classes is not None and not labels.is_cuda:
            _check_labels(labels, self.num_classes)
        labels = to_device(labels, x)
        labels = labels if labels.ndim == 1 else labels.to(x.dtype)
        return StepInputs(x, labels, weight, draw_to_device(draw, x) if self.capturable else draw, batch.info)

    def targets(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the labels before mixing as rows on the simplex, (n, k), k being the outputs of the network."""
        if self.num_classes is None:
            self.num_classes = scores.shape[1]
            if not labels.is_cuda:
                _check_labels(labels, self.num_classes)
        return labels if labels.ndim == 2 else one_hot(labels.long(), self.num_classes, self.like.dtype)


def _check_labels(y: Tensor, k: int) -> None:
    """Raise unless labels are class indices (n,) or rows on the simplex (n, k)."""
    if y.ndim == 1:
        if y.is_floating_point() or not bool(((y >= 0) & (y < k)).all()):
            values = np.unique(y.numpy())[:5].tolist()
            raise ValueError(f"y has values such as {values}; it must hold class indices, 0 to {k - 1}")
    elif y.shape[1:] != (k,) or not bool((y >= 0).all()) or not bool(((y.sum(1) - 1.0).abs() < 1e-3).all()):
        shape = tuple(y.shape)
        raise ValueError(f"y has shape {shape}; soft labels must be (n, {k}), not negative, each row of sum 1")


@final
class NetworkStep(Step):
    """Loss of one network on batches that are mixed and labeled (arXiv Alg. 1 and 3)."""

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        labeler: Labeler,
        class_weight: NDArray[np.float64] | None,
        rng: np.random.Generator,
        config: CompileConfig,
    ) -> None:
        super().__init__({"network": network}, mixer, rng, config, capturable=not labeler.needs_inputs)
        if labeler.update_source is not None:
            check_choice("update_source", labeler.update_source, ["clean", "mixed"])
        self.network, self.labeler = network, labeler
        self.class_weight = None if class_weight is None else to_device(class_weight, self.like, self.like.dtype)
        self._mix_batch, self._observe_and_label = config.compile(mix_batch), config.compile(observe_and_label)
        self._cross_entropy = config.compile(soft_cross_entropy)
        if labeler.state is not None:
            labeler.state.to(self.like.device)
            self.modules["labeler"] = labeler.state

    def check(self) -> None:
        """Let the labeler check its labels."""
        self.labeler.check()

    def loss(self, batch: StepInputs) -> Tensor:
        """Return the cross-entropy of the mixed batch with its labels."""
        net, labeler = self.network, self.labeler
        x, draw, depth = batch.x, batch.draw, int(batch.draw.depth)
        with self.config.autocast(self.like.device):
            mixes_input = depth == 0 or labeler.needs_inputs
            points = self._mix_batch(self.mixer, x, draw, batch.info) if mixes_input else x
            h = points if depth == 0 else self._mix_batch(self.mixer, net.encode(x, depth), draw, batch.info)
            features = net.encode(h, net.depth, start=depth)
            scores = net.decode(features, net.depth)
        clean_features = None
        if labeler.update_source == "clean":
            # NOTE[PAPER]: the features are those of training mode, like the features of mixed points that they are
            # compared with; but the running statistics of batch normalization stay those of the mixed batches.
            with torch.no_grad(), frozen_batchnorm_stats(net), self.config.autocast(x.device):
                clean_features = net.encode(x[: num_observed(labeler, len(x))], net.depth)
        targets = self.targets(batch.labels, scores)
        inputs = features.detach() if labeler.update_source else points
        target = label_batch(labeler, inputs, targets, draw, batch.info, clean_features, self._observe_and_label)
        if target.shape != scores.shape:
            raise ValueError(
                f"{labeler!r} gave labels {tuple(target.shape)} for scores {tuple(scores.shape)}; fit it to the "
                "classes of the network"
            )
        if self.class_weight is not None:
            target = target * self.class_weight
        return self._cross_entropy(scores.to(target.dtype), target, batch.weight)


def num_observed(labeler: Labeler, n: int) -> int:
    """Return the number of rows of a batch of n that make the additional pass of update_source="clean"."""
    return max(2, round(labeler.observed_fraction * n))


def label_batch(
    labeler: Labeler,
    inputs: Tensor,
    targets: Tensor,
    draw: MixParams,
    info: BatchInfo | None = None,
    clean_features: Tensor | None = None,
    observe_and_label: Callable[..., Tensor] = observe_and_label,
) -> Tensor:
    """Return labels (n, k) of mixed points; for a labeler that learns, of features, which it observes first.

    `clean_features` are those of the first rows before mixing, for update_source="clean" (arXiv Alg. 3).
    """
    if labeler.update_source is None:
        labels: Tensor = labeler.label(inputs, targets, draw, info)
        return labels
    labeler.allocate(inputs)
    observed = inputs if clean_features is None else clean_features
    return observe_and_label(labeler, observed, targets[: len(observed)], inputs, targets, draw, info)


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method.

    >>> scores, target = torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([[0.3, 0.7], [1.0, 0.0]])
    >>> soft_cross_entropy(scores, target, torch.tensor([1.0, 0.0]))  # log 2: the second row has weight 0
    tensor(0.6931)
    """
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()
