"""A step of the loop, all but the update: draw, mix, observe, label, loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import one_hot, to_device
from genlabel._validation import check_choice
from genlabel.labeling import Labeler
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, blend, identity_params
from genlabel.mixing.base import draw_to_device, mix_batch
from genlabel.training.batching import Batch
from genlabel.training.compile import CompileConfig, StepInputs, frozen_batchnorm_stats
from genlabel.training.networks import StagedNetwork


class Step(Protocol):
    """What the loop asks of a method: to bring a batch into form, and to say its loss."""

    @property
    def trained(self) -> Sequence[StagedNetwork]:
        """The networks whose weights are updated."""

    @property
    def learned(self) -> Mapping[str, nn.Module]:
        """All modules that hold what a run has learned, by name: what a checkpoint keeps."""

    @property
    def capturable(self) -> bool:
        """Whether the loss is a function of tensors alone, and may be captured."""

    @property
    def rng(self) -> np.random.Generator:
        """Where the draws of batches come from that bring none."""

    def ready(self, batch: Batch) -> StepInputs:
        """The batch as tensors on the device, with its draw."""

    def loss(self, batch: StepInputs) -> Tensor:
        """The loss."""

    def check(self) -> None:
        """Warn of what goes wrong; called after each epoch."""


class Batches:
    """How any step brings a batch into form: on the device, with weights and a draw.

    Parameters
    ----------
    network : StagedNetwork
        Whose dtype, device and number of outputs they have.
    mixer : Mixer or None
    rng : numpy generator
    acceleration : Acceleration
    tensors : bool
        Whether a draw is made tensors: what labels points outside of torch wants it as it is.
    """

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        rng: np.random.Generator,
        acceleration: CompileConfig,
        tensors: bool,
    ) -> None:
        self.network, self.mixer, self.rng, self.tensors = network, mixer, rng, tensors
        self.like, self.num_classes = next(network.parameters()), network.num_classes
        self._even = self.like.new_empty(0)
        self.format = torch.channels_last if acceleration.channels_last else torch.contiguous_format

    def ready(self, batch: Batch) -> StepInputs:
        """The batch as a step needs it."""
        x = to_device(batch.x, self.like, self.like.dtype)
        if x.ndim == 4:
            x = x.contiguous(memory_format=self.format)
        draw = batch.draw or (identity_params(len(x)) if self.mixer is None else self.mixer.draw(len(x), self.rng))
        weight = self._weights(batch, x, draw)
        draw = draw_to_device(draw, x) if self.tensors else draw
        return StepInputs(x, self._labels(batch.y, x), weight, draw, batch.info)

    def _weights(self, batch: Batch, x: Tensor, draw: MixParams) -> Tensor:
        """Weights in the loss, (n,), of sum 1; those that come with a draw are final."""
        if batch.weight is None:
            if len(self._even) != len(x):
                self._even = x.new_full((len(x),), 1.0 / len(x))
            return self._even
        weight = to_device(batch.weight, x, x.dtype)
        if batch.draw is not None:
            return weight
        blended: Tensor = blend(weight, draw)
        return blended / blended.sum()

    def _labels(self, y: Any, x: Tensor) -> Tensor:
        """Labels before mixing, (n,) or (n, k); what lives on a GPU is not checked, for to know would be to wait."""
        given = torch.as_tensor(y)
        if self.num_classes is not None and not given.is_cuda:
            _check_labels(given, self.num_classes)
        labels = to_device(given, x)
        return labels if labels.ndim == 1 else labels.to(x.dtype)

    def targets(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Labels before mixing as rows on the simplex, (n, k), one for each output of the network."""
        if self.num_classes is None:
            self.num_classes = scores.shape[1]
            if not labels.is_cuda:
                _check_labels(labels, self.num_classes)
        if labels.ndim == 2:
            return labels
        return one_hot(labels.long(), self.num_classes, self.like.dtype)


class _Passed(NamedTuple):
    """What a batch is after its way through the network."""

    points: Tensor
    """The mixed inputs."""
    features: Tensor
    """Those of the penultimate layer."""
    scores: Tensor


@final
class NetworkStep:
    """The loss of a batch of one network, mixed and labelled (arXiv Alg. 1 and 3).

    Parameters
    ----------
    network : StagedNetwork
    mixer : Mixer or None
    labeler : Labeler
    class_weight : array (k,) or None
    rng : numpy generator
    acceleration : Acceleration
    """

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        labeler: Labeler,
        class_weight: NDArray[np.float64] | None,
        rng: np.random.Generator,
        acceleration: CompileConfig,
    ) -> None:
        if labeler.update_source is not None:
            check_choice("update_source", labeler.update_source, ["clean", "mixed"])
        self.network, self.mixer, self.labeler, self.acceleration = network, mixer, labeler, acceleration
        self.rng = rng
        self.like = next(network.parameters())
        self.tilt = None if class_weight is None else to_device(class_weight, self.like, self.like.dtype)
        self.batches = Batches(network, mixer, rng, acceleration, self.capturable)
        self._mix, self._labels = acceleration.compile(mix_batch), acceleration.compile(observe_and_label)
        self._cross_entropy = acceleration.compile(soft_cross_entropy)
        if labeler.state is not None:
            labeler.state.to(self.like.device)

    @property
    def trained(self) -> list[StagedNetwork]:
        """The network."""
        return [self.network]

    @property
    def learned(self) -> dict[str, nn.Module]:
        """The network, and what the labeler learns."""
        return {"network": self.network} | ({} if self.labeler.state is None else {"labeler": self.labeler.state})

    @property
    def capturable(self) -> bool:
        """Not where the labels of points are looked up in a density outside of the network."""
        return not self.labeler.needs_inputs

    def ready(self, batch: Batch) -> StepInputs:
        """The batch as tensors on the device of the network."""
        return self.batches.ready(batch)

    def check(self) -> None:
        """Let the labeler look at its labels."""
        self.labeler.check()

    def loss(self, batch: StepInputs) -> Tensor:
        """The cross-entropy of the mixed batch with its labels."""
        with self.acceleration.arithmetic(self.like.device):
            passed = self._forward(batch)
        target = self._label(batch, self.batches.targets(batch.labels, passed.scores), passed)
        if target.shape != passed.scores.shape:
            raise ValueError(
                f"{self.labeler!r} gave labels {tuple(target.shape)} for scores {tuple(passed.scores.shape)}; it must "
                "know the classes of the network"
            )
        if self.tilt is not None:
            target = target * self.tilt
        return self._cross_entropy(passed.scores.to(target.dtype), target, batch.weight)

    def _forward(self, batch: StepInputs) -> _Passed:
        """Mix at the depth of the draw, and go on; a labeler of points sees the mixed inputs at any depth."""
        net, x, draw, depth = self.network, batch.x, batch.draw, int(batch.draw.depth)
        asked = depth == 0 or self.labeler.needs_inputs
        points = self._mix(self.mixer, x, draw, batch.info) if asked else x
        h = points if depth == 0 else self._mix(self.mixer, net.encode(x, depth), draw, batch.info)
        features = net.encode(h, net.depth, start=depth)
        return _Passed(points, features, net.decode(features, net.depth))

    def _label(self, batch: StepInputs, targets: Tensor, passed: _Passed) -> Tensor:
        """Labels (n, k); a labeler that learns is shown features first, and labels features (arXiv Alg. 3)."""
        x, _, _, draw, info = batch
        if self.labeler.update_source is None:
            labels: Tensor = self.labeler.label(passed.points, targets, draw, info)
            return labels
        self.labeler.allocate(passed.features)
        seen, whose = passed.features.detach(), targets
        if self.labeler.update_source == "clean":
            some = max(2, round(self.labeler.observed_fraction * len(x)))
            seen, whose = self._clean_features(x[:some]), targets[:some]
        return self._labels(self.labeler, seen, whose, passed.features.detach(), targets, draw, info)

    def _clean_features(self, x: Tensor) -> Tensor:
        """Features of the batch before mixing (arXiv Alg. 3): one more pass.

        NOTE[PAPER]: in training mode, for these are the features that the mixed ones are compared with; but batch
        normalisation does not remember what it sees there, so that the network is the one that mixup trains.
        """
        with torch.no_grad(), frozen_batchnorm_stats(self.network), self.acceleration.arithmetic(x.device):
            return self.network.encode(x, self.network.depth)


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method.

    >>> scores, target = torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([[0.3, 0.7], [1.0, 0.0]])
    >>> soft_cross_entropy(scores, target, torch.tensor([1.0, 0.0]))  # log 2: the second row has no weight
    tensor(0.6931)
    """
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()


def _check_labels(y: Tensor, k: int) -> None:
    """Raise unless labels are class indices (n,) or rows on the simplex (n, k)."""
    if y.ndim == 1:
        if y.is_floating_point() or not bool(((y >= 0) & (y < k)).all()):
            raise ValueError(f"y must hold class indices, 0 to {k - 1}, the outputs of the network; it has {_some(y)}")
    elif y.shape[1:] != (k,) or not bool((y >= 0).all()) or not bool(((y.sum(1) - 1.0).abs() < 1e-3).all()):
        raise ValueError(f"soft labels must be (n, {k}), not negative, each row of sum 1; y has shape {tuple(y.shape)}")


def _some(y: Tensor) -> list[float]:
    return np.unique(y.numpy())[:5].tolist()
