"""Training loop over one network, for any batches, and its step: draw, mix, observe, label, loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng, one_hot, to_device
from genlabel._progress import Callback, combine_callbacks
from genlabel._runtime import broadcast_from_rank0
from genlabel._validation import check_choice
from genlabel.labeling import Labeler, LinearLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer
from genlabel.mixing.base import blend, check_within_batch, draw_to_device, identity_params, mix_batch
from genlabel.training.batching import Batch, check_depths
from genlabel.training.checkpoint import Checkpoint, Stateful
from genlabel.training.compile import (
    CompileConfig,
    StepInputs,
    Stepper,
    cudnn_autotune,
    resolve_compile_config,
)
from genlabel.training.early_stopping import BestState, Validation
from genlabel.training.mixed_step import clean_features, label_batch, mixes_input
from genlabel.training.networks import StagedNetwork
from genlabel.training.optimizers import Adam, Optimizer


def train_network(
    network: StagedNetwork,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    mixer: Mixer | None = None,
    labeler: Labeler | None = None,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    class_weight: NDArray[np.float64] | None = None,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    seed: Any = None,
    compile_config: CompileConfig | str | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
    restore_best: bool = False,
    valid: Validation | None = None,
) -> NDArray[np.float64]:
    """Train a network in place (arXiv Alg. 1) and return the mean training loss of each epoch.

    A step draws how its batch is mixed, mixes it, lets the labeler observe features if it learns from them (arXiv
    Alg. 3), labels the mixed points, and descends the cross-entropy. It never waits for a GPU. The network is trained
    in its dtype and on its device; its training mode is restored afterwards.

    Parameters
    ----------
    network : StagedNetwork
    batches : iterable of (x, y), (x, y, weight) or Batch
        Batches, iterated once per epoch: a `DataLoader`, a list, or a :class:`genlabel.training.BatchPlan`. y are class
        indices (n,) or soft labels (n, k); weights are those of the points (n,), blended like them, equal by default.
    mixer : Mixer or None
        None is plain training.
    labeler : Labeler or None
        Fitted labeler, or one that learns as the network trains; None is mixup's linear label.
    learning_rate, weight_decay : float
    class_weight : array (k,), optional
        Weight of each class in the cross-entropy.
    optimizer : Optimizer, optional
        Adam by default.
    epochs : int
    seed : int, Generator or None
        Seed of the draws of batches that bring none.
    compile_config : CompileConfig, "auto" or None
        Execution of steps. None is plain; "auto" is, on a GPU, bf16, compiled regions, and one CUDA graph per step.
    callback : Callback, optional
        Its `on_epoch_end` receives the mean loss, `logs["loss"]`, as a tensor on the device of the network.
    checkpoint : Checkpoint or path, optional
        File written after each epoch, from which a run resumes, on a CPU bit for bit. Batches with a state, such as
        :class:`ImageBatches`, belong in it: `Checkpoint(path, also={"batches": batches})`.
    restore_best : bool
        If True, restore the network of the best epoch at the end, of equally good ones the first.
    valid : (x, y) or callable (network) -> float or floats, optional
        Validation rows that choose the best epoch, by accuracy, then log-loss; or a score, the larger the better.

    Examples
    --------
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.training.networks import MLP
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> loader = [(x[:2], y[:2]), (x[2:], y[2:])]
    >>> train_network(MLP(1, 2, seed=0), loader, mixer=Mixup(), epochs=5, seed=0).shape
    (5,)
    """
    if not isinstance(network, StagedNetwork):
        raise TypeError(f"network is a {type(network).__name__}; it must be a StagedNetwork, with encode and decode")
    if mixer is not None and not isinstance(mixer, Mixer):
        raise TypeError(f"mixer={mixer!r} must be None or a Mixer such as Mixup()")
    if labeler is not None and not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be None or a Labeler such as GenLabel(KernelDensity()).fit(X, y)")
    if valid is not None and not restore_best:
        raise ValueError("valid has no effect without restore_best=True")
    if mixer is not None:
        check_within_batch(mixer)
    check_depths(mixer, network.depth)
    config = resolve_compile_config(compile_config, network)
    labeler = LinearLabel() if labeler is None else labeler
    step = NetworkStep(network, mixer, labeler, class_weight, as_rng(seed), config)
    best = BestState(network, valid) if restore_best else None
    if best is not None:
        step.modules["best"] = best
    callback = combine_callbacks(best, callback)
    losses = run_epochs(step, batches, learning_rate, weight_decay, optimizer, epochs, callback, checkpoint)
    if best is not None and len(losses):
        best.restore()
    return losses


def run_epochs(
    step: Step,
    batches: Iterable[Batch | Sequence[Any]],
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
) -> NDArray[np.float64]:
    """Take a step on each batch, once per epoch, and return the mean loss of each epoch; see :func:`train_network`."""
    config, rule = step.config, Adam() if optimizer is None else optimizer
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    for network in step.networks:
        config.prepare(network)
    graphs = config.graphs and step.capturable
    weights = [weight for network in step.networks for weight in network.parameters()]
    torch_optimizer = rule.for_network(weights, learning_rate, weight_decay, captured=graphs)
    parts: dict[str, Stateful] = {**step.modules, "optimizer": torch_optimizer}
    losses = [] if checkpoint is None else checkpoint.load(parts, step.rng, weights[0].device)
    broadcast_from_rank0([*weights, *(buffer for network in step.networks for buffer in network.buffers())])
    stepper = Stepper(step.loss, torch_optimizer, graphs)
    with ExitStack() as stack:
        stack.enter_context(cudnn_autotune(config))
        for network in step.networks:
            stack.callback(network.train, network.training)  # restores the mode
            network.train()
        for epoch in range(len(losses), epochs):
            rate = learning_rate * rule.factor(epoch, epochs)
            for group in torch_optimizer.param_groups:
                if isinstance(group["lr"], Tensor):  # read by a CUDA graph
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
            items = (item if isinstance(item, Batch) else Batch(*item) for item in batches)
            step_losses = [stepper(step.prepare(item)) for item in items]
            if not step_losses:
                raise ValueError("batches is empty; pass a list, a loader or a BatchPlan (an iterator lasts one epoch)")
            losses.append(torch.stack(step_losses).double().mean())
            step.check()
            if callback is not None:
                callback.on_epoch_end(epoch, {"loss": losses[-1]})
            if checkpoint is not None:
                checkpoint.save(parts, step.rng, losses, last=epoch + 1 == epochs)
    values = torch.stack(losses).cpu().double().numpy() if losses else np.empty(0)
    if not np.isfinite(values).all():
        epoch = int(np.isfinite(values).argmin())
        raise ValueError(f"the loss of epoch {epoch + 1} is {values[epoch]}; lower learning_rate, or remove NaN from x")
    return values


class Step(ABC):
    """Base class of training steps without the update: it prepares a batch, and a subclass defines the loss.

    `networks` are those whose weights are updated; "network" is the classifier. The mixer draws for batches that bring
    no draw.
    """

    def __init__(
        self, networks: dict[str, StagedNetwork], mixer: Mixer | None, rng: np.random.Generator, config: CompileConfig
    ) -> None:
        self.networks = list(networks.values())
        self.modules = dict[str, Stateful](networks)
        """Everything that a run learns, for checkpoints."""
        self.capturable = True
        """True if the loss is a function of tensors alone, which may be captured in a CUDA graph. False leaves the draw
        in arrays, which a density that is evaluated outside of torch needs."""
        self.mixer, self.rng, self.config = mixer, rng, config
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
        labels = torch.as_tensor(batch.y)
        if self.num_classes is not None:
            _check_labels(labels, self.num_classes)
        labels = to_device(labels, x)
        labels = labels if labels.ndim == 1 else labels.to(x.dtype)
        return StepInputs(x, labels, weight, draw_to_device(draw, x) if self.capturable else draw, batch.info)

    def targets(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the labels before mixing as rows on the simplex, (n, k), k being the outputs of the network."""
        if self.num_classes is None:
            self.num_classes = scores.shape[1]
            _check_labels(labels, self.num_classes)
        return labels if labels.ndim == 2 else one_hot(labels.long(), self.num_classes, self.like.dtype)


def _check_labels(y: Tensor, k: int) -> None:
    """Raise unless labels are class indices (n,) or rows on the simplex (n, k); to read a GPU would wait for it."""
    if y.is_cuda:
        return
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
        super().__init__({"network": network}, mixer, rng, config)
        self.capturable = not labeler.needs_inputs
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
            points = self._mix_batch(self.mixer, x, draw, batch.info) if mixes_input(labeler, draw) else x
            h = points if depth == 0 else self._mix_batch(self.mixer, net.encode(x, depth), draw, batch.info)
            features = net.encode(h, net.depth, start=depth)
            scores = net.decode(features, net.depth)
        with self.config.autocast(x.device):
            clean = clean_features(labeler, x, net, partial(net.encode, depth=net.depth))
        targets = self.targets(batch.labels, scores)
        inputs = features.detach() if labeler.update_source else points
        target = label_batch(labeler, inputs, targets, draw, batch.info, clean, self._observe_and_label)
        if target.shape != scores.shape:
            shapes = f"labels {tuple(target.shape)} for scores {tuple(scores.shape)}"
            raise ValueError(f"{labeler!r} gave {shapes}; fit it to the classes of the network")
        if self.class_weight is not None:
            target = target * self.class_weight
        return self._cross_entropy(scores.to(target.dtype), target, batch.weight)


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method."""
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()
