"""Training step without the update: draw, mix, observe, label, loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, final

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
    """Method that the loop trains: it prepares a batch and computes its loss."""

    @property
    def networks(self) -> Sequence[StagedNetwork]:
        """Networks whose weights are updated."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Modules with everything that a run learns, by name, for checkpoints."""

    @property
    def capturable(self) -> bool:
        """True if the loss is a function of tensors alone and may be captured in a CUDA graph."""

    @property
    def rng(self) -> np.random.Generator:
        """Generator of the draws of batches that bring none."""

    def prepare(self, batch: Batch) -> StepInputs:
        """Return the batch as tensors on the device, with its draw."""

    def loss(self, batch: StepInputs) -> Tensor:
        """Return the loss."""

    def check(self) -> None:
        """Warn about faults; called after each epoch."""


class InputPreparer:
    """Conversion of batches to `StepInputs`: on the device, with weights and a draw.

    Parameters
    ----------
    network : StagedNetwork
        Network whose dtype, device and number of outputs are used.
    mixer : Mixer or None
    rng : numpy generator
    config : CompileConfig
    tensors : bool
        If True, convert the draw to tensors; a labeler that evaluates densities outside of torch needs arrays.
    """

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        rng: np.random.Generator,
        config: CompileConfig,
        tensors: bool,
    ) -> None:
        self.network, self.mixer, self.rng, self.tensors = network, mixer, rng, tensors
        self.like, self.num_classes = next(network.parameters()), network.num_classes
        self._even_weights = self.like.new_empty(0)
        self.format = torch.channels_last if config.channels_last else torch.contiguous_format

    def prepare(self, batch: Batch) -> StepInputs:
        """Return the batch as a step needs it."""
        x = to_device(batch.x, self.like, self.like.dtype)
        if x.ndim == 4:
            x = x.contiguous(memory_format=self.format)
        draw = batch.draw or (identity_params(len(x)) if self.mixer is None else self.mixer.draw(len(x), self.rng))
        weight = self._weights(batch, x, draw)
        # Labels on a GPU are not checked: reading them would wait for it.
        labels = torch.as_tensor(batch.y)
        if self.num_classes is not None and not labels.is_cuda:
            _check_labels(labels, self.num_classes)
        labels = to_device(labels, x)
        labels = labels if labels.ndim == 1 else labels.to(x.dtype)
        return StepInputs(x, labels, weight, draw_to_device(draw, x) if self.tensors else draw, batch.info)

    def _weights(self, batch: Batch, x: Tensor, draw: MixParams) -> Tensor:
        """Return the weights in the loss, (n,), of sum 1; those that come with a draw are final."""
        if batch.weight is None:
            if len(self._even_weights) != len(x):
                self._even_weights = x.new_full((len(x),), 1.0 / len(x))
            return self._even_weights
        weight = to_device(batch.weight, x, x.dtype)
        if batch.draw is not None:
            return weight
        blended: Tensor = blend(weight, draw)
        return blended / blended.sum()

    def targets(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the labels before mixing as rows on the simplex, (n, k), k being the outputs of the network."""
        if self.num_classes is None:
            self.num_classes = scores.shape[1]
            if not labels.is_cuda:
                _check_labels(labels, self.num_classes)
        if labels.ndim == 2:
            return labels
        return one_hot(labels.long(), self.num_classes, self.like.dtype)


def _check_labels(y: Tensor, k: int) -> None:
    """Raise unless labels are class indices (n,) or rows on the simplex (n, k)."""
    if y.ndim == 1:
        if y.is_floating_point() or not bool(((y >= 0) & (y < k)).all()):
            values = np.unique(y.numpy())[:5].tolist()
            raise ValueError(f"y must hold class indices, 0 to {k - 1}, the outputs of the network; it has {values}")
    elif y.shape[1:] != (k,) or not bool((y >= 0).all()) or not bool(((y.sum(1) - 1.0).abs() < 1e-3).all()):
        raise ValueError(f"soft labels must be (n, {k}), not negative, each row of sum 1; y has shape {tuple(y.shape)}")


@final
class NetworkStep:
    """Loss of one network on batches that are mixed and labeled (arXiv Alg. 1 and 3).

    Parameters
    ----------
    network : StagedNetwork
    mixer : Mixer or None
    labeler : Labeler
    class_weight : array (k,) or None
    rng : numpy generator
    config : CompileConfig
    """

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        labeler: Labeler,
        class_weight: NDArray[np.float64] | None,
        rng: np.random.Generator,
        config: CompileConfig,
    ) -> None:
        if labeler.update_source is not None:
            check_choice("update_source", labeler.update_source, ["clean", "mixed"])
        self.network, self.mixer, self.labeler, self.config = network, mixer, labeler, config
        self.rng = rng
        self.like = next(network.parameters())
        self.class_weight = None if class_weight is None else to_device(class_weight, self.like, self.like.dtype)
        self.inputs = InputPreparer(network, mixer, rng, config, self.capturable)
        self._mix_batch, self._observe_and_label = config.compile(mix_batch), config.compile(observe_and_label)
        self._cross_entropy = config.compile(soft_cross_entropy)
        if labeler.state is not None:
            labeler.state.to(self.like.device)

    @property
    def networks(self) -> list[StagedNetwork]:
        """The network."""
        return [self.network]

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The network, and the state of the labeler."""
        return {"network": self.network} | ({} if self.labeler.state is None else {"labeler": self.labeler.state})

    @property
    def capturable(self) -> bool:
        """False if labels come from a density that is evaluated outside of the network."""
        return not self.labeler.needs_inputs

    def prepare(self, batch: Batch) -> StepInputs:
        """Return the batch as tensors on the device of the network."""
        return self.inputs.prepare(batch)

    def check(self) -> None:
        """Let the labeler check its labels."""
        self.labeler.check()

    def loss(self, batch: StepInputs) -> Tensor:
        """Return the cross-entropy of the mixed batch with its labels."""
        net, x, draw, depth = self.network, batch.x, batch.draw, int(batch.draw.depth)
        with self.config.autocast(self.like.device):
            mixes_input = depth == 0 or self.labeler.needs_inputs
            points = self._mix_batch(self.mixer, x, draw, batch.info) if mixes_input else x
            h = points if depth == 0 else self._mix_batch(self.mixer, net.encode(x, depth), draw, batch.info)
            features = net.encode(h, net.depth, start=depth)
            scores = net.decode(features, net.depth)
        target = self._label(batch, self.inputs.targets(batch.labels, scores), points, features)
        if target.shape != scores.shape:
            raise ValueError(
                f"{self.labeler!r} gave labels {tuple(target.shape)} for scores {tuple(scores.shape)}; fit it to the "
                "classes of the network"
            )
        if self.class_weight is not None:
            target = target * self.class_weight
        return self._cross_entropy(scores.to(target.dtype), target, batch.weight)

    def _label(self, batch: StepInputs, targets: Tensor, points: Tensor, features: Tensor) -> Tensor:
        """Return labels (n, k); a labeler that learns observes features first, and labels features (arXiv Alg. 3)."""
        x, _, _, draw, info = batch
        if self.labeler.update_source is None:
            labels: Tensor = self.labeler.label(points, targets, draw, info)
            return labels
        self.labeler.allocate(features)
        observed, observed_targets = features.detach(), targets
        if self.labeler.update_source == "clean":
            n_clean = max(2, round(self.labeler.observed_fraction * len(x)))
            observed, observed_targets = self._clean_features(x[:n_clean]), targets[:n_clean]
        return self._observe_and_label(self.labeler, observed, observed_targets, features.detach(), targets, draw, info)

    def _clean_features(self, x: Tensor) -> Tensor:
        """Return the features of points before mixing (arXiv Alg. 3), in one more pass.

        NOTE[PAPER]: in training mode, because the features of mixed points are compared with these; but batch
        normalization does not update its running statistics, so that the network is the one that mixup trains.
        """
        with torch.no_grad(), frozen_batchnorm_stats(self.network), self.config.autocast(x.device):
            return self.network.encode(x, self.network.depth)


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method.

    >>> scores, target = torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([[0.3, 0.7], [1.0, 0.0]])
    >>> soft_cross_entropy(scores, target, torch.tensor([1.0, 0.0]))  # log 2: the second row has weight 0
    tensor(0.6931)
    """
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()
